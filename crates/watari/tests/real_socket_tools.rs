//! Tools of clients on the socket, on the real CLI: a call that ends without a result, and an MCP server with the name
//! of the tool server.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use host::{Host, Room, of_type, transcript};
use serde_json::{Value, json};
use watari_testkit::Reply;
use watari_testkit::claude::{oldest_claude, pinned_claude};

/// A host on which a client has a tool that the model uses.
async fn host_with_tool(room: &Room) -> (Host, host::Client) {
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.send(json!({"type": "register_tools", "id": "tools", "tools": [{"name": "add"}]})).await;
    client.until("accepted").await;
    (host, client)
}

async fn room_of(claude: std::path::PathBuf) -> Room {
    let uses = Reply::tool_use("toolu_1", "mcp__client__add", json!({"a": 2}));
    Room { claude, ..Room::real([uses, Reply::text("Done.")]).await }
}

#[tokio::test]
async fn a_call_that_is_interrupted_is_closed_for_every_client_and_a_late_result_is_refused() {
    let room = room_of(pinned_claude()).await;
    let (host, mut client) = host_with_tool(&room).await;
    let (mut native, _) = host.native_since(Value::Null).await;
    client.say("go").await;
    let asked = client.until("approval_request").await.pop().unwrap();
    client.send(json!({"type": "approve", "request_id": asked["request_id"]})).await;
    let call = client.until("tool_call").await.pop().unwrap();
    client.send(json!({"type": "abort"})).await;
    let seen = client.until("done").await;
    let closed = json!({"type": "tool_call_closed", "call_id": call["call_id"], "reason": "cancelled"});
    assert_eq!(of_type(&seen, "tool_call_closed"), [&closed]);
    let seen = native.until("became_idle").await;
    let is_call = |line: &&&Value| line["kind"] == "tool_call";
    let endings: Vec<_> = of_type(&seen, "ask_resolved").into_iter().filter(|line| is_call(&line)).collect();
    assert_eq!(endings.len(), 1, "{seen:#?}");
    assert_eq!(endings[0]["resolution"], "withdrawn");
    // Too late, and of a call that never was.
    let result = |call: &Value| json!({"type": "tool_call_result", "id": "late", "call_id": call, "content": "5"});
    client.send(result(&call["call_id"])).await;
    let late = client.until("error").await.pop().unwrap();
    client.send(json!({"type": "tool_call_result", "id": "never", "call_id": "mine", "content": "5"})).await;
    let never = client.until("error").await.pop().unwrap();
    let errors = [late, never].map(|mut line| {
        line["message"] = line["message"].as_str().unwrap().replace(call["call_id"].as_str().unwrap(), "CALL").into();
        line
    });
    insta::assert_snapshot!(transcript(&[], &errors), @r#"
    {"code":"ask_not_open","id":"late","kind":"refused","message":"call_id \"CALL\": ask 3 is not open: it was answered, withdrawn, expired, or never existed","type":"error"}
    {"code":"ask_not_open","id":"never","kind":"refused","message":"call_id \"mine\" is not open: it was answered, cancelled, has expired or never existed","type":"error"}
    "#);
    host.stop().await;
}

#[tokio::test]
async fn a_conflict_of_server_names_is_reported_for_the_first_message_with_the_real_reason() {
    for claude in [pinned_claude(), oldest_claude()] {
        let room = room_of(claude).await;
        let servers = json!({"mcpServers": {"client": {"command": "cat"}}});
        std::fs::write(room.sandbox.cwd().join(".mcp.json"), servers.to_string()).unwrap();
        let (host, mut client) = host_with_tool(&room).await;
        client.say("go").await;
        let seen = client.until("done").await;
        let errors = of_type(&seen, "error");
        let output: Vec<_> = errors.iter().map(|line| line["message"].as_str().unwrap()).collect();
        assert_eq!(output.len(), 1, "{} {output:?}", room.claude.display());
        assert!(
            output[0].starts_with("another MCP server is called \"client\""),
            "{} {output:?}",
            room.claude.display()
        );
        assert!(of_type(&seen, "tool_call").is_empty());
        host.stop().await;
    }
}
