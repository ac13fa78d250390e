//! The faults of a streamed message, and their points.

use std::time::Duration;

/// A fault in a streamed message.
///
/// A client that does not stream sees an error as its HTTP status, a drop as status 500 and a stall as a wait; it does
/// not see the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The stream reports an error, and ends.
    Error {
        /// The API's name for it, such as `overloaded_error`.
        kind: String,
        /// The error's message.
        message: String,
    },
    /// The connection is cut.
    Drop,
    /// The stream ends as if it were complete.
    End,
    /// The stream pauses.
    Stall {
        /// The duration of the pause; none means forever.
        duration: Option<Duration>,
    },
    /// This text is inserted into the stream, which then continues.
    Insert(String),
}

/// A point of a streamed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FaultPoint {
    /// Before the headers of the answer: only a stall is possible there.
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
