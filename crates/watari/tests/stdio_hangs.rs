//! `watari stdio` with a CLI that does not react: every way to end the session still works.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod fake;

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{cli_has_stopped, cli_of, signal_cli_of, signal_process, without_seconds};
use fake::{Room, start, user_message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};
use watari_testkit::processes::none_marked_within;

/// How long a line may take.
const WITHIN: Duration = Duration::from_secs(30);

/// How long an end without waiting may take: half a second for the CLI, and a margin for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(3);

/// A session whose CLI is stopped in the middle of a turn.
struct Stopped {
    room: Room,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Stopped {
    async fn begin(flags: &[&str]) -> Stopped {
        let room = Room::new("prompt\ntext One\nstop\n");
        let mut child = room.command().args(flags).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut stopped = Stopped { room, child, stdin, lines: BufReader::new(stdout).lines() };
        stopped.say(&start()).await;
        while stopped.line().await.unwrap()["type"] != "assistant_message" {}
        cli_has_stopped(stopped.child.id().unwrap()).await;
        stopped
    }

    async fn say(&mut self, line: &str) {
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(WITHIN, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("no line came within {WITHIN:?}")).unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// Its last lines, its exit code, and how long both took. Asserts that no process is left.
    async fn end(mut self) -> (String, Option<i32>, Duration) {
        let begun = Instant::now();
        let mut output = Vec::new();
        while let Some(line) = self.line().await {
            output.push(line.to_string());
        }
        let status = tokio::time::timeout(WITHIN, self.child.wait()).await.unwrap().unwrap();
        let took = begun.elapsed();
        none_marked_within(self.room.sandbox.root().to_str().unwrap(), Duration::from_secs(1)).await.unwrap();
        (output.join("\n"), status.code(), took)
    }
}

#[tokio::test]
async fn an_interrupt_that_the_cli_does_not_react_to_is_a_fatal_error() {
    let mut session = Stopped::begin(&[]).await;
    session.say("{\"type\":\"interrupt\"}\n").await;
    let (output, code, took) = session.end().await;
    insta::assert_snapshot!(output, @r#"{"fatal":true,"message":"Claude Code did not react to an interrupt within 5 s and was terminated","type":"error"}"#);
    assert_eq!(code, Some(1));
    assert!(took < Duration::from_secs(10), "{took:?}");
}

#[tokio::test]
async fn an_abort_waits_for_no_cli() {
    let mut session = Stopped::begin(&[]).await;
    session.say("{\"type\":\"abort\"}\n").await;
    let (output, code, took) = session.end().await;
    assert_eq!((output.as_str(), code), ("", Some(0)));
    assert!(took < AT_ONCE, "{took:?}");
}

#[tokio::test]
async fn a_signal_after_the_end_of_the_input_waits_for_no_cli() {
    let mut session = Stopped::begin(&[]).await;
    session.stdin = None;
    signal_process(session.child.id().unwrap(), Signal::TERM);
    let (output, code, took) = session.end().await;
    assert_eq!((output.as_str(), code), ("", Some(0)));
    assert!(took < AT_ONCE, "{took:?}");
}

#[tokio::test]
async fn a_cli_that_stalls_after_the_end_of_the_input_is_terminated() {
    let mut session = Stopped::begin(&["--stalled-after", "1"]).await;
    session.stdin = None;
    let (output, code, _) = session.end().await;
    insta::assert_snapshot!(without_seconds(&output), @r#"
    {"fatal":false,"message":"Claude Code stalled: it has written nothing for N s and does not answer; wait, or send interrupt: it ends the turn, and Claude Code if necessary","type":"error"}
    {"fatal":true,"message":"Claude Code did not react to an interrupt within 5 s and was terminated","type":"error"}
    "#);
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn a_cli_that_stalled_before_the_end_of_the_input_is_terminated_after_it() {
    let mut session = Stopped::begin(&["--stalled-after", "1"]).await;
    assert_eq!(session.line().await.unwrap()["fatal"], false);
    session.stdin = None;
    let (output, code, _) = session.end().await;
    insta::assert_snapshot!(output, @r#"{"fatal":true,"message":"Claude Code did not react to an interrupt within 5 s and was terminated","type":"error"}"#);
    assert_eq!(code, Some(1));
}

#[tokio::test]
async fn a_cli_that_stalls_is_a_fatal_error_with_the_flag() {
    let session = Stopped::begin(&["--stalled-after", "1", "--end-stalled"]).await;
    let (output, code, _) = session.end().await;
    insta::assert_snapshot!(without_seconds(&output), @r#"
    {"fatal":false,"message":"Claude Code stalled: it has written nothing for N s and does not answer; wait, or send interrupt: it ends the turn, and Claude Code if necessary","type":"error"}
    {"fatal":true,"message":"Claude Code stalled: it wrote nothing for N s and was terminated","type":"error"}
    "#);
    assert_eq!(code, Some(1));
}

/// Waits until something was written to the stdin of a process that does not read.
fn has_unread_input(pid: u32) {
    let stdin = fs::File::open(format!("/proc/{pid}/fd/0")).unwrap();
    let mut polled = [PollFd::new(&stdin, PollFlags::IN)];
    let within = Timespec::try_from(WITHIN).unwrap();
    assert_eq!(poll(&mut polled, Some(&within)).unwrap(), 1);
}

/// A pause of Watari counts against no time limit: neither if the CLI has reacted meanwhile, nor if it was paused too.
#[tokio::test]
async fn a_pause_of_watari_after_an_interrupt_does_not_end_the_session() {
    for is_cli_paused in [false, true] {
        let room = Room::new("prompt\ntext One\nwait interrupt\nprompt\ntext Two\nresult\n");
        let mut child = room.command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut session = Stopped { room, child, stdin, lines: BufReader::new(stdout).lines() };
        session.say(&start()).await;
        while session.line().await.unwrap()["type"] != "assistant_message" {}
        let watari = session.child.id().unwrap();
        signal_cli_of(watari, Signal::STOP);
        session.say("{\"type\":\"interrupt\"}\n").await;
        has_unread_input(cli_of(watari));
        signal_process(watari, Signal::STOP);
        if !is_cli_paused {
            signal_cli_of(watari, Signal::CONT);
        }
        // Longer than the time that the CLI has to react.
        tokio::time::sleep(Duration::from_millis(6500)).await;
        signal_process(watari, Signal::CONT);
        signal_cli_of(watari, Signal::CONT);
        session.say(&user_message()).await;
        session.stdin = None;
        let (output, code, _) = session.end().await;
        let results = output.lines().filter(|line| line.contains("turn_result")).count();
        assert_eq!((results, code), (2, Some(0)), "{output}");
    }
}

/// Long lines fill the queue of events again and again, which must not restart the time limit each time.
#[tokio::test]
async fn an_interrupted_turn_that_goes_on_with_long_lines_is_ended_in_its_time() {
    let room = Room::new("prompt\ntext One\nrepeat 60\nline 3000000\npause 500\nend\n");
    let mut child = room.command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
    let mut session = Stopped { room, child, stdin, lines: BufReader::new(stdout).lines() };
    session.say(&start()).await;
    while session.line().await.unwrap()["type"] != "assistant_message" {}
    session.say("{\"type\":\"interrupt\"}\n").await;
    let begun = Instant::now();
    let mut last = String::new();
    // Not parsed: the time in which the client does not read is not the CLI's.
    while let Some(line) = session.lines.next_line().await.unwrap() {
        last = line;
    }
    insta::assert_snapshot!(last, @r#"{"type":"error","message":"Claude Code did not react to an interrupt within 10 s and was terminated","fatal":true}"#);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let (_, code, _) = session.end().await;
    assert_eq!(code, Some(1));
}
