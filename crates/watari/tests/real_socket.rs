//! `watari socket` on the real CLI: every promise of agent-socket.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::time::Duration;

use host::{Room, of_type, text_of, transcript};
use serde_json::{Value, json};
use watari_testkit::Reply;
use watari_testkit::claude::{oldest_claude, pinned_claude};

fn bash(command: &str) -> Reply {
    Reply::text("I will look.").and_tool_use("toolu_1", "Bash", json!({"command": command}))
}

#[tokio::test]
async fn events_of_the_native_dialect_match_its_schema_live_and_stored() {
    let room = Room::real([bash("touch made; echo seen"), Reply::text("Fixed.")]).await;
    let host = room.host(&[]).await;
    let (mut client, _) = host.native_since(json!(0)).await;
    client.send(json!({"type": "prompt", "id": "p", "content": "fix the bug"})).await;
    let mut seen = client.until("ask_opened").await;
    let ask = seen.last().unwrap()["ask"].clone();
    client.send(json!({"type": "answer", "id": "a", "ask": ask, "answer": {"type": "allow"}})).await;
    client.send(json!({"type": "request", "id": "r", "request": {"type": "context_usage"}})).await;
    seen.extend(client.until("became_idle").await);
    // Replies are not events, and ephemeral events are not stored.
    let durable: Vec<_> = seen.iter().filter(|line| line["seq"].is_string()).collect();
    assert!(durable.len() > 10 && durable.len() < seen.len() - 2, "{seen:#?}");
    assert!(room.events().iter().zip(durable).all(|(stored, received)| stored == received));
    host.stop().await;
}

/// A hook that blocks every prompt, and a slash command that does not exist.
#[tokio::test]
async fn a_message_that_is_not_handled_gets_its_reason_before_its_done() {
    for claude in [pinned_claude(), oldest_claude()] {
        let room = Room { claude: claude.clone(), ..Room::real([Reply::text("Hello.")]).await };
        let host = room.host(&[]).await;
        let mut client = host.client_with_init().await;
        client.say("/nonexistent").await;
        let seen = client.until("done").await;
        // The newer one passes it on to the model.
        let expected = if claude == oldest_claude() { "Unknown skill: nonexistent" } else { "Hello." };
        assert_eq!((text_of(&seen).as_str(), of_type(&seen, "error").len()), (expected, 0), "{seen:#?}");
        host.stop().await;

        let room = Room { claude: claude.clone(), ..Room::real([Reply::text("Hello.")]).await };
        let hook = json!({"type": "command", "command": "echo not today >&2; exit 2"});
        let settings = json!({"hooks": {"UserPromptSubmit": [{"hooks": [hook]}]}});
        let path = room.sandbox.home().join(".claude/settings.json");
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, settings.to_string()).unwrap();
        let host = room.host(&[]).await;
        let mut client = host.client_with_init().await;
        client.say("hi").await;
        let seen = client.until("done").await;
        let error = &of_type(&seen, "error")[0];
        let why = if claude == oldest_claude() { "a hook in its settings may have blocked it" } else { "not today" };
        assert!(error["message"].as_str().unwrap().contains(why), "{seen:#?}");
        assert_eq!((&error["kind"], text_of(&seen).as_str()), (&json!("turn"), ""), "{seen:#?}");
        host.stop().await;
    }
}

#[tokio::test]
async fn the_flow_of_agent_socket_works() {
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
    {"message_id":2,"type":"done","usage":"usage"}
    "#);
    assert!(seen.last().unwrap()["usage"]["output_tokens"].is_number(), "{seen:?}");
    assert_eq!(text_of(&seen), "I will look.Fixed.");
    assert!(room.sandbox.cwd().join("made").exists());
    assert_eq!(of_type(&seen, "init")[0]["session_id"], room.record()["session_id"]);
    // The client disconnects, the session stays, and another client continues it.
    drop(client);
    let mut second = host.client_with_init().await;
    second.say("more").await;
    second.until("done").await;
    host.stop().await;
    room.is_empty_within(Duration::from_secs(1)).await;
    room.is_tidy();
    assert_eq!(room.record()["state"], "ended");
}

