//! Parses the lines of a client of the bridge dialect.

use watari_sdk::{Answer, AskId, PermissionMode, ProgramTool, Prompt, RawJson};

use super::options::{self, StartOptions};
use crate::dialect::content;
use crate::dialect::limits;
use crate::dialect::members::Members;
use crate::dialect::speaker::ProtocolError;

/// A message of the client.
#[derive(Debug)]
pub(crate) enum Incoming {
    Start { prompt: Prompt, options: Box<StartOptions> },
    UserMessage(Prompt),
    PermissionResponse { ask: AskId, answer: Answer },
    Interrupt { cancel_queued: bool },
    SetModel(Option<String>),
    SetPermissionMode(PermissionMode),
    RegisterTools(Vec<ProgramTool>),
    ToolCallResult { ask: AskId, answer: Answer },
    Abort,
}

const TYPES: &str = "start, user_message, permission_response, interrupt, set_model, set_permission_mode, \
                     register_tools, tool_call_result, abort";

/// Parses a line; none for a blank line. A line with an error has no effect.
pub(crate) fn read(line: &[u8]) -> Result<Option<Incoming>, ProtocolError> {
    let line = line.trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let Ok(text) = std::str::from_utf8(line) else { return Err(ProtocolError::new("the line is not UTF-8")) };
    let received = Members::of_line(text).and_then(|mut members| message(&mut members));
    received.map(Some).map_err(|problem| ProtocolError::new(limits::short(problem)))
}

pub(super) fn message(members: &mut Members<'_>) -> Result<Incoming, String> {
    let kind: String = members.required("type", "a string")?;
    Ok(match kind.as_str() {
        "start" => {
            let prompt = members.content("prompt")?;
            let mut options = members.object("options", "options.", "an object")?.unwrap_or_else(Members::none);
            Incoming::Start { prompt: prompt.into(), options: Box::new(options::read(&mut options)?) }
        }
        "user_message" => Incoming::UserMessage(content::prompt(members)?),
        "permission_response" => {
            let ask = ask_id(members, "requestId", "req_")?;
            let what = "an object with behavior allow or deny";
            let Some(mut result) = members.object("result", "result.", what)? else {
                return Err(format!("result is missing; it must be {what}"));
            };
            Incoming::PermissionResponse { ask, answer: answer(&mut result)? }
        }
        "interrupt" => Incoming::Interrupt { cancel_queued: members.boolean("cancelQueued")?.unwrap_or(false) },
        "set_model" => Incoming::SetModel(members.text("model")?),
        "set_permission_mode" => {
            let mode: String = members.required("mode", "a string")?;
            Incoming::SetPermissionMode(mode.parse().map_err(|error| format!("mode: {error}"))?)
        }
        "register_tools" => Incoming::RegisterTools(content::tools(members, "inputSchema")?),
        "tool_call_result" => {
            let ask = ask_id(members, "callId", "call_")?;
            let content = content::tool_result(members)?;
            let is_error = members.boolean("isError")?.unwrap_or(false);
            Incoming::ToolCallResult { ask, answer: Answer::ToolResult { content, is_error } }
        }
        "abort" => Incoming::Abort,
        _ => {
            let beginning: String = kind.chars().take(60).collect();
            return Err(format!("unknown type {beginning:?}; it must be one of {TYPES}"));
        }
    })
}

fn ask_id(members: &mut Members<'_>, name: &'static str, before: &str) -> Result<AskId, String> {
    let id: String = members.required(name, "a string")?;
    content::parse_ask_name(before, &id).ok_or_else(|| format!("{name} {id:?} is unknown"))
}

pub(super) fn answer(result: &mut Members<'_>) -> Result<Answer, String> {
    match result.text("behavior")?.as_deref() {
        Some("allow") => {
            Ok(Answer::Allow { input: updated_input(result)?, permissions: result.raw_list("updatedPermissions")? })
        }
        Some("deny") => Ok(Answer::Deny {
            message: result.text("message")?.unwrap_or_else(|| "User denied".to_owned()),
            interrupt: result.boolean("interrupt")?.unwrap_or(false),
        }),
        Some(_) | None => Err("result.behavior must be allow or deny".to_owned()),
    }
}

