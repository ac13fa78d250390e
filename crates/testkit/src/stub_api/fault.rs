//! What can go wrong in a streamed message, and where.

use std::time::Duration;

/// Something that goes wrong in a streamed message.
///
/// A client that does not stream sees an error as its HTTP status, a drop as status 500, a stall as a wait; the others
/// it does not see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The stream says that there was an error, and ends.
    Error {
        /// The API's name for it, such as `overloaded_error`.
        kind: String,
        /// What it says of it.
        message: String,
    },
    /// The connection is cut.
    Drop,
    /// The stream ends as if it were complete.
    End,
    /// Nothing comes for a while.
    Stall {
        /// After this long the stream goes on; none means never.
        how_long: Option<Duration>,
    },
    /// This is put into the stream as it is, and the stream goes on.
    Insert(String),
}

/// A point of a streamed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Point {
    /// Before the headers of the answer: only a stall can be there.
    BeforeHeaders,
    /// After the headers, before the first event.
    BeforeStart,
    /// After `message_start`.
    AfterStart,
    /// In the middle of the last block.
    InBlock,
    /// After the last block, before `message_delta`.
    AfterBlocks,
    /// After `message_delta`, before `message_stop`.
    BeforeStop,
}
