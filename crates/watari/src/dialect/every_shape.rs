//! Tests that every line that a client reads matches the schema of its dialect, and that every open ask is sent to
//! clients, whatever shape a member of a CLI's frame has.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use watari_protocol::native::{self, EventLine, EventPlace, NativeEvent};
use watari_protocol::{Command, Config, Event, Hook, Initialize, Machine, Output, Position};

use super::bridge;
use super::judge::{BRIDGE, Judge, NATIVE, SOCKET};
use super::socket::SocketDialect;
use super::speaker::Speaker;

/// A value that is nested too deep to be parsed as a Rust value. The validator sees a placeholder instead.
const DEEP: [(&str, &str, &str); 2] = [("[", "]", "[7]"), ("{\"a\":", "}", "{\"a\":7}")];
const LEVELS: usize = 300;

fn deep(kind: usize) -> String {
    let (open, close, _) = DEEP[kind];
    format!("{}7{}", open.repeat(LEVELS), close.repeat(LEVELS))
}

/// One frame of each kind that is encoded for clients, in an order in which a CLI could send them.
fn frames() -> Vec<Value> {
    let stream = |event: Value| json!({"type": "stream_event", "event": event, "parent_tool_use_id": null});
    let system = |subtype: &str, mut fields: Value| {
        fields["type"] = json!("system");
        fields["subtype"] = json!(subtype);
        fields
    };
    let request = |id: &str, request: Value| json!({"type": "control_request", "request_id": id, "request": request});
    let tool = json!({"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls"}});
    let session_id = "11111111-1111-4111-8111-111111111111";
    vec![
        system(
            "init",
            json!({"session_id": session_id, "cwd": "/w", "tools": ["Bash"], "model": "m",
            "permissionMode": "default", "claude_code_version": "2.1.325",
            "mcp_servers": [{"name": "a", "status": "connected"}]}),
        ),
        stream(json!({"type": "message_start", "message": {"id": "m1", "model": "m"}})),
        stream(json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})),
        stream(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}})),
        json!({"type": "assistant", "message": {"id": "m1", "content": [{"type": "text", "text": "Hi"}]}}),
        stream(json!({"type": "content_block_start", "index": 1, "content_block": tool})),
        json!({"type": "assistant", "message": {"id": "m1", "content": [tool]}, "parent_tool_use_id": null}),
        stream(json!({"type": "message_stop"})),
        json!({"type": "assistant", "message": {"id": "m2", "content": [tool]}, "parent_tool_use_id": "p"}),
        request(
            "r1",
            json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": {"command": "ls"},
            "tool_use_id": "t", "agent_id": "a", "permission_suggestions": [{"type": "addRules"}]}),
        ),
        request(
            "r2",
            json!({"subtype": "can_use_tool", "tool_name": "AskUserQuestion",
            "input": {"questions": [{"question": "Which?"}]}, "tool_use_id": "q"}),
        ),
        request(
            "r3",
            json!({"subtype": "hook_callback", "callback_id": "watari_hook_1",
            "input": {"hook_event_name": "PreToolUse", "tool_use_id": "t"}}),
        ),
        request(
            "r4",
            json!({"subtype": "elicitation", "mcp_server_name": "s", "message": "Who?",
            "requested_schema": {"type": "object"}, "url": "u"}),
        ),
        request(
            "r5",
            json!({"subtype": "mcp_message", "server_name": "client", "message": {"jsonrpc": "2.0", "id": 3,
            "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1}, "_meta": {}}}}),
        ),
        json!({"type": "tool_progress", "tool_use_id": "t", "tool_name": "Bash", "elapsed_time_seconds": 30.0}),
        json!({"type": "user", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": "done", "is_error": false}]}}),
        json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
            "content": [{"type": "text", "text": "done"}]}]}, "tool_use_result": {"stdout": ""}}),
        system("status", json!({"status": "requesting", "permissionMode": "plan"})),
        system(
            "api_retry",
            json!({"attempt": 1, "max_retries": 10, "retry_delay_ms": 1.5, "error_status": 529, "error": "x"}),
        ),
        system("task_started", json!({"task_id": "a1", "description": "d"})),
        system("background_tasks_changed", json!({"tasks": [{"id": "a1"}]})),
        system("permission_denied", json!({"tool_name": "Bash", "tool_use_id": "t", "message": "no"})),
        system("thinking_tokens", json!({"estimated_tokens": 7})),
        system("hook_started", json!({"hook_id": "h", "hook_name": "n", "hook_event": "Stop"})),
        system("compact_boundary", json!({"compact_metadata": {}})),
        system("session_title_changed", json!({"title": "T"})),
        system("commands_changed", json!({"commands": []})),
        system("informational", json!({"content": "note"})),
        json!({"type": "prompt_suggestion", "suggestion": "next?"}),
        json!({"type": "transcript_mirror", "filePath": "/f", "entries": []}),
        json!({"type": "result", "subtype": "error_during_execution", "is_error": true, "result": "r", "errors": ["e"],
            "usage": {"input_tokens": 1}, "total_cost_usd": 0.5, "duration_ms": 1.5, "num_turns": 1,
            "structured_output": {}, "deferred_tool_use": {}, "permission_denials": [], "terminal_reason": "x"}),
    ]
}

