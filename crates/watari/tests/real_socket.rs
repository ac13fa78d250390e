//! `watari socket` on the real CLI: every promise of its document.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::time::Duration;

use host::{Room, of_type, text_of, transcript};
use serde_json::json;
use watari_testkit::Reply;

fn bash(command: &str) -> Reply {
    Reply::text("I will look.").and_tool_use("toolu_1", "Bash", json!({"command": command}))
}

#[tokio::test]
async fn the_flow_of_the_document() {
    let room = Room::real([bash("touch made; echo seen"), Reply::text("Fixed.")]).await;
    let host = room.host(&[]).await;
    let mut client = host.client().await;
    client.say("fix the bug").await;
    let mut seen = client.until("approval_request").await;
    client.send(json!({"type": "approve", "request_id": "toolu_1"})).await;
    seen.extend(client.until("done").await);
    insta::assert_snapshot!(transcript(&["session_id", "usage"], &seen), @r#"
    {"session_id":"session_id","type":"init"}
    {"text":"I wi","type":"text_delta"}
    {"text":"ll l","type":"text_delta"}
    {"text":"ook.","type":"text_delta"}
    {"input":{"command":"touch made; echo seen"},"request_id":"toolu_1","tool":"Bash","type":"tool_use"}
    {"input":{"command":"touch made; echo seen"},"request_id":"toolu_1","tool":"Bash","type":"approval_request"}
    {"by":"client 1","decision":"approved","request_id":"toolu_1","type":"approval_resolved"}
    {"content":"seen","output":"seen","request_id":"toolu_1","type":"tool_result"}
    {"text":"Fixe","type":"text_delta"}
    {"text":"d.","type":"text_delta"}
    {"type":"done","usage":"usage"}
    "#);
    assert!(seen.last().unwrap()["usage"]["output_tokens"].is_number(), "{seen:?}");
    assert_eq!(text_of(&seen), "I will look.Fixed.");
    assert!(room.sandbox.cwd().join("made").exists());
    assert_eq!(of_type(&seen, "init")[0]["session_id"], room.record()["session_id"]);
    // The client goes, the session stays, and another client goes on with it.
    drop(client);
    let mut second = host.client_with_init().await;
    second.say("more").await;
    second.until("done").await;
    host.stop().await;
    room.is_empty_within(Duration::from_secs(1)).await;
    room.is_tidy();
    assert_eq!(room.record()["state"], "ended");
}
