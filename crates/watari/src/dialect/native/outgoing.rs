//! What is said to a client beside the events.

use schemars::JsonSchema;
use serde::Serialize;
use watari_hub::{CommandOutcome, HostState, Position};
use watari_sdk::Accepted;

/// What Watari writes, one object a line: the fields that are named here and no others. All but `hello`, `accepted`,
/// `refused` and `error` are events.
// What is written here after three slashes is what clients read in the schema.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ServerMessage<'a> {
    /// The answer to `hello`: what the client has asked for follows, and then what happens.
    Hello {
        /// The version of this dialect that is spoken.
        protocol: u64,
        /// Watari's own name of the session.
        key: &'a str,
        /// The CLI's id of the conversation.
        session_id: &'a str,
        /// The last numbered event at this moment: those up to it come first, if they were asked for.
        seq: Position,
        /// How far the session is.
        state: HostState,
        /// Whether the position that was asked for is one of this log.
        resume: Resume,
    },
    /// A command was carried out.
    Accepted {
        /// The client's own id of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        id: Option<&'a str>,
        /// The prompt that it was: its turn ends with this number.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u64")]
        prompt: Option<u64>,
        /// What the CLI was asked: its answer comes as `request_answered` with this number.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u64")]
        request: Option<u64>,
    },
    /// A command was not carried out, and has changed nothing.
    Refused {
        /// The client's own id of it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        id: Option<&'a str>,
        /// Why, and what to do.
        message: &'a str,
    },
    /// A line could not be understood, or something else is wrong.
    Error {
        /// The client's own id of the line, if that could be read.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        id: Option<&'a str>,
        /// What is wrong, and what to do.
        message: &'a str,
    },
}

/// Whether a client can go on where it was. `ok`: it gets everything behind its position. `gap`: its position is not one
/// of this log, so it gets everything from the beginning, and should forget what it has.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Resume {
    Ok,
    Gap,
}

impl<'a> ServerMessage<'a> {
    pub(crate) fn outcome(id: Option<&'a str>, outcome: &'a CommandOutcome) -> ServerMessage<'a> {
        match outcome {
            Ok(Accepted::Prompt(prompt)) => ServerMessage::Accepted { id, prompt: Some(prompt.0), request: None },
            Ok(Accepted::Request(request)) => ServerMessage::Accepted { id, prompt: None, request: Some(request.0) },
            Ok(Accepted::Done) => ServerMessage::Accepted { id, prompt: None, request: None },
            Err(message) => ServerMessage::Refused { id, message },
        }
    }
}

/// Adds a line.
pub(crate) fn write(line: &ServerMessage<'_>, out: &mut Vec<u8>) {
    // Writing to memory does not fail, and no line has a key that is no text.
    let _written = serde_json::to_writer(&mut *out, line);
    out.push(b'\n');
}