#[tokio::test]
async fn a_host_with_idle_exit_waits_for_a_background_command() {
    let input = json!({"command": "sleep 4; touch made", "description": "d", "run_in_background": true});
    let started = Reply::text("I will.").and_tool_use("toolu_1", "Bash", input);
    let room = Room::real([started, Reply::text("Started."), Reply::text("It ended.")]).await;
    let mut host = room.host(&["--idle-exit", "1"]).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    client.until("approval_request").await;
    client.send(json!({"type": "approve", "request_id": "toolu_1"})).await;
    client.until("done").await;
    drop(client);
    assert_eq!(host.end().await, (Some(0), String::new()));
    assert!(room.sandbox.cwd().join("made").exists());
    // The model has received its end.
    assert_eq!(of_type(&room.events(), "turn_finished").len(), 2);
}

#[tokio::test]
async fn a_session_without_a_stored_conversation_is_resumed_with_a_new_one() {
    let room = Room::real([Reply::text("Heard.")]).await;
    let host = room.host(&[]).await;
    let mut client = host.client().await;
    let id = client.next().await.unwrap()["session_id"].as_str().unwrap().to_owned();
    host.native_since(json!(0)).await.0.until("ready").await;
    // It is stopped, so that it is killed before it can store the message.
    host.signal_cli(rustix::process::Signal::STOP);
    client.send(json!({"type": "message", "text": "important", "id": "m"})).await;
    let message = client.until("accepted").await.pop().unwrap()["message_id"].clone();
    host.kill().await;
    // Once, and repeatedly.
    for _ in 0..2 {
        let host = room.host(&["--resume", &id]).await;
        let mut client = host.client().await;
        client.send(json!({"type": "hello", "since": 0})).await;
        let seen = client.until("caught_up").await;
        assert_eq!(of_type(&seen, "done")[0]["message_id"], message, "{seen:?}");
        host.native_since(json!(0)).await.0.until("context_lost").await;
        host.native_since(json!(0)).await.0.until("ready").await;
        host.stop().await;
    }
    let host = room.host(&["--resume", &id]).await;
    let mut client = host.client_with_init().await;
    client.say("important").await;
    assert_eq!(text_of(&client.until("done").await), "Heard.");
    host.stop().await;
    assert_eq!(room.record()["session_id"], id);
    assert_eq!(room.sessions().len(), 1);
}

