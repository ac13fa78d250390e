//! The bridge on the real CLI: a complete line of every type, in which only the listed values differ from run to run or
//! are the CLI's own text.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod bridge;
mod common;

use std::time::Duration;

use bridge::{Bridge, Room, of_type, transcript_without};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Command;
use watari_testkit::processes::marked;
use watari_testkit::{Reply, Script};

/// So that neither its name nor its price depends on the CLI.
const MODEL: &str = "claude-sonnet-4-5";

/// A command that ends when another process writes to the pipe that it makes.
const WAIT: &str = "mkfifo gate && cat gate";

fn bash(input: Value) -> Reply {
    Reply::tool_use("toolu_1", "Bash", input)
}

/// A session in a room of its own.
async fn session(script: Script, options: Value) -> (Room, Bridge) {
    let room = Room::with_script(script).await;
    let mut bridge = room.bridge();
    let mut all = json!({"model": MODEL});
    all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
    bridge.start("go", all).await;
    (room, bridge)
}

fn replies<const N: usize>(replies: [Reply; N]) -> Script {
    replies.into_iter().fold(Script::new(), Script::reply)
}

/// Lets the command end. By another process, because the pipe opens only when both ends do.
async fn let_end(room: &Room) {
    let gate = room.sandbox.cwd().join("gate");
    common::appears(&gate).await;
    let mut open = Command::new("sh");
    open.args(["-c", "echo opened > \"$0\""]).arg(gate).kill_on_drop(true);
    let opened = tokio::time::timeout(Duration::from_secs(10), open.status()).await;
    assert!(opened.unwrap().unwrap().success());
}

