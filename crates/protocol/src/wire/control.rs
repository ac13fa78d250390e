//! Control frames: the CLI's questions, and its answers to ours.

use serde_json::value::RawValue;

use super::mcp::{self, Message, Question};
use super::{Frame, Loose, Text};
use crate::event::{AskKind, FormAsk, HookAsk, PermissionAsk};
use crate::id::{HookId, ToolUseId};
use crate::json::{Raw, object};

/// A question of the CLI, which it waits on.
#[derive(Debug)]
pub(crate) struct AskRequest<'a> {
    /// The CLI's own id of the question.
    pub(crate) request_id: Text<'a>,
    pub(crate) body: AskBody<'a>,
}

#[derive(Debug)]
pub(crate) enum AskBody<'a> {
    Known(AskKind),
    /// A question that could not be read, but which must have a no.
    Unreadable {
        gate: Gate,
        frame: Raw,
    },
    /// A question to the server of this program's tools that is no call.
    OfToolServer(Question),
    /// The notice that a call of one of those tools, by the CLI's own number of it, wants no result any more.
    CallCancelled {
        call: Raw,
        notice: Question,
    },
    /// A question this version cannot answer, by its name.
    Unsupported {
        subtype: Text<'a>,
        frame: Raw,
    },
}

/// What the CLI waits on, as far as it decides how a no is spelled.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Gate {
    Permission,
    Hook { event: String },
    Form,
    ToolCall { call: Raw },
}

impl Gate {
    pub(crate) fn of(kind: &AskKind) -> Gate {
        match kind {
            AskKind::Permission(_) | AskKind::Question(_) | AskKind::Plan(_) => Gate::Permission,
            AskKind::Hook(ask) => Gate::Hook { event: ask.event.clone() },
            AskKind::Form(_) => Gate::Form,
            AskKind::ToolCall(ask) => Gate::ToolCall { call: ask.call.clone() },
        }
    }
}

/// The CLI's answer to a request of ours.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) request_id: Text<'a>,
    pub(crate) body: Result<Option<&'a RawValue>, Refusal>,
}

#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) message: String,
    pub(crate) code: Option<String>,
}

pub(super) fn read_request<'a>(frame: &Frame<'a>, line: &str) -> Option<AskRequest<'a>> {
    #[derive(serde::Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        subtype: Text<'a>,
    }
    let request_id = frame.request_id.clone()?;
    let request = frame.request.and_then(object);
    let head = request.and_then(|request| Some((request, serde_json::from_str::<Head<'a>>(request.get()).ok()?)));
    // The CLI waits for every question it asks, so one that says nothing has an answer too.
    let Some((request, head)) = head else {
        let body = AskBody::Unsupported { subtype: Text("?".into()), frame: Raw::from(line) };
        return Some(AskRequest { request_id, body });
    };
    let known = |ask: Option<AskKind>, gate| match ask {
        Some(ask) => AskBody::Known(ask),
        None => AskBody::Unreadable { gate, frame: Raw::from(line) },
    };
    let body = match &*head.subtype {
        "can_use_tool" => known(read_permission(request), Gate::Permission),
        "hook_callback" => known(read_hook(request), Gate::Hook { event: read_hook_event(request) }),
        "elicitation" => known(read_form(request), Gate::Form),
        "mcp_message" if let Some(message) = mcp::read(request) => match message {
            Message::Call(call) => AskBody::Known(AskKind::ToolCall(Box::new(call))),
            Message::UnreadableCall { call } => known(None, Gate::ToolCall { call }),
            Message::Cancelled { call, notice } => AskBody::CallCancelled { call, notice },
            Message::Question(question) => AskBody::OfToolServer(question),
        },
        _ => AskBody::Unsupported { subtype: head.subtype, frame: Raw::from(line) },
    };
    Some(AskRequest { request_id, body })
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
        requires_user_interaction: Loose<bool>,
    }
    let members: Members<'_> = serde_json::from_str(request.get()).ok()?;
    // What a client consents to is run as it was shown: what cannot be shown as an object is not asked but denied.
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
        input: Raw::copied(input),
        tool_use: members.tool_use_id.map(|id| ToolUseId(id.into_string())),
        repeated: false,
        agent: members.agent_id.map(Text::into_string),
        suggestions: members.permission_suggestions.map(Raw::copied),
        needs_person,
        detail: Raw::copied(request),
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
        // The id beside the input is set for every event, and means something only for some; this one is the tool's.
        #[serde(borrow, default)]
        tool_use_id: Option<Text<'a>>,
    }
    let members: Members<'_> = serde_json::from_str(request.get()).ok()?;
    let input: Input<'_> = serde_json::from_str(object(members.input)?.get()).ok()?;
    Some(AskKind::Hook(HookAsk {
        hook: hook_of_name(&members.callback_id)?,
        event: input.hook_event_name.into_string(),
        tool_use: input.tool_use_id.map(|id| ToolUseId(id.into_string())),
        input: Raw::copied(members.input),
    }))
}

