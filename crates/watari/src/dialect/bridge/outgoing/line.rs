//! The lines for the client, each with its fields.

use std::io::Write;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use watari_sdk::AskId;

use crate::dialect::shaped::{Content, Object};

/// What Watari writes, one object a line: the fields that are named here and no others.
// What is written here after three slashes is what clients read in the schema.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum BridgeMessage<'a> {
    /// The first line: `start` is waited for. One that was written before is not lost.
    Ready,
    /// The session is open. Comes once, and again when its id changes.
    SessionInit {
        /// The id of the session, with which it can be resumed.
        session_id: &'a str,
        /// The model that answers.
        model: &'a str,
        /// The version of the CLI.
        claude_code_version: &'a str,
        /// The names of the tools that the model has.
        tools: &'a [String],
        /// The MCP servers, as the CLI has them: each with a `name` and a `status`.
        mcp_servers: Vec<Object<'a>>,
        /// What is asked about before it runs: a word such as `default` or `plan`.
        permission_mode: &'a str,
    },
    /// The model begins to write a message.
    StreamMessageStart {
        /// The id of the session.
        session_id: &'a str,
    },
    /// A block of the message begins.
    StreamContentStart {
        /// The id of the session.
        session_id: &'a str,
        /// The place of the block in its message, from 0.
        index: u64,
        /// What the block is: `text`, `thinking`, `tool_use`, or a word that the API adds one day.
        block_type: &'a str,
        /// Only of a `tool_use`: the id of this use of the tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        block_id: Option<&'a str>,
        /// Only of a `tool_use`: the name of the tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        tool_name: Option<&'a str>,
    },
    /// A block has grown.
    StreamContentDelta {
        /// The id of the session.
        session_id: &'a str,
        /// The place of the block in its message, from 0.
        index: u64,
        /// What has grown.
        delta_type: DeltaType,
        /// What is to be added to the end of the block.
        text: &'a str,
    },
    /// A block is complete, or is not to be completed.
    StreamContentStop {
        /// The id of the session.
        session_id: &'a str,
        /// The place of the block in its message, from 0.
        index: u64,
    },
    /// The message is complete, or is not to be completed.
    StreamMessageStop {
        /// The id of the session.
        session_id: &'a str,
    },
    /// A whole message, after it was streamed; of a subagent, one block at a time, which is not streamed.
    AssistantMessage {
        /// The id of the session.
        session_id: &'a str,
        /// The use of a tool that started the subagent which says this; null if none does.
        parent_tool_use_id: Option<&'a str>,
        /// The blocks of the message, as the API has them.
        content: Vec<Object<'a>>,
    },
    /// May a tool be used? It is waited for a `permission_response`. A question of the model to the user comes as one
    /// too, of the tool `AskUserQuestion`.
    PermissionRequest {
        /// Names this request in its answer.
        #[schemars(with = "String")]
        request_id: RequestId,
        /// The name of the tool.
        tool_name: &'a str,
        /// What it would be used with.
        tool_input: Object<'a>,
        /// The id of this use of the tool.
        tool_use_id: &'a str,
    },
    /// Extension: a request that the client did not answer wants no answer any more.
    PermissionClosed {
        /// The request.
        #[schemars(with = "String")]
        request_id: RequestId,
        /// Why.
        reason: ClosedReason,
    },
    /// A tool still runs. Comes every 30 seconds.
    ToolProgress {
        /// The id of the session.
        session_id: &'a str,
        /// The name of the tool.
        tool_name: &'a str,
        /// The id of this use of the tool.
        tool_use_id: &'a str,
        /// For how long it has run.
        elapsed_seconds: f64,
    },
    /// Extension: a tool of the client is to run. It is waited for a `tool_call_result`.
    ToolCall {
        /// Extension: names this call in its answer.
        #[schemars(with = "String")]
        call_id: CallId,
        /// Extension: the name of the tool, as it was registered.
        name: &'a str,
        /// Extension: what it is to be run with: what the model wrote, not checked.
        input: Object<'a>,
    },
    /// Extension: a call that the client did not answer wants no result any more.
    ToolCallClosed {
        /// Extension: the call.
        #[schemars(with = "String")]
        call_id: CallId,
        /// Extension: why.
        reason: ClosedReason,
    },
    /// Extension: what a tool gave back.
    ToolResult {
        /// The id of the use of the tool.
        tool_use_id: &'a str,
        /// A text, or blocks as the API has them.
        content: Content<'a>,
        /// Whether the tool failed, or was not allowed.
        is_error: bool,
    },
    /// Extension: news of a subagent or of a command in the background.
    Task {
        /// The id of the session.
        session_id: &'a str,
        /// The id of the task.
        task_id: &'a str,
        /// What is new.
        update: TaskStatus,
        /// The whole report, as the CLI has it.
        detail: Object<'a>,
    },
    /// What the CLI does at the moment, or a setting that has changed.
    Status {
        /// The id of the session.
        session_id: &'a str,
        /// The CLI's word, such as `requesting` or `compacting`; null when it is over, or when only a setting changed.
        status: Option<&'a str>,
        /// Extension: the permission mode, if it has changed.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        permission_mode: Option<&'a str>,
        /// Extension: the model, if it was changed by `set_model`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        model: Option<&'a str>,
    },
    /// A turn is over.
    TurnResult {
        /// The id of the session.
        session_id: &'a str,
        /// How it ended, in the CLI's words: `success`, `error_during_execution`, `error_max_turns`,
        /// `error_max_budget_usd` and others. An error of the API is a `success` with `isError`.
        subtype: &'a str,
        /// What the session has cost so far, in US dollars.
        total_cost_usd: f64,
        /// How many answers of the model it took.
        num_turns: u64,
        /// Whether it went wrong.
        is_error: bool,
        /// The tokens, as the CLI counts them: `input_tokens`, `output_tokens` and others.
        usage: Object<'a>,
        /// The last text of the model, or that of an error of the API. Only with the subtype `success`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        result: Option<&'a str>,
        /// What went wrong, for developers. Only with any other subtype.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Vec<String>")]
        errors: Option<&'a [String]>,
        /// Extension: what the model wrote to fit the schema of `outputFormat`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "serde_json::Value")]
        structured_output: Option<&'a RawValue>,
        /// Extension: what the turn was for.
        origin: Origin,
    },
    /// Extension: in the place of the turn's result, the message has no turn and will not get one.
    MessageDropped {
        /// Why.
        reason: DroppedReason,
    },
    /// Something went wrong.
    Error {
        /// What went wrong and what to do.
        message: &'a str,
        /// Whether the session is over: then the process exits.
        fatal: bool,
    },
}

