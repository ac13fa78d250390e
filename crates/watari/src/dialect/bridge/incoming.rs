//! Lines of the client as what it wants.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use watari_sdk::{Answer, AskId, PermissionMode, Prompt, Raw};

use super::options::{self, StartOptions};

/// What a client wants.
#[derive(Debug)]
pub(crate) enum Incoming {
    Start { prompt: Prompt, options: Box<StartOptions> },
    UserMessage(Prompt),
    PermissionResponse { ask: AskId, answer: Answer },
    Interrupt { cancel_queued: bool },
    SetModel(Option<String>),
    SetPermissionMode(PermissionMode),
    Abort,
}

const TYPES: &str = "start, user_message, permission_response, interrupt, set_model, set_permission_mode, abort";

/// Reads a line; none for a blank one. An error says what is wrong with it, and nothing else is to happen.
pub(crate) fn read(line: &[u8]) -> Result<Option<Incoming>, String> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let Ok(text) = std::str::from_utf8(line) else { return Err("the line is not UTF-8".to_owned()) };
    let members = match serde_json::from_str::<BTreeMap<Cow<'_, str>, &RawValue>>(text) {
        Ok(members) => Message(members),
        Err(_) if text.starts_with('{') => return Err("the line is not JSON".to_owned()),
        Err(_) => return Err("the line is not a JSON object".to_owned()),
    };
    let kind: String = members.required("type", "a string")?;
    let incoming = match kind.as_str() {
        "start" => {
            let prompt: String = members.required("prompt", "a string")?;
            let options = members.optional("options", "an object")?.unwrap_or_default();
            Incoming::Start { prompt: prompt.into(), options: Box::new(options::read(options)?) }
        }
        "user_message" => Incoming::UserMessage(user_message(&members)?),
        "permission_response" => permission_response(&members)?,
        "interrupt" => {
            let cancel_queued = members.optional("cancelQueued", "true or false")?.unwrap_or(false);
            Incoming::Interrupt { cancel_queued }
        }
        "set_model" => Incoming::SetModel(members.optional("model", "a string")?),
        "set_permission_mode" => {
            let mode: String = members.required("mode", "a string")?;
            Incoming::SetPermissionMode(mode.parse().map_err(|error| format!("mode: {error}"))?)
        }
        "abort" => Incoming::Abort,
        _ => {
            let beginning: String = kind.chars().take(60).collect();
            return Err(format!("unknown type {beginning:?}; it is one of {TYPES}"));
        }
    };
    Ok(Some(incoming))
}

/// The members of a line, each still as it came.
struct Message<'a>(BTreeMap<Cow<'a, str>, &'a RawValue>);

impl<'a> Message<'a> {
    /// One member; null counts as absent.
    fn optional<T: Deserialize<'a>>(&self, name: &str, what: &str) -> Result<Option<T>, String> {
        match self.raw(name) {
            None => Ok(None),
            Some(value) => match serde_json::from_str(value.get()) {
                Ok(value) => Ok(Some(value)),
                Err(_) => Err(format!("{name} must be {what}")),
            },
        }
    }

    fn required<T: Deserialize<'a>>(&self, name: &str, what: &str) -> Result<T, String> {
        self.optional(name, what)?.ok_or_else(|| format!("{name} is missing; it must be {what}"))
    }

    fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.get(name).copied().filter(|value| value.get() != "null")
    }
}

/// A text, and after it images and documents in the API's shape, which pass as they are.
fn user_message(message: &Message<'_>) -> Result<Prompt, String> {
    let text: String = message.required("text", "a string")?;
    let mut blocks: Vec<&RawValue> = Vec::new();
    for name in ["images", "documents"] {
        let given: Option<Vec<&RawValue>> = message.optional(name, "a list of content blocks")?;
        let given = given.unwrap_or_default();
        if !given.iter().all(|block| block.get().starts_with('{')) {
            return Err(format!("{name} must be a list of content blocks"));
        }
        blocks.extend(given);
    }
    if blocks.is_empty() {
        return Ok(text.into());
    }
    let text = Raw::of(&serde_json::json!({"type": "text", "text": text}));
    let blocks: Vec<&str> = std::iter::once(text.as_str()).chain(blocks.iter().map(|block| block.get())).collect();
    Ok(Prompt::blocks(format!("[{}]", blocks.join(",")).as_str()))
}

