//! The bridge on the real CLI: what its clients can send, how their answers are handled, and how it ends.

// Some of it has children that get away where there is no subreaper; `real_stdio` has the rest.
#![cfg(not(watari_portable))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod bridge;
mod common;

use std::process::Stdio;
use std::time::{Duration, Instant};

use bridge::{Bridge, Room, of_type, transcript, types};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::process::Command;
use watari_testkit::claude::{oldest_claude, pinned_claude};
use watari_testkit::processes::marked;
use watari_testkit::{Reply, Script};

/// A command that needs permission in every mode.
const TOUCH: &str = "sh -c 'touch made && echo made it'";

/// A command that prints nothing and does not end, with a child that tries to escape.
const ENDLESS: &str = "setsid tail -f /dev/null & tail -f /dev/null";

/// The time limit of a polled condition.
const SEEN_WITHIN: Duration = Duration::from_secs(20);

fn bash(command: &str) -> Reply {
    Reply::tool_use("toolu_1", "Bash", json!({"command": command, "description": "a test"}))
}

/// The results of tools: the id of each call, its text, and whether it failed.
fn tool_results(lines: &[Value]) -> Value {
    let result = |line: &Value| json!([line["toolUseId"], line["content"], line["isError"]]);
    of_type(lines, "tool_result").into_iter().map(result).collect()
}

/// The results of the turns, in their order.
fn results(lines: &[Value]) -> Vec<&str> {
    of_type(lines, "turn_result").into_iter().map(|line| line["result"].as_str().unwrap()).collect()
}

