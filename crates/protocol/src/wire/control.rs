//! Control frames: the CLI's questions, and its answers to ours.

use serde_json::value::RawValue;

use super::{Frame, Text};
use crate::event::PermissionAsk;
use crate::id::ToolUseId;
use crate::json::Raw;

/// A question of the CLI, which it waits on.
#[derive(Debug)]
pub(crate) struct AskRequest<'a> {
    /// The CLI's own id of the question.
    pub(crate) request_id: Text<'a>,
    pub(crate) body: AskBody<'a>,
}

#[derive(Debug)]
pub(crate) enum AskBody<'a> {
    Permission(Box<PermissionAsk>),
    /// A permission request that could not be read: it is refused.
    UnreadablePermission,
    /// A question this version cannot answer, by its name.
    Unsupported(Text<'a>),
}

/// The CLI's answer to a request of ours.
#[derive(Debug)]
pub(crate) struct Response<'a> {
    pub(crate) request_id: Text<'a>,
    pub(crate) body: Result<Option<&'a RawValue>, Refusal<'a>>,
}

#[derive(Debug)]
pub(crate) struct Refusal<'a> {
    pub(crate) message: Text<'a>,
    pub(crate) code: Option<Text<'a>>,
}

pub(super) fn read_request<'a>(frame: &Frame<'a>) -> Option<AskRequest<'a>> {
    #[derive(serde::Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        subtype: Text<'a>,
    }
    let request_id = frame.request_id.clone()?;
    let request = frame.request?;
    let head: Head<'a> = serde_json::from_str(request.get()).ok()?;
    let body = match &*head.subtype {
        "can_use_tool" => match read_permission(request) {
            Some(ask) => AskBody::Permission(Box::new(ask)),
            None => AskBody::UnreadablePermission,
        },
        _ => AskBody::Unsupported(head.subtype),
    };
    Some(AskRequest { request_id, body })
}

fn read_permission(request: &RawValue) -> Option<PermissionAsk> {
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
        requires_user_interaction: Option<bool>,
    }
    let members: Members<'_> = serde_json::from_str(request.get()).ok()?;
    let needs_person = members.requires_user_interaction.unwrap_or(false)
        || matches!(&*members.tool_name, "AskUserQuestion" | "ExitPlanMode");
    Some(PermissionAsk {
        tool: members.tool_name.into_string(),
        input: Raw::copied(members.input),
        tool_use: members.tool_use_id.map(|id| ToolUseId(id.into_string())),
        agent: members.agent_id.map(Text::into_string),
        suggestions: members.permission_suggestions.map(Raw::copied),
        needs_person,
        detail: Raw::copied(request),
    })
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
        #[serde(borrow, default)]
        error: Option<Text<'a>>,
        #[serde(borrow, default)]
        error_code: Option<Text<'a>>,
    }
    let members: Members<'a> = serde_json::from_str(frame.response?.get()).ok()?;
    let body = if &*members.subtype == "success" {
        Ok(members.response)
    } else {
        let message = members.error.unwrap_or(Text("no reason given".into()));
        Err(Refusal { message, code: members.error_code })
    };
    Some(Response { request_id: members.request_id, body })
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