/// What has grown: the text of a block of text, the text of a block of thinking, or the input of a tool, as a piece of
/// JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) enum DeltaType {
    #[serde(rename = "text_delta")]
    Text,
    #[serde(rename = "thinking_delta")]
    Thinking,
    #[serde(rename = "input_json_delta")]
    InputJson,
}

/// Why a request wants no answer any more. `expired`: nobody answered in time, so that it is a no. `cancelled`: the CLI
/// has taken it back, or nobody can answer it any more.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClosedReason {
    Expired,
    Cancelled,
}

/// What is new of a task.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TaskNews")]
pub(crate) enum TaskStatus {
    Started,
    Progressed,
    Updated,
    Ended,
}

/// What a turn was for. `prompt`: a message of the client. `task`: something in the background has ended, of which the
/// CLI speaks by itself.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    Prompt,
    Task,
}

/// Why a message has no turn. `cancelled`: an `interrupt` with `cancelQueued` took it back. `lost`: the CLI gave no
/// result for it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DroppedReason {
    Cancelled,
    Lost,
}

/// A call as the client names it: `call_1`, `call_2` and so on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallId(pub(super) AskId);

impl Serialize for CallId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("call_{}", self.0))
    }
}

/// An ask as the client names it: `req_1`, `req_2` and so on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestId(pub(super) AskId);

impl Serialize for RequestId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("req_{}", self.0))
    }
}

/// Adds a line.
pub(super) fn write(line: &BridgeMessage<'_>, out: &mut Vec<u8>) {
    // Writing to memory does not fail, and no line has a key that is no text.
    let _written = serde_json::to_writer(&mut *out, line);
    let _written = out.write_all(b"\n");
}