/// Polls until a condition holds, for conditions that no event reports.
async fn until_seen(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < SEEN_WITHIN, "not seen: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A session in the middle of a command that does not end.
async fn in_an_endless_command(room: &Room) -> Bridge {
    let mut bridge = room.bridge();
    bridge.start("go", json!({"allowedTools": ["Bash"]})).await;
    let root = room.sandbox.root().to_str().unwrap();
    let tails = || marked(root).into_iter().filter(|process| process.command.starts_with("tail -f")).count();
    until_seen("two children of the command", || tails() == 2).await;
    bridge
}

/// Runs the CLI by itself in the room, and gives back the one object that it prints.
async fn claude_alone(room: &Room, arguments: &[&str]) -> Value {
    let run = Command::new(pinned_claude())
        .args(["-p", "--output-format", "json", "--setting-sources", "user"])
        .args(arguments)
        .env_clear()
        .envs(room.sandbox.environment())
        .current_dir(room.sandbox.cwd())
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(Duration::from_secs(30), run).await.unwrap().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

#[tokio::test]
async fn every_mode_with_permission_requests_sends_them_to_the_client() {
    for mode in ["default", "acceptEdits", "plan"] {
        let Room { stub, sandbox } = Room::with_replies([]).await;
        let made = sandbox.cwd().join("made");
        // For commands, the mode that plans asks a model instead of the client.
        let asks = if mode == "plan" {
            Reply::tool_use("toolu_1", "Write", json!({"file_path": made, "content": "made it"}))
        } else {
            bash(TOUCH)
        };
        stub.replace_script(Script::new().reply(asks).reply(Reply::text("Done.")));
        let room = Room { stub, sandbox };
        let mut bridge = room.bridge();
        bridge.start("go", json!({"permissionMode": mode})).await;
        let mut seen = bridge.until_one_of(&["permission_request", "turn_result"]).await;
        assert_eq!(types(&seen[seen.len() - 1..]), "permission_request", "{mode}: {}", transcript(&seen));
        assert_eq!(of_type(&seen, "session_init")[0]["permissionMode"], mode);
        assert!(!made.exists());
        bridge.allow("req_1").await;
        seen.extend(bridge.until("turn_result").await);
        assert_eq!(of_type(&seen, "tool_result")[0]["isError"], false, "{mode}: {}", transcript(&seen));
        assert_eq!(results(&seen), ["Done."]);
        assert!(made.exists());
    }
}

#[tokio::test]
async fn the_mode_dont_ask_runs_only_tools_that_were_allowed_before() {
    let room = Room::with_replies([bash(TOUCH), Reply::text("Well.")]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({"permissionMode": "dontAsk"})).await;
    let seen = bridge.until("turn_result").await;
    assert!(of_type(&seen, "permission_request").is_empty());
    assert_eq!(of_type(&seen, "tool_result")[0]["isError"], true);
    assert_eq!(results(&seen), ["Well."]);
    assert!(!room.sandbox.cwd().join("made").exists());
}

#[tokio::test]
async fn bypass_permissions_needs_the_flag_and_sends_no_request() {
    let room = Room::with_replies([bash(TOUCH), Reply::text("Done.")]).await;
    let mut bridge = room.bridge_with(&["--allow-bypass", "--claude", pinned_claude().to_str().unwrap()]);
    bridge.start("go", json!({"permissionMode": "bypassPermissions"})).await;
    let seen = bridge.until("turn_result").await;
    assert!(of_type(&seen, "permission_request").is_empty());
    assert_eq!(tool_results(&seen), json!([["toolu_1", "made it", false]]));
}

#[tokio::test]
async fn variables_are_added_to_the_inherited_ones_and_null_removes_one() {
    let print = r#"sh -c 'echo "$OURS_KEPT/$OURS_CHANGED/$OURS_ADDED/${OURS_GONE-unset}/${OURS_EMPTY-unset}"'"#;
    let Room { stub, sandbox } = Room::with_replies([bash(print), Reply::text("Done.")]).await;
    let sandbox = sandbox.with_env("OURS_KEPT", "kept").with_env("OURS_CHANGED", "old").with_env("OURS_GONE", "there");
    let room = Room { stub, sandbox };
    let mut bridge = room.bridge();
    let env = json!({"OURS_CHANGED": "new", "OURS_ADDED": "added", "OURS_GONE": null, "OURS_EMPTY": ""});
    bridge.start("go", json!({"allowedTools": ["Bash"], "env": env})).await;
    let seen = bridge.until("turn_result").await;
    assert_eq!(tool_results(&seen), json!([["toolu_1", "kept/new/added/unset/", false]]));
}

#[tokio::test]
async fn a_text_with_images_and_documents_reaches_the_model_with_the_text_first() {
    // One pixel.
    let png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png}});
    let source = json!({"type": "text", "media_type": "text/plain", "data": "a heron stood there"});
    let document = json!({"type": "document", "source": source});
    let room = Room::with_replies([Reply::text("one"), Reply::text("two")]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.until("turn_result").await;
    let message =
        json!({"type": "user_message", "text": "look at these", "images": [image, image], "documents": [document]});
    bridge.send(message).await;
    assert_eq!(bridge.until("turn_result").await.pop().unwrap()["result"], "two");
    let asked = room.stub.model_calls().pop().unwrap();
    let messages = asked["messages"].as_array().unwrap();
    let mut contents = messages.iter().filter_map(|message| message["content"].as_array());
    let content = contents.rfind(|blocks| blocks.iter().any(|block| block["text"] == "look at these"));
    let content = content.unwrap_or_else(|| panic!("{messages:#?}"));
    let first = content.iter().position(|block| block["text"] == "look at these").unwrap();
    let kinds: Vec<_> = content[first..].iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..4], ["text", "image", "image", "document"]);
    assert_eq!(content[first + 3]["source"], document["source"]);
}

#[tokio::test]
async fn two_open_permission_requests_are_answered_in_the_other_order() {
    let outside = tempfile::tempdir().unwrap();
    let read = |name: &str| {
        std::fs::write(outside.path().join(name), format!("the heron of {name}")).unwrap();
        json!({"file_path": outside.path().join(name)})
    };
    let reads = Reply::tool_use("toolu_a", "Read", read("a.txt")).and_tool_use("toolu_b", "Read", read("b.txt"));
    let room = Room::with_replies([reads, Reply::text("read")]).await;
    let mut bridge = room.bridge();
    bridge.start("read both", json!({})).await;
    let mut seen = bridge.until("permission_request").await;
    seen.extend(bridge.until("permission_request").await);
    let asked: Value =
        of_type(&seen, "permission_request").iter().map(|line| json!([line["requestId"], line["toolUseId"]])).collect();
    assert_eq!(asked, json!([["req_1", "toolu_a"], ["req_2", "toolu_b"]]));
    bridge.answer("req_2", json!({"behavior": "deny", "message": "not this one"})).await;
    bridge.allow("req_1").await;
    let rest = bridge.until("turn_result").await;
    let mut events: Vec<_> = of_type(&rest, "tool_result");
    events.sort_by_key(|line| line["toolUseId"].to_string());
    assert!(events[0]["content"].to_string().contains("the heron of a.txt"), "{events:#?}");
    assert_eq!((&events[1]["content"], &events[1]["isError"]), (&json!("not this one"), &json!(true)));
    assert!(of_type(&rest, "permission_closed").is_empty() && of_type(&rest, "error").is_empty());
}

