//! The frames of the fake CLI: what the real CLI would write, with counted ids.

use super::fields::{Fields, quoted};
use super::incoming::Prompt;
use super::script::{Block, Request};

/// The version that the fake CLI reports.
pub(super) const VERSION: &str = "2.1.325";

const MODEL: &str = "claude-opus-5-5";
const USAGE: &str =
    r#"{"input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}"#;
/// The same time in every frame, so that two runs of a script write the same.
const TIMESTAMP: &str = "2026-11-15T08:00:00.000Z";

/// Builds frames, and counts what needs counting.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) session: String,
    pub(super) cwd: String,
    /// How many ids were assigned.
    uuids: u64,
    /// How many messages were started.
    messages: u64,
    results: u64,
}

impl Frames {
    pub(super) fn new(session: String, cwd: String) -> Frames {
        Frames { session, cwd, uuids: 0, messages: 0, results: 0 }
    }

    /// The id of the next frame. Its last twelve hexadecimal digits are a counter.
    pub(super) fn next_uuid(&self) -> String {
        format!("00000000-0000-4000-8000-{:012x}", self.uuids)
    }

    /// Counts frames that were built elsewhere.
    pub(super) fn count_uuids(&mut self, count: u64) {
        self.uuids += count;
    }

    fn uuid(&mut self) -> String {
        let uuid = self.next_uuid();
        self.uuids += 1;
        uuid
    }

    fn message(&self) -> String {
        format!("msg_fake_{}", self.messages)
    }

    pub(super) fn system(&mut self, subtype: &str, fields: Fields) -> Fields {
        let frame = Fields::default().text("type", "system").text("subtype", subtype).merged(fields);
        let uuid = self.uuid();
        frame.text("uuid", &uuid).text("session_id", &self.session)
    }

    pub(super) fn state(&mut self, state: &str) -> Fields {
        self.system("session_state_changed", Fields::default().text("state", state).json("sdk_host_only", "true"))
    }

