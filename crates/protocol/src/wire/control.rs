//! Control frames: the CLI's requests, most of which are asks, and its answers to our requests.

use serde_json::value::RawValue;

use super::mcp::{self, Message, RpcMessage};
use super::{FrameHead, Lenient, Text};
use crate::event::{AskKind, ElicitationAsk, HookAsk, PermissionAsk};
use crate::id::{HookId, ToolUseId};
use crate::json::{RawJson, object};

/// A request of the CLI, which waits for the answer.
#[derive(Debug)]
pub(crate) struct ControlRequest<'a> {
    /// The CLI's id of the request.
    pub(crate) request_id: Text<'a>,
    pub(crate) body: ControlBody<'a>,
}

/// What the CLI requests.
#[derive(Debug)]
pub(crate) enum ControlBody<'a> {
    /// An ask.
    Ask(AskKind),
    /// An ask that could not be read, and gets its default answer.
    Unreadable { default_answer: DefaultAnswer, frame: RawJson },
    /// A message to the server of this program's tools that is not a call.
    ToolServerMessage(RpcMessage),
    /// The notification that the CLI has cancelled a call of one of those tools, by the CLI's id of the call.
    CallCancelled { call: RawJson, notification: RpcMessage },
    /// A request that this version cannot answer, by its name.
    Unsupported { subtype: Text<'a>, frame: RawJson },
}

/// Which form the default answer to an ask has: the answer that Watari sends if no client answers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum DefaultAnswer {
    Permission,
    Hook { event: String },
    Elicitation,
    ToolCall { call: RawJson },
}

impl DefaultAnswer {
    pub(crate) fn of(kind: &AskKind) -> DefaultAnswer {
        match kind {
            AskKind::Permission(_) | AskKind::Question(_) | AskKind::Plan(_) => DefaultAnswer::Permission,
            AskKind::Hook(ask) => DefaultAnswer::Hook { event: ask.event.clone() },
            AskKind::Elicitation(_) => DefaultAnswer::Elicitation,
            AskKind::ToolCall(ask) => DefaultAnswer::ToolCall { call: ask.call.clone() },
        }
    }
}

/// The CLI's answer to one of our requests.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) request_id: Text<'a>,
    pub(crate) body: Result<Option<&'a RawValue>, ControlError>,
}

#[derive(Debug)]
pub(crate) struct ControlError {
    pub(crate) message: String,
    pub(crate) code: Option<String>,
}

pub(super) fn read_request<'a>(frame: &FrameHead<'a>, line: &str) -> Option<ControlRequest<'a>> {
    #[derive(serde::Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        subtype: Text<'a>,
    }
    let request_id = frame.request_id.clone()?;
    let request = frame.request.and_then(object);
    let head = request.and_then(|request| Some((request, serde_json::from_str::<Head<'a>>(request.get()).ok()?)));
    // The CLI waits for an answer to every request, so a request without content gets one too.
    let Some((request, head)) = head else {
        let body = ControlBody::Unsupported { subtype: Text("?".into()), frame: RawJson::from(line) };
        return Some(ControlRequest { request_id, body });
    };
    let known = |ask: Option<AskKind>, default_answer| match ask {
        Some(ask) => ControlBody::Ask(ask),
        None => ControlBody::Unreadable { default_answer, frame: RawJson::from(line) },
    };
    let body = match &*head.subtype {
        "can_use_tool" => known(read_permission(request), DefaultAnswer::Permission),
        "hook_callback" => known(read_hook(request), DefaultAnswer::Hook { event: read_hook_event(request) }),
        "elicitation" => known(read_elicitation(request), DefaultAnswer::Elicitation),
        mcp::MCP_MESSAGE if let Some(message) = mcp::read(request) => match message {
            Message::Call(call) => ControlBody::Ask(AskKind::ToolCall(Box::new(call))),
            Message::UnreadableCall { call } => known(None, DefaultAnswer::ToolCall { call }),
            Message::Cancelled { call, notification } => ControlBody::CallCancelled { call, notification },
            Message::Rpc(question) => ControlBody::ToolServerMessage(question),
        },
        _ => ControlBody::Unsupported { subtype: head.subtype, frame: RawJson::from(line) },
    };
    Some(ControlRequest { request_id, body })
}

fn read_permission(request: &RawValue) -> Option<AskKind> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        tool_name: Text<'a>,
        #[serde(borrow)]
        input: &'a RawValue,
        #[serde(borrow, default)]
        tool_use_id: Option<Text<'a>>,
        #[serde(borrow, default)]
        agent_id: Option<Text<'a>>,
        #[serde(borrow, default)]
        permission_suggestions: Option<&'a RawValue>,
        #[serde(default)]
        requires_user_interaction: Lenient<bool>,
    }
    let members: Members<'_> = serde_json::from_str(request.get()).ok()?;
    // A tool runs with the input that was shown to the client. An input that cannot be shown as an object is denied.
    let input = object(members.input)?;
    let kind = match &*members.tool_name {
        "AskUserQuestion" => AskKind::Question,
        "ExitPlanMode" => AskKind::Plan,
        _ => AskKind::Permission,
    };
    let needs_person = members.requires_user_interaction.or_default()
        || matches!(&*members.tool_name, "AskUserQuestion" | "ExitPlanMode");
    Some(kind(Box::new(PermissionAsk {
        tool: members.tool_name.into_string(),
        input: RawJson::copied(input),
        tool_use: members.tool_use_id.map(|id| ToolUseId(id.into_string())),
        repeated: false,
        agent: members.agent_id.map(Text::into_string),
        suggestions: members.permission_suggestions.map(RawJson::copied),
        needs_person,
        raw: RawJson::copied(request),
    })))
}

