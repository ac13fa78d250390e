//! The JSON Schema of the dialect, for programs that generate their types from it.

mod to_watari;

use serde_json::Value;
use watari_hub::{EPHEMERAL_TYPES, HostEvent, Position};
use watari_protocol::Event;

use super::outgoing::ServerMessage;
use crate::dialect::schema::shapes::Name;
use crate::dialect::schema::{Messages, Presence, document};
use to_watari::ToWatari;

const DESCRIPTION: &str = "The lines that a client of Watari's own socket writes and reads, one JSON object each: the \
                           commands, what becomes of them, and the events, which are stored in the same words. Watari \
                           ignores fields that it does not know, and writes those that are named here and no others; a \
                           newer one may write more, also events that are not here.";

const ID: &str = "The client's own id of this line. The answer has it too: `accepted`, `refused` or `error`. The same \
                  id again has no second effect.";

const HELLO_ID: &str = "The client's own id of this line, which an `error` about it has too.";

const SEQ: &str = "The place of this event. It is always the first key of its line.";

const AFTER: &str = "The place of the event after which this one was told; it has none of its own. It is always the \
                     first key of its line.";

pub(crate) fn schema() -> Value {
    let to_watari = Messages::to_watari::<ToWatari>()
        .with::<Option<Name>>(("id", HELLO_ID), Presence::Sometimes, |kind| kind == "hello")
        .with::<Option<Name>>(("id", ID), Presence::Sometimes, |kind| kind != "hello");
    let is_ephemeral = |kind: &str| EPHEMERAL_TYPES.contains(&kind);
    let is_said = |kind: &str| ["hello", "accepted", "refused", "error"].contains(&kind);
    let from_watari = Messages::from_watari::<ServerMessage<'_>>()
        .and::<HostEvent>()
        .and::<Event>()
        .with::<Position>(("after", AFTER), Presence::Always, is_ephemeral)
        .with::<Position>(("seq", SEQ), Presence::Always, |kind| !is_ephemeral(kind) && !is_said(kind));
    document("Watari's own dialect", DESCRIPTION, to_watari, from_watari)
}

#[cfg(test)]
mod tests;