#[tokio::test]
async fn a_denied_tool_does_not_run_and_an_edited_one_runs_as_edited() {
    let replies = [bash("touch one"), Reply::text("Then not."), bash("touch two"), Reply::text("Well.")];
    let room = Room::real(replies).await;
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    client.until("approval_request").await;
    client.send(json!({"type": "deny", "request_id": "toolu_1", "reason": "too dangerous"})).await;
    let seen = client.until("done").await;
    insta::assert_snapshot!(transcript(&["usage", "content"], &seen), @r#"
    {"by":"client 1","decision":"denied","request_id":"toolu_1","type":"approval_resolved"}
    {"content":"content","is_error":true,"output":"too dangerous","request_id":"toolu_1","type":"tool_result"}
    {"text":"Then","type":"text_delta"}
    {"text":" not","type":"text_delta"}
    {"text":".","type":"text_delta"}
    {"message_id":2,"type":"done","usage":"usage"}
    "#);
    client.say("again").await;
    // The model gives its tool use the id of the first one, so that this request has a name of its own.
    let asked = client.until("approval_request").await.pop().unwrap();
    assert_eq!((&asked["tool_use_id"], asked["request_id"] == "toolu_1"), (&json!("toolu_1"), false));
    let edited = json!({"command": "touch three"});
    client.send(json!({"type": "approve", "request_id": asked["request_id"], "input": edited, "id": "mine"})).await;
    assert_eq!(of_type(&client.until("done").await, "accepted").len(), 1);
    let made = ["one", "two", "three"].map(|name| room.sandbox.cwd().join(name).exists());
    assert_eq!(made, [false, false, true]);
    host.stop().await;
}

#[tokio::test]
async fn messages_wait_for_their_turn_and_abort_ends_one() {
    let room = Room::real([Reply::stall(), Reply::text("Second.")]).await;
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("one").await;
    client.say("two").await;
    client.until("text_delta").await;
    client.send(json!({"type": "abort"})).await;
    let first = client.until("done").await;
    assert_eq!(of_type(&first, "error")[0]["message"], "the turn was interrupted");
    assert_eq!(text_of(&client.until("done").await), "Second.");
    host.stop().await;
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_host_that_was_ended_or_killed_is_resumed_with_its_conversation_and_its_positions() {
    let replies = ["one", "two", "three"].map(Reply::text);
    let room = Room::real(replies).await;
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.send(json!({"type": "hello", "since": 0, "client": "palmux"})).await;
    client.say("my first words").await;
    let seen = client.until("done").await;
    let position = seen.last().unwrap()["seq"].clone();
    let session_id = room.record()["session_id"].as_str().unwrap().to_owned();
    host.stop().await;
    // Stopped gracefully, and then killed.
    for (number, text) in ["two", "three"].into_iter().enumerate() {
        let host = room.host(&["--resume", &session_id]).await;
        let mut client = host.client_with_init().await;
        client.send(json!({"type": "hello", "since": position})).await;
        let hello = client.until("hello").await;
        assert_eq!(hello.last().unwrap()["resume"], "ok");
        client.say("and more").await;
        let mut seen = Vec::new();
        while !text_of(&seen).ends_with(text) || of_type(&seen, "done").len() <= number {
            seen.push(client.next().await.unwrap());
        }
        assert_eq!(of_type(&seen, "done").len(), number + 1, "{seen:?}");
        host.kill().await;
        room.is_empty_within(Duration::from_secs(3)).await;
    }
    assert_eq!(
        watari_hub::read_and_mark_killed(&room.sessions()[0]).unwrap().state,
        watari_hub::record::State::HostKilled
    );
    let asked = room.stub.as_ref().unwrap().requests();
    let last = asked.last().unwrap().body.to_string();
    for words in ["my first words", "one", "two", "and more"] {
        assert!(last.contains(words), "{words} was forgotten");
    }
}

#[tokio::test]
async fn a_killed_cli_is_restarted_with_its_conversation() {
    let room = Room::real([Reply::text("one"), Reply::text("two")]).await;
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("my first words").await;
    client.until("done").await;
    host.kill_cli();
    let delivered = client.until("done").await;
    assert!(
        delivered[0]["message"].as_str().unwrap().starts_with("Claude Code was terminated by signal 9"),
        "{delivered:?}"
    );
    client.say("and now?").await;
    assert_eq!(text_of(&client.until("done").await), "two");
    let asked = room.stub.as_ref().unwrap().requests();
    assert!(asked.last().unwrap().body.to_string().contains("my first words"));
    host.stop().await;
}

#[tokio::test]
async fn a_conversation_that_was_never_stored_begins_again() {
    let room = Room::real([Reply::text("one")]).await;
    let host = room.host(&[]).await;
    let (mut native, _) = host.native_since(json!(0)).await;
    native.until("ready").await;
    let mut client = host.client_with_init().await;
    host.kill_cli();
    client.until("done").await;
    client.say("hello?").await;
    let delivered = client.until("done").await;
    let errors: Vec<_> = of_type(&delivered, "error").into_iter().map(|line| line["message"].clone()).collect();
    assert_eq!(errors, ["context lost: Claude Code does not have this conversation, so it starts a new one"]);
    assert_eq!(text_of(&delivered), "one");
    host.stop().await;
}

#[tokio::test]
async fn a_tool_of_a_client_is_offered_called_and_answered_by_any_client() {
    let add = Reply::tool_use("toolu_1", "mcp__client__add", json!({"a": 2, "b": 3}));
    let room = Room::real([Reply::text("Ready."), add, Reply::text("It is 5.")]).await;
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    // Also after the first turn: the CLI looks again.
    client.say("hello").await;
    client.until("done").await;
    let tool = json!({"name": "add", "description": "Adds.", "input_schema": {"type": "object"}});
    client.send(json!({"type": "register_tools", "tools": [tool], "id": "tools"})).await;
    client.until("accepted").await;
    client.say("2 + 3?").await;
    client.until("approval_request").await;
    client.send(json!({"type": "approve", "request_id": "toolu_1"})).await;
    let call = client.until("tool_call").await.pop().unwrap();
    assert_eq!((&call["name"], &call["input"]), (&json!("add"), &json!({"a": 2, "b": 3})));
    let mut other = host.client_with_init().await;
    other.send(json!({"type": "tool_call_result", "call_id": call["call_id"], "content": "5"})).await;
    client.send(json!({"type": "tool_call_result", "call_id": call["call_id"], "content": "6"})).await;
    let seen = client.until("done").await;
    assert_eq!(of_type(&seen, "tool_result")[0]["output"], "5");
    let late = of_type(&seen, "error")[0]["message"].as_str().unwrap();
    assert!(late.ends_with("is already resolved: client 2 answered it"), "{late}");
    assert_eq!(text_of(&seen), "It is 5.");
    host.stop().await;
}

#[tokio::test]
async fn a_failed_resume_leaves_only_the_files_that_existed_before() {
    let room = Room::real([Reply::text("Good morning.")]).await;
    let unknown = ["--resume", "11111111-2222-4333-8444-555555555555"];
    let (code, stderr) = host::end_of(&mut room.command(&unknown).spawn().unwrap()).await;
    assert!(code == Some(1) && stderr.contains("11111111-2222-4333-8444-555555555555"), "{code:?} {stderr}");
    assert_eq!(room.sessions(), Vec::<std::path::PathBuf>::new());

    // The CLI has lost the conversation of a session: the events stay, and the session begins a new conversation.
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("good morning?").await;
    client.until("done").await;
    host.stop().await;
    let id = room.record()["session_id"].as_str().unwrap().to_owned();
    std::fs::remove_dir_all(room.sandbox.home().join(".claude/projects")).unwrap();
    let before = room.events();
    let host = room.host(&["--resume", &id]).await;
    host.native_since(json!(0)).await.0.until("context_lost").await;
    host.stop().await;
    assert_eq!(room.events()[..before.len()], before);
}

/// An empty transcript, as a full disk leaves it, is no conversation for the CLI, and yet its id is in use.
#[tokio::test]
async fn a_session_with_an_empty_transcript_begins_again_under_another_id() {
    let room = Room::real(["Good morning.", "Good evening."].map(Reply::text)).await;
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("good morning?").await;
    client.until("done").await;
    host.stop().await;
    let id = room.record()["session_id"].as_str().unwrap().to_owned();
    let projects = std::fs::read_dir(room.sandbox.home().join(".claude/projects")).unwrap();
    let mut transcripts = projects.map(|folder| folder.unwrap().path().join(format!("{id}.jsonl")));
    let transcript = transcripts.find(|path| path.exists()).unwrap();
    std::fs::write(transcript, "").unwrap();
    let host = room.host(&["--resume", &id]).await;
    host.native_since(json!(0)).await.0.until("context_lost").await;
    let mut client = host.client_with_init().await;
    client.say("good evening?").await;
    assert_eq!(text_of(&client.until("done").await), "Good evening.");
    host.stop().await;
    assert_ne!(room.record()["session_id"], json!(id));
}

#[tokio::test]
async fn a_client_that_half_closes_after_its_message_reads_to_the_end_of_the_turn() {
    let room = Room::real(["One.", "Two."].map(Reply::text)).await;
    let host = room.host(&[]).await;
    let (mut native, mut socket) = (host.native_since(json!(0)).await.0, host.client_with_init().await);
    socket.say("one").await;
    socket.half_close().await;
    assert_eq!(text_of(&socket.until("done").await), "One.");
    native.send(json!({"type": "prompt", "id": "p", "content": "two"})).await;
    native.half_close().await;
    let mut seen = native.until("accepted").await;
    // The client that was connected before receives it, too.
    assert_eq!(text_of(&socket.until("done").await), "Two.");
    // A reply may overtake events that were published before it.
    while of_type(&seen, "block_finished").len() < 2 {
        seen.extend(native.until("became_idle").await);
    }
    let texts: Vec<_> = of_type(&seen, "block_finished").iter().map(|block| block["content"]["text"].clone()).collect();
    assert_eq!(texts, ["One.", "Two."]);
    host.stop().await;
}

#[tokio::test]
async fn servers_that_one_client_sets_leave_the_tools_of_another_alone() {
    let ping = Reply::tool_use("toolu_1", "mcp__client__ping", json!({}));
    let room = Room::real([Reply::text("Ready."), ping, Reply::text("Pong.")]).await;
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("hello").await;
    client.until("done").await;
    client.send(json!({"type": "register_tools", "tools": [{"name": "ping"}], "id": "tools"})).await;
    client.until("accepted").await;
    let (mut other, _) = host.native_since(json!(0)).await;
    other.until("caught_up").await;
    let set = |id: &str, servers: Value| json!({"type": "request", "id": id, "request": {"type": "set_mcp_servers", "servers": servers}});
    other.send(set("1", json!({}))).await;
    other.until("request_answered").await;
    other.send(set("2", json!({"client": {"command": "true"}}))).await;
    let refused = other.until("refused").await.pop().unwrap();
    assert!(refused["message"].as_str().unwrap().contains("\"client\""), "{refused}");
    client.say("ping?").await;
    client.until("approval_request").await;
    client.send(json!({"type": "approve", "request_id": "toolu_1"})).await;
    let call = client.until("tool_call").await.pop().unwrap();
    client.send(json!({"type": "tool_call_result", "call_id": call["call_id"], "content": "pong"})).await;
    assert_eq!(text_of(&client.until("done").await), "Pong.");
    host.stop().await;
}

#[tokio::test]
async fn a_permission_mode_that_a_client_set_applies_after_a_restart_of_the_cli() {
    let write = Reply::tool_use("toolu_1", "Write", json!({"file_path": "made", "content": "x"}));
    let room = Room::real([Reply::text("Ready."), write, Reply::text("Done.")]).await;
    let host = room.host(&["--permission-mode", "acceptEdits"]).await;
    let mut client = host.client_with_init().await;
    let (mut native, _) = host.native_since(json!(0)).await;
    native.until("ready").await;
    let stricter = json!({"type": "set_permission_mode", "mode": "default"});
    native.send(json!({"type": "request", "id": "1", "request": stricter})).await;
    native.until("request_answered").await;
    client.say("hello").await;
    client.until("done").await;
    host.kill_cli();
    native.until("cli_exited").await;
    client.say("write").await;
    let asked = client.until("approval_request").await.pop().unwrap();
    assert_eq!(asked["tool"], "Write");
    client.send(json!({"type": "deny", "request_id": "toolu_1"})).await;
    client.until("done").await;
    assert!(!room.sandbox.cwd().join("made").exists());
    host.stop().await;
}

/// The mode is set while no CLI runs, and the prompt follows immediately.
#[tokio::test]
async fn a_permission_mode_set_while_the_cli_is_down_applies_to_the_next_cli() {
    let write = Reply::tool_use("toolu_1", "Write", json!({"file_path": "made", "content": "x"}));
    let room = Room::real([write, Reply::text("Done.")]).await;
    let host = room.host(&["--permission-mode", "acceptEdits"]).await;
    let mut client = host.client_with_init().await;
    let (mut native, _) = host.native_since(json!(0)).await;
    native.until("ready").await;
    host.kill_cli();
    native.until("cli_exited").await;
    let stricter = json!({"type": "set_permission_mode", "mode": "default"});
    native.send(json!({"type": "request", "id": "1", "request": stricter})).await;
    native.send(json!({"type": "prompt", "id": "2", "content": "write"})).await;
    let asked = client.until("approval_request").await.pop().unwrap();
    assert_eq!(asked["tool"], "Write");
    client.send(json!({"type": "deny", "request_id": "toolu_1"})).await;
    native.until("turn_finished").await;
    assert!(!room.sandbox.cwd().join("made").exists());
    host.stop().await;
}
