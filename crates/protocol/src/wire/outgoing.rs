//! Lines for the CLI, built from our own types and from validated JSON. (The CLI exits on a line that it cannot read.)

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::answers::is_gate;
use super::control::hook_name;
use super::mcp;
use crate::command::{PromptContent, Request};
use crate::id::{EntryId, HookId, RequestId};
use crate::initialize::{Hook, Initialize, SystemPrompt, TOOL_SERVER};
use crate::json::{RawJson, join_lines};

/// A line for the CLI, including its newline.
pub(crate) type OutgoingLine = Vec<u8>;

pub(crate) fn initialize(id: RequestId, settings: &Initialize) -> OutgoingLine {
    let mut fields = settings.more.clone();
    match &settings.system_prompt {
        SystemPrompt::ClaudeCode => {}
        SystemPrompt::Append(more) => set(&mut fields, "appendSystemPrompt", more),
        SystemPrompt::Empty => set(&mut fields, "systemPrompt", &[""]),
        SystemPrompt::Custom(prompt) => set(&mut fields, "systemPrompt", &[prompt]),
    }
    if settings.forward_subagent_text {
        set(&mut fields, "forwardSubagentText", &true);
    }
    if let Some(title) = &settings.title {
        set(&mut fields, "title", title);
    }
    if settings.prompt_suggestions {
        set(&mut fields, "promptSuggestions", &true);
    }
    if let Some(schema) = &settings.json_schema {
        set(&mut fields, "jsonSchema", schema);
    }
    if !settings.hooks.is_empty() {
        set(&mut fields, "hooks", &hooks(&settings.hooks));
    }
    if settings.has_tools() {
        set(&mut fields, "sdkMcpServers", &[TOOL_SERVER]);
    }
    if !settings.agents.is_empty() {
        set(&mut fields, "agents", &settings.agents);
    }
    request_line(id, "initialize", fields)
}

/// How much longer than us the CLI waits for a hook, so that our answer counts.
const HOOK_MARGIN: Duration = Duration::from_secs(5);

/// The longest time limit for the CLI: 23 days. Its timers count milliseconds in 31 bits, and a longer one would fire
/// immediately.
const HOOK_WAIT_MAX: Duration = Duration::from_secs(2_000_000);

fn hooks(hooks: &[Hook]) -> BTreeMap<&str, Vec<Value>> {
    let mut by_event = BTreeMap::<&str, Vec<Value>>::new();
    for (id, hook) in (1..).map(HookId).zip(hooks) {
        let mut registration = json!({
            "hookCallbackIds": [hook_name(id)],
            "timeout": hook.answer_timeout.saturating_add(HOOK_MARGIN).min(HOOK_WAIT_MAX).as_secs(),
        });
        if let Some(matcher) = &hook.matcher {
            registration["matcher"] = json!(matcher);
        }
        if is_gate(&hook.event) {
            // Without it, the CLI would treat an answer that it cannot use as no opinion.
            registration["onFailure"] = json!("block");
        }
        by_event.entry(&hook.event).or_default().push(registration);
    }
    by_event
}

pub(super) fn set<T: serde::Serialize + ?Sized>(fields: &mut Fields, name: &str, value: &T) {
    fields.insert(name.to_owned(), RawJson::of(value));
}

pub(crate) fn interrupt(id: RequestId) -> OutgoingLine {
    request_line(id, "interrupt", Fields::new())
}

/// Removes a prompt from the CLI's queue, if it is there.
pub(crate) fn cancel_prompt(id: RequestId, entry: &EntryId) -> OutgoingLine {
    let mut fields = Fields::new();
    set(&mut fields, "message_uuid", entry.as_str());
    request_line(id, "cancel_async_message", fields)
}

pub(crate) fn request(id: RequestId, request: &Request, settings: &Initialize) -> OutgoingLine {
    let (mut subtype, mut fields) = members(request);
    if let Request::Reinitialize = request {
        return initialize(id, settings);
    }
    if let Request::SetTools(_) = request {
        // The CLI receives the notice that the tools changed, and then requests the list.
        subtype = mcp::MCP_MESSAGE;
        fields = Fields::new();
        set(&mut fields, "server_name", TOOL_SERVER);
        set(&mut fields, "message", &mcp::TOOLS_CHANGED);
    }
    if let (Request::SetMcpServers(servers), true) = (request, settings.has_tools()) {
        // The request replaces all servers, so the server of our own tools is added.
        let mut servers = servers.clone();
        servers.insert(TOOL_SERVER.to_owned(), RawJson::of(&json!({"type": "sdk", "name": TOOL_SERVER})));
        set(&mut fields, "servers", &servers);
    }
    request_line(id, subtype, fields)
}