/// The edited input, unchanged; an empty object counts as absent.
fn updated_input(result: &mut Members<'_>) -> Result<Option<RawJson>, String> {
    let is_empty = |input: &RawJson| input.as_str()[1..].trim_ascii_start().starts_with('}');
    Ok(result.raw_object("updatedInput")?.filter(|input| !is_empty(input)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message of a line, or its error.
    fn received(line: &str) -> String {
        match read(line.as_bytes()) {
            Ok(None) => "nothing".to_owned(),
            Ok(Some(Incoming::Start { prompt, options })) => {
                format!("start {prompt:?} unknown {:?} unstartable {:?}", options.unknown, options.unstartable)
            }
            Ok(Some(incoming)) => format!("{incoming:?}"),
            Err(problem) => format!("error: {}", problem.message),
        }
    }

    fn all(lines: &[&str]) -> String {
        lines.iter().map(|line| received(line)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn each_message_of_the_dialect_is_parsed() {
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
            r#"{"type":"register_tools","tools":[{"name":"add","description":"Adds.","inputSchema":{"type":"object","n":1e400}},{"name":"now"}]}"#,
            r#"{"type":"tool_call_result","callId":"call_7","content":"5"}"#,
            r#"{"type":"tool_call_result","callId":"call_7","content":[{"type":"image"}],"isError":true}"#,
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
        RegisterTools([ProgramTool { name: "add", description: "Adds.", input_schema: {"type":"object","n":1e400} }, ProgramTool { name: "now", description: "", input_schema: {"type":"object"} }])
        ToolCallResult { ask: AskId(7), answer: ToolResult { content: [{"text":"5","type":"text"}], is_error: false } }
        ToolCallResult { ask: AskId(7), answer: ToolResult { content: [{"type":"image"}], is_error: true } }
        Abort
        nothing
        nothing
        "#);
    }

    #[test]
    fn an_unpaired_surrogate_is_reported_with_its_field() {
        insta::assert_snapshot!(all(&[
            r#"{"type":"user_message","text":"a \ud800 b"}"#,
            r#"{"type":"user_message","text":"\ude00\ud83d"}"#,
            r#"{"type":"user_message","text":"\ud83d\ude00 is whole"}"#,
            r#"{"type":"start","prompt":"\udfff"}"#,
            r#"{"type":"start","prompt":"a","options":{"cwd":"/\ud800"}}"#,
            r#"{"type":"start","prompt":"a","options":{"env":{"A":"\ud800"}}}"#,
            r#"{"type":"permission_response","requestId":"req_1","result":{"behavior":"deny","message":"\ud800"}}"#,
            r#"{"type":"abort","\ud800":1}"#,
            r#"{"type":"abort","a":"\ud800"}"#,
        ]), @r#"
        error: text contains an unpaired surrogate: an escape such as \ud800 without its other half; send whole characters
        error: text contains an unpaired surrogate: an escape such as \ud800 without its other half; send whole characters
        UserMessage(Prompt { content: Text("😀 is whole") })
        error: prompt contains an unpaired surrogate: an escape such as \ud800 without its other half; send whole characters
        error: options.cwd contains an unpaired surrogate: an escape such as \ud800 without its other half; send whole characters
        error: options.env contains an unpaired surrogate: an escape such as \ud800 without its other half; send whole characters
        error: result.message contains an unpaired surrogate: an escape such as \ud800 without its other half; send whole characters
        error: the name of a member contains an unpaired surrogate: an escape such as \ud800 without its other half; send whole characters
        Abort
        "#);
    }

    #[test]
    fn only_texts_images_and_documents_are_accepted_in_a_prompt() {
        insta::assert_snapshot!(all(&[
            r#"{"type":"user_message","text":"a","images":[{"type":"tool_result","tool_use_id":"toolu_1","content":"yes"}]}"#,
            r#"{"type":"user_message","text":"a","documents":[{"type":"document"},{"type":"tool_use","id":"toolu_1"}]}"#,
            r#"{"type":"user_message","text":"a","images":[{}]}"#,
            r#"{"type":"user_message","text":"a","images":[{"type":"image","type":"tool_result"}]}"#,
            r#"{"type":"user_message","text":"a","images":[{"type":"text"}]}"#,
            r#"{"type":"user_message","text":"a","images":[{"type":"text","text":"b"},{"type":"\u0069mage"}]}"#,
        ]), @r#"
        error: images[0].type must be one of text, image, document
        error: documents[1].type must be one of text, image, document
        error: images[0].type must be one of text, image, document
        error: images[0] must be an object with one type
        error: images[0].text must be a string
        UserMessage(Prompt { content: Blocks([{"text":"a","type":"text"},{"type":"text","text":"b"},{"type":"\u0069mage"}]) })
        "#);
    }

    #[test]
    fn every_error_names_the_field() {
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
            r#"{"type":"start","prompt":"a","options":{"maxTurns":0}}"#,
            r#"{"type":"start","prompt":"a","options":{"resume":"my title"}}"#,
            r#"{"type":"start","prompt":"a","options":{"cwd":""}}"#,
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
            r#"{"type":"permission_response","requestId":"req_+1","result":{"behavior":"deny"}}"#,
            r#"{"type":"permission_response","requestId":"req_1","result":{"behavior":"ALLOW"}}"#,
            r#"{"type":"permission_response","requestId":"req_1","result":{"behavior":"allow","updatedInput":[]}}"#,
            r#"{"type":"set_permission_mode","mode":"fly"}"#,
            r#"{"type":"register_tools"}"#,
            r#"{"type":"register_tools","tools":[5]}"#,
            r#"{"type":"register_tools","tools":[{}]}"#,
            r#"{"type":"register_tools","tools":[{"name":"a b"}]}"#,
            r#"{"type":"register_tools","tools":[{"name":"x__tool"}]}"#,
            r#"{"type":"register_tools","tools":[{"name":"_x"}]}"#,
            r#"{"type":"register_tools","tools":[{"name":"a"},{"name":"a"}]}"#,
            r#"{"type":"register_tools","tools":[{"name":"a","inputSchema":[]}]}"#,
            r#"{"type":"register_tools","tools":[{"name":"a","inputSchema":{"type":"string"}}]}"#,
            r#"{"type":"register_tools","tools":[{"name":"a","inputSchema":{"properties":{}}}]}"#,
            r#"{"type":"tool_call_result","callId":"req_7","content":"5"}"#,
            r#"{"type":"tool_call_result","callId":"call_7"}"#,
            r#"{"type":"tool_call_result","callId":"call_7","content":[5]}"#,
        ]), @r#"
        error: the line is not a JSON object
        error: the line is not a JSON object
        error: the line is not JSON
        error: type is missing; it must be a string
        error: type must be a string
        error: unknown type "fly"; it must be one of start, user_message, permission_response, interrupt, set_model, set_permission_mode, register_tools, tool_call_result, abort
        error: prompt is missing; it must be a string
        error: prompt must be a string
        error: options must be an object
        error: options.maxTurns must be a whole number
        error: options.maxTurns must be a whole number
        error: options.maxTurns must be 1 or more; leave it out for no limit
        start Prompt { content: Text("a") } unknown [] unstartable Some("options.resume: \"my title\" is not a session id: expected a UUID such as 3447b64d-2090-41fe-b1dc-65114ad62db4")
        start Prompt { content: Text("a") } unknown [] unstartable Some("options.cwd is empty: give a folder, or leave it out for that of the process")
        error: options.permissionMode: "yolo" is not a permission mode: use one of default, acceptEdits, plan, dontAsk, auto, bypassPermissions
        error: options.settingSources must be a list of user, project, local
        error: options.systemPrompt must be a string, or an object with a preset
        error: options.env must be an object of strings
        error: options.effort must be one of low, medium, high, xhigh, max
        start Prompt { content: Text("a") } unknown ["options.colour is unknown and was ignored", "options.flavour is unknown and was ignored"] unstartable None
        error: text is missing; it must be a string
        error: images must be a list of content blocks
        error: documents must be a list of content blocks
        error: result is missing; it must be an object with behavior allow or deny
        error: requestId "other" is unknown
        error: requestId "req_+1" is unknown
        error: result.behavior must be allow or deny
        error: result.updatedInput must be an object
        error: mode: "fly" is not a permission mode: use one of default, acceptEdits, plan, dontAsk, auto, bypassPermissions
        error: tools is missing; it must be a list of tools with a name
        error: tools must be a list of tools with a name
        error: tools[].name is missing; it must be a string
        error: tools[].name must have 1 to 51 letters, digits, _ and -
        error: tools[].name may not start with "_" or contain "__": a tool of another MCP server could have the same name for the model and receive its calls
        error: tools[].name may not start with "_" or contain "__": a tool of another MCP server could have the same name for the model and receive its calls
        error: two tools have the name "a"
        error: tools[].inputSchema must be an object
        error: tools[].inputSchema.type must be "object": the input of a tool is an object
        error: tools[].inputSchema.type must be "object": the input of a tool is an object
        error: callId "req_7" is unknown
        error: content is missing; it must be a string or a list of blocks
        error: content must be a string or a list of blocks
        "#);
        assert_eq!(read(b"{\"type\":\"abort\xff\"}").unwrap_err().message, "the line is not UTF-8");
    }
}
