//! The JSON Schema of the native dialect.

mod to_watari;

use serde_json::Value;
use watari_hub::{HostEvent, Position};
use watari_protocol::Event;
use watari_protocol::native::{EPHEMERAL_TYPES, ServerMessage};

use crate::dialect::schema::shapes::Name;
use crate::dialect::schema::{Messages, Presence, document};
use to_watari::ToWatari;

const DESCRIPTION: &str = "The lines that a client of Watari's native socket writes and reads, one JSON object per \
                           line: commands, their outcomes, and events, which are stored in the same form. Watari \
                           ignores unknown fields and writes only the fields listed here; a newer version may write \
                           more fields and more events.";

const ID: &str = "The client's id of this command. The reply (`accepted`, `refused` or `error`) carries the same id. A \
                  command with a repeated id has no second effect.";

const HELLO_ID: &str = "The client's id of this line, which an `error` about it carries, too.";

const SEQ: &str = "The position of this event. It is always the first key of the line.";

const AFTER: &str = "The position of the durable event before this ephemeral one, which has no position of its own. It \
                     is always the first key of the line.";

pub(crate) fn schema() -> Value {
    let to_watari = Messages::to_watari::<ToWatari>()
        .with::<Option<Name>>(("id", HELLO_ID), Presence::Sometimes, |kind| kind == "hello")
        .with::<Option<Name>>(("id", ID), Presence::Sometimes, |kind| kind != "hello");
    let is_ephemeral = |kind: &str| EPHEMERAL_TYPES.contains(&kind);
    let is_reply = |kind: &str| ["hello", "accepted", "refused", "error"].contains(&kind);
    let from_watari = Messages::from_watari::<ServerMessage>()
        .and::<HostEvent>()
        .and::<Event>()
        .with::<Position>(("after", AFTER), Presence::Always, is_ephemeral)
        .with::<Position>(("seq", SEQ), Presence::Always, |kind| !is_ephemeral(kind) && !is_reply(kind));
    document("Watari's own dialect", DESCRIPTION, to_watari, from_watari)
}

#[cfg(test)]
mod tests;
