//! The lifecycle of a host on the fake CLI: what its clients receive when the CLI exits, when no client answers, and
//! when the host ends.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::time::Duration;

use host::{Client, Room, of_type, text_of, transcript};
use rustix::process::Signal;
use serde_json::{Value, json};

/// What a client reads up to a line of a type, as a transcript.
async fn received(client: &mut Client, until: &str) -> String {
    transcript(&["session_id", "usage"], &client.until(until).await)
}

#[tokio::test]
async fn the_next_message_restarts_a_cli_that_exited() {
    let room = Room::fake("prompt\ntext One\nstderr boom\nexit 3\n");
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    client.say("and this").await;
    let mut seen = client.until("done").await;
    seen.extend(client.until("done").await);
    insta::assert_snapshot!(transcript(&["usage"], &seen), @r#"
    {"text":"One","type":"text_delta"}
    {"kind":"session","message":"Claude Code exited unexpectedly with code 3; stderr: boom; the next message starts it again","type":"error"}
    {"message_id":2,"type":"done","usage":"usage"}
    {"kind":"session","message":"Claude Code exited unexpectedly with code 3; stderr: boom; the next message starts it again","type":"error"}
    {"message_id":3,"type":"done","usage":"usage"}
    "#);
    // An answer and an abort change nothing while there is no CLI.
    client.send(json!({"type": "abort", "id": "a"})).await;
    assert_eq!(client.next().await.unwrap(), json!({"type": "accepted", "id": "a"}));
    client.send(json!({"type": "approve", "request_id": "t"})).await;
    assert_eq!(client.next().await.unwrap()["type"], "error");
    let (mut native, hello) = host.native_since(Value::Null).await;
    assert_eq!(hello["state"], "down");
    native.send(json!({"type": "request", "id": "r", "request": {"type": "mcp_status"}})).await;
    let refused = native.until("refused").await;
    assert_eq!(
        refused.last().unwrap()["message"],
        "cannot send a request while Claude Code is not running: send a prompt first"
    );
    room.rewrite("prompt\ntext Again.\nresult\n");
    client.say("go on").await;
    insta::assert_snapshot!(received(&mut client, "done").await, @r#"
    {"text":"Again.","type":"text_delta"}
    {"message_id":14,"type":"done","usage":"usage"}
    "#);
    host.stop().await;
    let started: Vec<String> =
        room.events().iter().filter(|event| event["type"] == "ready").map(|_| "ready".into()).collect();
    assert_eq!(started.len(), 2);
    // Numbers continue: no number occurs twice in a log.
    let mut prompts: Vec<u64> =
        of_type(&room.events(), "prompt_accepted").iter().map(|event| event["prompt"].as_u64().unwrap()).collect();
    let count = prompts.len();
    prompts.sort_unstable();
    prompts.dedup();
    assert_eq!(prompts.len(), count);
}

#[tokio::test]
async fn a_failed_restart_of_the_cli_is_reported_and_tried_again() {
    let room = Room::fake("prompt\nexit 3\n");
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    client.until("done").await;
    room.rewrite("this is no script\n");
    client.send(json!({"type": "message", "text": "go", "id": "m"})).await;
    let delivered = [client.next().await.unwrap(), client.next().await.unwrap()];
    assert!(delivered.iter().all(|line| line["type"] == "error"), "{delivered:?}");
    assert!(delivered.iter().any(|line| line["id"] == "m"), "{delivered:?}");
    assert!(
        delivered[0]["message"].as_str().unwrap().contains("exited before it was ready (exit code 64)"),
        "{delivered:?}"
    );
    // Now the CLI does not even exist.
    let aside = room.claude.with_extension("aside");
    std::fs::rename(&room.claude, &aside).unwrap();
    client.say("go").await;
    assert!(client.until("error").await[0]["message"].as_str().unwrap().contains("not found"));
    let (_, hello) = host.native_since(Value::Null).await;
    assert_eq!(hello["state"], "down");
    std::fs::rename(&aside, &room.claude).unwrap();
    room.rewrite("prompt\ntext Well.\nresult\n");
    client.say("go").await;
    assert_eq!(text_of(&client.until("done").await), "Well.");
    host.stop().await;
}

#[tokio::test]
async fn a_host_whose_cli_cannot_start_ends() {
    let room = Room::fake("prompt\n");
    std::fs::remove_file(&room.claude).unwrap();
    let mut child = room.command(&[]).spawn().unwrap();
    let (code, stderr) = host::end_of(&mut child).await;
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.starts_with("watari: ") && stderr.contains(room.claude.to_str().unwrap()), "{stderr}");
    room.is_tidy();
    assert_eq!(room.sessions(), Vec::<std::path::PathBuf>::new());
}

#[tokio::test]
async fn an_unanswered_request_is_denied_and_reported_to_every_client() {
    let room = Room::fake("prompt\nask t Bash {\"command\":\"ls\"}\ntext Well.\nresult\n");
    let host = room.host(&["--permission-timeout", "1"]).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    insta::assert_snapshot!(received(&mut client, "done").await, @r#"
    {"input":{"command":"ls"},"request_id":"t","tool":"Bash","type":"approval_request"}
    {"decision":"expired","request_id":"t","type":"approval_resolved"}
    {"content":"denied Approval request timed out","is_error":true,"output":"denied Approval request timed out","request_id":"t","type":"tool_result"}
    {"text":"Well.","type":"text_delta"}
    {"message_id":2,"type":"done","usage":"usage"}
    "#);
    client.send(json!({"type": "approve", "request_id": "t"})).await;
    let refused = client.next().await.unwrap();
    insta::assert_snapshot!(refused, @r#"{"code":"ask_not_open","kind":"refused","message":"request_id \"t\": ask 2 is not open: it was answered, withdrawn, expired, or never existed","type":"error"}"#);
    host.stop().await;
}

#[tokio::test]
async fn a_client_that_connects_late_receives_the_snapshot() {
    let room = Room::fake(
        "prompt\nmessage\nthinking hm\ndeltas 3\ntool t Bash {\"command\":\"ls\"}\nend\nask t Bash {\"command\":\"ls\"}\ntext Well.\nresult\n",
    );
    let host = room.host(&[]).await;
    let mut first = host.client_with_init().await;
    first.say("go").await;
    first.until("approval_request").await;
    // The open request. The text is complete and was sent before.
    let mut late = host.client().await;
    insta::assert_snapshot!(received(&mut late, "approval_request").await, @r#"
    {"session_id":"session_id","type":"init"}
    {"input":{"command":"ls"},"request_id":"t","tool":"Bash","type":"approval_request"}
    "#);
    late.send(json!({"type": "deny", "request_id": "t", "reason": "not now"})).await;
    insta::assert_snapshot!(received(&mut late, "done").await, @r#"
    {"by":"client 2","decision":"denied","request_id":"t","type":"approval_resolved"}
    {"content":"denied not now","is_error":true,"output":"denied not now","request_id":"t","type":"tool_result"}
    {"text":"Well.","type":"text_delta"}
    {"message_id":2,"type":"done","usage":"usage"}
    "#);
    // The other client received the same, and so does a client that requests everything.
    insta::assert_snapshot!(received(&mut first, "done").await, @r#"
    {"by":"client 2","decision":"denied","request_id":"t","type":"approval_resolved"}
    {"content":"denied not now","is_error":true,"output":"denied not now","request_id":"t","type":"tool_result"}
    {"text":"Well.","type":"text_delta"}
    {"message_id":2,"type":"done","usage":"usage"}
    "#);
    late.send(json!({"type": "hello", "since": 0})).await;
    insta::assert_snapshot!(transcript(&["key", "session_id", "usage"], &late.until("done").await), @r#"
    {"key":"key","resume":"ok","seq":"1:22","session_id":"session_id","state":"idle","type":"hello"}
    {"seq":"1:8","text":"hm","type":"thinking_delta"}
    {"seq":"1:10","text":"0000000000000000000 0000000000000000001 0000000000000000002 ","type":"text_delta"}
    {"input":{"command":"ls"},"request_id":"t","seq":"1:12","tool":"Bash","type":"tool_use"}
    {"input":{"command":"ls"},"request_id":"t","seq":"1:14","tool":"Bash","type":"approval_request"}
    {"by":"client 2","decision":"denied","request_id":"t","seq":"1:15","type":"approval_resolved"}
    {"content":"denied not now","is_error":true,"output":"denied not now","request_id":"t","seq":"1:16","type":"tool_result"}
    {"seq":"1:19","text":"Well.","type":"text_delta"}
    {"message_id":2,"seq":"1:21","type":"done","usage":"usage"}
    "#);
    host.stop().await;
}

#[tokio::test]
async fn a_new_client_first_receives_the_text_of_the_open_block() {
    let room = Room::fake("prompt\nmessage\ndeltas 40 of 10 at 20/s\nend\nresult\n");
    let host = room.host(&[]).await;
    let mut first = host.client_with_init().await;
    first.say("go").await;
    let mut early = Vec::new();
    for _ in 0..5 {
        early.push(first.next().await.unwrap());
    }
    let mut late = host.client_with_init().await;
    let so_far = late.next().await.unwrap();
    assert!(so_far["text"].as_str().unwrap().starts_with(&text_of(&early)), "{so_far}");
    let mut all = vec![so_far];
    all.extend(late.until("done").await);
    early.extend(first.until("done").await);
    assert_eq!(text_of(&all), text_of(&early));
    host.stop().await;
}

#[tokio::test]
async fn a_position_of_another_log_is_a_gap_and_everything_is_replayed() {
    let room = Room::fake("prompt\ntext One.\nresult\n");
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    client.until("done").await;
    let (mut native, hello) = host.native_since(json!("7:99")).await;
    assert_eq!(hello["resume"], "gap");
    assert_eq!(native.next().await.unwrap()["seq"], "1:1");
    let (_, hello) = host.native_since(json!("1:2")).await;
    assert_eq!((&hello["resume"], &hello["protocol"], &hello["state"]), (&json!("ok"), &json!(1), &json!("idle")));
    client.send(json!({"type": "hello", "since": "7:99"})).await;
    let hello = client.until("hello").await;
    assert_eq!(hello.last().unwrap()["resume"], "gap");
    assert_eq!(text_of(&client.until("done").await), "One.");
    host.stop().await;
}

#[tokio::test]
async fn a_bad_line_gets_one_error_and_changes_nothing() {
    let room = Room::fake("prompt\ntext One.\nresult\n");
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    let lines = [
        "nonsense",
        "[1]",
        "{}",
        r#"{"type":5}"#,
        r#"{"type":"fly","id":"x"}"#,
        r#"{"type":"message"}"#,
        r#"{"type":"message","text":5}"#,
        r#"{"type":"message","text":""}"#,
        r#"{"type":"approve"}"#,
        r#"{"type":"approve","request_id":"never"}"#,
        r#"{"type":"hello","since":"yesterday"}"#,
        r#"{"type":"tool_call_result","call_id":"x","content":""}"#,
        r#"{"type":"tool_call_result","call_id":"call_9","content":""}"#,
        r#"{"type":"message","text":"a","images":[{"type":"tool_result","tool_use_id":"toolu_1","content":"yes"}]}"#,
        r#"{"type":"message","text":"\ud800","id":"h"}"#,
        r#"{"type":"hello","since":"1:10000000000000000000"}"#,
    ];
    let long = format!(r#"{{"type":"message","text":"hello","id":"{}"}}"#, "x".repeat(257));
    let mut delivered = Vec::new();
    for line in lines.into_iter().chain([long.as_str()]) {
        client.write(&format!("{line}\n")).await;
        delivered.push(client.next().await.unwrap());
    }
    client.write("\r\n  \n").await;
    insta::assert_snapshot!(transcript(&[], &delivered), @r#"
    {"code":"invalid_line","kind":"line","message":"the line is not a JSON object","type":"error"}
    {"code":"invalid_line","kind":"line","message":"the line is not a JSON object","type":"error"}
    {"code":"invalid_line","kind":"line","message":"type is missing; it must be a string","type":"error"}
    {"code":"invalid_line","kind":"line","message":"type must be a string","type":"error"}
    {"code":"invalid_line","id":"x","kind":"line","message":"unknown type \"fly\"; it must be one of message, approve, deny, abort, hello, register_tools, tool_call_result, close","type":"error"}
    {"code":"invalid_line","kind":"line","message":"text is missing; it must be a string","type":"error"}
    {"code":"invalid_line","kind":"line","message":"text must be a string","type":"error"}
    {"code":"invalid_field","kind":"refused","message":"the prompt has no content: give it text or at least one block","type":"error"}
    {"code":"invalid_line","kind":"line","message":"request_id is missing; it must be a string","type":"error"}
    {"code":"ask_not_open","kind":"refused","message":"request_id \"never\" is not open: it was answered, cancelled, has expired or never existed","type":"error"}
    {"code":"invalid_line","kind":"line","message":"since must be a position such as \"3:17\", or 0 for everything","type":"error"}
    {"code":"ask_not_open","kind":"refused","message":"call_id \"x\" is not open: it was answered, cancelled, has expired or never existed","type":"error"}
    {"code":"ask_not_open","kind":"refused","message":"call_id \"call_9\": ask 9 is not open: it was answered, withdrawn, expired, or never existed","type":"error"}
    {"code":"invalid_line","kind":"line","message":"images[0].type must be one of text, image, document","type":"error"}
    {"code":"invalid_line","id":"h","kind":"line","message":"text contains an unpaired surrogate: an escape such as \\ud800 without its other half; send whole characters","type":"error"}
    {"code":"invalid_line","kind":"line","message":"since must be a position such as \"3:17\", or 0 for everything","type":"error"}
    {"code":"invalid_line","kind":"line","message":"id may have at most 256 characters","type":"error"}
    "#);
    let mut native = host.native().await;
    let lines = [
        "nonsense",
        r#"{"type":"fly","id":"x"}"#,
        r#"{"type":"hello"}"#,
        r#"{"type":"hello","protocol":[2]}"#,
        r#"{"type":"prompt","id":"x"}"#,
        r#"{"type":"prompt","content":5}"#,
        r#"{"type":"answer","ask":1}"#,
        r#"{"type":"answer","ask":1,"answer":{"type":"fly"}}"#,
        r#"{"type":"answer","ask":1,"answer":{"type":"allow"}}"#,
        r#"{"type":"request","request":{"type":"fly"}}"#,
        r#"{"type":"request","request":{"type":"rename"}}"#,
    ];
    let mut delivered = Vec::new();
    for line in lines {
        native.write(&format!("{line}\n")).await;
        delivered.push(native.next().await.unwrap());
    }
    insta::assert_snapshot!(transcript(&[], &delivered), @r#"
    {"code":"invalid_line","message":"the line is not a JSON object","type":"error"}
    {"code":"invalid_line","id":"x","message":"unknown type \"fly\"; it must be one of hello, prompt, interrupt, answer, request, close, abort","type":"error"}
    {"code":"invalid_line","message":"protocol is missing; it must be a list of versions such as [1]","type":"error"}
    {"code":"invalid_line","message":"none of the versions [2] is supported: the supported version is 1","type":"error"}
    {"code":"invalid_line","id":"x","message":"content is missing; it must be a string or a list of content blocks","type":"error"}
    {"code":"invalid_line","message":"content must be a string or a list of content blocks","type":"error"}
    {"code":"invalid_line","message":"answer is missing; it must be an object with a type","type":"error"}
    {"code":"invalid_line","message":"answer.type must be allow, deny, choose, hook, accept, decline, cancel or tool_result","type":"error"}
    {"code":"hello_required","message":"send hello first, such as {\"type\":\"hello\",\"protocol\":[1]}: commands before it are refused","type":"refused"}
    {"code":"invalid_line","message":"request.type must be one of set_model, set_permission_mode, set_thinking, set_tools, mcp_status, set_mcp_servers, reconnect_mcp, toggle_mcp, context_usage, rewind, stop_task, read_file, rename, reinitialize, other","type":"error"}
    {"code":"invalid_line","message":"request.title is missing; it must be a string","type":"error"}
    "#);
    client.say("go").await;
    client.until("done").await;
    host.stop().await;
    assert_eq!(of_type(&room.events(), "prompt_accepted").len(), 1);
}

#[tokio::test]
async fn abort_ends_the_turn_and_the_waiting_message_runs() {
    let room = Room::fake("prompt\nmessage\ndeltas 2\nwait interrupt\nend\nprompt\ntext Second.\nresult\n");
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.send(json!({"type": "abort", "id": "idle"})).await;
    assert_eq!(client.next().await.unwrap(), json!({"type": "accepted", "id": "idle"}));
    client.say("one").await;
    client.say("two").await;
    client.until("text_delta").await;
    client.send(json!({"type": "abort"})).await;
    let interrupted = client.until("done").await;
    assert_eq!(of_type(&interrupted, "error")[0]["message"], "the turn was interrupted");
    assert_eq!(text_of(&client.until("done").await), "Second.");
    host.stop().await;
}

#[tokio::test]
async fn close_ends_the_host_and_every_client_receives_the_reason() {
    let room = Room::fake("prompt\nmessage\ndeltas 2\nwait interrupt\nend\n");
    let mut host = room.host(&[]).await;
    let (mut first, mut second) = (host.client_with_init().await, host.client_with_init().await);
    first.say("go").await;
    first.until("text_delta").await;
    first.send(json!({"type": "close"})).await;
    for client in [&mut first, &mut second] {
        let delivered: Vec<Value> = client.rest().await;
        let errors: Vec<&str> =
            of_type(&delivered, "error").iter().map(|line| line["message"].as_str().unwrap()).collect();
        assert!(errors.contains(&"the session ends: a client has closed the session"), "{delivered:?}");
        assert_eq!(of_type(&delivered, "done").len(), 1, "{delivered:?}");
    }
    assert_eq!(host.end().await, (Some(0), String::new()));
    room.is_empty_within(Duration::from_secs(1)).await;
    room.is_tidy();
}

#[tokio::test]
async fn an_idle_host_without_clients_ends_with_idle_exit() {
    let room = Room::fake("prompt\ntext One.\nresult\n");
    let mut host = room.host(&["--idle-exit", "1"]).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    client.until("done").await;
    drop(client);
    assert_eq!(host.end().await, (Some(0), String::new()));
    assert_eq!(room.record()["state"], "ended");
    room.is_tidy();
}

#[tokio::test]
async fn background_work_counts_as_running_for_idle_exit() {
    let listed = |tasks: &str| {
        format!("emit {{\"type\":\"system\",\"subtype\":\"background_tasks_changed\",\"tasks\":{tasks}}}\n")
    };
    // A CLI that lists its tasks, and one that only reports each.
    let task = r#"{"task_id":"a","task_type":"local_bash","description":"d"}"#;
    let lists = [listed(&format!("[{task}]")), listed("[]")];
    let reports = ["task started a {}\n".to_owned(), "task ended a {}\n".to_owned()];
    for [begins, ends] in [lists, reports] {
        let room = Room::fake(&format!("prompt\n{begins}text One.\nresult\npause 2500\n{ends}"));
        let mut host = room.host(&["--idle-exit", "1"]).await;
        let mut client = host.client_with_init().await;
        client.say("go").await;
        client.until("done").await;
        drop(client);
        assert_eq!(host.end().await, (Some(0), String::new()));
        let events = room.events();
        let delivered = events.iter().filter(|event| {
            let is_of_a_task = event["type"].as_str().is_some_and(|name| name.starts_with("task"));
            is_of_a_task || event["type"] == "host_stopping"
        });
        let delivered: Vec<&str> = delivered.map(|event| event["type"].as_str().unwrap()).collect();
        assert!(delivered[0] == delivered[1] && delivered[2..] == ["host_stopping"], "{delivered:?}");
    }
}

#[tokio::test]
async fn a_line_longer_than_the_ring_is_read_from_the_file() {
    let room = Room::fake("prompt\nmessage\ndeltas 2000 of 200\nend\nresult\n");
    let host = room.host(&[]).await;
    let (mut native, _) = host.native_since(json!(0)).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    let delivered = text_of(&client.until("done").await);
    let seen = native.until("became_idle").await;
    let whole = of_type(&seen, "block_finished")[0]["content"]["text"].as_str().unwrap().to_owned();
    assert_eq!(whole.len(), 400_000);
    assert_eq!(delivered, whole);
    host.stop().await;
}

#[tokio::test]
async fn a_client_that_stores_only_its_position_receives_open_requests_again() {
    let room = Room::fake("prompt\nask t Bash {\"command\":\"ls\"}\ntext Well.\nresult\n");
    let host = room.host(&[]).await;
    let mut first = host.client_with_init().await;
    first.send(json!({"type": "hello", "since": 0})).await;
    first.say("go").await;
    let place = first.until("approval_request").await.pop().unwrap()["seq"].clone();
    let mut second = host.client_with_init().await;
    second.until("approval_request").await;
    second.send(json!({"type": "hello", "since": place})).await;
    // It is a repetition, so it has no position.
    insta::assert_snapshot!(transcript(&["key", "session_id"], &second.until("caught_up").await), @r#"
    {"key":"key","resume":"ok","seq":"1:6","session_id":"session_id","state":"running","type":"hello"}
    {"input":{"command":"ls"},"request_id":"t","tool":"Bash","type":"approval_request"}
    {"type":"caught_up"}
    "#);
    second.send(json!({"type": "approve", "request_id": "t"})).await;
    second.until("done").await;
    // The native dialect sends every event once: its clients know which asks are open.
    let (mut native, _) = host.native_since(place).await;
    let delivered = native.until("caught_up").await;
    assert_eq!(of_type(&delivered, "ask_opened"), Vec::<&Value>::new());
    host.stop().await;
}

#[tokio::test]
async fn a_reconnected_client_receives_the_exit_of_an_idle_cli() {
    let room = Room::fake("prompt\ntext One.\nresult\nwait line\nexit 3\n");
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.send(json!({"type": "hello", "since": 0})).await;
    client.say("go").await;
    let place = client.until("done").await.pop().unwrap()["seq"].clone();
    client.send(json!({"type": "hello", "since": place})).await;
    client.until("caught_up").await;
    // Any line ends it.
    let (mut native, _) = host.native_since(Value::Null).await;
    native.send(json!({"type": "request", "id": "r", "request": {"type": "mcp_status"}})).await;
    insta::assert_snapshot!(transcript(&["seq", "usage"], &client.until("done").await), @r#"
    {"kind":"session","message":"Claude Code exited unexpectedly with code 3; the next message starts it again","type":"error"}
    {"seq":"seq","type":"done","usage":"usage"}
    "#);
    host.stop().await;
}

#[tokio::test]
async fn agent_socket_accepts_the_command_line_of_its_specification() {
    let room = Room::fake("prompt\ntext One.\nresult\n");
    let socket = room.sandbox.root().join("agent-socket-1.sock");
    // The document's own, but for the CLI, which is found on the PATH there.
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_agent-socket"));
    command.arg("--cwd").arg(room.sandbox.cwd()).arg("--socket").arg(&socket).arg("--claude").arg(&room.claude);
    let host = room.start(command).await;
    assert_eq!(host.socket, socket);
    let mut client = host.client_with_init().await;
    client.say("go").await;
    assert_eq!(text_of(&client.until("done").await), "One.");
    host.stop().await;
    assert!(!socket.exists());
    room.is_tidy();
}

#[tokio::test]
async fn text_of_the_cli_is_escaped_on_stderr_and_in_the_log() {
    let error = r#"\u001b[2J\u001b]0;mine\u0007boom\u009b31m\u202e\nwatari: all is well"#;
    // It answers what it is asked first with an error that clears the screen, sets a title and turns the text around.
    let answer = format!(
        r#"{{"type":"control_response","response":{{"subtype":"error","request_id":"watari_2","error":"{error}"}}}}"#
    );
    let room = Room::fake(&format!("mute\nwait line\nnoise {answer}\nwait line\n"));
    let log = room.sandbox.root().join("host.log");
    let mut child = room.command(&["--log-level", "debug", "--log", log.to_str().unwrap()]).spawn().unwrap();
    let (code, stderr) = host::end_of(&mut child).await;
    let log = std::fs::read_to_string(log).unwrap();
    assert_eq!(code, Some(1), "{stderr:?}");
    assert!(stderr.contains(r"\u{1b}[2J\u{1b}]0;mine\u{7}boom\u{9b}31m\u{202e}"), "{stderr:?}");
    let is_plain = |text: &str| !text.contains(|it: char| it != '\n' && (it.is_control() || it == '\u{202e}'));
    assert!(is_plain(&stderr) && is_plain(&log), "{stderr:?}, {log:?}");
}

/// Every message has a `done` of its own, in the order in which they came, however the session ends.
#[tokio::test]
async fn each_waiting_message_gets_an_error_and_a_done_when_the_session_ends() {
    for how in ["close", "signal", "two signals", "kill"] {
        let room = Room::fake("prompt\ntext Once\nwait interrupt\n");
        let host = room.host(&[]).await;
        let mut client = host.client_with_init().await;
        for id in ["1", "2", "3"] {
            client.send(json!({"type": "message", "text": id, "id": id})).await;
            client.until("accepted").await;
        }
        let mut seen = Vec::new();
        if how == "kill" {
            host.kill().await;
            room.is_empty_within(Duration::from_secs(3)).await;
            let id = room.record()["session_id"].as_str().unwrap().to_owned();
            let next = room.host(&["--resume", &id]).await;
            let mut client = next.client().await;
            client.send(json!({"type": "hello", "since": 0})).await;
            seen.extend(client.until("caught_up").await);
            next.stop().await;
        } else {
            match how {
                "close" => client.send(json!({"type": "close"})).await,
                "signal" => host.signal(Signal::TERM),
                _ => [Signal::TERM, Signal::TERM].into_iter().for_each(|signal| host.signal(signal)),
            }
            seen.extend(client.rest().await);
        }
        let done: Vec<u64> = of_type(&seen, "done").iter().filter_map(|line| line["message_id"].as_u64()).collect();
        let mut in_order = done.clone();
        in_order.sort_unstable();
        assert!(done.len() == 3 && done == in_order, "{how}: {done:?} {seen:#?}");
    }
}

#[tokio::test]
async fn in_the_native_dialect_no_command_takes_effect_before_hello() {
    let room = Room::fake("prompt\ntext Hello\nresult\n");
    let host = room.host(&[]).await;
    let mut early = host.native().await;
    let ask = json!({"type": "answer", "id": "2", "ask": 1, "answer": {"type": "allow"}});
    let request = json!({"type": "request", "id": "3", "request": {"type": "mcp_status"}});
    let (close, abort) = (json!({"type": "close", "id": "5"}), json!({"type": "abort", "id": "6"}));
    let long = json!({"type": "prompt", "id": "7", "content": "x".repeat(2 * 1024 * 1024)});
    let commands =
        [json!({"type": "prompt", "id": "1", "content": "go"}), ask, request, json!({"type": "interrupt", "id": "4"})];
    for command in commands.into_iter().chain([close, abort, long]) {
        let id = command["id"].clone();
        early.send(command).await;
        let delivered = early.next().await.unwrap();
        let why = "send hello first, such as {\"type\":\"hello\",\"protocol\":[1]}: commands before it are refused";
        assert_eq!(
            (&delivered["type"], &delivered["id"], &delivered["message"]),
            (&json!("refused"), &id, &json!(why))
        );
    }
    // After it they are, in the same connection.
    early.send(json!({"type": "hello", "protocol": [1]})).await;
    early.send(json!({"type": "prompt", "id": "8", "content": "go"})).await;
    let seen = early.until("became_idle").await;
    assert_eq!(of_type(&seen, "accepted").len(), 1);
    assert_eq!(of_type(&room.events(), "prompt_accepted").len(), 1);
    host.stop().await;
}
