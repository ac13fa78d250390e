//! What a client of the crate writes is read as the same command, and what a host writes is read by such a client.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use watari_hub::{Position, SessionState};
use watari_sdk::native::{ClientHello, ClientLine};
use watari_sdk::{
    Accepted, Answer, AskId, Command, EntryId, HookOutput, PermissionMode, ProgramTool, Prompt, PromptId, RawJson,
    Request, RequestId,
};

use super::*;

/// A text with characters that JSON escapes.
const TEXT: &str = "say \"渡り\"\n\u{0}";

fn raw(json: &str) -> RawJson {
    RawJson::from(json)
}

/// Values that no Rust type holds.
fn input() -> RawJson {
    raw(r#"{"n":1e400,"half":"\ud83d","a":1,"a":2}"#)
}

fn commands() -> Vec<Command> {
    let mut commands = vec![
        Command::Prompt(TEXT.into()),
        Command::Prompt("".into()),
        Command::Prompt(Prompt::blocks(raw(
            r#"[{"type":"text","text":"\ud83d"},{"type":"image","source":{"n":1e400}}]"#,
        ))),
        Command::Interrupt { cancel_queued: true },
        Command::Interrupt { cancel_queued: false },
        Command::Close,
        Command::Abort,
    ];
    let answer = |answer| Command::Answer { ask: AskId(7), answer, by: None };
    commands.extend(answers().into_iter().map(answer));
    commands.extend(requests().into_iter().map(Command::from));
    commands
}

fn answers() -> Vec<Answer> {
    let mut answers = vec![
        Answer::allow(),
        Answer::Allow { input: Some(input()), permissions: Some(raw(r#"[{"type":"addRules"}]"#)) },
        Answer::Deny { message: TEXT.into(), interrupt: true },
        Answer::deny(""),
        Answer::Choose(BTreeMap::from([(TEXT.into(), "this".into()), ("Why?".into(), String::new())])),
        Answer::Accept(input()),
        Answer::Decline,
        Answer::Cancel,
        Answer::ToolResult { content: raw(r#"[{"type":"text","text":"5"}]"#), is_error: true },
        Answer::ToolResult { content: raw("[]"), is_error: false },
    ];
    answers.extend(hook_outputs().into_iter().map(Answer::Hook));
    answers
}

fn hook_outputs() -> Vec<HookOutput> {
    vec![
        HookOutput::NoOpinion,
        HookOutput::Allow { input: None },
        HookOutput::Allow { input: Some(input()) },
        HookOutput::Deny { reason: TEXT.into() },
        HookOutput::Ask { reason: TEXT.into() },
        HookOutput::Defer,
        HookOutput::Block { reason: TEXT.into() },
        HookOutput::Context { text: TEXT.into() },
        HookOutput::Halt { reason: TEXT.into() },
        HookOutput::Other(input()),
    ]
}

fn requests() -> Vec<Request> {
    let tool =
        |name: &str, schema| ProgramTool { name: name.into(), description: TEXT.into(), input_schema: raw(schema) };
    let tools = vec![
        tool("add", r#"{"type":"object","properties": {"n":{"maximum":1e400}}}"#),
        tool("b", r#"{"type":"object"}"#),
    ];
    let fields = json!({"n": 1.5, "text": TEXT, "more": [null, {}]}).as_object().unwrap().clone();
    let mut requests = vec![
        Request::SetModel(Some("opus".into())),
        Request::SetModel(None),
        Request::SetThinking(Some(u32::MAX)),
        Request::SetThinking(None),
        Request::SetTools(tools),
        Request::SetTools(Vec::new()),
        Request::McpStatus,
        Request::SetMcpServers(BTreeMap::from([(TEXT.into(), input())])),
        Request::ReconnectMcp { server: TEXT.into() },
        Request::ToggleMcp { server: TEXT.into(), enabled: false },
        Request::ContextUsage,
        Request::Rewind { entry: EntryId::parse("33333333-3333-4333-8333-333333333333").unwrap(), dry_run: true },
        Request::StopTask { task: TEXT.into() },
        Request::ReadFile { path: TEXT.into(), max_bytes: Some(7) },
        Request::ReadFile { path: TEXT.into(), max_bytes: None },
        Request::Rename { title: TEXT.into() },
        Request::Reinitialize,
        Request::Other { subtype: "x".into(), fields },
        Request::Other { subtype: "x".into(), fields: Map::new() },
    ];
    requests.extend(PermissionMode::ALL.map(Request::SetPermissionMode));
    requests
}

// The compiler asks for a name when a variant is added, and the test then for its command.

fn name_of_command(command: &Command) -> &'static str {
    match command {
        Command::Prompt(_) => "prompt",
        Command::Interrupt { .. } => "interrupt",
        Command::Answer { .. } => "answer",
        Command::Request { .. } => "request",
        Command::Close => "close",
        Command::Abort => "abort",
    }
}

fn name_of_answer(answer: &Answer) -> &'static str {
    match answer {
        Answer::Allow { .. } => "allow",
        Answer::Deny { .. } => "deny",
        Answer::Choose(_) => "choose",
        Answer::Hook(_) => "hook",
        Answer::Accept(_) => "accept",
        Answer::Decline => "decline",
        Answer::Cancel => "cancel",
        Answer::ToolResult { .. } => "tool_result",
    }
}

fn name_of_output(output: &HookOutput) -> &'static str {
    match output {
        HookOutput::NoOpinion => "no_opinion",
        HookOutput::Allow { .. } => "allow",
        HookOutput::Deny { .. } => "deny",
        HookOutput::Ask { .. } => "ask",
        HookOutput::Defer => "defer",
        HookOutput::Block { .. } => "block",
        HookOutput::Context { .. } => "context",
        HookOutput::Halt { .. } => "halt",
        HookOutput::Other(_) => "other",
    }
}

fn name_of_request(request: &Request) -> &'static str {
    match request {
        Request::SetModel(_) => "set_model",
        Request::SetPermissionMode(_) => "set_permission_mode",
        Request::SetThinking(_) => "set_thinking",
        Request::SetTools(_) => "set_tools",
        Request::McpStatus => "mcp_status",
        Request::SetMcpServers(_) => "set_mcp_servers",
        Request::ReconnectMcp { .. } => "reconnect_mcp",
        Request::ToggleMcp { .. } => "toggle_mcp",
        Request::ContextUsage => "context_usage",
        Request::Rewind { .. } => "rewind",
        Request::StopTask { .. } => "stop_task",
        Request::ReadFile { .. } => "read_file",
        Request::Rename { .. } => "rename",
        Request::Reinitialize => "reinitialize",
        Request::Other { .. } => "other",
    }
}

#[test]
fn no_command_is_left_out() {
    let schema = schema();
    let named = |definition: &str| -> BTreeSet<String> {
        let shapes = schema["$defs"][definition]["oneOf"].as_array().unwrap();
        shapes.iter().map(|shape| shape["properties"]["type"]["const"].as_str().unwrap().to_owned()).collect()
    };
    let used = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect::<BTreeSet<String>>();
    assert_eq!(used(answers().iter().map(name_of_answer).collect()), named("AnswerInput"));
    assert_eq!(used(hook_outputs().iter().map(name_of_output).collect()), named("HookOutput"));
    assert_eq!(used(requests().iter().map(name_of_request).collect()), named("RequestMade"));
    let messages = schema["$defs"]["to_watari"]["oneOf"].as_array().unwrap();
    let messages = messages.iter().map(|message| message["$ref"].as_str().unwrap().trim_start_matches("#/$defs/"));
    let commands = commands();
    let commands = commands.iter().map(name_of_command).chain(["hello"]).collect();
    assert_eq!(used(commands), messages.map(str::to_owned).collect());
}

fn written(line: &ClientLine<'_>) -> String {
    let mut text = Vec::new();
    line.write(&mut text);
    let text = String::from_utf8(text).unwrap();
    text.strip_suffix('\n').filter(|text| !text.contains('\n')).unwrap().to_owned()
}

#[test]
fn every_command_is_read_as_the_one_that_a_client_wrote() {
    for command in commands() {
        for id in [None, Some("one")] {
            let line = written(&ClientLine::command(id, &command));
            match incoming::read(&line) {
                Ok(ClientMessage::Command(reference, read)) => {
                    assert_eq!(format!("{read:?}"), format!("{command:?}"), "{line}");
                    assert_eq!((reference.id.as_deref(), reference.ask), (id, None), "{line}");
                }
                other => panic!("{other:?}: {line}"),
            }
        }
    }
}

#[test]
fn a_command_is_one_line_even_if_a_value_in_it_spans_several() {
    let prompt = Command::Prompt(Prompt::blocks(raw("[\n{\"type\":\"text\",\r\n\"text\":\"a\\nb\"}]")));
    let line = written(&ClientLine::command(None, &prompt));
    assert_eq!(line, r#"{"type":"prompt","content":[ {"type":"text",  "text":"a\nb"}]}"#);
}

#[test]
fn the_first_line_of_a_client_is_read_as_it_was_written() {
    let position = Position { epoch: 3, seq: 17 };
    for (hello, expected) in [
        (ClientHello::default(), (Since::Now, None, None)),
        (
            ClientHello { since: Some(Position::default()), ..ClientHello::default() },
            (Since::After(Position::default()), None, None),
        ),
        (
            ClientHello { since: Some(position), key: Some("k7q2m4x9p1t0"), client: Some("editor") },
            (Since::After(position), Some("k7q2m4x9p1t0"), Some("editor")),
        ),
    ] {
        let line = written(&ClientLine::hello(Some("one"), &hello));
        let Ok(ClientMessage::Hello { since, key, client }) = incoming::read(&line) else { panic!("{line}") };
        assert_eq!((since, key.as_deref(), client.as_deref()), expected, "{line}");
    }
}

#[test]
fn every_reply_of_a_host_is_read_as_it_was_written() {
    let id = || Some(TEXT.to_owned());
    let hello = |resume| ServerMessage::Hello {
        protocol: PROTOCOL,
        key: "k7q2m4x9p1t0".into(),
        session_id: TEXT.into(),
        seq: Position { epoch: 3, seq: 17 },
        state: SessionState::Down,
        resume,
    };
    let mut replies = vec![
        hello(Resume::Ok),
        hello(Resume::Gap),
        ServerMessage::accepted(id(), Accepted::Prompt(PromptId(u64::MAX))),
        ServerMessage::accepted(None, Accepted::Request(RequestId(1))),
        ServerMessage::accepted(None, Accepted::Done),
        ServerMessage::Error { id: None, code: RefusalCode::InvalidLine, message: TEXT.into() },
    ];
    let refused = |code| ServerMessage::Refused { id: id(), code, message: String::new() };
    replies.extend(RefusalCode::ALL.map(refused));
    for reply in replies {
        let mut line = Vec::new();
        reply.write(&mut line);
        assert_eq!(serde_json::from_slice::<ServerMessage>(&line).unwrap(), reply);
        let is_one_of = ["hello", "accepted", "refused", "error"];
        let value: Value = serde_json::from_slice(&line).unwrap();
        assert!(is_one_of.contains(&value["type"].as_str().unwrap()), "{value}");
    }
}
