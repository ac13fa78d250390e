//! The bridge on the real CLI: every promise of its protocol.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod bridge;

use std::time::{Duration, Instant};

use bridge::{Room, transcript, types};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use watari_testkit::Reply;
use watari_testkit::processes::marked;

fn bash(command: &str) -> Reply {
    Reply::tool_use("toolu_1", "Bash", json!({"command": command}))
}

#[tokio::test]
async fn a_conversation_with_a_permission_request() {
    let first = Reply::thinking("hm").and_text("I will look.").and_tool_use(
        "toolu_1",
        "Bash",
        json!({"command": "echo seen; touch made"}),
    );
    let room = Room::with_replies([first, Reply::text("Done."), Reply::text("Again.")]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    let mut seen = bridge.until("permission_request").await;
    bridge.send(json!({"type": "permission_response", "requestId": "req_1", "result": {"behavior": "allow"}})).await;
    seen.extend(bridge.until("turn_result").await);
    bridge.send(json!({"type": "user_message", "text": "more"})).await;
    seen.extend(bridge.until("turn_result").await);
    bridge.close_input();
    seen.extend(bridge.rest().await);
    insta::assert_snapshot!(transcript(&seen), @r#"
    {"type":"ready"}
    {"claudeCodeVersion":"claudeCodeVersion","mcpServers":[],"model":"model","permissionMode":"default","sessionId":"sessionId","tools":"tools","type":"session_init"}
    {"sessionId":"sessionId","type":"stream_message_start"}
    {"blockType":"thinking","index":0,"sessionId":"sessionId","type":"stream_content_start"}
    {"deltaType":"thinking_delta","index":0,"sessionId":"sessionId","text":"hm","type":"stream_content_delta"}
    {"index":0,"sessionId":"sessionId","type":"stream_content_stop"}
    {"blockType":"text","index":1,"sessionId":"sessionId","type":"stream_content_start"}
    {"deltaType":"text_delta","index":1,"sessionId":"sessionId","text":"I wi","type":"stream_content_delta"}
    {"deltaType":"text_delta","index":1,"sessionId":"sessionId","text":"ll l","type":"stream_content_delta"}
    {"deltaType":"text_delta","index":1,"sessionId":"sessionId","text":"ook.","type":"stream_content_delta"}
    {"index":1,"sessionId":"sessionId","type":"stream_content_stop"}
    {"blockId":"toolu_1","blockType":"tool_use","index":2,"sessionId":"sessionId","toolName":"Bash","type":"stream_content_start"}
    {"deltaType":"input_json_delta","index":2,"sessionId":"sessionId","text":"{\"command\":\"echo s","type":"stream_content_delta"}
    {"deltaType":"input_json_delta","index":2,"sessionId":"sessionId","text":"een; touch made\"}","type":"stream_content_delta"}
    {"index":2,"sessionId":"sessionId","type":"stream_content_stop"}
    {"requestId":"req_1","toolInput":{"command":"echo seen; touch made"},"toolName":"Bash","toolUseId":"toolu_1","type":"permission_request"}
    {"sessionId":"sessionId","type":"stream_message_stop"}
    {"content":[{"signature":"c2ln","thinking":"hm","type":"thinking"},{"text":"I will look.","type":"text"},{"id":"toolu_1","input":{"command":"echo seen; touch made"},"name":"Bash","type":"tool_use"}],"parentToolUseId":null,"sessionId":"sessionId","type":"assistant_message"}
    {"content":"seen","isError":false,"toolUseId":"toolu_1","type":"tool_result"}
    {"sessionId":"sessionId","type":"stream_message_start"}
    {"blockType":"text","index":0,"sessionId":"sessionId","type":"stream_content_start"}
    {"deltaType":"text_delta","index":0,"sessionId":"sessionId","text":"Done","type":"stream_content_delta"}
    {"deltaType":"text_delta","index":0,"sessionId":"sessionId","text":".","type":"stream_content_delta"}
    {"index":0,"sessionId":"sessionId","type":"stream_content_stop"}
    {"sessionId":"sessionId","type":"stream_message_stop"}
    {"content":[{"text":"Done.","type":"text"}],"parentToolUseId":null,"sessionId":"sessionId","type":"assistant_message"}
    {"isError":false,"numTurns":2,"origin":"prompt","result":"Done.","sessionId":"sessionId","subtype":"success","totalCostUsd":"totalCostUsd","type":"turn_result","usage":"usage"}
    {"sessionId":"sessionId","type":"stream_message_start"}
    {"blockType":"text","index":0,"sessionId":"sessionId","type":"stream_content_start"}
    {"deltaType":"text_delta","index":0,"sessionId":"sessionId","text":"Agai","type":"stream_content_delta"}
    {"deltaType":"text_delta","index":0,"sessionId":"sessionId","text":"n.","type":"stream_content_delta"}
    {"index":0,"sessionId":"sessionId","type":"stream_content_stop"}
    {"sessionId":"sessionId","type":"stream_message_stop"}
    {"content":[{"text":"Again.","type":"text"}],"parentToolUseId":null,"sessionId":"sessionId","type":"assistant_message"}
    {"isError":false,"numTurns":1,"origin":"prompt","result":"Again.","sessionId":"sessionId","subtype":"success","totalCostUsd":"totalCostUsd","type":"turn_result","usage":"usage"}
    "#);
    assert_eq!(bridge.exit().await.code(), Some(0));
    assert!(room.sandbox.cwd().join("made").exists());
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn two_lines_in_one_write_are_two_turns_and_the_end_of_the_input_finishes_them() {
    let room = Room::with_replies([Reply::text("one").delay(Duration::from_millis(300)), Reply::text("two")]).await;
    let mut bridge = room.bridge();
    let start = json!({"type": "start", "prompt": "a", "options": {"settingSources": []}});
    let more = json!({"type": "user_message", "text": "b", "images": null});
    bridge.write(&format!("{start}\n\n{more}")).await;
    bridge.close_input();
    let seen = bridge.rest().await;
    let results: Vec<_> =
        seen.iter().filter(|line| line["type"] == "turn_result").map(|line| &line["result"]).collect();
    assert_eq!(results, ["one", "two"]);
    assert_eq!(seen.iter().filter(|line| line["type"] == "session_init").count(), 1);
    assert_eq!(bridge.exit().await.code(), Some(0));
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn abort_ends_the_session_without_an_error_at_any_time() {
    // Before the start, and with the end of the input.
    let room = Room::with_replies([Reply::stall()]).await;
    for line in ["{\"type\":\"abort\"}\n", ""] {
        let mut bridge = room.bridge();
        bridge.until("ready").await;
        bridge.write(line).await;
        bridge.close_input();
        assert_eq!(types(&bridge.rest().await), "");
        assert_eq!(bridge.exit().await.code(), Some(0));
    }
    // In a turn, twice.
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.until("stream_content_delta").await;
    let received = Instant::now();
    bridge.write("{\"type\":\"abort\"}\n{\"type\":\"abort\"}\n").await;
    let rest = bridge.rest().await;
    assert!(["", "turn_result"].contains(&types(&rest).as_str()), "{rest:?}");
    assert_eq!(bridge.exit().await.code(), Some(0));
    assert!(received.elapsed() < Duration::from_secs(3));
    room.is_empty_within(Duration::from_secs(1)).await;
    // With a permission open, by a signal.
    let room = Room::with_replies([bash("touch made")]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.until("permission_request").await;
    kill_process(Pid::from_raw(bridge.pid().cast_signed()).unwrap(), Signal::TERM).unwrap();
    let rest = bridge.rest().await;
    assert!(rest.iter().all(|line| line["type"] != "error"), "{rest:?}");
    assert_eq!(bridge.exit().await.code(), Some(0));
    room.is_empty_within(Duration::from_secs(1)).await;
    assert!(!room.sandbox.cwd().join("made").exists());
}

#[tokio::test]
async fn an_unanswered_permission_request_is_denied_and_a_late_answer_is_an_error() {
    let room = Room::with_replies([bash("touch made"), Reply::text("Well."), Reply::text("Fresh.")]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({"permissionTimeoutMs": 300, "model": null, "systemPrompt": null})).await;
    let mut seen = bridge.until("permission_closed").await;
    bridge.send(json!({"type": "permission_response", "requestId": "req_1", "result": {"behavior": "allow"}})).await;
    seen.extend(bridge.until("turn_result").await);
    bridge.send(json!({"type": "user_message", "text": "and?"})).await;
    seen.extend(bridge.until("turn_result").await);
    let kept = |kind: &str| seen.iter().filter(|line| line["type"] == kind).cloned().collect::<Vec<_>>();
    let received = [kept("permission_closed"), kept("error"), kept("tool_result")].concat();
    insta::assert_snapshot!(transcript(&received), @r#"
    {"reason":"expired","requestId":"req_1","type":"permission_closed"}
    {"code":"ask_not_open","fatal":false,"message":"requestId req_1: ask 1 is not open: it was answered, withdrawn, expired, or never existed","type":"error"}
    {"content":"Permission request timed out","isError":true,"toolUseId":"toolu_1","type":"tool_result"}
    "#);
    assert_eq!(kept("turn_result").len(), 2);
    assert!(!room.sandbox.cwd().join("made").exists());
}

#[tokio::test]
async fn without_streaming_only_complete_messages_are_sent_and_a_session_can_be_resumed() {
    let room = Room::with_replies([Reply::text("one"), Reply::text("two")]).await;
    let mut bridge = room.bridge();
    bridge.start("first question", json!({"includePartialMessages": false})).await;
    let first = bridge.until("turn_result").await;
    assert_eq!(types(&first).replace("status ", ""), "ready session_init assistant_message turn_result");
    bridge.close_input();
    assert_eq!(bridge.exit().await.code(), Some(0));
    let id = first.last().unwrap()["sessionId"].clone();

    let mut bridge = room.bridge();
    bridge.start("second question", json!({"resume": id})).await;
    let second = bridge.until("turn_result").await;
    assert_eq!(second.last().unwrap()["sessionId"], id);
    let asked = room.stub.model_calls().pop().unwrap().to_string();
    assert!(asked.contains("first question") && asked.contains("second question"));
}

#[tokio::test]
async fn a_start_that_fails_sends_only_the_reason() {
    let room = Room::with_replies([]).await;
    let unknown = "33333333-3333-4333-8333-333333333333";
    for (flags, options, why) in [
        (
            vec!["--claude", "/nowhere/claude"],
            json!({}),
            "Claude Code CLI not found: there is nothing at /nowhere/claude",
        ),
        (vec![], json!({"cwd": "/nowhere"}), "/nowhere does not exist"),
        (vec![], json!({"resume": unknown}), "there is no conversation 33333333"),
        (vec![], json!({"resume": "my title"}), "options.resume"),
        (vec![], json!({"permissionMode": "bypassPermissions"}), "--allow-bypass"),
    ] {
        let mut bridge = if flags.is_empty() { room.bridge() } else { room.bridge_with(&flags) };
        bridge.start("go", options).await;
        let seen = bridge.rest().await;
        assert_eq!(types(&seen), "ready error", "{seen:?}");
        assert!(seen[1]["message"].as_str().unwrap().contains(why), "{seen:?}");
        assert_eq!(seen[1]["fatal"], true);
        assert_eq!(bridge.exit().await.code(), Some(1));
    }
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_cli_that_dies_is_a_fatal_error() {
    let room = Room::with_replies([Reply::stall()]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.until("stream_content_delta").await;
    let processes = marked(room.sandbox.root().to_str().unwrap());
    let cli = processes.iter().find(|process| process.command.contains("stream-json")).unwrap();
    kill_process(Pid::from_raw(cli.pid.cast_signed()).unwrap(), Signal::KILL).unwrap();
    let last = bridge.rest().await.pop().unwrap();
    assert_eq!((&last["type"], &last["fatal"]), (&json!("error"), &json!(true)), "{last}");
    assert!(last["message"].as_str().unwrap().contains("signal 9"), "{last}");
    assert_eq!(bridge.exit().await.code(), Some(1));
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn bad_lines_get_an_error_each_and_change_nothing() {
    let room = Room::with_replies([Reply::text("one"), Reply::text("two")]).await;
    let mut bridge = room.bridge();
    bridge.until("ready").await;
    bridge.write("{\"type\":\"user_message\",\"text\":\"too early\"}\nnonsense\n").await;
    bridge.start("go", json!({"colour": "red", "env": {"A": "1", "B": null}})).await;
    bridge.start("again", json!({})).await;
    let seen = bridge.until("turn_result").await;
    let errors: Vec<_> =
        seen.iter().filter(|line| line["type"] == "error").map(|line| line["message"].as_str().unwrap()).collect();
    insta::assert_snapshot!(errors.join("\n"), @"
    there is no session yet: send start first
    the line is not a JSON object
    options.colour is unknown and was ignored
    the session is already started; send user_message
    ");
    bridge
        .write("{\"type\":\"permission_response\",\"requestId\":\"req_9\",\"result\":{\"behavior\":\"allow\"}}\n")
        .await;
    let late = bridge.until("error").await;
    insta::assert_snapshot!(late.last().unwrap()["message"].as_str().unwrap(), @"requestId req_9: ask 9 is not open: it was answered, withdrawn, expired, or never existed");
    bridge.send(json!({"type": "user_message", "text": "more"})).await;
    assert_eq!(bridge.until("turn_result").await.last().unwrap()["result"], "two");
    assert_eq!(room.stub.model_calls().len(), 2);
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_and_the_session_continues() {
    let room = Room::with_replies([Reply::stall(), Reply::text("Fresh.")]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.until("stream_content_delta").await;
    bridge.send(json!({"type": "interrupt"})).await;
    let ended = bridge.until("turn_result").await.pop().unwrap();
    assert_eq!((&ended["subtype"], &ended["isError"]), (&json!("error_during_execution"), &json!(true)));
    bridge.send(json!({"type": "user_message", "text": "and?"})).await;
    assert_eq!(bridge.until("turn_result").await.pop().unwrap()["result"], "Fresh.");
}
