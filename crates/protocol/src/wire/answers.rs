//! The lines that answer the CLI's asks.

use std::collections::BTreeMap;

use serde_json::json;
use serde_json::value::RawValue;

use super::control::DefaultAnswer;
use super::mcp;
use super::outgoing::{Fields, OutgoingLine, to_line};
use crate::answer::HookOutput;
use crate::event::HookAsk;
use crate::json::{RawJson, member};

/// Allows a permission request.
pub(crate) fn allow(request_id: &str, input: &RawJson, permissions: Option<&RawJson>) -> OutgoingLine {
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

/// Returns the input of a question with the user's choices added, by the text of each question.
pub(crate) fn chosen(input: &RawJson, choices: &BTreeMap<String, String>) -> RawJson {
    let mut members: BTreeMap<String, RawJson> = input.parse::<BTreeMap<String, &RawValue>>().map_or_else(
        |_| BTreeMap::new(),
        |members| members.into_iter().map(|(name, value)| (name, RawJson::copied(value))).collect(),
    );
    members.insert("answers".to_owned(), RawJson::of(choices));
    RawJson::of(&members)
}

/// Whether a denial also ends the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupts {
    Yes,
    No,
}

/// Denies a permission request.
pub(crate) fn deny(request_id: &str, message: &str, interrupts: Interrupts) -> OutgoingLine {
    let interrupt = interrupts == Interrupts::Yes;
    success(request_id, &json!({"behavior": "deny", "message": message, "interrupt": interrupt}))
}

/// Returns the default answer to an ask that no client answered. A *gate* is denied: a permission, a question, a plan,
/// or a hook as in [`is_gate`]. A form is dismissed, a tool call fails, and any other hook has no opinion.
pub(crate) fn by_default(request_id: &str, default_answer: &DefaultAnswer, why: &str) -> OutgoingLine {
    match default_answer {
        DefaultAnswer::Permission => deny(request_id, why, Interrupts::No),
        DefaultAnswer::Elicitation => elicitation(request_id, ElicitationAction::Cancel, None),
        DefaultAnswer::ToolCall { call } => mcp::failure(request_id, call, why),
        DefaultAnswer::Hook { event } => match event.as_str() {
            "PreToolUse" => hook(request_id, event, &HookOutput::Deny { reason: why.to_owned() }),
            "UserPromptSubmit" => hook(request_id, event, &HookOutput::Block { reason: why.to_owned() }),
            // The name of the hook event could not be read. After an error, the CLI does what the `onFailure` of the
            // hook's registration says.
            "" => error(request_id, why, "invalid_request"),
            _ => hook(request_id, event, &HookOutput::NoOpinion),
        },
    }
}

/// Returns whether a hook of this event is a gate: without its answer, something would run.
pub(super) fn is_gate(event: &str) -> bool {
    matches!(event, "PreToolUse" | "UserPromptSubmit")
}

/// Checks that the CLI accepts an output for an event; the error names the outputs to use instead. The CLI treats an
/// output that it does not accept as no opinion, which would open a gate.
pub(crate) fn check_hook_output(event: &str, output: &HookOutput) -> Result<(), &'static str> {
    let decides_on_tool = matches!(event, "PreToolUse" | "PermissionRequest");
    match output {
        HookOutput::NoOpinion | HookOutput::Context { .. } | HookOutput::Halt { .. } | HookOutput::Other(_) => Ok(()),
        HookOutput::Allow { .. } | HookOutput::Deny { .. } if decides_on_tool => Ok(()),
        HookOutput::Ask { .. } | HookOutput::Defer if event == "PreToolUse" => Ok(()),
        HookOutput::Block { .. } if !decides_on_tool => Ok(()),
        HookOutput::Block { .. } => Err("deny"),
        HookOutput::Deny { .. } => Err("block"),
        HookOutput::Allow { .. } | HookOutput::Ask { .. } | HookOutput::Defer if decides_on_tool => {
            Err("no opinion, allow or deny")
        }
        HookOutput::Allow { .. } | HookOutput::Ask { .. } | HookOutput::Defer => Err("no opinion or block"),
    }
}

/// Returns the input and the permission updates that a hook's output grants, in any of its forms.
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

/// Returns the input of the tool that a hook is called for.
pub(crate) fn tool_input(ask: &HookAsk) -> Option<RawJson> {
    member(&ask.input, "tool_input")
}

/// Returns a hook's output, in the form of the event that it was called for.
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

/// Returns a hook's decision about a tool. The two events have different forms for it.
fn verdict(event: &str, decision: &str, reason: Option<&str>, input: Option<&RawJson>) -> Fields {
    let decided = |decision_name: &str, reason_name: &str| {
        let mut fields = Fields::from([(decision_name.to_owned(), RawJson::of(decision))]);
        fields.extend(reason.map(|reason| (reason_name.to_owned(), RawJson::of(reason))));
        fields.extend(input.map(|input| ("updatedInput".to_owned(), input.clone())));
        fields
    };
    let mut specific = if event == "PermissionRequest" {
        Fields::from([("decision".to_owned(), RawJson::of(&decided("behavior", "message")))])
    } else {
        decided("permissionDecision", "permissionDecisionReason")
    };
    specific.insert("hookEventName".to_owned(), RawJson::of(event));
    Fields::from([("hookSpecificOutput".to_owned(), RawJson::of(&specific))])
}

/// What a client does with a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ElicitationAction {
    Accept,
    Decline,
    Cancel,
}

/// Returns the answer to a form.
pub(crate) fn elicitation(request_id: &str, action: ElicitationAction, content: Option<&RawJson>) -> OutgoingLine {
    let action = match action {
        ElicitationAction::Accept => "accept",
        ElicitationAction::Decline => "decline",
        ElicitationAction::Cancel => "cancel",
    };
    let mut fields = Fields::from([("action".to_owned(), RawJson::of(action))]);
    fields.extend(content.map(|content| ("content".to_owned(), content.clone())));
    success(request_id, &fields)
}

/// Returns the answer to a request that this version does not know; the CLI continues without it.
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
