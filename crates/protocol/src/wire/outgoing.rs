//! What is written to the CLI: whole lines, built from our own types and never from a client's bytes.
//! (The CLI ends itself on a line it cannot read.)

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::command::{PermissionMode, PromptContent};
use crate::id::RequestId;
use crate::initialize::{Initialize, SystemPrompt};
use crate::json::Raw;

/// A line for the CLI, with its newline.
pub(crate) type OutgoingLine = Vec<u8>;

pub(crate) fn initialize(id: RequestId, settings: &Initialize) -> OutgoingLine {
    let mut fields = settings.more.clone();
    match &settings.system_prompt {
        SystemPrompt::ClaudeCode => {}
        SystemPrompt::ClaudeCodeAnd(more) => set(&mut fields, "appendSystemPrompt", more),
        SystemPrompt::Empty => set(&mut fields, "systemPrompt", &[""]),
        SystemPrompt::Only(prompt) => set(&mut fields, "systemPrompt", &[prompt]),
    }
    if settings.forward_subagent_text {
        set(&mut fields, "forwardSubagentText", &true);
    }
    if let Some(schema) = &settings.json_schema {
        set(&mut fields, "jsonSchema", schema);
    }
    if !settings.agents.is_empty() {
        set(&mut fields, "agents", &settings.agents);
    }
    request_line(id, "initialize", fields)
}

fn set<T: serde::Serialize + ?Sized>(fields: &mut Fields, name: &str, value: &T) {
    fields.insert(name.to_owned(), Raw::of(value));
}

pub(crate) fn request(id: RequestId, subtype: &str, fields: Map<String, Value>) -> OutgoingLine {
    request_line(id, subtype, fields.into_iter().map(|(name, value)| (name, Raw::from(value))).collect())
}

pub(crate) fn interrupt(id: RequestId) -> OutgoingLine {
    request_line(id, "interrupt", Fields::new())
}

/// No model means the CLI's own choice.
pub(crate) fn set_model(id: RequestId, model: Option<&str>) -> OutgoingLine {
    request_line(id, "set_model", model.map(|model| ("model".to_owned(), Raw::of(model))).into_iter().collect())
}

pub(crate) fn set_permission_mode(id: RequestId, mode: PermissionMode) -> OutgoingLine {
    request_line(id, "set_permission_mode", Fields::from([("mode".to_owned(), Raw::of(mode.as_str()))]))
}

pub(crate) fn prompt(uuid: &str, content: &PromptContent) -> OutgoingLine {
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
    match content {
        PromptContent::Text(text) => line(uuid, &[json!({"type": "text", "text": text})]),
        PromptContent::Blocks(blocks) => line(uuid, blocks),
    }
}

/// Yes to a permission request.
pub(crate) fn consent(request_id: &str, input: &Raw, permissions: Option<&Raw>) -> OutgoingLine {
    #[derive(serde::Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Allow<'a> {
        behavior: &'static str,
        updated_input: &'a Raw,
        #[serde(skip_serializing_if = "Option::is_none")]
        updated_permissions: Option<&'a Raw>,
    }
    answer(request_id, &Allow { behavior: "allow", updated_input: input, updated_permissions: permissions })
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
    answer(request_id, &json!({"behavior": "deny", "message": message, "interrupt": interrupt}))
}

/// The answer to a request this version does not know: the CLI goes on without.
pub(crate) fn unsupported(request_id: &str, subtype: &str) -> OutgoingLine {
    to_line(&json!({"type": "control_response", "response": {
        "subtype": "error",
        "request_id": request_id,
        "error": format!("Unsupported control request subtype: {subtype}"),
        "error_code": "unsupported_request",
    }}))
}

fn answer<T: serde::Serialize>(request_id: &str, body: &T) -> OutgoingLine {
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

/// The members of a request, each carried as it came.
type Fields = BTreeMap<String, Raw>;

fn request_line(id: RequestId, subtype: &str, mut fields: Fields) -> OutgoingLine {
    #[derive(serde::Serialize)]
    struct RequestLine {
        r#type: &'static str,
        request_id: String,
        request: Fields,
    }
    // The name of the request is ours to say, whatever a field of that name says.
    set(&mut fields, "subtype", subtype);
    to_line(&RequestLine { r#type: "control_request", request_id: request_name(id), request: fields })
}

/// How our requests are called on the wire.
fn request_name(id: RequestId) -> String {
    format!("watari_{id}")
}

/// Which request of ours an answer is for.
pub(crate) fn request_of_name(name: &str) -> Option<RequestId> {
    name.strip_prefix("watari_")?.parse().ok().map(RequestId)
}

fn to_line<T: serde::Serialize>(value: &T) -> OutgoingLine {
    // Our own types always have a JSON form; a blank line, which the CLI ignores, is the safe value.
    let mut line = serde_json::to_vec(value).unwrap_or_default();
    line.push(b'\n');
    line
}