    pub(super) fn init(&mut self) -> Fields {
        let fields = Fields::default()
            .text("cwd", &self.cwd)
            .text("session_id", &self.session)
            .json("tools", r#"["Bash","Edit","Read","Write"]"#)
            .json("mcp_servers", "[]")
            .text("model", MODEL)
            .text("permissionMode", "default")
            .json("slash_commands", "[]")
            .text("apiKeySource", "none")
            .text("claude_code_version", VERSION)
            .text("output_style", "default")
            .json("agents", "[]")
            .json("skills", "[]")
            .json("plugins", "[]");
        self.system("init", fields)
    }

    pub(super) fn task(&mut self, subtype: &str, id: &str, fields: Fields) -> Fields {
        let task = Fields::default().text("task_id", id);
        let task = match subtype {
            "task_started" => task.text("description", id).text("task_type", "local_bash"),
            "task_progress" => task.text("description", id),
            "task_updated" => task.json("patch", r#"{"status":"completed"}"#),
            _ => task.text("status", "completed").text("output_file", "").text("summary", id),
        };
        self.system(subtype, task.merged(fields))
    }

    pub(super) fn begin_message(&mut self) -> Fields {
        self.messages += 1;
        let message = self.message_fields("[]");
        self.stream_event(Fields::default().text("type", "message_start").json("message", message.to_string()))
    }

    pub(super) fn begin_block(&mut self, index: u64, block: &Block) -> Fields {
        let content = match block {
            Block::Text(_) => Fields::default().text("type", "text").text("text", ""),
            Block::Thinking(_) => Fields::default().text("type", "thinking").text("thinking", ""),
            Block::Tool { id, name, .. } => tool_use(id, name).json("input", "{}"),
        };
        let event = event_of_block("content_block_start", index).json("content_block", content.to_string());
        self.stream_event(event)
    }

    pub(super) fn delta(&mut self, index: u64, delta: Fields) -> Fields {
        self.stream_event(event_of_block("content_block_delta", index).json("delta", delta.to_string()))
    }

    /// The whole block, which the real CLI writes before the block's stop.
    pub(super) fn assistant(&mut self, block: &Block) -> Fields {
        let content = match block {
            Block::Text(text) => Fields::default().text("type", "text").text("text", text),
            Block::Thinking(text) => {
                Fields::default().text("type", "thinking").text("thinking", text).text("signature", SIGNATURE)
            }
            Block::Tool { id, name, input } => tool_use(id, name).json("input", input.as_str()),
        };
        let message = self.message_fields(&format!("[{content}]")).json("context_management", "null");
        let frame = Fields::default().text("type", "assistant").json("message", message.to_string());
        let request = format!("req_fake_{}", self.messages);
        self.closed(frame).text("timestamp", TIMESTAMP).text("request_id", &request)
    }

    pub(super) fn end_block(&mut self, index: u64) -> Fields {
        self.stream_event(event_of_block("content_block_stop", index))
    }

    /// The frames that end a message: the stop reason, and the stop.
    pub(super) fn end_message(&mut self, stop_reason: Option<&str>) -> [Fields; 2] {
        let delta = Fields::default().json("stop_reason", nullable(stop_reason)).json("stop_sequence", "null");
        let change = Fields::default().text("type", "message_delta").json("delta", delta.to_string());
        let change = self.stream_event(change.json("usage", r#"{"output_tokens":5}"#));
        [change, self.stream_event(Fields::default().text("type", "message_stop"))]
    }

    pub(super) fn tool_result(&mut self, result: &ToolResult<'_>) -> Fields {
        let content = Fields::default()
            .text("tool_use_id", result.id)
            .text("type", "tool_result")
            .text("content", result.text)
            .json("is_error", result.is_error.to_string());
        let message = Fields::default().text("role", "user").json("content", format!("[{content}]"));
        let frame = Fields::default().text("type", "user").json("message", message.to_string());
        self.closed(frame).text("timestamp", TIMESTAMP).text("tool_use_result", result.text)
    }

    /// The end of a turn. Its `type` comes late, as in the real CLI.
    pub(super) fn result(&mut self, turn: &Turn, fields: Fields) -> Fields {
        let uuid = self.uuid();
        let frame = Fields::default()
            .json("duration_api_ms", "20")
            .text("stop_reason", "end_turn")
            .text("session_id", &self.session)
            .json("total_cost_usd", "0.00014")
            .json("usage", USAGE)
            .json("modelUsage", "{}")
            .json("permission_denials", "[]")
            .text("terminal_reason", "completed")
            .json("is_error", "false")
            .json("num_turns", (turn.tool_results + 1).to_string())
            .text("subtype", "success");
        let frame = frame.merged(fields).text("type", "result").json("duration_ms", "94").text("uuid", &uuid);
        let frame = match &turn.prompt.uuid {
            Some(uuid) => {
                frame.text("user_message_uuid", uuid).json("user_message_uuids", format!("[{}]", quoted(uuid)))
            }
            None => frame,
        };
        let frame = frame.json("queued_turn_count", "0").json("result_index", self.results.to_string());
        self.results += 1;
        frame
    }

    pub(super) fn request(&self, id: &str, request: &Request) -> Fields {
        let named = |subtype: &str| Fields::default().text("subtype", subtype);
        let request = match request {
            Request::CanUseTool { tool, input } => named("can_use_tool")
                .text("tool_name", tool)
                .text("display_name", tool)
                .json("input", input.as_str())
                .json("permission_suggestions", "[]")
                .text("tool_use_id", id),
            Request::Hook { callback, event, input } => {
                let common = Fields::default()
                    .text("session_id", &self.session)
                    .text("transcript_path", &format!("{}/{}.jsonl", self.cwd, self.session))
                    .text("cwd", &self.cwd)
                    .text("permission_mode", "default")
                    .text("hook_event_name", event);
                let tool_use_id = input.string("tool_use_id").unwrap_or_else(|| id.to_owned());
                let input = common.merged(input.clone()).to_string();
                named("hook_callback")
                    .text("callback_id", callback)
                    .json("input", input)
                    .text("tool_use_id", &tool_use_id)
            }
            Request::Mcp { server, message } => {
                named("mcp_message").text("server_name", server).json("message", message.as_str())
            }
            Request::Other { subtype, fields } => named(subtype).merged(fields.clone()),
        };
        let frame = Fields::default().text("type", "control_request").text("request_id", id);
        frame.json("request", request.to_string())
    }

    fn stream_event(&mut self, event: Fields) -> Fields {
        let uuid = self.uuid();
        Fields::default()
            .text("type", "stream_event")
            .json("event", event.to_string())
            .text("session_id", &self.session)
            .json("parent_tool_use_id", "null")
            .text("uuid", &uuid)
            .text("api_message_id", &self.message())
    }

    fn message_fields(&self, content: &str) -> Fields {
        Fields::default()
            .text("id", &self.message())
            .text("type", "message")
            .text("role", "assistant")
            .text("model", MODEL)
            .json("content", content)
            .json("stop_reason", "null")
            .json("stop_sequence", "null")
            .json("usage", USAGE)
    }

    fn closed(&mut self, frame: Fields) -> Fields {
        let uuid = self.uuid();
        frame.json("parent_tool_use_id", "null").text("session_id", &self.session).text("uuid", &uuid)
    }
}

/// The signature of a thinking block.
pub(super) const SIGNATURE: &str = "c2ln";

/// The result of a tool.
#[derive(Debug)]
pub(super) struct ToolResult<'a> {
    pub(super) id: &'a str,
    pub(super) text: &'a str,
    pub(super) is_error: bool,
}

/// What a result needs to know about its turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    pub(super) prompt: Prompt,
    pub(super) tool_results: u64,
    pub(super) last_text: String,
}

pub(super) fn cancel(id: &str) -> Fields {
    Fields::default().text("type", "control_cancel_request").text("request_id", id)
}

/// The answer to a control request of the client.
pub(super) fn answer(id: Option<&str>, subtype: &str) -> Fields {
    let response = match subtype {
        "initialize" => Fields::default()
            .json("commands", "[]")
            .json("agents", "[]")
            .text("output_style", "default")
            .json("available_output_styles", r#"["default"]"#)
            .json("models", "[]")
            .json("account", r#"{"tokenSource":"none","apiKeySource":"none","apiProvider":"firstParty"}"#)
            .json("pid", std::process::id().to_string())
            .text("claude_code_version", VERSION)
            .text("current_permission_mode", "default")
            .text("session_state", "idle"),
        "interrupt" => Fields::default().json("still_queued", "[]"),
        _ => Fields::default(),
    };
    let body = Fields::default().text("subtype", "success");
    // A request without an id gets an answer without one.
    let body = id.into_iter().fold(body, |body, id| body.text("request_id", id));
    let body = body.json("response", response.to_string());
    let body = match subtype {
        "initialize" => body.json("pending_permission_requests", "[]").json("pending_user_dialog_requests", "[]"),
        _ => body,
    };
    Fields::default().text("type", "control_response").json("response", body.to_string())
}

/// The fields that differ in the result of an interrupted turn.
pub(super) fn interrupted() -> Fields {
    Fields::default()
        .json("stop_reason", "null")
        .text("terminal_reason", "aborted_streaming")
        .json("is_error", "true")
        .text("subtype", "error_during_execution")
        .json("errors", r#"["the turn was interrupted"]"#)
}

fn tool_use(id: &str, name: &str) -> Fields {
    Fields::default().text("type", "tool_use").text("id", id).text("name", name)
}

fn event_of_block(kind: &str, index: u64) -> Fields {
    Fields::default().text("type", kind).json("index", index.to_string())
}

fn nullable(text: Option<&str>) -> String {
    text.map_or_else(|| "null".to_owned(), quoted)
}
