//! The mode in which everything runs without a question is opened by whoever starts the session, and by no client: on both
//! versions of the real CLI, of which the older one refuses nothing of this by itself.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod bridge;

use std::path::Path;

use bridge::{Bridge, Room, of_type};
use serde_json::{Value, json};
use watari_testkit::Reply;
use watari_testkit::claude::{oldest_claude, pinned_claude};

const WHY: &str = "bypassPermissions runs everything without a question, so only whoever starts the session may allow it: \
                   start it with --allow-bypass";

/// A model that wants to make two files, each with a tool that must be asked for.
async fn room() -> Room {
    let touch = |id: &str, name: &str| Reply::tool_use(id, "Bash", json!({"command": format!("touch {name}")}));
    Room::with_replies([touch("toolu_1", "one"), touch("toolu_2", "two"), Reply::text("Done.")]).await
}

fn bridge(room: &Room, claude: &Path) -> Bridge {
    room.bridge_with(&["--claude", claude.to_str().unwrap()])
}

fn error_of(lines: &[Value]) -> String {
    of_type(lines, "error")[0]["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn no_request_of_a_client_opens_the_bypass_of_permissions() {
    for claude in [pinned_claude(), oldest_claude()] {
        let room = room().await;
        let mut bridge = bridge(&room, &claude);
        bridge.start("go", json!({})).await;
        let asked = bridge.until("permission_request").await.pop().unwrap();
        bridge.send(json!({"type": "set_permission_mode", "mode": "bypassPermissions"})).await;
        assert_eq!(error_of(&bridge.until("error").await), format!("set_permission_mode: {WHY}"));
        // With an approval: the question stays open.
        let id = asked["requestId"].as_str().unwrap();
        let rules = json!([{"type": "setMode", "mode": "bypassPermissions", "destination": "session"}]);
        bridge.answer(id, json!({"behavior": "allow", "updatedPermissions": rules})).await;
        assert_eq!(error_of(&bridge.until("error").await), format!("requestId {id}: {WHY}"));
        bridge.allow(id).await;
        // The next one is asked about as well.
        let next = bridge.until("permission_request").await.pop().unwrap();
        bridge.answer(next["requestId"].as_str().unwrap(), json!({"behavior": "deny"})).await;
        bridge.until("turn_result").await;
        let made = ["one", "two"].map(|name| room.sandbox.cwd().join(name).exists());
        assert_eq!(made, [true, false], "{}", claude.display());
        bridge.close_input();
        bridge.exit().await;
    }
}

#[tokio::test]
async fn no_option_of_a_client_opens_the_bypass_of_permissions() {
    let room = room().await;
    let agent = json!({"description": "x", "prompt": "y", "permissionMode": "bypassPermissions"});
    let settings = json!({"permissions": {"defaultMode": "bypassPermissions"}});
    for (options, why) in [
        (json!({"agents": {"a": agent}}), format!("agents: {WHY}")),
        (json!({"settings": settings}), format!("settings: {WHY}")),
    ] {
        let mut bridge = bridge(&room, &pinned_claude());
        bridge.start("go", options).await;
        let seen = bridge.rest().await;
        assert_eq!((error_of(&seen), bridge.exit().await.code()), (why, Some(1)));
    }
}
