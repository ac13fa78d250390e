//! The lines for a client that are not events.

use schemars::JsonSchema;
use serde::Serialize;
use watari_hub::{Position, SessionState};
use watari_sdk::{Accepted, RefusalCode};

/// The lines that Watari writes, one object per line, with only the fields listed here. All except `hello`, `accepted`,
/// `refused` and `error` are events.
// These doc comments are the descriptions in the schema, to which the events are added.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ServerMessage<'a> {
    /// The reply to `hello`. The requested replay follows, then live events.
    Hello {
        /// The version of this dialect.
        protocol: u64,
        /// Watari's name of the session.
        key: &'a str,
        /// The CLI's id of the conversation.
        session_id: &'a str,
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
        #[schemars(with = "String")]
        id: Option<&'a str>,
        /// Of a `prompt`: the number of the prompt, which the end of its turn carries, too.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u64")]
        prompt: Option<u64>,
        /// Of a `request`: the number of the request, which its `request_answered` carries, too.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u64")]
        request: Option<u64>,
    },
    /// A command was refused and has changed nothing.
    Refused {
        /// The client's id of the command.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        id: Option<&'a str>,
        /// The reason, for programs.
        code: RefusalCode,
        /// The reason and the remedy, for people.
        message: &'a str,
    },
    /// A line is invalid, or something else is wrong.
    Error {
        /// The client's id of the line, if it could be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        id: Option<&'a str>,
        /// The cause, for programs.
        code: RefusalCode,
        /// The cause and the remedy, for people.
        message: &'a str,
    },
}

/// Whether a client can continue from its position. `ok`: it receives every event after its position. `gap`: its
/// position does not belong to this log, or events after it were lost, so it receives all events from the beginning and
/// should discard its state.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Resume {
    Ok,
    Gap,
}

impl<'a> ServerMessage<'a> {
    pub(crate) fn accepted(id: Option<&'a str>, accepted: Accepted) -> ServerMessage<'a> {
        let (prompt, request) = match accepted {
            Accepted::Prompt(prompt) => (Some(prompt.0), None),
            Accepted::Request(request) => (None, Some(request.0)),
            Accepted::Done => (None, None),
        };
        ServerMessage::Accepted { id, prompt, request }
    }
}

/// Appends a line.
pub(crate) fn write(line: &ServerMessage<'_>, out: &mut Vec<u8>) {
    // Writing to memory does not fail, and all keys are strings.
    let _written = serde_json::to_writer(&mut *out, line);
    out.push(b'\n');
}
