//! Sessions on a system that gives this program no further thread, as when a user's limit of processes is reached: the
//! work of threads is done in place or postponed, and nothing panics.

#![allow(clippy::duplicate_mod, reason = "both clients are judged by the same schemas")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod bridge;
mod common;
mod host;

use std::fs::File;
use std::process::Stdio;

use host::{end_of, of_type, text_of};
use serde_json::{Value, json};
use tokio::process::Command;
use watari_testkit::Reply;

const TWO_TURNS: &str = "prompt\ntext Hello\nresult\nprompt\ntext again\nresult\n";

/// No thread with a stack of this size can be made: it is more than a process can address. Only Rust programs read it.
const NO_THREADS: (&str, &str) = ("RUST_MIN_STACK", "281474976710656");

#[tokio::test]
async fn a_session_over_stdio_needs_no_thread() {
    let mut room = bridge::Room::with_replies([Reply::text("Hello"), Reply::text("again")]).await;
    room.sandbox = room.sandbox.with_env(NO_THREADS.0, NO_THREADS.1);
    if cfg!(any(watari_portable, not(target_os = "linux"))) {
        // Pipes cannot be opened anew there, so that they need a thread each.
        assert_eq!(room.bridge().exit().await.code(), Some(1));
        return;
    }
    for options in [json!({}), json!({"continue": true})] {
        let mut bridge = room.bridge();
        bridge.start("one", options).await;
        let mut lines = bridge.until("turn_result").await;
        bridge.send(json!({"type": "user_message", "text": "two"})).await;
        lines.extend(bridge.until("turn_result").await);
        bridge.close_input();
        lines.extend(bridge.rest().await);
        assert_eq!(bridge::of_type(&lines, "error"), Vec::<&Value>::new());
        assert_eq!(bridge.exit().await.code(), Some(0));
    }
}

#[tokio::test]
async fn a_host_parses_stores_and_replays_long_lines_without_a_thread() {
    let mut room = host::Room::fake(TWO_TURNS);
    room.sandbox = room.sandbox.with_env(NO_THREADS.0, NO_THREADS.1);
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say(&"long ".repeat(500_000)).await;
    assert_eq!(text_of(&client.until("done").await), "Hello");
    // The prompt is a long line of the log.
    let (mut replayed, _) = host.native_since(json!(0)).await;
    let lines = replayed.until("caught_up").await;
    assert_eq!(of_type(&lines, "prompt_accepted").len(), 1);
    client.say("short").await;
    assert_eq!(text_of(&client.until("done").await), "again");
    host.stop().await;
    assert!(!room.log().contains("panic"), "{}", room.log());
}

#[tokio::test]
async fn an_output_that_needs_a_thread_is_refused_with_the_reason_if_there_is_none() {
    let room = host::Room::fake(TWO_TURNS);
    let output = room.sandbox.root().join("output");
    let mut command = Command::new(common::WATARI);
    room.prepare(command.arg("stdio").arg("--claude").arg(&room.claude));
    command.env(NO_THREADS.0, NO_THREADS.1).stdout(File::create(&output).unwrap()).stdin(Stdio::piped());
    let (code, stderr) = end_of(&mut command.spawn().unwrap()).await;
    insta::assert_snapshot!(format!("{stderr}exit {code:?}"), @"
    watari: cannot use standard input and output: cannot start a thread (Resource temporarily unavailable (os error 11)); end other processes of this user, or raise its limit (ulimit -u)
    exit Some(1)
    ");
}
