//! What is said to the CLI's questions: yes, no, and what it makes of each.

use std::collections::BTreeMap;

use serde_json::json;
use serde_json::value::RawValue;

use super::control::Gate;
use super::mcp;
use super::outgoing::{Fields, OutgoingLine, to_line};
use crate::answer::HookOutput;
use crate::event::HookAsk;
use crate::json::{RawJson, member};

/// Yes to a permission request.
pub(crate) fn consent(request_id: &str, input: &RawJson, permissions: Option<&RawJson>) -> OutgoingLine {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Allow<'a> {
        behavior: &'static str,
        updated_input: &'a RawJson,
        #[serde(skip_serializing_if = "Option::is_none")]
        updated_permissions: Option<&'a RawJson>,
    }
    success(request_id, &Allow { behavior: "allow", updated_input: input, updated_permissions: permissions })
}

/// The input of a question to the user with what the user chose in it, by the text of each question.
pub(crate) fn chosen(input: &RawJson, choices: &BTreeMap<String, String>) -> RawJson {
    let mut members: BTreeMap<String, RawJson> = input.parse::<BTreeMap<String, &RawValue>>().map_or_else(
        |_| BTreeMap::new(),
        |members| members.into_iter().map(|(name, value)| (name, RawJson::copied(value))).collect(),
    );
    members.insert("answers".to_owned(), RawJson::of(choices));
    RawJson::of(&members)
}

/// Whether a no also ends the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupts {
    Yes,
    No,
}

/// No to a permission request.
pub(crate) fn denial(request_id: &str, message: &str, interrupts: Interrupts) -> OutgoingLine {
    let interrupt = interrupts == Interrupts::Yes;
    success(request_id, &json!({"behavior": "deny", "message": message, "interrupt": interrupt}))
}

/// What is said when nobody says anything: a no where it is a gate, no opinion where it is not.
pub(crate) fn safe(request_id: &str, gate: &Gate, why: &str) -> OutgoingLine {
    match gate {
        Gate::Permission => denial(request_id, why, Interrupts::No),
        Gate::Form => form(request_id, "cancel", None),
        Gate::ToolCall { call } => mcp::failure(request_id, call, why),
        Gate::Hook { event } => match event.as_str() {
            "PreToolUse" => hook(request_id, event, &HookOutput::Deny { reason: why.to_owned() }),
            "UserPromptSubmit" => hook(request_id, event, &HookOutput::Block { reason: why.to_owned() }),
            // It may be any of them: the CLI knows which, and was told what a failure means for it.
            "" => error(request_id, why, "invalid_request"),
            _ => hook(request_id, event, &HookOutput::NoOpinion),
        },
    }
}

/// Whether a hook decides if something happens at all.
pub(super) fn is_gate(event: &str) -> bool {
    matches!(event, "PreToolUse" | "UserPromptSubmit")
}

/// Whether the CLI makes anything of an output for an event; if not, what to say instead. The CLI takes an output it
/// can make nothing of for no opinion, which for a gate is a yes.
pub(crate) fn is_taken(event: &str, output: &HookOutput) -> Result<(), &'static str> {
    let decides_on_tool = matches!(event, "PreToolUse" | "PermissionRequest");
    match output {
        HookOutput::NoOpinion | HookOutput::Context { .. } | HookOutput::Halt { .. } | HookOutput::Other(_) => Ok(()),
        HookOutput::Allow { .. } | HookOutput::Deny { .. } if decides_on_tool => Ok(()),
        HookOutput::Ask { .. } | HookOutput::Defer if event == "PreToolUse" => Ok(()),
        HookOutput::Block { .. } if !decides_on_tool => Ok(()),
        HookOutput::Block { .. } => Err("deny"),
        HookOutput::Deny { .. } => Err("block"),
        HookOutput::Allow { .. } | HookOutput::Ask { .. } | HookOutput::Defer => Err("no opinion, block or deny"),
    }
}

