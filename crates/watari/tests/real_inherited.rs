//! Descriptors that `watari` inherits, and messages that it receives while the CLI starts, with the real CLI.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{WATARI, children_started_by, signal_process};
use host::{Room, end_of};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use watari_testkit::Reply;

/// How long an end without waiting may take: half a second for the CLI, and a margin for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(3);

/// The CLI of a program, which is the child of its supervisor.
async fn cli_of(program: u32) -> u32 {
    let [supervisor] = children_started_by(program).await.try_into().unwrap();
    let [cli] = children_started_by(supervisor).await.try_into().unwrap();
    cli
}

#[tokio::test]
async fn with_every_signal_blocked_the_real_cli_has_none_blocked_and_no_pipe_is_changed() {
    let room = Room::real([Reply::text("Good morning")]).await;
    let block = "import os, signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()); \
                 os.execv(sys.argv[1], sys.argv[1:])";
    let mut command = Command::new("python3");
    command.args(["-c", block, WATARI, "stdio", "--claude"]).arg(&room.claude);
    room.prepare(&mut command);
    let (output, theirs) = std::io::pipe().unwrap();
    let shared = theirs.try_clone().unwrap();
    let mut child = command.stdin(Stdio::piped()).stdout(theirs).spawn().unwrap();
    drop(command);
    let start = json!({"type": "start", "prompt": "Hello?", "options": {"cwd": room.sandbox.cwd()}});
    child.stdin.as_mut().unwrap().write_all(format!("{start}\n").as_bytes()).await.unwrap();
    let output = tokio::net::unix::pipe::Receiver::from_owned_fd(output.into()).unwrap();
    let mut lines = BufReader::new(output).lines();
    while !lines.next_line().await.unwrap().unwrap().contains(r#"{"type":"turn_result""#) {}
    assert!(!fcntl_getfl(&shared).unwrap().contains(OFlags::NONBLOCK));
    let status = fs::read_to_string(format!("/proc/{}/status", cli_of(child.id().unwrap()).await)).unwrap();
    assert!(status.contains("SigBlk:\t0000000000000000\n"), "{status}");
    let begun = Instant::now();
    signal_process(child.id().unwrap(), Signal::TERM);
    assert_eq!(end_of(&mut child).await, (Some(0), String::new()));
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_close_while_the_real_cli_starts_ends_the_session_immediately() {
    let room = Room::real([]).await;
    let mut host = room.host(&[]).await;
    // It does not get ready, as on a busy machine.
    signal_process(cli_of(host.pid()).await, Signal::STOP);
    let mut client = host.client_with_init().await;
    client.say("never mind").await;
    client.send(json!({"type": "close"})).await;
    let begun = Instant::now();
    assert_eq!(host.end().await, (Some(0), String::new()));
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    room.is_empty_within(Duration::from_secs(1)).await;
}
