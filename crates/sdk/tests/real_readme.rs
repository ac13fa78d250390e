//! The README's program, run against the stub of the Messages API: only the answer is on stdout, and a failed turn is an
//! error.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;

use std::process::Output;

use common::{Room, example};
use serde_json::json;
use watari_testkit::Reply;

async fn run(replies: impl IntoIterator<Item = Reply>) -> (Option<i32>, String, String) {
    let room = Room::with_replies(replies).await;
    let Output { status, stdout, stderr } = tokio::process::Command::new(example("readme"))
        .env_clear()
        .envs(room.sandbox.environment())
        .env("PATH", room.path_with_claude())
        .current_dir(room.sandbox.cwd())
        .output()
        .await
        .unwrap();
    (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

#[test]
fn the_readme_shows_the_program_that_is_run_here() {
    let readme = include_str!("../../../README.md");
    let (_, rest) = readme.split_once("```rust,no_run\n").unwrap();
    let (shown, _) = rest.split_once("```").unwrap();
    let (_, run) = include_str!("../examples/readme.rs").split_once("\n\n").unwrap();
    assert_eq!(shown, run);
}

#[tokio::test]
async fn the_readmes_program_prints_only_the_answer() {
    let first = Reply::thinking("Hm, let me see.").and_text("I will look.");
    let first = first.and_tool_use("toolu_1", "Bash", json!({"command": "ls", "description": "list"}));
    let (code, stdout, stderr) = run([first, Reply::text("One file.")]).await;
    assert_eq!((code, stdout.as_str(), stderr.as_str()), (Some(0), "I will look.\nOne file.\n", ""));
}

#[tokio::test]
async fn the_readmes_program_exits_with_1_and_says_why_when_the_turn_fails() {
    let (code, stdout, stderr) = run([Reply::status(400, "the stub refuses")]).await;
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.starts_with("Error: ") && stderr.contains("the stub refuses"), "{stderr}");
}