/// The CLI's names for the requests that replace its MCP servers, and that enable or disable one.
pub(crate) const SET_MCP_SERVERS: &str = "mcp_set_servers";
pub(crate) const TOGGLE_MCP: &str = "mcp_toggle";

/// Returns a request's name and fields.
pub(super) fn members(request: &Request) -> (&str, Fields) {
    let mut fields = Fields::new();
    let subtype = match request {
        Request::SetModel(model) => {
            set_some(&mut fields, "model", model.as_ref());
            "set_model"
        }
        Request::SetPermissionMode(mode) => {
            set(&mut fields, "mode", mode.as_str());
            "set_permission_mode"
        }
        Request::SetThinking(tokens) => {
            set(&mut fields, "max_thinking_tokens", tokens);
            "set_max_thinking_tokens"
        }
        Request::SetTools(tools) => {
            set(&mut fields, "tools", &tools.iter().map(|tool| &tool.name).collect::<Vec<_>>());
            "set_tools"
        }
        Request::McpStatus => "mcp_status",
        Request::SetMcpServers(servers) => {
            set(&mut fields, "servers", servers);
            SET_MCP_SERVERS
        }
        Request::ReconnectMcp { server } => {
            set(&mut fields, "serverName", server);
            "mcp_reconnect"
        }
        Request::ToggleMcp { server, enabled } => {
            set(&mut fields, "serverName", server);
            set(&mut fields, "enabled", enabled);
            TOGGLE_MCP
        }
        Request::ContextUsage => "get_context_usage",
        Request::Rewind { entry, dry_run } => {
            set(&mut fields, "user_message_id", entry);
            set(&mut fields, "dry_run", dry_run);
            "rewind_files"
        }
        Request::StopTask { task } => {
            set(&mut fields, "task_id", task);
            "stop_task"
        }
        Request::ReadFile { path, max_bytes } => {
            set(&mut fields, "path", path);
            set_some(&mut fields, "max_bytes", max_bytes.as_ref());
            "read_file"
        }
        Request::Rename { title } => {
            set(&mut fields, "title", title);
            "rename_session"
        }
        Request::Reinitialize => "initialize",
        Request::Other { subtype, fields: others } => {
            fields.extend(others.iter().map(|(name, value)| (name.clone(), RawJson::of(value))));
            subtype
        }
    };
    (subtype, fields)
}

fn set_some<T: serde::Serialize + ?Sized>(fields: &mut Fields, name: &str, value: Option<&T>) {
    if let Some(value) = value {
        set(fields, name, value);
    }
}

pub(crate) fn prompt(entry: &EntryId, content: &PromptContent) -> OutgoingLine {
    #[derive(serde::Serialize)]
    struct UserLine<'a, T> {
        r#type: &'static str,
        uuid: &'a str,
        session_id: &'static str,
        message: UserMessage<'a, T>,
        parent_tool_use_id: (),
    }
    #[derive(serde::Serialize)]
    struct UserMessage<'a, T> {
        role: &'static str,
        content: &'a T,
    }
    fn line<T: serde::Serialize>(uuid: &str, content: &T) -> OutgoingLine {
        let message = UserMessage { role: "user", content };
        to_line(&UserLine { r#type: "user", uuid, session_id: "", message, parent_tool_use_id: () })
    }
    let uuid = entry.as_str();
    match content {
        PromptContent::Text(text) => line(uuid, &[json!({"type": "text", "text": text})]),
        PromptContent::Blocks(blocks) => line(uuid, blocks),
    }
}

/// The members of an object, each unchanged.
pub(super) type Fields = BTreeMap<String, RawJson>;

fn request_line(id: RequestId, subtype: &str, mut fields: Fields) -> OutgoingLine {
    #[derive(serde::Serialize)]
    struct RequestLine {
        r#type: &'static str,
        request_id: String,
        request: Fields,
    }
    // A field with this name must not change the request's name.
    set(&mut fields, "subtype", subtype);
    to_line(&RequestLine { r#type: "control_request", request_id: request_name(id), request: fields })
}

/// Returns the name of a request on the wire.
fn request_name(id: RequestId) -> String {
    format!("watari_{id}")
}

/// Returns the request that an answer is for.
pub(crate) fn request_of_name(name: &str) -> Option<RequestId> {
    name.strip_prefix("watari_")?.parse().ok().map(RequestId)
}

pub(super) fn to_line<T: serde::Serialize>(value: &T) -> OutgoingLine {
    // Our own types always have a JSON form. Otherwise the CLI receives a blank line, which it ignores.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    join_lines(&mut line);
    line.push(b'\n');
    line
}