/// What a hook was called for, when nothing else of the request can be read.
fn read_hook_event(request: &RawValue) -> String {
    #[derive(serde::Deserialize)]
    struct Members {
        #[serde(default)]
        input: Loose<Input>,
    }
    #[derive(Default, serde::Deserialize)]
    struct Input {
        #[serde(default)]
        hook_event_name: Loose<String>,
    }
    let members = serde_json::from_str::<Members>(request.get());
    members.map(|members| members.input.or_default().hook_event_name.or_default()).unwrap_or_default()
}

fn read_form(request: &RawValue) -> Option<AskKind> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(default)]
        mcp_server_name: Loose<String>,
        #[serde(default)]
        message: Loose<String>,
        #[serde(borrow, default)]
        requested_schema: Option<&'a RawValue>,
        #[serde(default)]
        url: Loose<String>,
    }
    let members: Members<'_> = serde_json::from_str(request.get()).ok()?;
    Some(AskKind::Form(Box::new(FormAsk {
        server: members.mcp_server_name.or_default(),
        message: members.message.or_default(),
        schema: members.requested_schema.map(Raw::copied),
        url: members.url.into_option(),
        detail: Raw::copied(request),
    })))
}

/// How our hooks are called on the wire.
pub(super) fn hook_name(hook: HookId) -> String {
    format!("watari_hook_{hook}")
}

fn hook_of_name(name: &str) -> Option<HookId> {
    name.strip_prefix("watari_hook_")?.parse().ok().map(HookId)
}

pub(super) fn read_response<'a>(frame: &Frame<'a>) -> Option<Response<'a>> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        subtype: Text<'a>,
        #[serde(borrow)]
        request_id: Text<'a>,
        #[serde(borrow, default)]
        response: Option<&'a RawValue>,
        #[serde(default)]
        error: Loose<String>,
        #[serde(default)]
        error_code: Loose<String>,
    }
    let members: Members<'a> = serde_json::from_str(frame.response?.get()).ok()?;
    let body = if &*members.subtype == "success" {
        Ok(members.response)
    } else {
        let message = members.error.into_option().unwrap_or_else(|| "no reason given".to_owned());
        Err(Refusal { message, code: members.error_code.into_option() })
    };
    Some(Response { request_id: members.request_id, body })
}

/// Whether the CLI says that it has taken a prompt out of its queue.
pub(crate) fn read_cancelled(answer: &Raw) -> bool {
    #[derive(serde::Deserialize)]
    struct Members {
        #[serde(default)]
        cancelled: bool,
    }
    answer.parse().is_ok_and(|members: Members| members.cancelled)
}

/// The entry ids of the prompts that the CLI says it still has, in its answer to an interrupt. Old versions do not say.
pub(crate) fn read_still_queued(answer: &Raw) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Members {
        #[serde(default)]
        still_queued: Vec<String>,
    }
    answer.parse().map_or_else(|_| Vec::new(), |members: Members| members.still_queued)
}

/// The version that the CLI says in its answer to the opening request.
pub(crate) fn read_version(answer: &Raw) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Members {
        #[serde(default)]
        claude_code_version: Option<String>,
    }
    answer.parse::<Members>().ok()?.claude_code_version
}