/// The input and the permission rules that a hook's output grants, however it spells them.
pub(crate) fn granted_by_hook(output: &HookOutput) -> (Option<RawJson>, Option<RawJson>) {
    let raw = match output {
        HookOutput::Allow { input } => return (input.clone(), None),
        HookOutput::Other(raw) => raw,
        HookOutput::NoOpinion
        | HookOutput::Deny { .. }
        | HookOutput::Ask { .. }
        | HookOutput::Defer
        | HookOutput::Block { .. }
        | HookOutput::Context { .. }
        | HookOutput::Halt { .. } => return (None, None),
    };
    let specific = member(raw, "hookSpecificOutput");
    let decision = specific.as_ref().and_then(|specific| member(specific, "decision"));
    let find = |name| [&decision, &specific].into_iter().flatten().find_map(|object| member(object, name));
    (find("updatedInput"), find("updatedPermissions"))
}

/// The input of the tool that a hook is called for.
pub(crate) fn tool_input(ask: &HookAsk) -> Option<RawJson> {
    member(&ask.input, "tool_input")
}

/// What a hook says, spelled for the event it was called for.
pub(crate) fn hook(request_id: &str, event: &str, output: &HookOutput) -> OutgoingLine {
    match output {
        HookOutput::NoOpinion => success(request_id, &json!({})),
        HookOutput::Allow { input } => success(request_id, &verdict(event, "allow", None, input.as_ref())),
        HookOutput::Deny { reason } => success(request_id, &verdict(event, "deny", Some(reason), None)),
        HookOutput::Ask { reason } => success(request_id, &verdict(event, "ask", Some(reason), None)),
        HookOutput::Defer => success(request_id, &verdict(event, "defer", None, None)),
        HookOutput::Block { reason } => success(request_id, &json!({"decision": "block", "reason": reason})),
        HookOutput::Context { text } => {
            let specific = json!({"hookEventName": event, "additionalContext": text});
            success(request_id, &json!({"hookSpecificOutput": specific}))
        }
        HookOutput::Halt { reason } => success(request_id, &json!({"continue": false, "stopReason": reason})),
        HookOutput::Other(raw) => success(request_id, raw),
    }
}

/// What a hook decides about a tool. Two events spell it in two ways.
fn verdict(event: &str, decision: &str, reason: Option<&str>, input: Option<&RawJson>) -> Fields {
    let words = |decision_name: &str, reason_name: &str| {
        let mut fields = Fields::from([(decision_name.to_owned(), RawJson::of(decision))]);
        fields.extend(reason.map(|reason| (reason_name.to_owned(), RawJson::of(reason))));
        fields.extend(input.map(|input| ("updatedInput".to_owned(), input.clone())));
        fields
    };
    let mut specific = if event == "PermissionRequest" {
        Fields::from([("decision".to_owned(), RawJson::of(&words("behavior", "message")))])
    } else {
        words("permissionDecision", "permissionDecisionReason")
    };
    specific.insert("hookEventName".to_owned(), RawJson::of(event));
    Fields::from([("hookSpecificOutput".to_owned(), RawJson::of(&specific))])
}

/// What became of a form.
pub(crate) fn form(request_id: &str, action: &str, content: Option<&RawJson>) -> OutgoingLine {
    let mut fields = Fields::from([("action".to_owned(), RawJson::of(action))]);
    fields.extend(content.map(|content| ("content".to_owned(), content.clone())));
    success(request_id, &fields)
}

/// The answer to a request this version does not know: the CLI goes on without.
pub(crate) fn unsupported(request_id: &str, subtype: &str) -> OutgoingLine {
    error(request_id, &format!("Unsupported control request subtype: {subtype}"), "unsupported_request")
}

fn error(request_id: &str, message: &str, code: &str) -> OutgoingLine {
    to_line(&json!({"type": "control_response", "response": {
        "subtype": "error",
        "request_id": request_id,
        "error": message,
        "error_code": code,
    }}))
}

pub(super) fn success<T: serde::Serialize>(request_id: &str, body: &T) -> OutgoingLine {
    #[derive(serde::Serialize)]
    struct AnswerLine<'a, T> {
        r#type: &'static str,
        response: Success<'a, T>,
    }
    #[derive(serde::Serialize)]
    struct Success<'a, T> {
        subtype: &'static str,
        request_id: &'a str,
        response: &'a T,
    }
    let response = Success { subtype: "success", request_id, response: body };
    to_line(&AnswerLine { r#type: "control_response", response })
}