fn read_hook(request: &RawValue) -> Option<AskKind> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        callback_id: Text<'a>,
        #[serde(borrow)]
        input: &'a RawValue,
    }
    #[derive(serde::Deserialize)]
    struct Input<'a> {
        #[serde(borrow)]
        hook_event_name: Text<'a>,
        // The request also has a `tool_use_id` outside `input`, with a meaning for some events only; this is the tool
        // use's.
        #[serde(borrow, default)]
        tool_use_id: Option<Text<'a>>,
    }
    let members: Members<'_> = serde_json::from_str(request.get()).ok()?;
    let input: Input<'_> = serde_json::from_str(object(members.input)?.get()).ok()?;
    Some(AskKind::Hook(HookAsk {
        hook: hook_of_name(&members.callback_id)?,
        event: input.hook_event_name.into_string(),
        tool_use: input.tool_use_id.map(|id| ToolUseId(id.into_string())),
        input: RawJson::copied(members.input),
    }))
}

/// Returns the hook event of a request of which nothing else can be read.
fn read_hook_event(request: &RawValue) -> String {
    #[derive(serde::Deserialize)]
    struct Members {
        #[serde(default)]
        input: Lenient<Input>,
    }
    #[derive(Default, serde::Deserialize)]
    struct Input {
        #[serde(default)]
        hook_event_name: Lenient<String>,
    }
    let members = serde_json::from_str::<Members>(request.get());
    members.map(|members| members.input.or_default().hook_event_name.or_default()).unwrap_or_default()
}

fn read_elicitation(request: &RawValue) -> Option<AskKind> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(default)]
        mcp_server_name: Lenient<String>,
        #[serde(default)]
        message: Lenient<String>,
        #[serde(borrow, default)]
        requested_schema: Option<&'a RawValue>,
        #[serde(default)]
        url: Lenient<String>,
    }
    let members: Members<'_> = serde_json::from_str(request.get()).ok()?;
    Some(AskKind::Elicitation(Box::new(ElicitationAsk {
        server: members.mcp_server_name.or_default(),
        message: members.message.or_default(),
        schema: members.requested_schema.map(RawJson::copied),
        url: members.url.into_option(),
        raw: RawJson::copied(request),
    })))
}

/// Returns the name of a hook on the wire.
pub(super) fn hook_name(hook: HookId) -> String {
    format!("watari_hook_{hook}")
}

fn hook_of_name(name: &str) -> Option<HookId> {
    name.strip_prefix("watari_hook_")?.parse().ok().map(HookId)
}

pub(super) fn read_response<'a>(frame: &FrameHead<'a>) -> Option<Response<'a>> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        subtype: Text<'a>,
        #[serde(borrow)]
        request_id: Text<'a>,
        #[serde(borrow, default)]
        response: Option<&'a RawValue>,
        #[serde(default)]
        error: Lenient<String>,
        #[serde(default)]
        error_code: Lenient<String>,
    }
    let members: Members<'a> = serde_json::from_str(frame.response?.get()).ok()?;
    let body = if &*members.subtype == "success" {
        Ok(members.response)
    } else {
        let message = members.error.into_option().unwrap_or_else(|| "no reason given".to_owned());
        Err(ControlError { message, code: members.error_code.into_option() })
    };
    Some(Response { request_id: members.request_id, body })
}

/// Whether the CLI reports that it removed a prompt from its queue.
pub(crate) fn read_cancelled(answer: &RawJson) -> bool {
    #[derive(serde::Deserialize)]
    struct Members {
        #[serde(default)]
        cancelled: bool,
    }
    answer.parse().is_ok_and(|members: Members| members.cancelled)
}

/// Returns the entry ids of the prompts that are still queued in the CLI, from its answer to an interrupt. Old versions
/// do not report them.
pub(crate) fn read_still_queued(answer: &RawJson) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Members {
        #[serde(default)]
        still_queued: Vec<String>,
    }
    answer.parse().map_or_else(|_| Vec::new(), |members: Members| members.still_queued)
}

/// Returns the CLI's version, from its answer to the `initialize` request.
pub(crate) fn read_version(answer: &RawJson) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Members {
        #[serde(default)]
        claude_code_version: Option<String>,
    }
    answer.parse::<Members>().ok()?.claude_code_version
}
