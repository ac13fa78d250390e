//! A host whose CLI is down, on the fake CLI: settings of clients apply to the CLI that the next message starts.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::fs;

use common::WATARI;
use host::{Client, Host, Room, of_type, transcript};
use serde_json::{Value, json};

/// A CLI that dies in its first turn.
const DIES: &str = "prompt\ntext One\nexit 3\n";

const ANSWERS: &str = "prompt\ntext Again.\nresult\n";

/// A room whose CLI writes down the arguments of its last start.
fn room() -> Room {
    let room = Room::fake(DIES);
    let argv = room.sandbox.root().join("argv");
    let script = format!("printf '%s\\n' \"$@\" > '{}'\nexec '{WATARI}' __fake-claude \"$@\"", argv.display());
    common::program(&room.claude, &script);
    room
}

/// The arguments of the CLI's last start that set something which clients can set too.
fn arguments(room: &Room) -> Vec<String> {
    let argv = fs::read_to_string(room.sandbox.root().join("argv")).unwrap();
    let settings = ["--permission-mode", "--model", "--max-thinking-tokens", "--thinking"];
    argv.lines().filter(|line| settings.iter().any(|name| line.starts_with(name))).map(ToOwned::to_owned).collect()
}

/// A host whose CLI is down, and a client of the native dialect that has received its exit.
async fn down(room: &Room, flags: &[&str]) -> (Host, Client) {
    let host = room.host(flags).await;
    let (mut native, _) = host.native_since(json!(0)).await;
    native.until("caught_up").await;
    native.send(json!({"type": "prompt", "content": "go"})).await;
    native.until("cli_exited").await;
    room.rewrite(ANSWERS);
    (host, native)
}

/// What a client reads of a request, in any order: the answer to a command and events come on two ways.
async fn requested(native: &mut Client, request: Value) -> String {
    let id = request.to_string();
    native.send(json!({"type": "request", "id": id, "request": request})).await;
    let mut seen = native.until_one_of(&["request_answered", "refused"]).await;
    if !seen.iter().any(|line| ["accepted", "refused"].contains(&line["type"].as_str().unwrap())) {
        seen.extend(native.until("accepted").await);
    }
    seen.sort_by_key(|line| line["type"].to_string());
    transcript(&["seq", "request", "id"], &seen)
}

/// Starts the CLI again.
async fn continues(native: &mut Client) {
    native.send(json!({"type": "prompt", "content": "go on"})).await;
    native.until("turn_finished").await;
}

