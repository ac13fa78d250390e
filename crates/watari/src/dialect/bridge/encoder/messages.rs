//! The lines for a client of the bridge dialect.

use std::io::Write;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::value::RawValue;
use watari_sdk::{AskId, RefusalCode};

use crate::dialect::shaped::{Content, Object};

/// The lines that Watari writes, one object per line, with only the fields listed here.
// These doc comments are the descriptions in the schema.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(crate) enum BridgeMessage<'a> {
    /// The first line: Watari waits for `start`. A `start` that was written before is not lost.
    Ready,
    /// The session is open. Sent once, and again when its id changes.
    SessionInit {
        /// The id of the session, with which it can be resumed.
        session_id: &'a str,
        /// The model that answers.
        model: &'a str,
        /// The version of the CLI.
        claude_code_version: &'a str,
        /// The names of the model's tools.
        tools: &'a [String],
        /// The MCP servers in the CLI's format: each with a `name` and a `status`.
        mcp_servers: Vec<Object<'a>>,
        /// The permission mode, such as `default` or `plan`.
        permission_mode: &'a str,
    },
    /// The model begins a message.
    StreamMessageStart {
        /// The id of the session.
        session_id: &'a str,
    },
    /// A block of the message begins.
    StreamContentStart {
        /// The id of the session.
        session_id: &'a str,
        /// The index of the block in its message, from 0.
        index: u64,
        /// The type of the block: `text`, `thinking`, `tool_use`, or a future type of the API.
        block_type: &'a str,
        /// Only of a `tool_use`: the id of the tool use.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        block_id: Option<&'a str>,
        /// Only of a `tool_use`: the name of the tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        tool_name: Option<&'a str>,
    },
    /// A delta of a block.
    StreamContentDelta {
        /// The id of the session.
        session_id: &'a str,
        /// The index of the block in its message, from 0.
        index: u64,
        /// The type of the delta.
        delta_type: DeltaType,
        /// The text to append to the block; of an `input_json_delta`, a fragment of JSON.
        text: &'a str,
    },
    /// A block is complete, or will not be completed.
    StreamContentStop {
        /// The id of the session.
        session_id: &'a str,
        /// The index of the block in its message, from 0.
        index: u64,
    },
    /// The message is complete, or will not be completed.
    StreamMessageStop {
        /// The id of the session.
        session_id: &'a str,
    },
    /// A complete message of the model, after it was streamed. A message of a subagent is not streamed; each of its
    /// blocks is a separate `assistant_message`.
    AssistantMessage {
        /// The id of the session.
        session_id: &'a str,
        /// The id of the tool use that started the subagent; null if it is not a subagent's message.
        parent_tool_use_id: Option<&'a str>,
        /// The blocks of the message, in the API's format.
        content: Vec<Object<'a>>,
    },
    /// A tool needs permission: answer with `permission_response`. A question of the model to the user is a request for
    /// the tool `AskUserQuestion`.
    PermissionRequest {
        /// The id of this request; send it in the answer.
        #[schemars(with = "String")]
        request_id: RequestId,
        /// The name of the tool.
        tool_name: &'a str,
        /// The input of the tool.
        tool_input: Object<'a>,
        /// The id of the tool use.
        tool_use_id: &'a str,
    },
    /// Extension: a request that the client has not answered no longer needs an answer.
    PermissionClosed {
        /// The id of the request.
        #[schemars(with = "String")]
        request_id: RequestId,
        /// The reason.
        reason: ClosedReason,
    },
    /// A tool is still running. Sent every 30 seconds.
    ToolProgress {
        /// The id of the session.
        session_id: &'a str,
        /// The name of the tool.
        tool_name: &'a str,
        /// The id of the tool use.
        tool_use_id: &'a str,
        /// How long it has been running.
        elapsed_seconds: f64,
    },
    /// Extension: the model calls a tool of the client: run it and answer with `tool_call_result`.
    ToolCall {
        /// Extension: the id of this call; send it in the answer.
        #[schemars(with = "String")]
        call_id: CallId,
        /// Extension: the registered name of the tool.
        name: &'a str,
        /// Extension: the input of the tool, as the model wrote it, not validated.
        input: Object<'a>,
    },
    /// Extension: a tool call that the client has not answered no longer needs a result.
    ToolCallClosed {
        /// Extension: the id of the call.
        #[schemars(with = "String")]
        call_id: CallId,
        /// Extension: the reason.
        reason: ClosedReason,
    },
    /// Extension: the result of a tool.
    ToolResult {
        /// The id of the tool use.
        tool_use_id: &'a str,
        /// A text, or blocks in the API's format.
        content: Content<'a>,
        /// Whether the tool failed or was denied.
        is_error: bool,
    },
    /// Extension: an update of a subagent or of a background command.
    Task {
        /// The id of the session.
        session_id: &'a str,
        /// The id of the task.
        task_id: &'a str,
        /// What has happened to the task.
        update: TaskStatus,
        /// The CLI's own report; its fields vary.
        detail: Object<'a>,
    },
    /// The status of the CLI, or a changed setting.
    Status {
        /// The id of the session.
        session_id: &'a str,
        /// The CLI's status, such as `requesting` or `compacting`; null when it has ended, or if only a setting
        /// changed.
        status: Option<&'a str>,
        /// Extension: the permission mode, if it has changed.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        permission_mode: Option<&'a str>,
        /// Extension: the model, if `set_model` has changed it.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        model: Option<&'a str>,
    },
    /// The result of a turn.
    TurnResult {
        /// The id of the session.
        session_id: &'a str,
        /// The CLI's name of the result: `success`, `error_during_execution`, `error_max_turns`, `error_max_budget_usd`
        /// and others. An error of the API is a `success` with `isError`.
        subtype: &'a str,
        /// The cost of the session so far, in US dollars.
        total_cost_usd: f64,
        /// The number of the model's answers in this turn.
        num_turns: u64,
        /// Whether the turn failed.
        is_error: bool,
        /// The token usage, as counted by the CLI: `input_tokens`, `output_tokens` and others.
        usage: Object<'a>,
        /// The last text of the model, or the text of an error of the API. Only with the subtype `success`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "String")]
        result: Option<&'a str>,
        /// The errors, for developers. Only with other subtypes.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "Vec<String>")]
        errors: Option<&'a [String]>,
        /// Extension: the model's output that matches the schema of `outputFormat`.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "serde_json::Value")]
        structured_output: Option<&'a RawValue>,
        /// Extension: the cause of the turn.
        origin: Origin,
    },
    /// Extension: sent instead of a `turn_result` for a message that will get no result.
    MessageDropped {
        /// The reason.
        reason: DroppedReason,
    },
    /// Something went wrong.
    Error {
        /// The cause and the remedy.
        message: &'a str,
        /// Whether the error ends the session; then the process exits.
        fatal: bool,
        /// Extension: if the error is about a message of the client, the reason for programs.
        #[serde(skip_serializing_if = "Option::is_none")]
        #[schemars(with = "RefusalCode")]
        code: Option<RefusalCode>,
    },
}

