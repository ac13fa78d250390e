//! Asks on the sockets of a host: an answer resolves the ask that was shown and no other, and the log records what it
//! allowed.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use host::{Client, Room, of_type, transcript};
use serde_json::{Value, json};

/// A permission request of the fake CLI for any tool use.
fn asks(request_id: &str, tool_use: &str, command: &str) -> String {
    let input = json!({"command": command});
    let request = json!({"subtype": "can_use_tool", "tool_name": "Bash", "input": input, "tool_use_id": tool_use});
    format!("emit {}\n", json!({"type": "control_request", "request_id": request_id, "request": request}))
}

/// The answer to the CLI: the input that may run, or a denial.
fn answered(room: &Room) -> Vec<(String, Value)> {
    let answers = room.lines_sent_to_cli().into_iter().filter(|line| line["type"] == "control_response");
    let read = |mut line: Value| {
        let response = line["response"].take();
        let verdict = &response["response"];
        let is_allowed = verdict["behavior"] == "allow";
        let what = if is_allowed { &verdict["updatedInput"]["command"] } else { &verdict["message"] };
        (response["request_id"].as_str().unwrap().to_owned(), what.clone())
    };
    answers.map(read).collect()
}

async fn approval_requests(client: &mut Client, count: usize) -> Vec<Value> {
    let mut seen = Vec::new();
    for _ in 0..count {
        seen.push(client.until("approval_request").await.pop().unwrap());
    }
    seen
}

