//! Parses the lines of a client of the native dialect.

use serde_json::{Map, Number, Value};
use watari_hub::{Position, Since};
use watari_sdk::native::PROTOCOL;
use watari_sdk::{Answer, AskId, Command, EntryId, HookOutput, PermissionMode, Request};

use crate::dialect::content;
use crate::dialect::limits;
use crate::dialect::members::{Members, integer};
use crate::dialect::speaker::{ClientMessage, CommandRef, ProtocolError};

const TYPES: &str = "hello, prompt, interrupt, answer, request, close, abort";

/// Parses a line.
pub(super) fn read(line: &str) -> Result<ClientMessage, ProtocolError> {
    let mut members = Members::of_line(line).map_err(ProtocolError::new)?;
    let id = members.name("id").map_err(ProtocolError::new)?;
    message(&mut members, id.clone())
        .map_err(|message| ProtocolError { id, ..ProtocolError::new(limits::short(message)) })
}

pub(super) fn message(members: &mut Members<'_>, id: Option<String>) -> Result<ClientMessage, String> {
    let kind: String = members.required("type", "a string")?;
    let command = match kind.as_str() {
        "hello" => return hello(members),
        "prompt" => Command::Prompt(content::text_or_prompt_blocks(members)?),
        "interrupt" => Command::Interrupt { cancel_queued: members.boolean("cancel_queued")?.unwrap_or(false) },
        "answer" => {
            let ask = members.integer("ask")?.ok_or("ask is missing; it must be the number of an ask")?;
            let what = "an object with a type";
            let Some(mut answer_members) = members.object("answer", "answer.", what)? else {
                return Err(format!("answer is missing; it must be {what}"));
            };
            return Ok(ClientMessage::answer(CommandRef::new(id), AskId(ask), answer(&mut answer_members)?));
        }
        "request" => {
            let what = "an object with a type";
            let Some(mut request_members) = members.object("request", "request.", what)? else {
                return Err(format!("request is missing; it must be {what}"));
            };
            request(&mut request_members)?.into()
        }
        "close" => Command::Close,
        "abort" => Command::Abort,
        _ => {
            let beginning: String = kind.chars().take(60).collect();
            return Err(format!("unknown type {beginning:?}; it must be one of {TYPES}"));
        }
    };
    Ok(ClientMessage::Command(CommandRef::new(id), command))
}

fn hello(members: &mut Members<'_>) -> Result<ClientMessage, String> {
    let what = "a list of versions such as [1]";
    let versions: Vec<Number> = members.required("protocol", what)?;
    let versions: Option<Vec<u64>> = versions.iter().map(integer).collect();
    let versions = versions.ok_or_else(|| format!("protocol must be {what}"))?;
    if !versions.contains(&PROTOCOL) {
        return Err(format!("none of the versions {versions:?} is supported: the supported version is {PROTOCOL}"));
    }
    Ok(ClientMessage::Hello { since: since(members)?, key: members.text("key")?, client: members.name("client")? })
}

/// The position after which a client wants events: absent for live events, 0 for all events, or a position.
pub(in crate::dialect) fn since(members: &mut Members<'_>) -> Result<Since, String> {
    let what = "a position such as \"3:17\", or 0 for everything";
    let Some(value) = members.optional::<Value>("since", what)? else { return Ok(Since::Now) };
    let position = match &value {
        Value::Number(number) if integer(number) == Some(0) => Some(Position::default()),
        Value::String(text) if text == "0" => Some(Position::default()),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    };
    position.map(Since::After).ok_or_else(|| format!("since must be {what}"))
}