#[tokio::test]
async fn a_turn_with_a_permission_request() {
    let first =
        Reply::thinking("hm").and_text("Look.").and_tool_use("toolu_1", "Bash", json!({"command": "touch made"}));
    let options = json!({"mcpServers": {"birds": {"command": "false"}}});
    let (_room, mut bridge) = session(replies([first, Reply::text("Done.")]), options).await;
    let mut seen = bridge.until("permission_request").await;
    bridge.answer("req_1", json!({"behavior": "deny", "message": "the heron sleeps"})).await;
    seen.extend(bridge.until("turn_result").await);
    insta::assert_snapshot!(transcript_without(&["sessionId", "tools"], &seen), @r#"
    {"type":"ready"}
    {"claudeCodeVersion":"2.1.325","mcpServers":[{"name":"birds","source":"dynamic","status":"failed"}],"model":"claude-sonnet-4-5","permissionMode":"default","sessionId":"sessionId","tools":"tools","type":"session_init"}
    {"sessionId":"sessionId","status":"requesting","type":"status"}
    {"sessionId":"sessionId","type":"stream_message_start"}
    {"blockType":"thinking","index":0,"sessionId":"sessionId","type":"stream_content_start"}
    {"deltaType":"thinking_delta","index":0,"sessionId":"sessionId","text":"hm","type":"stream_content_delta"}
    {"index":0,"sessionId":"sessionId","type":"stream_content_stop"}
    {"blockType":"text","index":1,"sessionId":"sessionId","type":"stream_content_start"}
    {"deltaType":"text_delta","index":1,"sessionId":"sessionId","text":"Look","type":"stream_content_delta"}
    {"deltaType":"text_delta","index":1,"sessionId":"sessionId","text":".","type":"stream_content_delta"}
    {"index":1,"sessionId":"sessionId","type":"stream_content_stop"}
    {"blockId":"toolu_1","blockType":"tool_use","index":2,"sessionId":"sessionId","toolName":"Bash","type":"stream_content_start"}
    {"deltaType":"input_json_delta","index":2,"sessionId":"sessionId","text":"{\"command\":\"","type":"stream_content_delta"}
    {"deltaType":"input_json_delta","index":2,"sessionId":"sessionId","text":"touch made\"}","type":"stream_content_delta"}
    {"index":2,"sessionId":"sessionId","type":"stream_content_stop"}
    {"requestId":"req_1","toolInput":{"command":"touch made"},"toolName":"Bash","toolUseId":"toolu_1","type":"permission_request"}
    {"sessionId":"sessionId","type":"stream_message_stop"}
    {"content":[{"signature":"c2ln","thinking":"hm","type":"thinking"},{"text":"Look.","type":"text"},{"id":"toolu_1","input":{"command":"touch made"},"name":"Bash","type":"tool_use"}],"parentToolUseId":null,"sessionId":"sessionId","type":"assistant_message"}
    {"content":"the heron sleeps","isError":true,"toolUseId":"toolu_1","type":"tool_result"}
    {"sessionId":"sessionId","status":"requesting","type":"status"}
    {"sessionId":"sessionId","type":"stream_message_start"}
    {"blockType":"text","index":0,"sessionId":"sessionId","type":"stream_content_start"}
    {"deltaType":"text_delta","index":0,"sessionId":"sessionId","text":"Done","type":"stream_content_delta"}
    {"deltaType":"text_delta","index":0,"sessionId":"sessionId","text":".","type":"stream_content_delta"}
    {"index":0,"sessionId":"sessionId","type":"stream_content_stop"}
    {"sessionId":"sessionId","type":"stream_message_stop"}
    {"content":[{"text":"Done.","type":"text"}],"parentToolUseId":null,"sessionId":"sessionId","type":"assistant_message"}
    {"isError":false,"numTurns":2,"origin":"prompt","result":"Done.","sessionId":"sessionId","subtype":"success","totalCostUsd":0.00021,"type":"turn_result","usage":{"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"fallback_credit":null,"inference_geo":"","input_tokens":20,"iterations":[],"output_tokens":10,"output_tokens_details":{"thinking_tokens":0},"server_tool_use":{"web_fetch_requests":0,"web_search_requests":0},"service_tier":"standard","speed":"standard"}}
    "#);
}

#[tokio::test]
async fn turns_that_fail() {
    let tool = || bash(json!({"command": "echo seen"}));
    let mut ends = Vec::new();
    for (script, options) in [
        (replies([tool(), Reply::text("no")]), json!({"maxTurns": 1, "allowedTools": ["Bash"]})),
        (replies([tool(), Reply::text("no")]), json!({"maxBudgetUsd": 0.000_001, "allowedTools": ["Bash"]})),
        (replies([Reply::status(400, "the heron says no")]), json!({})),
    ] {
        let (_room, mut bridge) = session(script, options).await;
        ends.push(bridge.until("turn_result").await.pop().unwrap());
    }
    let (_room, mut bridge) = session(replies([Reply::stall()]), json!({})).await;
    bridge.until("stream_content_delta").await;
    bridge.send(json!({"type": "interrupt"})).await;
    ends.push(bridge.until("turn_result").await.pop().unwrap());
    insta::assert_snapshot!(transcript_without(&["sessionId", "errors", "result"], &ends), @r#"
    {"errors":"errors","isError":true,"numTurns":2,"origin":"prompt","sessionId":"sessionId","subtype":"error_max_turns","totalCostUsd":0.000105,"type":"turn_result","usage":{"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"fallback_credit":null,"inference_geo":"","input_tokens":10,"iterations":[],"output_tokens":5,"output_tokens_details":{"thinking_tokens":0},"server_tool_use":{"web_fetch_requests":0,"web_search_requests":0},"service_tier":"standard","speed":"standard"}}
    {"errors":"errors","isError":true,"numTurns":1,"origin":"prompt","sessionId":"sessionId","subtype":"error_max_budget_usd","totalCostUsd":0.000105,"type":"turn_result","usage":{"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"fallback_credit":null,"inference_geo":"","input_tokens":0,"iterations":[],"output_tokens":0,"output_tokens_details":{"thinking_tokens":0},"server_tool_use":{"web_fetch_requests":0,"web_search_requests":0},"service_tier":"standard","speed":"standard"}}
    {"isError":true,"numTurns":1,"origin":"prompt","result":"result","sessionId":"sessionId","subtype":"success","totalCostUsd":0.0,"type":"turn_result","usage":{"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"fallback_credit":null,"inference_geo":"","input_tokens":0,"iterations":[],"output_tokens":0,"output_tokens_details":{"thinking_tokens":0},"server_tool_use":{"web_fetch_requests":0,"web_search_requests":0},"service_tier":"standard","speed":"standard"}}
    {"errors":"errors","isError":true,"numTurns":2,"origin":"prompt","sessionId":"sessionId","subtype":"error_during_execution","totalCostUsd":0.0,"type":"turn_result","usage":{"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"fallback_credit":null,"inference_geo":"","input_tokens":0,"iterations":[],"output_tokens":0,"output_tokens_details":{"thinking_tokens":0},"server_tool_use":{"web_fetch_requests":0,"web_search_requests":0},"service_tier":"standard","speed":"standard"}}
    "#);
}

#[tokio::test]
async fn a_tool_that_takes_long() {
    let (room, mut bridge) =
        session(replies([bash(json!({"command": WAIT})), Reply::text("Done.")]), json!({"allowedTools": ["Bash"]}))
            .await;
    // The CLI reports it after half a minute.
    bridge.within = Duration::from_secs(60);
    let received = bridge.until("tool_progress").await.pop().unwrap();
    let_end(&room).await;
    let rest = bridge.until("turn_result").await;
    insta::assert_snapshot!(transcript_without(&["sessionId", "elapsedSeconds"], [&received]), @r#"{"elapsedSeconds":"elapsedSeconds","sessionId":"sessionId","toolName":"Bash","toolUseId":"toolu_1","type":"tool_progress"}"#);
    let elapsed = received["elapsedSeconds"].as_f64().unwrap();
    assert!((29.0..60.0).contains(&elapsed), "{elapsed}");
    insta::assert_snapshot!(transcript_without(&[], of_type(&rest, "tool_result")), @r#"{"content":"opened","isError":false,"toolUseId":"toolu_1","type":"tool_result"}"#);
}

#[tokio::test]
async fn requests_without_an_answer() {
    let tool = || bash(json!({"command": "touch made"}));
    let (_room, mut bridge) =
        session(replies([tool(), Reply::text("Well.")]), json!({"permissionTimeoutMs": 300})).await;
    let mut seen = bridge.until("permission_closed").await;
    bridge.allow("req_1").await;
    seen.extend(bridge.until("error").await);
    let (_room, mut bridge) = session(replies([tool()]), json!({})).await;
    bridge.until("permission_request").await;
    bridge.send(json!({"type": "interrupt"})).await;
    seen.extend(bridge.until("permission_closed").await);
    let received = [of_type(&seen, "permission_closed"), of_type(&seen, "error")].concat();
    insta::assert_snapshot!(transcript_without(&[], received), @r#"
    {"reason":"expired","requestId":"req_1","type":"permission_closed"}
    {"reason":"cancelled","requestId":"req_1","type":"permission_closed"}
    {"code":"ask_not_open","fatal":false,"message":"requestId req_1: ask 1 is not open: it was answered, withdrawn, expired, or never existed","type":"error"}
    "#);
}

#[tokio::test]
async fn messages_that_are_dropped() {
    let (_room, mut bridge) = session(replies([Reply::stall()]), json!({})).await;
    bridge.until("stream_content_delta").await;
    bridge.send(json!({"type": "user_message", "text": "later"})).await;
    bridge.send(json!({"type": "interrupt", "cancelQueued": true})).await;
    let seen = bridge.until("turn_result").await;
    insta::assert_snapshot!(transcript_without(&[], of_type(&seen, "message_dropped")), @r#"{"reason":"cancelled","type":"message_dropped"}"#);
}

#[tokio::test]
async fn statuses_of_the_cli_and_changed_settings() {
    let (_room, mut bridge) = session(replies([Reply::text("one"), Reply::text("a summary")]), json!({})).await;
    let mut seen = bridge.until("turn_result").await;
    bridge.send(json!({"type": "user_message", "text": "/compact"})).await;
    seen.extend(bridge.until("turn_result").await);
    bridge.send(json!({"type": "set_permission_mode", "mode": "plan"})).await;
    seen.extend(bridge.until("status").await);
    bridge.send(json!({"type": "set_model", "model": "claude-opus-4-5"})).await;
    seen.extend(bridge.until("status").await);
    bridge.send(json!({"type": "set_model"})).await;
    seen.extend(bridge.until("status").await);
    insta::assert_snapshot!(transcript_without(&["sessionId"], of_type(&seen, "status")), @r#"
    {"sessionId":"sessionId","status":"requesting","type":"status"}
    {"sessionId":"sessionId","status":"compacting","type":"status"}
    {"sessionId":"sessionId","status":null,"type":"status"}
    {"permissionMode":"plan","sessionId":"sessionId","status":null,"type":"status"}
    {"model":"claude-opus-4-5","sessionId":"sessionId","status":null,"type":"status"}
    {"model":"default","sessionId":"sessionId","status":null,"type":"status"}
    "#);
}

#[tokio::test]
async fn a_command_in_the_background() {
    let command = bash(json!({"command": WAIT, "run_in_background": true}));
    let (room, mut bridge) = session(
        replies([command, Reply::text("Started."), Reply::text("It is over.")]),
        json!({"allowedTools": ["Bash"]}),
    )
    .await;
    let mut seen = bridge.until("turn_result").await;
    let_end(&room).await;
    seen.extend(bridge.until("turn_result").await);
    let received: Vec<_> = seen.iter().filter(|line| line["type"] == "task" || line["type"] == "turn_result").collect();
    insta::assert_snapshot!(transcript_without(&["sessionId", "taskId", "detail"], received), @r#"
    {"detail":"detail","sessionId":"sessionId","taskId":"taskId","type":"task","update":"started"}
    {"isError":false,"numTurns":2,"origin":"prompt","result":"Started.","sessionId":"sessionId","subtype":"success","totalCostUsd":0.00021,"type":"turn_result","usage":{"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"fallback_credit":null,"inference_geo":"","input_tokens":20,"iterations":[],"output_tokens":10,"output_tokens_details":{"thinking_tokens":0},"server_tool_use":{"web_fetch_requests":0,"web_search_requests":0},"service_tier":"standard","speed":"standard"}}
    {"detail":"detail","sessionId":"sessionId","taskId":"taskId","type":"task","update":"updated"}
    {"detail":"detail","sessionId":"sessionId","taskId":"taskId","type":"task","update":"ended"}
    {"isError":false,"numTurns":1,"origin":"task","result":"It is over.","sessionId":"sessionId","subtype":"success","totalCostUsd":0.000315,"type":"turn_result","usage":{"cache_creation":{"ephemeral_1h_input_tokens":0,"ephemeral_5m_input_tokens":0},"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"fallback_credit":null,"inference_geo":"","input_tokens":10,"iterations":[],"output_tokens":5,"output_tokens_details":{"thinking_tokens":0},"server_tool_use":{"web_fetch_requests":0,"web_search_requests":0},"service_tier":"standard","speed":"standard"}}
    "#);
}

#[tokio::test]
async fn a_subagent() {
    let agent = json!({
        "description": "look", "prompt": "look around", "subagent_type": "general-purpose", "run_in_background": false,
    });
    let looks = Reply::text("I am below.").and_tool_use("toolu_below", "Bash", json!({"command": "echo seen"}));
    let script = replies([Reply::tool_use("toolu_agent", "Agent", agent), Reply::text("It is back.")])
        .for_agents([looks, Reply::text("A heron.")]);
    let (_room, mut bridge) = session(script, json!({"allowedTools": ["Bash"]})).await;
    let seen = bridge.until("turn_result").await;
    let output = of_type(&seen, "assistant_message");
    insta::assert_snapshot!(transcript_without(&["sessionId"], output), @r#"
    {"content":[{"id":"toolu_agent","input":{"description":"look","prompt":"look around","run_in_background":false,"subagent_type":"general-purpose"},"name":"Agent","type":"tool_use"}],"parentToolUseId":null,"sessionId":"sessionId","type":"assistant_message"}
    {"content":[{"text":"I am below.","type":"text"}],"parentToolUseId":"toolu_agent","sessionId":"sessionId","type":"assistant_message"}
    {"content":[{"id":"toolu_below","input":{"command":"echo seen"},"name":"Bash","type":"tool_use"}],"parentToolUseId":"toolu_agent","sessionId":"sessionId","type":"assistant_message"}
    {"content":[{"text":"A heron.","type":"text"}],"parentToolUseId":"toolu_agent","sessionId":"sessionId","type":"assistant_message"}
    {"content":[{"text":"It is back.","type":"text"}],"parentToolUseId":null,"sessionId":"sessionId","type":"assistant_message"}
    "#);
    insta::assert_snapshot!(transcript_without(&["sessionId", "taskId", "detail"], of_type(&seen, "task")), @r#"
    {"detail":"detail","sessionId":"sessionId","taskId":"taskId","type":"task","update":"started"}
    {"detail":"detail","sessionId":"sessionId","taskId":"taskId","type":"task","update":"progressed"}
    {"detail":"detail","sessionId":"sessionId","taskId":"taskId","type":"task","update":"updated"}
    {"detail":"detail","sessionId":"sessionId","taskId":"taskId","type":"task","update":"ended"}
    "#);
}

#[tokio::test]
async fn a_session_whose_cli_exits_and_one_that_cannot_start() {
    let (room, mut bridge) = session(replies([Reply::stall()]), json!({})).await;
    bridge.until("stream_content_delta").await;
    let processes = marked(room.sandbox.root().to_str().unwrap());
    let cli = processes.iter().find(|process| process.command.contains("stream-json")).unwrap();
    kill_process(Pid::from_raw(cli.pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
    let mut errors = bridge.rest().await;
    let mut bridge = room.bridge_with(&["--claude", "/nowhere/claude"]);
    bridge.start("go", json!({"colour": "red"})).await;
    errors.extend(bridge.rest().await);
    insta::assert_snapshot!(transcript_without(&[], of_type(&errors, "error")), @r#"
    {"fatal":true,"message":"Claude Code was terminated by signal 9","type":"error"}
    {"code":"invalid_field","fatal":false,"message":"options.colour is unknown and was ignored","type":"error"}
    {"fatal":true,"message":"Claude Code CLI not found: there is nothing at /nowhere/claude; check the path","type":"error"}
    "#);
}

#[test]
fn every_type_of_the_schema_has_its_line() {
    let schema: Value = serde_json::from_str(include_str!("../../../docs/schema/bridge.json")).unwrap();
    let shown = concat!(include_str!("real_stdio_types.rs"), include_str!("real_stdio_tools.rs"));
    for message in schema["$defs"]["from_watari"]["oneOf"].as_array().unwrap() {
        let name = message["$ref"].as_str().unwrap().strip_prefix("#/$defs/").unwrap();
        assert!(shown.contains(&format!("\"type\":\"{name}\"")), "{name}");
    }
}
