//! The bridge on the real CLI: tools that the client runs.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod bridge;

use bridge::{Bridge, Room, of_type, transcript_without};
use serde_json::{Value, json};
use watari_testkit::Reply;
use watari_testkit::claude::{oldest_claude, pinned_claude};

/// The model uses the client's tool, and says something.
async fn room() -> Room {
    let uses = Reply::tool_use("toolu_1", "mcp__client__add", json!({"a": 2, "b": 3}));
    Room::with_replies([uses, Reply::text("Done.")]).await
}

async fn session(room: &Room, options: Value) -> Bridge {
    let mut bridge = room.bridge();
    let schema = json!({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}});
    let add = json!({"name": "add", "description": "Adds two numbers.", "inputSchema": schema});
    bridge.send(json!({"type": "register_tools", "tools": [add]})).await;
    bridge.start("go", options).await;
    bridge
}

async fn give(bridge: &mut Bridge, content: Value, is_error: bool) {
    bridge.send(json!({"type": "tool_call_result", "callId": "call_1", "content": content, "isError": is_error})).await;
}

/// The last content that the model received.
fn last_input(room: &Room) -> Value {
    room.stub.model_calls().last().unwrap()["messages"].as_array().unwrap().last().unwrap()["content"][0].clone()
}

#[tokio::test]
async fn a_tool_of_the_client_is_offered_called_and_answered() {
    let room = room().await;
    let mut bridge = session(&room, json!({"allowedTools": ["mcp__client__add"]})).await;
    let seen = bridge.until("tool_call").await;
    let init = of_type(&seen, "session_init")[0];
    assert!(init["tools"].as_array().unwrap().contains(&json!("mcp__client__add")), "{init}");
    insta::assert_snapshot!(transcript_without(&[], seen.last()), @r#"{"callId":"call_1","input":{"a":2,"b":3},"name":"add","type":"tool_call"}"#);
    give(&mut bridge, json!("5"), false).await;
    let seen = bridge.until("turn_result").await;
    insta::assert_snapshot!(transcript_without(&[], of_type(&seen, "tool_result")), @r#"{"content":[{"text":"5","type":"text"}],"isError":false,"toolUseId":"toolu_1","type":"tool_result"}"#);
    let calls = room.stub.model_calls();
    let offered = calls[0]["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "mcp__client__add").unwrap();
    assert_eq!(offered["description"], "Adds two numbers.");
    assert_eq!(offered["input_schema"]["properties"]["a"]["type"], "number");
    assert_eq!(last_input(&room)["content"], json!([{"type": "text", "text": "5"}]));
    // A second answer is one too many, and tools cannot be changed any more.
    give(&mut bridge, json!("6"), false).await;
    bridge.send(json!({"type": "register_tools", "tools": []})).await;
    let errors = [bridge.next().await.unwrap(), bridge.next().await.unwrap()];
    insta::assert_snapshot!(transcript_without(&[], &errors), @r#"
    {"code":"ask_not_open","fatal":false,"message":"callId call_1: ask 1 is not open: it was answered, withdrawn, expired, or never existed","type":"error"}
    {"code":"wrong_phase","fatal":false,"message":"the session is already started; send register_tools before start","type":"error"}
    "#);
    bridge.close_input();
    assert!(bridge.exit().await.success());
}

#[tokio::test]
async fn a_client_tool_that_is_not_allowed_needs_permission_and_may_fail() {
    let room = room().await;
    let mut bridge = session(&room, json!({})).await;
    let seen = bridge.until("permission_request").await;
    assert_eq!(seen.last().unwrap()["toolName"], "mcp__client__add");
    bridge.allow("req_1").await;
    let call = bridge.until("tool_call").await.pop().unwrap();
    assert_eq!(call["input"], json!({"a": 2, "b": 3}));
    let id = call["callId"].clone();
    let blocks = json!([{"type": "text", "text": "the heron "}, {"type": "text", "text": "is away"}]);
    bridge.send(json!({"type": "tool_call_result", "callId": id, "content": blocks, "isError": true})).await;
    let seen = bridge.until("turn_result").await;
    assert_eq!(of_type(&seen, "tool_result")[0]["isError"], true);
    assert_eq!(last_input(&room)["is_error"], true);
    assert!(last_input(&room)["content"].to_string().contains("the heron"), "{}", last_input(&room));
}

#[tokio::test]
async fn the_oldest_version_calls_client_tools_too() {
    let room = room().await;
    let mut bridge = room.bridge_with(&["--claude", oldest_claude().to_str().unwrap()]);
    bridge.send(json!({"type": "register_tools", "tools": [{"name": "add"}]})).await;
    bridge.start("go", json!({"allowedTools": ["mcp__client__add"]})).await;
    bridge.until("tool_call").await;
    give(&mut bridge, json!("5"), false).await;
    bridge.until("turn_result").await;
    assert_eq!(last_input(&room)["content"], json!([{"type": "text", "text": "5"}]));
}

#[tokio::test]
async fn a_client_that_disconnects_leaves_no_call_open() {
    let room = room().await;
    let mut bridge = session(&room, json!({"allowedTools": ["mcp__client__add"]})).await;
    bridge.until("tool_call").await;
    bridge.close_input();
    let seen = bridge.until("turn_result").await;
    assert_eq!(of_type(&seen, "tool_result")[0]["isError"], true);
    assert!(bridge.exit().await.success());
    assert!(
        last_input(&room)["content"].to_string().contains("disconnected and cannot answer"),
        "{}",
        last_input(&room)
    );
}

#[tokio::test]
async fn a_turn_that_is_interrupted_closes_its_call_and_a_late_result_is_refused() {
    for claude in [pinned_claude(), oldest_claude()] {
        let room = room().await;
        let mut bridge = room.bridge_with(&["--claude", claude.to_str().unwrap()]);
        bridge.send(json!({"type": "register_tools", "tools": [{"name": "add"}]})).await;
        bridge.start("go", json!({"allowedTools": ["mcp__client__add"]})).await;
        bridge.until("tool_call").await;
        bridge.send(json!({"type": "interrupt"})).await;
        let seen = bridge.until("turn_result").await;
        assert_eq!(seen.last().unwrap()["subtype"], "error_during_execution");
        insta::allow_duplicates! {
            insta::assert_snapshot!(transcript_without(&[], of_type(&seen, "tool_call_closed")), @r#"{"callId":"call_1","reason":"cancelled","type":"tool_call_closed"}"#);
        }
        give(&mut bridge, json!("5"), false).await;
        let late = bridge.until("error").await.pop().unwrap();
        let why = "callId call_1: ask 1 is not open: it was answered, withdrawn, expired, or never existed";
        assert_eq!(late["message"], why);
        // The session continues.
        bridge.send(json!({"type": "user_message", "text": "go on"})).await;
        let seen = bridge.until("turn_result").await;
        assert_eq!(seen.last().unwrap()["subtype"], "success");
    }
}

/// An MCP server that says who it is and has a tool of the same name as the client's.
const ANOTHER_SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "x", "version": "1"}}
    elif method == "tools/list":
        result = {"tools": [{"name": "add", "inputSchema": {"type": "object"}}]}
    elif "id" in message:
        result = {"content": [{"type": "text", "text": "from another"}]}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

#[tokio::test]
async fn a_call_of_a_client_tool_never_reaches_another_server_of_that_name() {
    for claude in [pinned_claude(), oldest_claude()] {
        let add = Reply::tool_use("toolu_1", "mcp__client__add", json!({}));
        let room = Room::with_replies([add, Reply::text("Done.")]).await;
        std::fs::write(room.sandbox.root().join("server.py"), ANOTHER_SERVER).unwrap();
        let server = json!({"command": "python3", "args": [room.sandbox.root().join("server.py")]});
        let servers = json!({"mcpServers": {"client": server}});
        std::fs::write(room.sandbox.cwd().join(".mcp.json"), servers.to_string()).unwrap();
        let mut bridge = room.bridge_with(&["--claude", claude.to_str().unwrap()]);
        bridge.send(json!({"type": "register_tools", "tools": [{"name": "add"}]})).await;
        let options = json!({"settingSources": ["project"], "allowedTools": ["mcp__client__add"]});
        bridge.send(json!({"type": "start", "prompt": "add", "options": options})).await;
        let seen = bridge.rest().await;
        let last = seen.last().unwrap();
        assert!(last["message"].as_str().unwrap().starts_with("another MCP server is called \"client\""), "{last}");
        assert_eq!((&last["fatal"], bridge.exit().await.code()), (&json!(true), Some(1)));
        assert!(of_type(&seen, "tool_call").is_empty());
        room.is_empty_within(std::time::Duration::from_secs(3)).await;
    }
    // One that the client itself names so is refused before anything starts.
    let room = Room::with_replies([]).await;
    let mut bridge = room.bridge();
    bridge.send(json!({"type": "register_tools", "tools": [{"name": "add"}]})).await;
    bridge.start("add", json!({"mcpServers": {"client": {"command": "true"}}})).await;
    let last = bridge.rest().await.pop().unwrap();
    let why = "rename the MCP server \"client\": Watari uses that name for the server of the program's own tools";
    assert_eq!(last["message"], why);
}