#[tokio::test]
async fn settings_changed_while_the_cli_is_down_apply_to_the_next_cli_and_are_logged() {
    let room = room();
    let (host, mut native) = down(&room, &["--permission-mode", "acceptEdits", "--model", "before"]).await;
    insta::assert_snapshot!(requested(&mut native, json!({"type": "set_permission_mode", "mode": "default"})).await, @r#"
    {"id":"id","request":"request","type":"accepted"}
    {"reply":{"done":{"mode":"default"}},"request":"request","seq":"seq","type":"request_answered"}
    {"body":{"mode":"default","subtype":"set_permission_mode"},"by":"client 1","request":"request","seq":"seq","type":"request_sent"}
    "#);
    insta::assert_snapshot!(requested(&mut native, json!({"type": "set_model", "model": "after"})).await, @r#"
    {"id":"id","request":"request","type":"accepted"}
    {"reply":{"done":null},"request":"request","seq":"seq","type":"request_answered"}
    {"body":{"model":"after","subtype":"set_model"},"by":"client 1","request":"request","seq":"seq","type":"request_sent"}
    "#);
    insta::assert_snapshot!(requested(&mut native, json!({"type": "set_thinking", "tokens": 2048})).await, @r#"
    {"id":"id","request":"request","type":"accepted"}
    {"reply":{"done":null},"request":"request","seq":"seq","type":"request_answered"}
    {"body":{"max_thinking_tokens":2048,"subtype":"set_max_thinking_tokens"},"by":"client 1","request":"request","seq":"seq","type":"request_sent"}
    "#);
    continues(&mut native).await;
    assert_eq!(arguments(&room), ["--model=after", "--max-thinking-tokens=2048", "--permission-mode=default"]);
    host.stop().await;
    // No number of a request comes twice in a log.
    let mut sent: Vec<u64> =
        of_type(&room.events(), "request_sent").iter().map(|event| event["request"].as_u64().unwrap()).collect();
    assert_eq!(sent.len(), 3);
    sent.dedup();
    assert_eq!(sent.len(), 3);
}

#[tokio::test]
async fn a_request_while_the_cli_is_down_passes_the_same_checks_as_while_it_runs() {
    let room = room();
    let (host, mut native) = down(&room, &["--permission-mode", "acceptEdits"]).await;
    let bypass = json!({"mode": "bypassPermissions"});
    for request in [
        json!({"type": "set_permission_mode", "mode": "bypassPermissions"}),
        json!({"type": "other", "subtype": "set_permission_mode", "fields": bypass}),
    ] {
        let refused = requested(&mut native, request).await;
        assert!(refused.contains("refused") && refused.contains("bypassPermissions"), "{refused}");
    }
    insta::assert_snapshot!(requested(&mut native, json!({"type": "set_model", "model": "a\nb"})).await, @r#"{"code":"invalid_field","id":"id","message":"a model name has 1 to 256 bytes and no control characters","type":"refused"}"#);
    insta::assert_snapshot!(requested(&mut native, json!({"type": "mcp_status"})).await, @r#"{"code":"cli_not_running","id":"id","message":"cannot send a request while Claude Code is not running: send a prompt first","type":"refused"}"#);
    continues(&mut native).await;
    assert_eq!(arguments(&room), ["--permission-mode=acceptEdits"]);
    host.stop().await;
    assert_eq!(of_type(&room.events(), "request_sent").len(), 0);
}

#[tokio::test]
async fn a_mode_in_the_cli_s_own_spelling_applies_to_the_next_cli_and_the_last_one_counts() {
    let room = room();
    let (host, mut native) = down(&room, &["--permission-mode", "acceptEdits"]).await;
    requested(&mut native, json!({"type": "set_permission_mode", "mode": "default"})).await;
    let plan = json!({"type": "other", "subtype": "set_permission_mode", "fields": {"mode": "plan"}});
    requested(&mut native, plan).await;
    continues(&mut native).await;
    assert_eq!(arguments(&room), ["--permission-mode=plan"]);
    host.stop().await;
}

#[tokio::test]
async fn tools_registered_while_the_cli_is_down_are_logged() {
    let room = room();
    let (host, mut native) = down(&room, &[]).await;
    let tools = json!([{"name": "ping", "description": "", "input_schema": {"type": "object"}}]);
    insta::assert_snapshot!(requested(&mut native, json!({"type": "set_tools", "tools": tools})).await, @r#"
    {"id":"id","request":"request","type":"accepted"}
    {"reply":{"done":null},"request":"request","seq":"seq","type":"request_answered"}
    {"body":{"subtype":"set_tools","tools":["ping"]},"by":"client 1","request":"request","seq":"seq","type":"request_sent"}
    "#);
    host.stop().await;
}

#[tokio::test]
async fn an_answer_while_the_cli_is_down_is_refused_because_its_ask_is_closed() {
    let room = room();
    let (host, mut native) = down(&room, &[]).await;
    native.send(json!({"type": "answer", "id": "a", "ask": 7, "answer": {"type": "deny"}})).await;
    insta::assert_snapshot!(transcript(&[], &native.until("refused").await), @r#"{"code":"ask_not_open","id":"a","message":"cannot answer: Claude Code has exited, which closed every ask and tool call","type":"refused"}"#);
    host.stop().await;
}