pub(super) fn answer(members: &mut Members<'_>) -> Result<Answer, String> {
    let kind: String = members.required("type", "a string")?;
    Ok(match kind.as_str() {
        "allow" => {
            Answer::Allow { input: content::edited_input(members)?, permissions: members.raw_list("permissions")? }
        }
        "deny" => Answer::Deny {
            message: members.text("message")?.unwrap_or_else(|| "User denied".to_owned()),
            interrupt: members.boolean("interrupt")?.unwrap_or(false),
        },
        "choose" => Answer::Choose(members.required("choices", "an object of strings")?),
        "hook" => {
            let what = "an object with a type";
            let Some(mut output) = members.object("output", "answer.output.", what)? else {
                return Err(format!("answer.output is missing; it must be {what}"));
            };
            Answer::Hook(hook(&mut output)?)
        }
        "accept" => {
            Answer::Accept(members.raw_object("content")?.ok_or("answer.content is missing; it must be an object")?)
        }
        "decline" => Answer::Decline,
        "cancel" => Answer::Cancel,
        "tool_result" => Answer::ToolResult {
            content: content::tool_result(members)?,
            is_error: members.boolean("is_error")?.unwrap_or(false),
        },
        _ => {
            return Err(
                "answer.type must be allow, deny, choose, hook, accept, decline, cancel or tool_result".to_owned()
            );
        }
    })
}

pub(super) fn hook(members: &mut Members<'_>) -> Result<HookOutput, String> {
    let kind: String = members.required("type", "a string")?;
    let reason = |members: &mut Members<'_>| members.required::<String>("reason", "a string");
    Ok(match kind.as_str() {
        "no_opinion" => HookOutput::NoOpinion,
        "allow" => HookOutput::Allow { input: members.raw_object("input")? },
        "deny" => HookOutput::Deny { reason: reason(members)? },
        "ask" => HookOutput::Ask { reason: reason(members)? },
        "defer" => HookOutput::Defer,
        "block" => HookOutput::Block { reason: reason(members)? },
        "context" => HookOutput::Context { text: members.required("text", "a string")? },
        "halt" => HookOutput::Halt { reason: reason(members)? },
        "other" => {
            let what = "answer.output.output is missing; it must be an object";
            HookOutput::Other(members.raw_object("output")?.ok_or(what)?)
        }
        _ => {
            let kinds = "no_opinion, allow, deny, ask, defer, block, context, halt or other";
            return Err(format!("answer.output.type must be {kinds}"));
        }
    })
}

pub(super) fn request(members: &mut Members<'_>) -> Result<Request, String> {
    let kind: String = members.required("type", "a string")?;
    let text = |members: &mut Members<'_>, name| members.required::<String>(name, "a string");
    Ok(match kind.as_str() {
        "set_model" => Request::SetModel(members.text("model")?),
        "set_permission_mode" => {
            let mode: String = text(members, "mode")?;
            Request::SetPermissionMode(
                mode.parse::<PermissionMode>().map_err(|error| format!("request.mode: {error}"))?,
            )
        }
        "set_thinking" => Request::SetThinking(members.integer("tokens")?),
        "set_tools" => Request::SetTools(content::tools(members, "input_schema")?),
        "mcp_status" => Request::McpStatus,
        "set_mcp_servers" => {
            let what = "an object of servers by name, each an object";
            let servers = members.raw_objects("servers", what)?;
            Request::SetMcpServers(servers.ok_or_else(|| format!("request.servers is missing; it must be {what}"))?)
        }
        "reconnect_mcp" => Request::ReconnectMcp { server: text(members, "server")? },
        "toggle_mcp" => Request::ToggleMcp {
            server: text(members, "server")?,
            enabled: members.boolean("enabled")?.ok_or("request.enabled is missing; it must be true or false")?,
        },
        "context_usage" => Request::ContextUsage,
        "rewind" => Request::Rewind {
            entry: EntryId::parse(&text(members, "entry")?).map_err(|error| format!("request.entry: {error}"))?,
            dry_run: members.boolean("dry_run")?.unwrap_or(false),
        },
        "stop_task" => Request::StopTask { task: text(members, "task")? },
        "read_file" => Request::ReadFile { path: text(members, "path")?, max_bytes: members.integer("max_bytes")? },
        "rename" => Request::Rename { title: text(members, "title")? },
        "reinitialize" => Request::Reinitialize,
        "other" => Request::Other {
            subtype: text(members, "subtype")?,
            fields: members.optional::<Map<String, Value>>("fields", "an object")?.unwrap_or_default(),
        },
        _ => return Err(format!("request.type must be one of {REQUESTS}")),
    })
}

const REQUESTS: &str = "set_model, set_permission_mode, set_thinking, set_tools, mcp_status, set_mcp_servers, \
                        reconnect_mcp, toggle_mcp, context_usage, rewind, stop_task, read_file, rename, \
                        reinitialize, other";
