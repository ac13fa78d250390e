//! The JSON Schema of the socket dialect.

mod to_watari;

use serde_json::Value;
use watari_hub::Position;

use super::messages::ServerMessage;
use crate::dialect::schema::shapes::Name;
use crate::dialect::schema::{Messages, Presence, document};
use to_watari::ToWatari;

const DESCRIPTION: &str = "The lines that a client of the socket of `watari socket` writes and reads, one JSON object \
                           per line. Watari ignores unknown fields and writes only the fields listed here; a newer \
                           version may write more. The messages come from the protocol agent-socket; extensions are \
                           additions of Watari.";

const ID: &str = "Extension: the client's id of this command. The reply carries the same id: an `accepted` if the \
                  command took effect, otherwise an `error`. A command with a repeated id has no second effect.";

const HELLO_ID: &str = "Extension: the client's id of this line, which an `error` about it carries, too.";

const SEQ: &str = "Extension: the position of the event that this line, and the lines before it without a `seq`, \
                   describe. Only after `hello`: send it as `since` after a reconnect.";

pub(crate) fn schema() -> Value {
    let to_watari = Messages::to_watari::<ToWatari>()
        .with::<Option<Name>>(("id", HELLO_ID), Presence::Sometimes, |kind| kind == "hello")
        .with::<Option<Name>>(("id", ID), Presence::Sometimes, |kind| kind != "hello");
    // The reply to `hello` has its own `seq`, with another meaning.
    let from_watari =
        Messages::from_watari::<ServerMessage<'_>>().with::<Position>(("seq", SEQ), Presence::Sometimes, |_| true);
    document("The socket of watari socket", DESCRIPTION, to_watari, from_watari)
}

#[cfg(test)]
mod tests;