#[tokio::test]
async fn messages_sent_during_a_turn_are_turns_of_their_own_in_their_order() {
    let slow = Reply::text("one").delay(Duration::from_millis(500));
    let room = Room::with_replies([slow, Reply::text("two"), Reply::text("three"), Reply::text("four")]).await;
    let mut bridge = room.bridge();
    bridge.start("a stork", json!({})).await;
    room.stub.wait_for_model_calls(1).await;
    for text in ["a crane", "an egret", "a bittern"] {
        bridge.send(json!({"type": "user_message", "text": text})).await;
    }
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.extend(bridge.until("turn_result").await);
    }
    assert_eq!(results(&seen), ["one", "two", "three", "four"]);
    assert!(of_type(&seen, "turn_result").iter().all(|line| line["origin"] == "prompt"));
    let birds = ["a stork", "a crane", "an egret", "a bittern"];
    let calls = room.stub.model_calls();
    let received: Vec<Vec<bool>> =
        calls.iter().map(|call| birds.iter().map(|bird| call.to_string().contains(bird)).collect()).collect();
    let expected: Vec<Vec<bool>> = (0..4).map(|turn| (0..4).map(|bird| bird <= turn).collect()).collect();
    assert_eq!(received, expected);
}

#[tokio::test]
async fn a_message_sent_between_two_tools_of_a_turn_is_not_part_of_it() {
    let room = Room::with_replies([bash(TOUCH), Reply::text("one"), Reply::text("two")]).await;
    let mut bridge = room.bridge();
    bridge.start("a stork", json!({})).await;
    let mut seen = bridge.until("permission_request").await;
    bridge.send(json!({"type": "user_message", "text": "a crane"})).await;
    bridge.allow("req_1").await;
    seen.extend(bridge.until("turn_result").await);
    seen.extend(bridge.until("turn_result").await);
    assert_eq!(results(&seen), ["one", "two"]);
    let received: Vec<bool> = room.stub.model_calls().iter().map(|call| call.to_string().contains("a crane")).collect();
    assert_eq!(received, [false, false, true]);
}

