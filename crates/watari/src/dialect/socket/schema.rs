//! The JSON Schema of the dialect, for programs that generate their types from it.

mod to_watari;

use serde_json::Value;
use watari_hub::Position;

use super::line::ServerMessage;
use crate::dialect::schema::shapes::Name;
use crate::dialect::schema::{Messages, Presence, document};
use to_watari::ToWatari;

const DESCRIPTION: &str = "The lines that a client of the socket of `watari socket` writes and reads, one JSON object \
                           each. Watari ignores fields that it does not know, and writes those that are named here and \
                           no others; a newer one may write more. What an extension is, the document of agent-socket \
                           does not have.";

const ID: &str = "Extension: the client's own id of this line. The answer has it too: an `accepted` if what was wanted \
                  was done, else an `error`. The same id again has no second effect.";

const HELLO_ID: &str = "Extension: the client's own id of this line, which an `error` about it has too.";

const SEQ: &str = "Extension: the place of the event that this line, and those before it that have no place, tell of. \
                   Only after `hello`: a client that comes back says `since` with it.";

pub(crate) fn schema() -> Value {
    let to_watari = Messages::to_watari::<ToWatari>()
        .with::<Option<Name>>(("id", HELLO_ID), Presence::Sometimes, |kind| kind == "hello")
        .with::<Option<Name>>(("id", ID), Presence::Sometimes, |kind| kind != "hello");
    // The answer to `hello` has one that means something else.
    let from_watari =
        Messages::from_watari::<ServerMessage<'_>>().with::<Position>(("seq", SEQ), Presence::Sometimes, |_| true);
    document("The socket of watari socket", DESCRIPTION, to_watari, from_watari)
}

#[cfg(test)]
mod tests;
