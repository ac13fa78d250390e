//! The lines for the client, each with its fields.

use schemars::JsonSchema;
use serde::Serialize;
use watari_hub::{HostState, Position};

use crate::dialect::shaped::{Content, Object};

/// What Watari writes, one object a line: the fields that are named here and no others. After `hello`, the last line of
/// those that tell a numbered event also has its `seq`.
// What is written here after three slashes is what clients read in the schema.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ServerMessage<'a> {
    /// The first line; comes again when the id changes.
    Init {
        /// The CLI's id of the conversation, with which it can be resumed.
        session_id: &'a str,
    },
    /// Extension: the answer to `hello`. What came before it does not count; what was asked for follows.
    Hello {
        /// Watari's own name of the session: a client that comes back says it too.
        key: &'a str,
        /// The CLI's id of the conversation.
        session_id: &'a str,
        /// The last numbered event at this moment: those up to it come first, if they were asked for.
        seq: Position,
        /// How far the session is.
        state: HostState,
        /// Whether the position that was asked for is one of this session's.
        resume: Resume,
    },
    /// Extension: all that there was has been told: what comes now happens now. Only after `hello`.
    CaughtUp,
    /// The model writes.
    TextDelta {
        /// What is to be added to the text.
        text: &'a str,
    },
    /// Extension: the model thinks.
    ThinkingDelta {
        /// What is to be added to the thought.
        text: &'a str,
    },
    /// Extension: the end of what was written does not count, because the CLI gave it up.
    TextReset {
        /// What does not count: text or thinking.
        of: Kind,
        /// How many characters (Unicode scalar values) of it.
        characters: u64,
    },
    /// Extension: a subagent has written something. It is not part of the text.
    SubagentText {
        /// The use of the tool that started the subagent.
        parent_request_id: &'a str,
        /// What it has written.
        text: &'a str,
    },
    /// The model uses a tool.
    ToolUse {
        /// The id of this use.
        request_id: &'a str,
        /// The name of the tool.
        tool: &'a str,
        /// What it is used with.
        input: Object<'a>,
        /// Extension: set when a subagent uses it: the use of the tool that started the subagent.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        parent_request_id: Option<&'a str>,
    },
    /// May a tool be used? It is waited for `approve` or `deny`, from any client.
    ApprovalRequest {
        /// The id of this use, which the answer names. Extension: a name of its own if the use was asked about before, or
        /// has no id.
        request_id: &'a str,
        /// Extension: set when `request_id` is a name of its own: the id of this use.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        tool_use_id: Option<&'a str>,
        /// The name of the tool. Extension: of a form that an MCP server wants filled in, `Form`.
        tool: &'a str,
        /// What it would be used with.
        input: Object<'a>,
    },
    /// Extension: a request is closed, for all clients.
    ApprovalResolved {
        /// The id of the request.
        request_id: &'a str,
        /// How.
        decision: Decision,
        /// Whose answer it was.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        by: Option<&'a str>,
        /// Set when the tool ran with another input than was asked.
        #[serde(skip_serializing_if = "is_false")]
        edited: bool,
        /// Of an edited one: the whole input that the tool ran with.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Object<'a>")]
        input: Option<Object<'a>>,
        /// The permission rules that were granted with it, in the shape of the CLI.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Vec<Object<'a>>")]
        permissions: Option<Vec<Object<'a>>>,
    },
    /// A tool gave something back.
    ToolResult {
        /// The id of the use of the tool.
        request_id: &'a str,
        /// What it gave back, as one text.
        output: &'a str,
        /// Extension: set when the tool failed or was not allowed.
        #[serde(skip_serializing_if = "is_false")]
        is_error: bool,
        /// Extension: what it gave back, in the API's shape.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Content<'a>")]
        content: Option<Content<'a>>,
        /// Extension: set when a subagent used the tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        parent_request_id: Option<&'a str>,
    },
    /// Extension: a tool of a client is to run. It is waited for a `tool_call_result`, from any client.
    ToolCall {
        /// Names this call in its answer.
        call_id: &'a str,
        /// The name of the tool, as it was registered.
        name: &'a str,
        /// What it is to be run with.
        input: Object<'a>,
    },
    /// Extension: a call wants no result any more, for all clients.
    ToolCallClosed {
        /// The call.
        call_id: &'a str,
        /// Why.
        reason: CallEnd,
        /// Whose result it was.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        by: Option<&'a str>,
    },
    /// A message has been answered, or will not be; what went wrong stands before it.
    Done {
        /// The tokens, as the CLI counts them.
        usage: Object<'a>,
        /// Extension: the number of the message that was answered, as its `accepted` has it. None when the CLI spoke by itself.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u64")]
        message_id: Option<u64>,
    },
    /// Extension: a command that has an `id` was carried out.
    Accepted {
        /// The client's own id of it.
        id: &'a str,
        /// Of a message: its number in the session, which its `done` has too.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "u64")]
        message_id: Option<u64>,
    },
    /// Something went wrong.
    Error {
        /// What went wrong, and what to do.
        message: &'a str,
        /// Extension: what it is about.
        kind: ErrorKind,
        /// Extension: the client's own id of what it is about.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        id: Option<&'a str>,
    },
}

/// What an error is about. `line`: what the client wrote cannot be understood. `refused`: what it wants was not done.
/// `turn`: a turn went wrong, and `done` follows. `session`: the CLI or the host ended or could not be started. `storage`:
/// events cannot be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorKind {
    Line,
    Refused,
    Turn,
    Session,
    Storage,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Text,
    Thinking,
}

/// How a request ended. `expired`: nobody answered in time, which is a no. `cancelled`: the CLI wants no answer any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Decision {
    Approved,
    Denied,
    Expired,
    Cancelled,
}

/// How a call ended. `answered`: a client gave a result. `expired`: nobody did in time, so that the call has failed.
/// `cancelled`: the turn was interrupted or the session ended, and nobody waits for a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CallEnd {
    Answered,
    Expired,
    Cancelled,
}

/// Whether a client can go on where it was. `ok`: it gets everything behind its position. `gap`: its position is not one
/// of this session's, so it gets everything from the beginning, and should forget what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Resume {
    Ok,
    Gap,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Adds a line that says what went wrong, and that is no answer to a client's own.
pub(super) fn write_error(kind: ErrorKind, message: &str, seq: Option<&str>, out: &mut Vec<u8>) {
    write(&ServerMessage::Error { message, kind, id: None }, seq, out);
}

/// Adds a line, with its place if it has one.
pub(super) fn write(line: &ServerMessage<'_>, seq: Option<&str>, out: &mut Vec<u8>) {
    // Writing to memory does not fail, and no line has a key that is no text.
    let _written = serde_json::to_writer(&mut *out, line);
    if let Some(seq) = seq {
        out.pop();
        // A position has nothing in it that would have to be escaped.
        out.extend_from_slice(b",\"seq\":\"");
        out.extend_from_slice(seq.as_bytes());
        out.extend_from_slice(b"\"}");
    }
    out.push(b'\n');
}