#[tokio::test]
async fn two_open_asks_about_one_tool_use_have_two_names_and_two_answers() {
    let script =
        format!("prompt\n{}{}wait line\nwait line\nresult Done.\n", asks("r1", "t", "one"), asks("r2", "t", "two"));
    let room = Room::fake(&script);
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    let shown = approval_requests(&mut client, 2).await;
    insta::assert_snapshot!(transcript(&[], &shown), @r#"
    {"input":{"command":"one"},"request_id":"t","tool":"Bash","type":"approval_request"}
    {"input":{"command":"two"},"request_id":"ask_3","tool":"Bash","tool_use_id":"t","type":"approval_request"}
    "#);
    // They have the same names for a client that connects later or reconnects.
    let mut late = host.client_with_init().await;
    assert_eq!(approval_requests(&mut late, 2).await, shown);
    late.send(json!({"type": "hello", "since": 0})).await;
    let names = |lines: &[Value]| lines.iter().map(|line| line["request_id"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&approval_requests(&mut late, 2).await), names(&shown));
    late.send(json!({"type": "approve", "request_id": "t"})).await;
    client.until("approval_resolved").await;
    client.send(json!({"type": "deny", "request_id": shown[1]["request_id"], "reason": "not two"})).await;
    client.until("done").await;
    assert_eq!(answered(&room), [("r1".into(), json!("one")), ("r2".into(), json!("not two"))]);
    host.stop().await;
}

#[tokio::test]
async fn a_late_answer_never_reaches_a_newer_ask_about_the_same_tool_use() {
    let script =
        format!("prompt\n{}wait line\n{}wait line\nresult Done.\n", asks("r1", "t", "one"), asks("r2", "t", "two"));
    let room = Room::fake(&script);
    let host = room.host(&[]).await;
    let (mut fast, mut slow) = (host.client_with_init().await, host.client_with_init().await);
    fast.say("go").await;
    fast.until("approval_request").await;
    fast.send(json!({"type": "deny", "request_id": "t", "reason": "not one"})).await;
    let second = fast.until("approval_request").await.pop().unwrap();
    // This one saw the first question, and answers when the second is open already.
    slow.send(json!({"type": "approve", "request_id": "t", "id": "late"})).await;
    let refused = slow.until("error").await.pop().unwrap();
    assert_eq!((&refused["kind"], &refused["id"]), (&json!("refused"), &json!("late")), "{refused}");
    fast.send(json!({"type": "deny", "request_id": second["request_id"], "reason": "not two"})).await;
    fast.until("done").await;
    assert_eq!(answered(&room), [("r1".into(), json!("not one")), ("r2".into(), json!("not two"))]);
    host.stop().await;
}

/// The CLI dies with an ask, is started again, and asks about the same tool use; and so once more for another host.
#[tokio::test]
async fn the_name_of_an_ask_is_never_reused_by_a_later_process_or_host() {
    let room = Room::fake(&format!("prompt\n{}wait line\nexit 3\n", asks("r1", "t", "one")));
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    let mut names = vec![client.until("approval_request").await.pop().unwrap()["request_id"].clone()];
    client.send(json!({"type": "deny", "request_id": "t"})).await;
    client.until("done").await;
    client.say("again").await;
    names.push(client.until("approval_request").await.pop().unwrap()["request_id"].clone());
    host.stop().await;
    let session_id = room.record()["session_id"].as_str().unwrap().to_owned();
    let host = room.host(&["--resume", &session_id]).await;
    let mut client = host.client_with_init().await;
    client.say("and again").await;
    names.push(client.until("approval_request").await.pop().unwrap()["request_id"].clone());
    host.stop().await;
    assert_eq!(names[0], "t");
    assert!(names[1] != "t" && names[2] != "t" && names[1] != names[2], "{names:?}");
}

/// The id of a tool use may look like Watari's name of an ask, or be missing.
#[tokio::test]
async fn ids_of_the_cli_never_collide_with_names_of_watari() {
    let numbered: Vec<String> = (1..=12).map(|number| format!("ask_{number}")).collect();
    let ids: Vec<&str> = numbered.iter().map(String::as_str).chain(["form_5", "call_7", ""]).collect();
    let asked: String = ids.iter().enumerate().map(|(place, id)| asks(&format!("r{place}"), id, id)).collect();
    let unnamed = asks("unnamed", "t", "unnamed").replace(r#","tool_use_id":"t""#, "");
    let script = format!("prompt\n{unnamed}{asked}{}result Done.\n", "wait line\n".repeat(ids.len() + 1));
    let room = Room::fake(&script);
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    let shown = approval_requests(&mut client, ids.len() + 1).await;
    // Each is answered by its name, in another order, with what was shown under that name.
    for line in shown.iter().rev() {
        let reason = line["input"]["command"].clone();
        client.send(json!({"type": "deny", "request_id": line["request_id"], "reason": reason})).await;
    }
    client.until("done").await;
    let mut expected: Vec<_> = ids.iter().enumerate().map(|(place, id)| (format!("r{place}"), json!(id))).collect();
    expected.insert(0, ("unnamed".to_owned(), json!("unnamed")));
    expected.reverse();
    assert_eq!(answered(&room), expected);
    host.stop().await;
}

#[tokio::test]
async fn an_edited_approval_is_in_the_event_log_and_in_the_host_log() {
    let script =
        format!("prompt\n{}wait line\n{}wait line\nresult Done.\n", asks("r1", "t", "safe"), asks("r2", "u", "safe"));
    let room = Room::fake(&script);
    let host = room.host(&[]).await;
    let (mut client, mut watcher) = (host.client_with_init().await, host.client_with_init().await);
    let (mut native, _) = host.native_since(Value::Null).await;
    client.say("go").await;
    client.until("approval_request").await;
    client.send(json!({"type": "approve", "request_id": "t", "input": {"command": "other"}})).await;
    let ask = &native.until("ask_resolved").await;
    client.until("approval_request").await;
    let rules = json!([{"type": "addRules", "behavior": "allow"}]);
    let opened = native.until("ask_opened").await.pop().unwrap();
    let answer = json!({"type": "allow", "input": {"command": "safe"}, "permissions": rules});
    native.send(json!({"type": "answer", "ask": opened["ask"], "answer": answer})).await;
    let mut seen = watcher.until("done").await;
    // A client that connects after the turn reads the same.
    watcher.send(json!({"type": "hello", "since": 0})).await;
    let mut again = watcher.until("caught_up").await;
    for lines in [&mut seen, &mut again] {
        lines.iter_mut().for_each(|line| drop(line.as_object_mut().unwrap().remove("seq")));
    }
    let resolved = of_type(&seen, "approval_resolved");
    assert_eq!(resolved, of_type(&again, "approval_resolved"));
    insta::assert_snapshot!(transcript(&["by"], resolved), @r#"
    {"by":"by","decision":"approved","edited":true,"input":{"command":"other"},"request_id":"t","type":"approval_resolved"}
    {"by":"by","decision":"approved","permissions":[{"behavior":"allow","type":"addRules"}],"request_id":"u","type":"approval_resolved"}
    "#);
    let events = room.events();
    let closed = of_type(&events, "ask_resolved");
    assert_eq!((&closed[0]["edited"], &closed[0]["input"]), (&json!(true), &json!({"command": "other"})));
    assert_eq!((closed[1].get("edited"), closed[1].get("input")), (None, None));
    assert_eq!(closed[1]["permissions"], rules);
    assert_eq!(ask.last().unwrap(), closed[0]);
    host.stop().await;
    let log = room.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("ask resolved")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[0].contains("edited=true") && lines[0].contains("Bash") && lines[0].contains("by=Some("), "{log}");
    assert!(lines[1].contains("edited=false") && lines[1].contains("permission_updates=true"), "{log}");
    assert!(!log.contains("other"), "the log has content: {log}");
}

#[tokio::test]
async fn a_request_that_changes_what_runs_is_logged_with_its_client() {
    let room = Room::fake("prompt\ntext Hello\nresult\n");
    let host = room.host(&[]).await;
    let mut client = host.native().await;
    client.send(json!({"type": "hello", "protocol": [1], "client": "editor"})).await;
    client.until("caught_up").await;
    let servers = json!({"mine": {"command": "sh", "args": ["-c", "x"], "env": {"TOKEN": "secret"}}});
    client
        .send(json!({"type": "request", "id": "1", "request": {"type": "set_mcp_servers", "servers": servers}}))
        .await;
    let settings = json!({"settings": {"permissions": {"allow": ["Bash"]}}});
    let other = json!({"type": "other", "subtype": "apply_flag_settings", "fields": settings});
    client.send(json!({"type": "request", "id": "2", "request": other})).await;
    let seen = [client.until("request_answered").await, client.until("request_answered").await].concat();
    let sent = of_type(&seen, "request_sent");
    let bodies: Vec<&Value> = sent.iter().map(|event| &event["body"]).collect();
    let without_secret = json!({"mine": {"command": "sh", "args": ["-c", "x"], "env": {"TOKEN": null}}});
    assert_eq!(
        bodies,
        [
            &json!({"subtype": "mcp_set_servers", "servers": without_secret}),
            &json!({"subtype": "apply_flag_settings", "settings": {"permissions": {"allow": ["Bash"]}}}),
        ]
    );
    assert!(sent.iter().all(|event| event["by"] == "editor (client 1)" && event["seq"].is_string()), "{sent:?}");
    assert_eq!(of_type(&seen, "request_sent").len(), 2);
    let log = room.log();
    assert!(
        log.contains(r#"request sent request=3 subtype=Some("mcp_set_servers") by=Some("editor (client 1)")"#),
        "{log}"
    );
    host.stop().await;
}
