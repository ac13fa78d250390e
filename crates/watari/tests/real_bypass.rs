//! Only the program that starts the session can allow bypassPermissions; no client can. On both versions of the real
//! CLI, of which the older one refuses none of this by itself.

#![allow(clippy::duplicate_mod, reason = "both clients are judged by the same schemas")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod bridge;
mod common;
mod host;

use std::path::Path;

use bridge::{Bridge, Room, of_type};
use serde_json::{Value, json};
use watari_testkit::Reply;
use watari_testkit::claude::{oldest_claude, pinned_claude};

const WHY: &str = "bypassPermissions runs everything without asking, so it must be allowed when the session is started: \
                   start it with --allow-bypass (in Rust, Options::allow_bypass)";

/// A model that creates two files, each with a tool that needs permission.
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

/// A folder whose own settings, shared or not, and the settings of the user, request bypassPermissions.
#[tokio::test]
async fn no_settings_file_opens_the_bypass_of_permissions() {
    let settings = json!({"permissions": {"defaultMode": "bypassPermissions"}}).to_string();
    for claude in [pinned_claude(), oldest_claude()] {
        for file in
            ["project/.claude/settings.json", "project/.claude/settings.local.json", "home/.claude/settings.json"]
        {
            let touch = Reply::tool_use("toolu_1", "Bash", json!({"command": "touch one"}));
            let room = host::Room::real([touch, Reply::text("Done.")]).await;
            let room = host::Room { claude: claude.clone(), ..room };
            let path = match file.strip_prefix("project/") {
                Some(file) => room.sandbox.cwd().join(file),
                None => room.sandbox.home().join(file.trim_start_matches("home/")),
            };
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &settings).unwrap();
            let host = room.host(&[]).await;
            let mut client = host.client_with_init().await;
            client.say("go").await;
            let asked = client.until_one_of(&["approval_request", "done"]).await.pop().unwrap();
            assert_eq!(asked["type"], "approval_request", "{} {file}: {asked}", claude.display());
            client.send(json!({"type": "deny", "request_id": "toolu_1"})).await;
            client.until("done").await;
            assert!(!room.sandbox.cwd().join("one").exists(), "{} {file}", claude.display());
            host.stop().await;
        }
    }
}

#[tokio::test]
async fn settings_in_a_file_that_a_client_names_open_no_bypass() {
    let room = room().await;
    let path = room.sandbox.root().join("settings.json");
    std::fs::write(&path, json!({"permissions": {"defaultMode": "bypassPermissions"}}).to_string()).unwrap();
    let mut bridge = bridge(&room, &pinned_claude());
    bridge.start("go", json!({"settings": path})).await;
    let seen = bridge.rest().await;
    assert_eq!((error_of(&seen), bridge.exit().await.code()), (format!("settings: {WHY}"), Some(1)));
}