#[tokio::test]
async fn messages_and_requests_of_a_subagent_name_its_parent_and_are_not_streamed() {
    let agent = json!({
        "description": "look", "prompt": "look around", "subagent_type": "general-purpose", "run_in_background": false,
    });
    let looks = Reply::text("I am below.").and_tool_use("toolu_below", "Bash", json!({"command": TOUCH}));
    let script = Script::new()
        .reply(Reply::tool_use("toolu_agent", "Agent", agent))
        .reply(Reply::text("It is back."))
        .for_agents([looks, Reply::text("A heron.")]);
    let room = Room::with_script(script).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    let mut seen = bridge.until("permission_request").await;
    assert_eq!(seen.last().unwrap()["toolUseId"], "toolu_below");
    bridge.allow("req_1").await;
    seen.extend(bridge.until("turn_result").await);
    let printed: Vec<String> = of_type(&seen, "assistant_message")
        .iter()
        .map(|line| {
            let blocks = line["content"].as_array().unwrap();
            let texts: Vec<&str> =
                blocks.iter().filter_map(|block| block["text"].as_str().or(block["id"].as_str())).collect();
            format!("{}: {}", line["parentToolUseId"].as_str().unwrap_or("main"), texts.join(", "))
        })
        .collect();
    insta::assert_snapshot!(printed.join("\n"), @"
    main: toolu_agent
    toolu_agent: I am below.
    toolu_agent: toolu_below
    toolu_agent: A heron.
    main: It is back.
    ");
    let streamed: String =
        of_type(&seen, "stream_content_delta").iter().filter_map(|line| line["text"].as_str()).collect();
    assert!(!streamed.contains("below") && !streamed.contains("heron"), "{streamed}");
    assert_eq!(of_type(&seen, "stream_message_start").len(), 2);
    assert_eq!(of_type(&seen, "stream_message_stop").len(), 2);
    assert_eq!(results(&seen), ["It is back."]);
}

#[tokio::test]
async fn a_question_to_the_user_is_a_permission_request_that_is_allowed_with_the_answers() {
    let questions = json!([{"question": "Which bird?", "header": "Bird", "multiSelect": false, "options": [
        {"label": "Heron", "description": "grey"}, {"label": "Egret", "description": "white"},
    ]}]);
    let ask = Reply::tool_use("toolu_1", "AskUserQuestion", json!({"questions": questions}));
    let room = Room::with_replies([ask, Reply::text("Good.")]).await;
    let mut bridge = room.bridge();
    bridge.start("ask me", json!({})).await;
    let asked = bridge.until("permission_request").await.pop().unwrap();
    assert_eq!(asked["toolName"], "AskUserQuestion");
    assert_eq!(asked["toolInput"]["questions"], questions);
    let mut input = asked["toolInput"].clone();
    input["answers"] = json!({"Which bird?": "Egret"});
    bridge.answer("req_1", json!({"behavior": "allow", "updatedInput": input})).await;
    let seen = bridge.until("turn_result").await;
    let events = of_type(&seen, "tool_result")[0];
    assert_eq!(events["isError"], false);
    let content = events["content"].to_string();
    assert!(content.contains("Egret") && !content.contains("Heron"), "{events}");
    assert_eq!(results(&seen), ["Good."]);
}

#[tokio::test]
async fn a_denial_reaches_the_model_with_its_reason_and_an_edited_input_runs() {
    let second = Reply::tool_use("toolu_2", "Bash", json!({"command": TOUCH, "description": "a test"}));
    let third = Reply::tool_use("toolu_3", "Bash", json!({"command": TOUCH, "description": "a test"}));
    let room = Room::with_replies([bash(TOUCH), second, third, Reply::text("Done.")]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    let mut seen = bridge.until("permission_request").await;
    bridge.answer("req_1", json!({"behavior": "deny", "message": "the heron sleeps"})).await;
    seen.extend(bridge.until("permission_request").await);
    bridge.answer("req_2", json!({"behavior": "deny"})).await;
    seen.extend(bridge.until("permission_request").await);
    let edited = json!({"command": "sh -c 'touch other && echo edited'"});
    bridge.answer("req_3", json!({"behavior": "allow", "updatedInput": edited})).await;
    seen.extend(bridge.until("turn_result").await);
    let expected =
        json!([["toolu_1", "the heron sleeps", true], ["toolu_2", "User denied", true], ["toolu_3", "edited", false],]);
    assert_eq!(tool_results(&seen), expected);
    assert!(room.stub.model_calls()[1].to_string().contains("the heron sleeps"));
    let exists = |name: &str| room.sandbox.cwd().join(name).exists();
    assert_eq!((exists("made"), exists("other")), (false, true));
}

#[tokio::test]
async fn a_denial_with_interrupt_ends_the_turn_and_the_session_continues() {
    let room = Room::with_replies([bash(TOUCH), Reply::text("Fresh.")]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.until("permission_request").await;
    bridge.answer("req_1", json!({"behavior": "deny", "message": "stop", "interrupt": true})).await;
    let ended = bridge.until("turn_result").await.pop().unwrap();
    assert_eq!((&ended["subtype"], &ended["isError"]), (&json!("error_during_execution"), &json!(true)));
    assert!(ended.get("result").is_none() && ended["errors"].is_array(), "{ended}");
    bridge.send(json!({"type": "user_message", "text": "and?"})).await;
    assert_eq!(results(&bridge.until("turn_result").await), ["Fresh."]);
}

#[tokio::test]
async fn an_answer_with_a_wrong_field_is_an_error_and_the_request_stays_open() {
    let room = Room::with_replies([bash(TOUCH), Reply::text("Done.")]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.until("permission_request").await;
    for result in [
        json!({"behavior": "perhaps"}),
        json!({"behavior": "allow", "updatedInput": "ls"}),
        json!({"behavior": "deny", "message": 5}),
        json!({"behavior": "deny", "interrupt": "yes"}),
    ] {
        let answer = json!({"type": "permission_response", "requestId": "req_1", "result": result});
        bridge.write(&format!("{answer}\n")).await;
        let events = bridge.until("error").await.pop().unwrap();
        assert_eq!(events["fatal"], false, "{result}: {events}");
    }
    bridge.allow("req_1").await;
    let seen = bridge.until("turn_result").await;
    assert!(of_type(&seen, "error").is_empty(), "{}", transcript(&seen));
    assert_eq!(tool_results(&seen), json!([["toolu_1", "made it", false]]));
}

#[tokio::test]
async fn permissions_that_are_not_a_list_are_an_error_and_the_request_stays_open() {
    let room = Room::with_replies([bash(TOUCH), Reply::text("Done.")]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.until("permission_request").await;
    let result = json!({"behavior": "allow", "updatedPermissions": 5});
    let answer = json!({"type": "permission_response", "requestId": "req_1", "result": result});
    bridge.write(&format!("{answer}\n")).await;
    bridge.allow("req_1").await;
    let seen = bridge.until("turn_result").await;
    let errors: Vec<_> = of_type(&seen, "error").iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert!(errors.len() == 1 && errors[0].contains("updatedPermissions"), "{errors:?}");
    assert_eq!(tool_results(&seen), json!([["toolu_1", "made it", false]]));
}

#[tokio::test]
async fn a_permission_request_that_an_interrupt_withdraws_is_reported_as_closed() {
    let room = Room::with_replies([bash(TOUCH), Reply::text("Fresh.")]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.until("permission_request").await;
    bridge.send(json!({"type": "interrupt"})).await;
    let seen = bridge.until("turn_result").await;
    let closed = json!({"type": "permission_closed", "requestId": "req_1", "reason": "cancelled"});
    assert_eq!(of_type(&seen, "permission_closed"), [&closed]);
    assert_eq!(seen.last().unwrap()["subtype"], "error_during_execution");
}

#[tokio::test]
async fn watari_continues_a_session_of_the_cli_and_the_cli_one_of_watari() {
    let room = Room::with_replies([Reply::text("one"), Reply::text("two"), Reply::text("three")]).await;
    let first = claude_alone(&room, &["a stork"]).await;
    let id = first["session_id"].as_str().unwrap();
    let mut bridge = room.bridge();
    bridge.start("a crane", json!({"resume": id})).await;
    let seen = bridge.until("turn_result").await;
    assert_eq!(of_type(&seen, "session_init")[0]["sessionId"], id);
    assert_eq!(results(&seen), ["two"]);
    bridge.close_input();
    assert_eq!(bridge.exit().await.code(), Some(0));
    let third = claude_alone(&room, &["--resume", id, "an egret"]).await;
    assert_eq!((&third["result"], &third["session_id"]), (&json!("three"), &json!(id)));
    let received = room.stub.model_calls().pop().unwrap().to_string();
    for text in ["a stork", "one", "a crane", "two", "an egret"] {
        assert!(received.contains(&format!("\"{text}\"")), "{text}: {received}");
    }
}

#[tokio::test]
async fn output_is_not_cut_at_the_end_however_late_the_client_reads() {
    let text: String = (0..200_000).map(|number| format!("line {number:06}\n")).collect();
    let room = Room::with_replies([Reply::text(text.as_str()).chunks_of(256)]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.close_input();
    // The client reads only when the pipe takes no more.
    let mut before = 0;
    let mut is_full = || {
        let now = bridge.waiting_bytes();
        now > 16_000 && std::mem::replace(&mut before, now) == now
    };
    until_seen("a full pipe", &mut is_full).await;
    let seen = bridge.rest().await;
    let streamed: String =
        of_type(&seen, "stream_content_delta").iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert!(streamed == text, "{} of {} bytes", streamed.len(), text.len());
    assert!(of_type(&seen, "assistant_message")[0]["content"][0]["text"] == text);
    assert!(seen.last().unwrap()["result"] == text);
    assert_eq!(types(&seen[seen.len() - 4..]), "stream_content_stop stream_message_stop assistant_message turn_result");
    assert_eq!(bridge.exit().await.code(), Some(0));
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_client_that_closes_the_output_during_text_ends_the_session() {
    let text = Reply::text("x".repeat(10_000)).paced(Duration::from_millis(20));
    let room = Room::with_replies([text]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.until("stream_content_delta").await;
    bridge.close_output();
    bridge.exit_within(Duration::from_secs(3)).await;
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_client_that_closes_the_output_during_silence_ends_the_session() {
    let room = Room::with_replies([bash(ENDLESS)]).await;
    let mut bridge = in_an_endless_command(&room).await;
    bridge.until("assistant_message").await;
    bridge.close_output();
    bridge.exit_within(Duration::from_secs(3)).await;
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_client_that_disconnects_during_a_silent_tool_ends_the_session() {
    let room = Room::with_replies([bash(ENDLESS)]).await;
    let mut bridge = in_an_endless_command(&room).await;
    bridge.until("assistant_message").await;
    // As the kernel does it for a process that was killed.
    bridge.close_input();
    bridge.close_output();
    bridge.exit_within(Duration::from_secs(3)).await;
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_killed_bridge_leaves_nothing_behind() {
    let room = Room::with_replies([bash(ENDLESS)]).await;
    let mut bridge = in_an_endless_command(&room).await;
    kill_process(Pid::from_raw(bridge.pid().cast_signed()).unwrap(), Signal::KILL).unwrap();
    assert_eq!(bridge.exit().await.code(), None);
    room.is_empty_within(Duration::from_secs(3)).await;
}

#[tokio::test]
async fn the_end_of_the_input_denies_open_and_later_requests_and_finishes_the_turn() {
    let again = Reply::tool_use("toolu_2", "Bash", json!({"command": TOUCH, "description": "a test"}));
    let room = Room::with_replies([bash(TOUCH), again, Reply::text("Well.")]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.until("permission_request").await;
    let closed = Instant::now();
    bridge.close_input();
    let seen = bridge.rest().await;
    assert_eq!(bridge.exit().await.code(), Some(0));
    assert!(closed.elapsed() < Duration::from_secs(5), "{:?}", closed.elapsed());
    let failed: Vec<_> = of_type(&seen, "tool_result").iter().map(|line| line["isError"].clone()).collect();
    assert_eq!(failed, [true, true]);
    assert_eq!(results(&seen), ["Well."]);
    assert!(of_type(&seen, "error").is_empty());
    assert!(!room.sandbox.cwd().join("made").exists());
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_permission_request_that_the_end_of_the_input_denies_is_reported_as_closed() {
    let again = Reply::tool_use("toolu_2", "Bash", json!({"command": TOUCH, "description": "a test"}));
    let room = Room::with_replies([bash(TOUCH), again, Reply::text("Well.")]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    let mut seen = bridge.until("permission_request").await;
    bridge.close_input();
    seen.extend(bridge.rest().await);
    let asked: Vec<_> = of_type(&seen, "permission_request").iter().map(|line| &line["requestId"]).collect();
    let closed: Vec<_> = of_type(&seen, "permission_closed").iter().map(|line| &line["requestId"]).collect();
    assert_eq!(asked, closed, "{}", transcript(&seen));
}

#[tokio::test]
async fn the_end_of_the_input_while_nothing_runs_ends_the_session_quickly() {
    let room = Room::with_replies([Reply::text("one")]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.until("turn_result").await;
    bridge.close_input();
    let status = bridge.exit_within(Duration::from_secs(3)).await;
    assert_eq!(status.code(), Some(0));
    assert_eq!(types(&bridge.rest().await).replace("status", ""), "");
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_changed_session_id_is_reported_again() {
    let room = Room::with_replies([Reply::text("one"), Reply::text("two")]).await;
    let mut bridge = room.bridge();
    bridge.start("a stork", json!({})).await;
    let mut seen = bridge.until("turn_result").await;
    bridge.send(json!({"type": "user_message", "text": "/clear"})).await;
    seen.extend(bridge.until("turn_result").await);
    bridge.send(json!({"type": "user_message", "text": "a crane"})).await;
    seen.extend(bridge.until("turn_result").await);
    let opened: Vec<_> = of_type(&seen, "session_init").iter().map(|line| &line["sessionId"]).collect();
    assert_eq!(opened.len(), 2, "{}", transcript(&seen));
    assert_ne!(opened[0], opened[1]);
    // From then on every line has the new name.
    let place = seen.iter().rposition(|line| line["type"] == "session_init").unwrap();
    let named = seen[place..].iter().filter_map(|line| line.get("sessionId"));
    assert!(named.clone().count() > 5 && named.clone().all(|id| id == opened[1]), "{seen:#?}");
    assert_eq!(seen.last().unwrap()["result"], "two");
    assert!(!room.stub.model_calls().pop().unwrap().to_string().contains("a stork"));
}

/// The status that reports a change between two turns, and the model that answers the next message.
async fn changed_by(change: Value) -> (Value, Value) {
    let room = Room::with_replies([Reply::text("one"), Reply::text("two")]).await;
    let mut bridge = room.bridge();
    bridge.start("a stork", json!({})).await;
    bridge.until("turn_result").await;
    bridge.send(change).await;
    bridge.send(json!({"type": "user_message", "text": "a crane"})).await;
    let seen = bridge.until("turn_result").await;
    assert!(of_type(&seen, "session_init").is_empty() && of_type(&seen, "error").is_empty(), "{}", transcript(&seen));
    let mut events = of_type(&seen, "status").into_iter().filter(|line| line["status"].is_null()).cloned();
    (events.next().unwrap_or_default(), room.stub.model_calls().pop().unwrap()["model"].clone())
}

#[tokio::test]
async fn a_changed_permission_mode_is_reported_as_a_status() {
    let (events, _) = changed_by(json!({"type": "set_permission_mode", "mode": "plan"})).await;
    assert_eq!(events["permissionMode"], "plan");
}

#[tokio::test]
async fn a_changed_model_is_reported_as_a_status() {
    let (events, _) = changed_by(json!({"type": "set_model", "model": "claude-sonnet-4-5"})).await;
    assert_eq!(events["model"], "claude-sonnet-4-5");
}

#[tokio::test]
async fn a_model_that_is_set_before_a_message_answers_it() {
    let (_, model) = changed_by(json!({"type": "set_model", "model": "claude-sonnet-4-5"})).await;
    assert_eq!(model, "claude-sonnet-4-5");
}

#[tokio::test]
async fn compacting_is_reported_as_a_status() {
    let room = Room::with_replies([Reply::text("one"), Reply::text("a summary of birds"), Reply::text("two")]).await;
    let mut bridge = room.bridge();
    bridge.start("a stork", json!({})).await;
    let opened = bridge.until("turn_result").await.pop().unwrap()["sessionId"].clone();
    bridge.send(json!({"type": "user_message", "text": "/compact"})).await;
    let seen = bridge.until("turn_result").await;
    let expected = json!({"type": "status", "sessionId": opened, "status": "compacting"});
    assert!(of_type(&seen, "status").contains(&&expected), "{seen:#?}");
    bridge.send(json!({"type": "user_message", "text": "a crane"})).await;
    assert_eq!(bridge.until("turn_result").await.pop().unwrap()["subtype"], "success");
}

#[tokio::test]
async fn an_abort_while_the_cli_starts_leaves_nothing() {
    let room = Room::with_replies([Reply::stall()]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    let root = room.sandbox.root().to_str().unwrap();
    let runs = || marked(root).iter().any(|process| process.command.contains("stream-json"));
    until_seen("the CLI", runs).await;
    bridge.send(json!({"type": "abort"})).await;
    assert_eq!(bridge.exit_within(Duration::from_secs(3)).await.code(), Some(0));
    let seen = bridge.rest().await;
    assert!(of_type(&seen, "error").is_empty(), "{seen:#?}");
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn bad_lines_in_a_turn_get_an_error_each_and_never_reach_the_cli() {
    let room = Room::with_replies([Reply::text("one").delay(Duration::from_millis(500)), Reply::text("two")]).await;
    let mut bridge = room.bridge();
    bridge.start("a stork", json!({})).await;
    room.stub.wait_for_model_calls(1).await;
    let bad = [
        "{\"type\":\"user_message\",\"text\":\"half of a cra",
        "{\"type\":\"user_message\",\"text\":5}",
        "{\"type\":\"user_message\",\"text\":\"a wombat\",\"images\":[1]}",
        "{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":\"a wombat\"}}",
        "{\"type\":\"control_request\",\"request_id\":\"1\",\"request\":{\"subtype\":\"interrupt\"}}",
        "[]",
        "\u{feff}{\"type\":\"abort\"}",
    ];
    bridge.write(&format!("{}\r\n\r\n  \n", bad.join("\r\n"))).await;
    bridge.send(json!({"type": "user_message", "text": "an egret"})).await;
    let mut seen = bridge.until("turn_result").await;
    seen.extend(bridge.until("turn_result").await);
    assert_eq!(of_type(&seen, "error").len(), bad.len(), "{}", transcript(&seen));
    assert!(of_type(&seen, "error").iter().all(|line| line["fatal"] == false));
    assert_eq!(results(&seen), ["one", "two"]);
    assert_eq!(room.stub.model_calls().len(), 2);
    assert!(!room.stub.model_calls()[1].to_string().contains("wombat"));
}

#[tokio::test]
async fn the_oldest_cli_has_a_conversation_with_a_permission_request() {
    let room = Room::with_replies([bash(TOUCH), Reply::text("Done."), Reply::text("Again.")]).await;
    let mut bridge = room.bridge_with(&["--claude", oldest_claude().to_str().unwrap()]);
    bridge.start("go", json!({})).await;
    let mut seen = bridge.until("permission_request").await;
    bridge.allow("req_1").await;
    seen.extend(bridge.until("turn_result").await);
    bridge.send(json!({"type": "user_message", "text": "more"})).await;
    seen.extend(bridge.until("turn_result").await);
    bridge.close_input();
    assert_eq!(bridge.exit().await.code(), Some(0));
    let asked = json!({
        "type": "permission_request", "requestId": "req_1", "toolName": "Bash", "toolUseId": "toolu_1",
        "toolInput": {"command": TOUCH, "description": "a test"},
    });
    assert_eq!(of_type(&seen, "permission_request"), [&asked]);
    assert_eq!(tool_results(&seen), json!([["toolu_1", "made it", false]]));
    assert_eq!(results(&seen), ["Done.", "Again."]);
    assert_eq!(of_type(&seen, "session_init").len(), 1);
    assert_eq!((of_type(&seen, "stream_message_stop").len(), of_type(&seen, "assistant_message").len()), (3, 3));
    assert!(room.sandbox.cwd().join("made").exists());
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn background_work_is_awaited_after_the_end_of_the_input() {
    let command = json!({"command": "sleep 2; touch made", "run_in_background": true});
    let room = Room::with_replies([
        Reply::tool_use("toolu_1", "Bash", command),
        Reply::text("Started."),
        Reply::text("Over."),
    ])
    .await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({"allowedTools": ["Bash"]})).await;
    bridge.until("turn_result").await;
    bridge.close_input();
    bridge.rest().await;
    assert_eq!(bridge.exit().await.code(), Some(0));
    assert!(room.sandbox.cwd().join("made").exists());
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn abort_ends_the_session_of_a_client_that_does_not_read() {
    // One kind after the other, so that the lines cannot be joined; the tool runs when all of it was written.
    let thought = |reply: Reply, _| reply.and_thinking("y".repeat(30_000)).and_text("x".repeat(30_000));
    let long = (0..60).fold(Reply::message().chunks_of(10_000), thought);
    let long = long.and_tool_use("toolu_1", "Bash", json!({"command": "touch made; tail -f /dev/null"}));
    let room = Room::with_replies([long]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({"allowedTools": ["Bash"]})).await;
    common::appears(&room.sandbox.cwd().join("made")).await;
    bridge.send(json!({"type": "abort"})).await;
    assert_eq!(bridge.exit_within(Duration::from_secs(5)).await.code(), Some(0));
    room.is_empty_within(Duration::from_secs(1)).await;
}