fn permission_response(message: &Message<'_>) -> Result<Incoming, String> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Given<'a> {
        behavior: Option<String>,
        #[serde(borrow)]
        updated_input: Option<&'a RawValue>,
        #[serde(borrow)]
        updated_permissions: Option<&'a RawValue>,
        message: Option<String>,
        interrupt: Option<bool>,
    }
    let request_id: String = message.required("requestId", "a string")?;
    let given: Given<'_> = message.required("result", "an object with behavior allow or deny")?;
    let number = request_id.strip_prefix("req_").and_then(|number| number.parse().ok());
    let Some(number) = number else { return Err(format!("requestId {request_id:?} is not one of ours")) };
    let answer = match given.behavior.as_deref() {
        Some("allow") => Answer::Allow {
            input: object("result.updatedInput", given.updated_input)?,
            permissions: list("result.updatedPermissions", given.updated_permissions)?,
        },
        Some("deny") => Answer::Deny {
            message: given.message.unwrap_or_else(|| "User denied".to_owned()),
            interrupt: given.interrupt.unwrap_or(false),
        },
        Some(_) | None => return Err("result.behavior must be allow or deny".to_owned()),
    };
    Ok(Incoming::PermissionResponse { ask: AskId(number), answer })
}

/// An object as it came; an empty one means that there is none.
fn object(name: &str, value: Option<&RawValue>) -> Result<Option<Raw>, String> {
    let Some(value) = value.filter(|value| value.get() != "null") else { return Ok(None) };
    if !value.get().starts_with('{') {
        return Err(format!("{name} must be an object"));
    }
    let is_empty = value.get()[1..].trim_ascii_start().starts_with('}');
    Ok((!is_empty).then(|| raw(value)))
}

fn list(name: &str, value: Option<&RawValue>) -> Result<Option<Raw>, String> {
    match value.filter(|value| value.get() != "null") {
        Some(value) if value.get().starts_with('[') => Ok(Some(raw(value))),
        Some(_) => Err(format!("{name} must be a list")),
        None => Ok(None),
    }
}