/// The type of a delta: text, thinking, or a fragment of the JSON of a tool's input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) enum DeltaType {
    #[serde(rename = "text_delta")]
    Text,
    #[serde(rename = "thinking_delta")]
    Thinking,
    #[serde(rename = "input_json_delta")]
    InputJson,
}

/// Why a request no longer needs an answer. `expired`: the client did not answer in time, so it was denied.
/// `cancelled`: the CLI has withdrawn it, or it can no longer be answered.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClosedReason {
    Expired,
    Cancelled,
}

/// What has happened to a task.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TaskUpdate")]
pub(crate) enum TaskStatus {
    Started,
    Progressed,
    Updated,
    Ended,
}

/// The cause of a turn. `prompt`: a message of the client. `task`: the CLI began the turn by itself, for example because
/// a background task has ended.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Origin {
    Prompt,
    Task,
}

/// Why a message gets no result. `cancelled`: an `interrupt` cancelled it before it ran. `lost`: the CLI received it,
/// but will send no result for it. It may have run: check before you send it again.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DroppedReason {
    Cancelled,
    Lost,
}

/// The client's name of a tool call: `call_1`, `call_2` and so on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallId(pub(super) AskId);

impl Serialize for CallId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("call_{}", self.0))
    }
}

/// The client's name of a permission request: `req_1`, `req_2` and so on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestId(pub(super) AskId);

impl Serialize for RequestId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("req_{}", self.0))
    }
}

/// Appends a line.
pub(super) fn write(line: &BridgeMessage<'_>, out: &mut Vec<u8>) {
    // Writing to memory does not fail, and all keys are strings.
    let _written = serde_json::to_writer(&mut *out, line);
    let _written = out.write_all(b"\n");
}
