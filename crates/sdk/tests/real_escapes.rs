//! Processes that try to escape from their session do not, on the real CLI.
//!
//! Without the Linux-only mechanisms some do; the documentation says so.

#![cfg(not(watari_portable))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use std::time::Duration;

use common::{Program, Room, Talk, supervisor};
use serde_json::json;
use watari_sdk::{Options, Supervisor};
use watari_testkit::Reply;
use watari_testkit::processes::{marked, none_marked_within};

/// A command whose children try to escape: one with a process session of its own, one forked twice.
const ESCAPING: &str = "setsid tail -f /dev/null & (setsid tail -f /dev/null &) ; tail -f /dev/null";

async fn escaping_room() -> Room {
    Room::with_replies([Reply::tool_use("toolu_1", "Bash", json!({"command": ESCAPING, "description": "escape"}))])
        .await
}

/// A session that runs that command.
async fn escaping(room: &Room, supervisor: Supervisor) -> Talk {
    let options = Options { allowed_tools: vec!["Bash".into()], supervisor, ..room.options() };
    let talk = Talk::connect(options).await;
    talk.client.send("go").await.unwrap();
    all_started(room).await;
    talk
}

/// Returns how many of the command's children run. (The shells that start them have the same text in their arguments.)
fn tails(room: &Room) -> usize {
    marked(room.marker()).into_iter().filter(|process| process.command.starts_with("tail -f")).count()
}

/// Waits until the command has started all its children, which can only be polled.
async fn all_started(room: &Room) {
    while tails(room) < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn gone_within(room: &Room, limit: Duration) {
    if let Err(left) = none_marked_within(room.marker(), limit).await {
        panic!("still there after {limit:?}: {left:#?}");
    }
}

#[tokio::test]
async fn nothing_is_alive_when_a_session_was_closed_in_the_middle_of_a_tool() {
    let room = escaping_room().await;
    let talk = escaping(&room, supervisor()).await;
    talk.client.close().await;
    assert_eq!(marked(room.marker()), []);
}

#[tokio::test]
async fn nothing_is_alive_a_second_after_abort_in_the_middle_of_a_tool() {
    let room = escaping_room().await;
    let talk = escaping(&room, supervisor()).await;
    let asked = std::time::Instant::now();
    talk.client.abort().await;
    assert_eq!(marked(room.marker()), []);
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn nothing_is_alive_a_second_after_the_client_was_dropped() {
    let room = escaping_room().await;
    let talk = escaping(&room, supervisor()).await;
    drop(talk);
    gone_within(&room, Duration::from_secs(1)).await;
}

#[tokio::test]
async fn without_a_supervisor_nothing_is_alive_a_second_after_abort_or_drop() {
    let room = escaping_room().await;
    let talk = escaping(&room, Supervisor::None).await;
    talk.client.abort().await;
    assert_eq!(marked(room.marker()), []);

    let room = escaping_room().await;
    drop(escaping(&room, Supervisor::None).await);
    gone_within(&room, Duration::from_secs(1)).await;
}

#[test]
fn a_runtime_that_goes_away_takes_its_sessions_with_it() {
    for supervisor in [supervisor(), Supervisor::None] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (room, talk) = runtime.block_on(async {
            let room = escaping_room().await;
            let talk = escaping(&room, supervisor).await;
            (room, talk)
        });
        drop(runtime);
        drop(talk);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(gone_within(&room, Duration::from_secs(1)));
    }
}

#[tokio::test]
async fn nothing_is_alive_three_seconds_after_the_program_was_killed() {
    let room = escaping_room().await;
    let mut program = Program::chat(&room);
    program.say("go").await;
    program.receive("allow Bash to run").await;
    program.say("y").await;
    all_started(&room).await;
    program.child.kill().await.unwrap();
    gone_within(&room, Duration::from_secs(3)).await;
}

#[tokio::test]
async fn when_the_supervisor_is_killed_the_owner_kills_its_processes() {
    let room = escaping_room().await;
    let talk = escaping(&room, supervisor()).await;
    let supervisors: Vec<_> =
        marked(room.marker()).into_iter().filter(|process| process.command.contains("__supervisor")).collect();
    assert_eq!(supervisors.len(), 1);
    let killed = std::process::Command::new("kill").args(["-KILL", &supervisors[0].pid.to_string()]).status().unwrap();
    assert!(killed.success());
    let rest = talk.rest().await;
    assert!(matches!(rest.last(), Some(watari_sdk::Event::CliExited { .. })), "{rest:#?}");
    gone_within(&room, Duration::from_secs(3)).await;
}
