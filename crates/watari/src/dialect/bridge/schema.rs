//! The JSON Schema of the dialect, for programs that generate their types from it.

mod to_watari;

use serde_json::Value;

use super::outgoing::BridgeMessage;
use crate::dialect::schema::{Messages, document};
use to_watari::ToWatari;

pub(crate) fn schema() -> Value {
    let description = "The lines that a client of `watari stdio` writes and reads, one JSON object each. Watari ignores \
                       fields that it does not know, and writes those that are named here and no others; a newer \
                       one may write more. What an extension is, the Node bridge does not have.";
    let (to_watari, from_watari) = (Messages::to_watari::<ToWatari>(), Messages::from_watari::<BridgeMessage<'_>>());
    document("The bridge of watari stdio", description, to_watari, from_watari)
}

#[cfg(test)]
mod tests;