/// The values that replace a member, as JSON.
fn wrong_values() -> Vec<String> {
    let plain = ["null", "true", "-7.5", "1e400", r#""text""#, r#""\ud83d""#, "[]", "[7]", "[null]", "[[]]", "[{}]"];
    let objects = ["{}", r#"{"a":1}"#, r#"{"type":"text"}"#];
    plain.into_iter().chain(objects).map(str::to_owned).chain([deep(0), deep(1)]).collect()
}

/// The text of a frame with every member of it in turn replaced, left out or repeated.
fn variations(frame: &Value) -> Vec<String> {
    const MARK: &str = "<the member>";
    let mut made = Vec::new();
    let mut paths = Vec::new();
    paths_in(frame, String::new(), &mut paths);
    for path in paths {
        let mut marked = frame.clone();
        let was = std::mem::replace(marked.pointer_mut(&path).unwrap(), json!(MARK)).to_string();
        let text = marked.to_string();
        let mark = json!(MARK).to_string();
        for value in wrong_values() {
            made.push(text.replace(&mark, &value));
            let name = path.rsplit('/').next().unwrap();
            let is_repeated = ["null", "[7]", r#"{"a":1}"#].contains(&value.as_str());
            if is_repeated && name.parse::<usize>().is_err() {
                made.push(text.replace(&mark, &format!("{value},\"{name}\":{was}")));
                made.push(text.replace(&mark, &format!("{was},\"{name}\":{value}")));
            }
        }
        let (parent, name) = path.rsplit_once('/').unwrap();
        let mut without = frame.clone();
        if let Some(members) = without.pointer_mut(parent).unwrap().as_object_mut() {
            members.remove(name);
            made.push(without.to_string());
        }
    }
    made
}

/// The paths of all members except the tags that distinguish frames.
fn paths_in(value: &Value, path: String, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.iter().for_each(|(name, member)| {
            let path = format!("{path}/{name}");
            if !matches!(name.as_str(), "type" | "subtype" | "request_id") {
                found.push(path.clone());
            }
            paths_in(member, path, found);
        }),
        Value::Array(items) => items.iter().enumerate().for_each(|(place, item)| {
            found.push(format!("{path}/{place}"));
            paths_in(item, format!("{path}/{place}"), found);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Clients of all dialects, and the lines that were validated.
#[derive(Default)]
struct Clients {
    judged: HashSet<String>,
}

impl Clients {
    /// Plays frames to clients, which validate every line and count their asks.
    fn play(&mut self, frames: &[impl AsRef<str>]) {
        let now = Instant::now();
        let initialize =
            Initialize { hooks: vec![Hook::on("PreToolUse")], tools_can_be_added: true, ..Initialize::default() };
        let config = Config { initialize, answer_timeout: Some(Duration::from_secs(60)), ..Config::default() };
        let mut machine = Machine::start(config, now);
        let (mut bridge, mut socket) = (bridge::Encoder::new(true), SocketDialect::default());
        let ready =
            r#"{"type":"control_response","response":{"subtype":"success","request_id":"watari_1","response":{}}}"#;
        machine.handle_line(ready.as_bytes(), now);
        machine.handle_command(Command::Prompt("go".into()), now).unwrap();
        let mut seq = 0;
        for frame in frames.iter().map(AsRef::as_ref) {
            machine.handle_line(frame.as_bytes(), now);
            while let Some(output) = machine.poll_output() {
                let Output::Event(event) = output else { continue };
                seq += 1;
                let native = native_line(&event, seq);
                let (mut to_socket, mut to_bridge) = (Vec::new(), Vec::new());
                socket.encode(native.as_bytes(), &mut to_socket);
                let asked = shown_as(&event);
                bridge.encode(event, &mut to_bridge);
                self.judge(&NATIVE, native.as_bytes(), frame);
                self.judge(&SOCKET, &to_socket, frame);
                self.judge(&BRIDGE, &to_bridge, frame);
                for (name, lines) in [(asked.0, to_socket), (asked.1, to_bridge)] {
                    let lines = String::from_utf8(lines).unwrap();
                    assert!(lines.contains(name), "an open ask is not shown to clients: {native}");
                }
            }
        }
    }

    fn judge(&mut self, judge: &Judge, lines: &[u8], frame: &str) {
        for line in std::str::from_utf8(lines).unwrap().lines() {
            if self.judged.contains(line) {
                continue;
            }
            let original = line.to_owned();
            let mut line = original.clone();
            let is_deep = line.len() > LEVELS;
            for (kind, (_, _, instead)) in DEEP.iter().enumerate().filter(|_| is_deep) {
                line = line.replace(&deep(kind), instead).replace(&deep(kind).replace('"', "\\\""), "deep");
            }
            // Numbers out of range and unpaired surrogates are passed on unchanged, and not parsed here.
            line = line.replace("1e400", "1e40").replace("\\\\ud83d", "half").replace("\\ud83d", "half");
            let value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}\n{frame}"));
            judge.judge("from_watari", &value).unwrap_or_else(|why| panic!("{why}\n{line}\n{frame}"));
            self.judged.insert(original);
        }
    }
}

/// The line of an event. It is also read, which must give the same line.
fn native_line(event: &Event, seq: u64) -> String {
    let position = Position { epoch: 1, seq };
    let place = if event.is_ephemeral() { EventPlace::After(position) } else { EventPlace::At(position) };
    let line = written(&EventLine { place, event: event.clone().into() });
    let read = native::read(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert!(matches!(read.event, NativeEvent::Session(_)), "{line}");
    assert_eq!(written(&read), line);
    line
}

fn written(line: &EventLine) -> String {
    let mut text = Vec::new();
    line.write(&mut text);
    String::from_utf8(text).unwrap()
}

/// The names of an ask that clients of the socket and the bridge can answer; empty for everything else.
fn shown_as(event: &Event) -> (&'static str, &'static str) {
    use watari_protocol::AskKind;
    let Event::AskOpened { kind, .. } = event else { return ("", "") };
    match kind {
        AskKind::Permission(_) | AskKind::Question(_) | AskKind::Plan(_) => ("approval_request", "permission_request"),
        AskKind::ToolCall(_) => ("tool_call", "tool_call"),
        // The front end of the bridge dismisses forms.
        AskKind::Elicitation(_) => ("approval_request", ""),
        AskKind::Hook(_) => ("", ""),
    }
}

#[test]
fn no_shape_of_a_member_of_a_frame_breaks_a_schema_or_hides_an_ask() {
    let frames = frames();
    let mut clients = Clients::default();
    let texts: Vec<String> = frames.iter().map(Value::to_string).collect();
    clients.play(&texts);
    let (first, last) = (&texts[0], texts.last().unwrap());
    let is_streamed = |text: &String| text.contains("stream_event") || text.contains(r#""id":"m1""#);
    let streamed: Vec<&String> = texts.iter().filter(|text| is_streamed(text)).collect();
    let mut played = 0;
    for (frame, text) in frames.iter().zip(&texts) {
        // A frame of a streamed message needs the other frames of that message; all others are played alone.
        let around = if is_streamed(text) { streamed.clone() } else { vec![text] };
        for variation in variations(frame) {
            let varied = around.iter().map(|other| if *other == text { &variation } else { *other });
            let conversation: Vec<&String> = [first].into_iter().chain(varied).chain([last]).collect();
            clients.play(&conversation);
            played += 1;
        }
    }
    assert!(played > 2000, "{played}");
}
