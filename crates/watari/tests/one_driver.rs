//! A conversation is free for another driver only when all processes of the last one have exited, however it ended, and
//! whatever other programs do to its lock. On the fake CLI, which exits slowly.

#![cfg(all(target_os = "linux", not(watari_portable)))]
#![allow(clippy::duplicate_mod, reason = "both clients are judged by the same schemas")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod bridge;
mod common;
mod host;

use std::fs;
use std::path::Path;
use std::time::Duration;

use bridge::Bridge;
use host::Room;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use watari_testkit::processes::marked;

const ID: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";

/// A CLI that exits neither at SIGINT nor when its stdin is closed, so that it still runs for half a second after its
/// owner has exited.
const STUBBORN: &str = "ignore INT\nprompt\ntext Hello\nresult\nstall\n";
const PLAIN: &str = "prompt\ntext Hello\nresult\n";

fn bridge(room: &Room) -> Bridge {
    Bridge::in_sandbox(&room.sandbox, &["--claude", room.claude.to_str().unwrap()])
}

/// The CLIs that run in a room.
fn clis(room: &Room) -> Vec<u32> {
    let processes = marked(room.sandbox.root().to_str().unwrap());
    processes.iter().filter(|process| process.command.contains("__fake-claude")).map(|process| process.pid).collect()
}

