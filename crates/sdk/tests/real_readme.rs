//! The README's program, run against the stub of the Messages API: only the answer is on stdout, and a failed turn is
//! an error.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use std::process::Output;

use common::{ASKING_SERVER, Room, example};
use serde_json::json;
use watari_testkit::Reply;

/// Runs the program in a folder with one file. Returns its exit code, its stdout and stderr, and the model's last call.
async fn run(replies: impl IntoIterator<Item = Reply>) -> (Option<i32>, String, String, String) {
    run_in(&Room::with_replies(replies).await).await
}

async fn run_in(room: &Room) -> (Option<i32>, String, String, String) {
    std::fs::write(room.sandbox.cwd().join("milk.txt"), "two").unwrap();
    let Output { status, stdout, stderr } = tokio::process::Command::new(example("ask"))
        .arg("What is in this folder?")
        .env_clear()
        .envs(room.sandbox.environment())
        .env("PATH", room.path_with_claude())
        .current_dir(room.sandbox.cwd())
        .output()
        .await
        .unwrap();
    let last_call = room.stub.model_calls().last().map(ToString::to_string).unwrap_or_default();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap(), last_call)
}

#[test]
fn the_readme_shows_the_program_that_is_run_here() {
    let readme = include_str!("../../../README.md");
    let (_, rest) = readme.split_once("```rust,no_run\n").unwrap();
    let (shown, _) = rest.split_once("```").unwrap();
    let (_, run) = include_str!("../examples/ask.rs").split_once("\n\n").unwrap();
    assert_eq!(shown, run);
}

#[tokio::test]
async fn the_readmes_program_prints_only_the_answer() {
    let first = Reply::thinking("Hm, let me see.").and_text("I will look.");
    let first = first.and_tool_use("toolu_1", "Bash", json!({"command": "ls", "description": "list"}));
    let (code, stdout, stderr, last_call) = run([first, Reply::text("One file.")]).await;
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "I will look.\nOne file.\n", ""));
    // The CLI allows `ls` without asking, so the question of the README needs no options.
    assert!(last_call.contains("milk.txt"), "{last_call}");
}

#[tokio::test]
async fn the_readmes_program_also_prints_text_that_was_not_streamed() {
    let replies = [Reply::stream_error("api_error", "broken"), Reply::text("One file.")];
    let (code, stdout, stderr, _) = run(replies).await;
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "One file.\n", ""));
}

#[tokio::test]
async fn the_readmes_program_exits_with_1_and_says_why_when_the_turn_fails() {
    let (code, stdout, stderr, _) = run([Reply::status(400, "the stub refuses")]).await;
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.starts_with("Error: ") && stderr.contains("the stub refuses"), "{stderr}");
}

#[tokio::test]
async fn the_readmes_program_declines_a_form_of_a_server_in_the_users_settings() {
    let room =
        Room::with_replies([Reply::tool_use("toolu_1", "mcp__el__greet", json!({})), Reply::text("Done.")]).await;
    let (home, server) = (room.sandbox.home(), room.sandbox.root().join("server.sh"));
    std::fs::write(&server, ASKING_SERVER).unwrap();
    let servers = json!({"mcpServers": {"el": {"command": "/bin/sh", "args": [server]}}});
    std::fs::write(home.join(".claude.json"), servers.to_string()).unwrap();
    std::fs::create_dir_all(home.join(".claude")).unwrap();
    let settings = json!({"permissions": {"allow": ["mcp__el__greet"]}});
    std::fs::write(home.join(".claude/settings.json"), settings.to_string()).unwrap();
    let (code, stdout, _, last_call) = run_in(&room).await;
    assert_eq!((code, stdout.as_str()), (Some(0), "Done.\n"));
    assert!(last_call.contains(r#":"decline ""#), "{last_call}");
}
