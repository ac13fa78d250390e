//! Asks of the real CLI on the sockets of a host: what was allowed is on record.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use host::{Room, of_type};
use serde_json::{Value, json};
use watari_testkit::Reply;

#[tokio::test]
async fn an_edited_approval_is_reported_to_every_client_and_logged() {
    let bash = Reply::tool_use("toolu_1", "Bash", json!({"command": "touch harmless"}));
    let room = Room::real([bash, Reply::text("Done.")]).await;
    let host = room.host(&[]).await;
    let (mut client, mut watcher) = (host.client_with_init().await, host.client_with_init().await);
    let (mut native, _) = host.native_since(Value::Null).await;
    client.say("go").await;
    client.until("approval_request").await;
    let edited = json!({"command": "touch other"});
    client.send(json!({"type": "approve", "request_id": "toolu_1", "input": edited})).await;
    let seen = watcher.until("done").await;
    let made = ["harmless", "other"].map(|name| room.sandbox.cwd().join(name).exists());
    assert_eq!(made, [false, true]);
    // A client that is connected, one that connects later, one of the native dialect, and the log.
    let mut late = host.client_with_init().await;
    late.send(json!({"type": "hello", "since": 0})).await;
    let again = late.until("caught_up").await;
    for lines in [&seen, &again] {
        let resolved = of_type(lines, "approval_resolved")[0];
        assert_eq!((&resolved["edited"], &resolved["input"]), (&json!(true), &edited), "{resolved}");
    }
    let closed = native.until("ask_resolved").await.pop().unwrap();
    assert_eq!((&closed["edited"], &closed["input"]), (&json!(true), &edited), "{closed}");
    assert_eq!(of_type(&room.events(), "ask_resolved"), [&closed]);
    host.stop().await;
    let log = room.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("ask resolved")).collect();
    assert!(lines.len() == 1 && lines[0].contains("edited=true") && lines[0].contains("Bash"), "{log}");
    assert!(!log.contains("touch"), "the host's log has content: {log}");
}
