//! The lines of a host to a client that are not events.

use serde::{Deserialize, Serialize};

use super::write_json;
use crate::command::Accepted;
use crate::event::SessionState;
use crate::position::Position;
use crate::refusal::RefusalCode;

/// The lines that Watari writes, one object per line, with only the fields listed here. All except `hello`, `accepted`,
/// `refused` and `error` are events.
// These doc comments are the descriptions in the schema, to which the events are added.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum ServerMessage {
    /// The reply to `hello`. The requested replay follows, then live events.
    Hello {
        /// The version of this dialect.
        protocol: u64,
        /// Watari's name of the session.
        key: String,
        /// The CLI's id of the conversation.
        session_id: String,
        /// The position of the last durable event at this moment: a replay ends with it.
        seq: Position,
        /// The state of the session.
        state: SessionState,
        /// Whether the replay continues from the requested position.
        resume: Resume,
    },
    /// A command was accepted, and what it changed is stored. A prompt may still wait, and a request may still fail.
    /// (While events cannot be stored, an interrupt, a close and an abort are accepted immediately.)
    Accepted {
        /// The client's id of the command.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        id: Option<String>,
        /// Of a `prompt`: the number of the prompt, which the end of its turn carries, too.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        prompt: Option<u64>,
        /// Of a `request`, and of an `interrupt` that a running CLI received: its number, which its `request_answered`
        /// carries, too.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "u64"))]
        request: Option<u64>,
    },
    /// A command was refused and has changed nothing.
    Refused {
        /// The client's id of the command.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        id: Option<String>,
        /// The reason, for programs.
        code: RefusalCode,
        /// The reason and the remedy, for people.
        message: String,
    },
    /// A line is invalid, or something else is wrong.
    Error {
        /// The client's id of the line, if it could be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        id: Option<String>,
        /// The cause, for programs.
        code: RefusalCode,
        /// The cause and the remedy, for people.
        message: String,
    },
}

/// Whether a client can continue from its position. `ok`: it receives every event after its position. `gap`: its
/// position does not belong to this log, or events after it were lost, so it receives all events from the beginning and
/// should discard its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "one description of both values is in the schema")]
pub enum Resume {
    Ok,
    Gap,
}

impl ServerMessage {
    /// The reply to a command that was accepted.
    pub fn accepted(id: Option<String>, accepted: Accepted) -> ServerMessage {
        let (prompt, request) = match accepted {
            Accepted::Prompt(prompt) => (Some(prompt.0), None),
            Accepted::Request(request) => (None, Some(request.0)),
            Accepted::Done => (None, None),
        };
        ServerMessage::Accepted { id, prompt, request }
    }

    /// Appends the line, with a newline.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_json(self, out);
        out.push(b'\n');
    }
}