/// Waits until a silent CLI has read its first line.
async fn silent_cli(room: &Room) -> Vec<u32> {
    let log = room.sandbox.root().join("fake.log");
    let has_read = async {
        while !fs::read_to_string(&log).is_ok_and(|log| log.contains("initialize")) {
            // No event reports it, so it is polled.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(host::WITHIN, has_read).await.unwrap();
    clis(room)
}

/// Drives the conversation next, and asserts that nothing of the earlier drivers is left.
async fn next_driver_is_alone(room: &Room, before: &[u32]) {
    room.rewrite(PLAIN);
    let mut next = bridge(room);
    next.start("hi", json!({"resume": ID})).await;
    let seen = next.until_one_of(&["session_init", "error"]).await;
    let left: Vec<u32> = clis(room).into_iter().filter(|cli| before.contains(cli)).collect();
    assert_eq!((&seen.last().unwrap()["type"], left), (&json!("session_init"), Vec::new()), "{seen:?}");
    next.until("turn_result").await;
    next.close_input();
    next.exit().await;
    // Those of the killed ones were orphans.
    assert_eq!(common::names_in(&room.conversation_locks()), Vec::<std::ffi::OsString>::new());
}

#[tokio::test]
async fn a_killed_session_on_stdio_frees_its_conversation_when_its_cli_has_exited() {
    let room = Room::fake(STUBBORN);
    // An id that is known from the start, and one that only the CLI reports.
    for options in [json!({"resume": ID}), json!({"env": {"FAKE_CLAUDE_SESSION_ID": ID}})] {
        room.rewrite(STUBBORN);
        let mut first = bridge(&room);
        first.start("hi", options).await;
        first.until("turn_result").await;
        let before = clis(&room);
        assert_eq!(before.len(), 1);
        kill_process(Pid::from_raw(first.pid().cast_signed()).unwrap(), Signal::KILL).unwrap();
        first.exit().await;
        next_driver_is_alone(&room, &before).await;
    }
}

#[tokio::test]
async fn a_session_aborted_during_its_start_frees_its_conversation_when_its_cli_has_exited() {
    let room = Room::fake("mute\nignore INT\nwait line\nstall\n");
    let mut first = bridge(&room);
    first.start("hi", json!({"resume": ID})).await;
    let before = silent_cli(&room).await;
    first.send(json!({"type": "abort"})).await;
    assert_eq!(first.exit().await.code(), Some(0));
    next_driver_is_alone(&room, &before).await;
}

/// Its CLI reports the conversation of another driver only after its start.
#[tokio::test]
async fn nothing_is_left_of_a_session_that_is_refused_while_it_runs_when_watari_has_exited() {
    let room = Room::fake(STUBBORN);
    let options = json!({"env": {"FAKE_CLAUDE_SESSION_ID": ID}});
    let mut first = bridge(&room);
    first.start("hi", options.clone()).await;
    first.until("turn_result").await;
    let before = clis(&room);
    let mut second = bridge(&room);
    second.start("hi", options).await;
    let seen = second.rest().await;
    let last = seen.last().unwrap();
    assert_eq!((&last["type"], &last["fatal"]), (&json!("error"), &json!(true)), "{seen:?}");
    assert_eq!(second.exit().await.code(), Some(1));
    assert_eq!(clis(&room), before);
    assert_eq!(common::names_in(&room.conversation_locks()), [ID]);
    first.send(json!({"type": "abort"})).await;
    assert_eq!(first.exit().await.code(), Some(0));
}

#[tokio::test]
async fn a_killed_host_frees_its_conversation_when_its_cli_has_exited() {
    let room = Room::fake(STUBBORN);
    let host = room.host(&["--resume", ID]).await;
    let mut client = host.client().await;
    client.say("hi").await;
    client.until("done").await;
    let before = clis(&room);
    assert_eq!(before.len(), 1);
    host.kill().await;
    next_driver_is_alone(&room, &before).await;
}

/// Waits until a removed lock is there again.
async fn restored(lock: &Path) {
    let is_there = async {
        while !lock.exists() {
            // No event reports it, so it is polled.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(host::WITHIN, is_there).await.unwrap();
}

/// What a second driver of the conversation gets.
async fn refused(room: &Room) -> String {
    let mut second = bridge(room);
    second.start("hi", json!({"resume": ID})).await;
    let seen = second.rest().await;
    let last = seen.last().unwrap();
    assert_eq!((&last["type"], &last["fatal"]), (&json!("error"), &json!(true)), "{seen:?}");
    assert_eq!(second.exit().await.code(), Some(1));
    last["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_removed_lock_of_a_conversation_is_restored_and_a_second_driver_refused() {
    let room = Room::fake(PLAIN);
    let folder = room.conversation_locks();
    let host = room.host(&["--resume", ID]).await;
    let mut client = host.client().await;
    client.say("hi").await;
    client.until("done").await;
    for removed in [folder.join(ID), folder.clone(), folder.parent().unwrap().to_owned()] {
        if removed.is_dir() { fs::remove_dir_all(&removed) } else { fs::remove_file(&removed) }.unwrap();
        restored(&folder.join(ID)).await;
        assert!(refused(&room).await.contains("is in use by watari socket"));
    }
    host.stop().await;
    let mut first = bridge(&room);
    first.start("hi", json!({"resume": ID})).await;
    first.until("turn_result").await;
    for removed in [folder.join(ID), folder.clone()] {
        if removed.is_dir() { fs::remove_dir_all(&removed) } else { fs::remove_file(&removed) }.unwrap();
        restored(&folder.join(ID)).await;
        assert!(refused(&room).await.contains("is in use by watari stdio"));
    }
    first.close_input();
    assert_eq!(first.exit().await.code(), Some(0));
    room.is_tidy();
}

/// A second driver that was faster than the check of the first, which was paused.
async fn second_driver(room: &Room, first: u32) -> Bridge {
    let first = Pid::from_raw(first.cast_signed()).unwrap();
    kill_process(first, Signal::STOP).unwrap();
    fs::remove_file(room.conversation_locks().join(ID)).unwrap();
    let mut second = bridge(room);
    second.start("hi", json!({"resume": ID})).await;
    second.until("turn_result").await;
    kill_process(first, Signal::CONT).unwrap();
    second
}

#[tokio::test]
async fn a_driver_whose_lock_another_one_has_taken_says_so_and_accepts_nothing_until_that_has_ended() {
    let room = Room::fake(&PLAIN.repeat(2));
    let host = room.host(&["--resume", ID]).await;
    let mut client = host.client_with_init().await;
    client.say("hi").await;
    client.until("done").await;
    let mut second = second_driver(&room, host.pid()).await;
    let why = format!("the session {ID} is in use by watari stdio, process {}", second.pid());
    let mut reported = client.until("error").await.pop().unwrap();
    assert!(reported["message"].as_str().unwrap().contains(&why), "{reported}");
    client.say("more").await;
    while reported["kind"] == "storage" {
        reported = client.until("error").await.pop().unwrap();
    }
    assert!(reported["message"].as_str().unwrap().contains(&why), "{reported}");
    second.close_input();
    assert_eq!(second.exit().await.code(), Some(0));
    restored(&room.conversation_locks().join(ID)).await;
    client.say("again").await;
    client.until("done").await;
    host.stop().await;

    let mut first = bridge(&room);
    first.start("hi", json!({"resume": ID})).await;
    first.until("turn_result").await;
    let mut second = second_driver(&room, first.pid()).await;
    let why = format!("which is now in use by watari stdio, process {}", second.pid());
    for is_first in [true, false] {
        let reported = first.until("error").await.pop().unwrap();
        assert!(reported["message"].as_str().unwrap().contains(&why), "{reported}");
        assert_eq!(reported["fatal"], false);
        if is_first {
            first.send(json!({"type": "user_message", "text": "more"})).await;
        }
    }
    second.close_input();
    assert_eq!(second.exit().await.code(), Some(0));
    restored(&room.conversation_locks().join(ID)).await;
    first.send(json!({"type": "user_message", "text": "again"})).await;
    first.until("turn_result").await;
    first.close_input();
    assert_eq!(first.exit().await.code(), Some(0));
    room.is_tidy();
}

#[tokio::test]
async fn the_other_locks_of_a_host_are_restored_too() {
    let room = Room::fake(PLAIN);
    let host = room.host(&["--resume", ID]).await;
    let sockets = room.state().join("locks");
    let names = common::names_in(&sockets);
    assert_eq!(names.len(), 1, "{names:?}");
    let session = room.sessions().pop().unwrap().join("lock");
    for lock in [sockets.join(&names[0]), session] {
        fs::remove_file(&lock).unwrap();
        restored(&lock).await;
        let error = watari_hub::lock::Lock::take(&lock, "a test").unwrap_err().to_string();
        assert_eq!(error, format!("it is in use by watari socket, process {}", host.pid()));
    }
    fs::remove_dir_all(&sockets).unwrap();
    restored(&sockets.join(&names[0])).await;
    host.stop().await;
    room.is_tidy();
}
