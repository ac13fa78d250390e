//! The lines for a client of the socket dialect.

use schemars::JsonSchema;
use serde::Serialize;
use watari_hub::{Position, SessionState};
use watari_sdk::RefusalCode;

use crate::dialect::shaped::{Content, Object};

/// The lines that Watari writes, one object per line, with only the fields listed here. One event may be written as
/// several lines. After `hello`, the last line of a stored event has the event's position, `seq`.
// These doc comments are the descriptions in the schema.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ServerMessage<'a> {
    /// The first line; sent again when the id changes.
    Init {
        /// The CLI's id of the conversation, with which it can be resumed.
        session_id: &'a str,
    },
    /// Extension: the reply to `hello`. Discard everything that was received before it; the requested replay follows.
    Hello {
        /// Watari's name of the session: send it after a reconnect.
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
    /// Extension: the replay is complete; live events follow. Only after `hello`.
    CaughtUp,
    /// Text of the model.
    TextDelta {
        /// The text to append.
        text: &'a str,
    },
    /// Extension: thinking of the model.
    ThinkingDelta {
        /// The text to append.
        text: &'a str,
    },
    /// Extension: discard the end of the received text or thinking, because the CLI discarded the block.
    TextReset {
        /// What to discard: text or thinking.
        of: TextKind,
        /// The number of characters (Unicode scalar values) to discard.
        characters: u64,
    },
    /// Extension: text of a subagent. It is not part of the model's text.
    SubagentText {
        /// The id of the tool use that started the subagent.
        parent_request_id: &'a str,
        /// The text.
        text: &'a str,
    },
    /// The model uses a tool.
    ToolUse {
        /// The id of this tool use.
        request_id: &'a str,
        /// The name of the tool.
        tool: &'a str,
        /// The input of the tool.
        input: Object<'a>,
        /// Extension: the id of the tool use that started the subagent, if a subagent uses the tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        parent_request_id: Option<&'a str>,
    },
    /// A tool needs approval: any client may answer with `approve` or `deny`.
    ApprovalRequest {
        /// The id of the tool use; send it in the answer. Extension: another id if an earlier request was about the
        /// same tool use, or if the tool use has no id or one that begins with `ask_` or `form_`.
        request_id: &'a str,
        /// Extension: the id of the tool use, if `request_id` is another id.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        tool_use_id: Option<&'a str>,
        /// The name of the tool. Extension: `Form` for a form of an MCP server.
        tool: &'a str,
        /// The input of the tool. Of a form: `{message, schema, server, url?}`; `url` is an address that the server
        /// wants the user to open.
        input: Object<'a>,
    },
    /// Extension: a request is resolved, for all clients.
    ApprovalResolved {
        /// The id of the request.
        request_id: &'a str,
        /// The decision.
        decision: Decision,
        /// The client that answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        by: Option<&'a str>,
        /// Whether the tool ran with an edited input.
        #[serde(skip_serializing_if = "is_false")]
        edited: bool,
        /// The edited input, complete.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Object<'a>")]
        input: Option<Object<'a>>,
        /// The permission updates that the answer granted, in the CLI's format. Only clients of the native socket can
        /// grant them.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Vec<Object<'a>>")]
        permissions: Option<Vec<Object<'a>>>,
    },
    /// The result of a tool.
    ToolResult {
        /// The id of the tool use.
        request_id: &'a str,
        /// The result as one text.
        output: &'a str,
        /// Extension: whether the tool failed or was denied.
        #[serde(skip_serializing_if = "is_false")]
        is_error: bool,
        /// Extension: the result in the API's format.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Content<'a>")]
        content: Option<Content<'a>>,
        /// Extension: the id of the tool use that started the subagent, if a subagent used the tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        parent_request_id: Option<&'a str>,
    },
    /// Extension: the model calls a client's tool: any client may run it and answer with `tool_call_result`.
    ToolCall {
        /// The id of this call; send it in the answer.
        call_id: &'a str,
        /// The registered name of the tool.
        name: &'a str,
        /// The input of the tool.
        input: Object<'a>,
    },
    /// Extension: a tool call is resolved, for all clients.
    ToolCallClosed {
        /// The id of the call.
        call_id: &'a str,
        /// How it was resolved.
        reason: CallEnd,
        /// The client that answered.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        by: Option<&'a str>,
    },
    /// A turn has ended, or a message will not be answered. If an `error` precedes it, that is the reason.
    Done {
        /// The token usage, as counted by the CLI.
        usage: Object<'a>,
        /// Extension: the number of the message, from its `accepted`. Absent if there is no message: the CLI began the
        /// turn by itself, or exited while it was idle.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u64")]
        message_id: Option<u64>,
    },
    /// Extension: a command with an `id` was accepted, and what it changed is stored. (While events cannot be stored,
    /// an abort is accepted immediately.) A message may still wait.
    Accepted {
        /// The client's id of the command.
        id: &'a str,
        /// Of a message: its number, which its `done` carries, too. Numbers grow, but need not be consecutive.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u64")]
        message_id: Option<u64>,
    },
    /// Something went wrong.
    Error {
        /// The cause and the remedy.
        message: &'a str,
        /// Extension: the kind of the error.
        kind: ErrorKind,
        /// Extension: of the kinds `line` and `refused`, the reason for programs.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "RefusalCode")]
        code: Option<RefusalCode>,
        /// Extension: the client's id of the line that the error is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        id: Option<&'a str>,
    },
}

/// The kind of an error. `line`: the client's line is invalid. `refused`: the client's command was refused. `turn`: a
/// turn failed or was interrupted, or a message was dropped; its `done` follows. `session`: the CLI or the host ended,
/// could not be started or stalled, or the conversation was lost or is used by another program, too. `storage`: events
/// cannot be stored or read, or were lost, or the host has restored its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorKind {
    Line,
    Refused,
    Turn,
    Session,
    Storage,
}

/// The kind of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TextKind {
    Text,
    Thinking,
}

/// How a request was resolved. `expired`: no client answered in time, so it was denied. `cancelled`: the CLI no longer
/// needs an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Decision {
    Approved,
    Denied,
    Expired,
    Cancelled,
}

/// How a tool call was resolved. `answered`: a client sent a result. `expired`: no client did in time, so the call
/// failed. `cancelled`: the turn was interrupted or the session ended, and no result is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallEnd {
    Answered,
    Expired,
    Cancelled,
}

/// Whether a client can continue from its position. `ok`: it receives every event after its position. `gap`: its
/// position does not belong to this session, or events after it were lost, so it receives all events from the beginning
/// and should discard its state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Resume {
    Ok,
    Gap,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Appends an error that is not a reply to a client's line.
pub(super) fn write_error(kind: ErrorKind, message: &str, seq: Option<&str>, out: &mut Vec<u8>) {
    write(&ServerMessage::Error { message, kind, code: None, id: None }, seq, out);
}

/// Appends a line, with its position if it has one.
pub(super) fn write(line: &ServerMessage<'_>, seq: Option<&str>, out: &mut Vec<u8>) {
    // Writing to memory does not fail, and all keys are strings.
    let _written = serde_json::to_writer(&mut *out, line);
    if let Some(seq) = seq {
        out.pop();
        // A position needs no escaping.
        out.extend_from_slice(b",\"seq\":\"");
        out.extend_from_slice(seq.as_bytes());
        out.extend_from_slice(b"\"}");
    }
    out.push(b'\n');
}