fn raw(value: &RawValue) -> Raw {
    Raw::from(value.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a line wants, or what is said of it.
    fn heard(line: &str) -> String {
        match read(line.as_bytes()) {
            Ok(None) => "nothing".to_owned(),
            Ok(Some(Incoming::Start { prompt, options })) => {
                format!("start {prompt:?} unknown {:?} unstartable {:?}", options.unknown, options.unstartable)
            }
            Ok(Some(incoming)) => format!("{incoming:?}"),
            Err(problem) => format!("error: {problem}"),
        }
    }

    fn all(lines: &[&str]) -> String {
        lines.iter().map(|line| heard(line)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn each_message_of_the_document_is_read() {
        insta::assert_snapshot!(all(&[
            r#"{"type":"start","prompt":"Refactor","options":{"cwd":"/p","resume":null,"model":"sonnet","systemPrompt":"You","permissionMode":"default","disallowedTools":[],"maxTurns":10,"maxThinkingTokens":16000,"maxBudgetUsd":5.0,"settingSources":["user","project","local"],"env":{}}}"#,
            r#"{"type":"start","prompt":"go"}"#,
            r#"{"options":null,"prompt":"go","type":"start","more":1}"#,
            r#"{"type":"user_message","text":"Now add error handling.","images":[],"documents":[]}"#,
            r#"{"type":"user_message","text":"see","images":[{"type":"image","source":{"n":1e400}}],"documents":[{"type":"document"}]}"#,
            r#"{"type":"permission_response","requestId":"req_7","result":{"behavior":"allow","updatedInput":{"command":"ls -la"}}}"#,
            r#"{"type":"permission_response","requestId":"req_7","result":{"behavior":"allow","updatedInput":{ }}}"#,
            r#"{"type":"permission_response","requestId":"req_7","result":{"behavior":"allow","updatedInput":null}}"#,
            r#"{"type":"permission_response","requestId":"req_7","result":{"behavior":"deny","message":"no","interrupt":true}}"#,
            r#"{"type":"permission_response","requestId":"req_7","result":{"behavior":"deny"}}"#,
            r#"{"type":"interrupt","cancelQueued":true}"#,
            r#"{"type":"set_model","model":"opus"}"#,
            r#"{"type":"set_permission_mode","mode":"plan"}"#,
            r#"  {"type":"abort"}  "#,
            "",
            " \r",
        ]), @r#"
        start Prompt { content: Text("Refactor") } unknown [] unstartable None
        start Prompt { content: Text("go") } unknown [] unstartable None
        start Prompt { content: Text("go") } unknown [] unstartable None
        UserMessage(Prompt { content: Text("Now add error handling.") })
        UserMessage(Prompt { content: Blocks([{"text":"see","type":"text"},{"type":"image","source":{"n":1e400}},{"type":"document"}]) })
        PermissionResponse { ask: AskId(7), answer: Allow { input: Some({"command":"ls -la"}), permissions: None } }
        PermissionResponse { ask: AskId(7), answer: Allow { input: None, permissions: None } }
        PermissionResponse { ask: AskId(7), answer: Allow { input: None, permissions: None } }
        PermissionResponse { ask: AskId(7), answer: Deny { message: "no", interrupt: true } }
        PermissionResponse { ask: AskId(7), answer: Deny { message: "User denied", interrupt: false } }
        Interrupt { cancel_queued: true }
        SetModel(Some("opus"))
        SetPermissionMode(Plan)
        Abort
        nothing
        nothing
        "#);
    }

    #[test]
    fn what_is_wrong_is_named() {
        insta::assert_snapshot!(all(&[
            "nonsense",
            "[1]",
            "{\"type\":",
            "{}",
            r#"{"type":5}"#,
            r#"{"type":"fly"}"#,
            r#"{"type":"start"}"#,
            r#"{"type":"start","prompt":5}"#,
            r#"{"type":"start","prompt":"a","options":[]}"#,
            r#"{"type":"start","prompt":"a","options":{"maxTurns":"ten"}}"#,
            r#"{"type":"start","prompt":"a","options":{"maxTurns":-1}}"#,
            r#"{"type":"start","prompt":"a","options":{"resume":"my title"}}"#,
            r#"{"type":"start","prompt":"a","options":{"permissionMode":"yolo"}}"#,
            r#"{"type":"start","prompt":"a","options":{"settingSources":["mine"]}}"#,
            r#"{"type":"start","prompt":"a","options":{"systemPrompt":5}}"#,
            r#"{"type":"start","prompt":"a","options":{"env":{"A":5}}}"#,
            r#"{"type":"start","prompt":"a","options":{"effort":"some"}}"#,
            r#"{"type":"start","prompt":"a","options":{"colour":"red","flavour":1}}"#,
            r#"{"type":"user_message"}"#,
            r#"{"type":"user_message","text":"a","images":"x"}"#,
            r#"{"type":"user_message","text":"a","documents":[5]}"#,
            r#"{"type":"permission_response","requestId":"req_1"}"#,
            r#"{"type":"permission_response","requestId":"other","result":{"behavior":"deny"}}"#,
            r#"{"type":"permission_response","requestId":"req_1","result":{"behavior":"ALLOW"}}"#,
            r#"{"type":"permission_response","requestId":"req_1","result":{"behavior":"allow","updatedInput":[]}}"#,
            r#"{"type":"set_permission_mode","mode":"fly"}"#,
        ]), @r#"
        error: the line is not a JSON object
        error: the line is not a JSON object
        error: the line is not JSON
        error: type is missing; it must be a string
        error: type must be a string
        error: unknown type "fly"; it is one of start, user_message, permission_response, interrupt, set_model, set_permission_mode, abort
        error: prompt is missing; it must be a string
        error: prompt must be a string
        error: options must be an object
        error: options.maxTurns must be a whole number
        error: options.maxTurns must be a whole number
        start Prompt { content: Text("a") } unknown [] unstartable Some("options.resume: \"my title\" is not a session id: expected a UUID such as 3447b64d-2090-41fe-b1dc-65114ad62db4")
        error: options.permissionMode: "yolo" is not a permission mode: use one of default, acceptEdits, plan, dontAsk, auto, bypassPermissions
        error: options.settingSources must be a list of user, project, local
        error: options.systemPrompt must be a string, or an object with a preset
        error: options.env must be an object of strings
        error: options.effort must be one of low, medium, high, xhigh, max
        start Prompt { content: Text("a") } unknown ["colour", "flavour"] unstartable None
        error: text is missing; it must be a string
        error: images must be a list of content blocks
        error: documents must be a list of content blocks
        error: result is missing; it must be an object with behavior allow or deny
        error: requestId "other" is not one of ours
        error: result.behavior must be allow or deny
        error: result.updatedInput must be an object
        error: mode: "fly" is not a permission mode: use one of default, acceptEdits, plan, dontAsk, auto, bypassPermissions
        "#);
        assert_eq!(read(b"{\"type\":\"abort\xff\"}").unwrap_err(), "the line is not UTF-8");
    }
}
