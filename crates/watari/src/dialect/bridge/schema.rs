//! The JSON Schema of the bridge dialect.

mod to_watari;

use serde_json::Value;

use super::encoder::BridgeMessage;
use crate::dialect::schema::{Messages, document};
use to_watari::ToWatari;

pub(crate) fn schema() -> Value {
    let description = "The lines that a client of `watari stdio` writes and reads, one JSON object per line. Watari \
                       ignores unknown fields and writes only the fields listed here; a newer version may write more. \
                       The messages come from a bridge that was written for Node; extensions are additions of \
                       Watari.";
    let (to_watari, from_watari) = (Messages::to_watari::<ToWatari>(), Messages::from_watari::<BridgeMessage<'_>>());
    document("The bridge of watari stdio", description, to_watari, from_watari)
}

#[cfg(test)]
mod tests;
