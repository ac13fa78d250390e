//! `watari stdio` while the CLI starts: what the client and the system want is heard at once.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod fake;

use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{cli_has_stopped, signal_cli_of, signal_process};
use fake::{Room, start, user_message};
use rustix::process::Signal;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use watari_testkit::processes::none_marked_within;

/// How long a line may take.
const WITHIN: Duration = Duration::from_secs(30);

/// How long an end may take that waits for nobody: half a second for the CLI, and room for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(3);

/// A CLI that stops before it has answered anything, and then has one turn.
const STOPPED: &str = "stop\nprompt\ntext Good evening\nresult\n";

struct Session {
    room: Room,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Session {
    async fn begin(script: &str) -> Session {
        let room = Room::new(script);
        let mut child = room.command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut session = Session { room, child, stdin, lines: BufReader::new(stdout).lines() };
        assert_eq!(session.line().await.unwrap()["type"], "ready");
        session
    }

    /// A session whose CLI has stopped before it answered anything.
    async fn starting() -> Session {
        let mut session = Session::begin(STOPPED).await;
        session.say(&start()).await;
        cli_has_stopped(session.child.id().unwrap()).await;
        session
    }

    async fn say(&mut self, line: &str) {
        self.stdin.as_mut().unwrap().write_all(line.as_bytes()).await.unwrap();
    }

    async fn line(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(WITHIN, self.lines.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("no line came within {WITHIN:?}")).unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    /// What it still says, one line each. It ends at once, by itself, and nothing of it is left.
    async fn end(mut self) -> String {
        let begun = Instant::now();
        let mut said = Vec::new();
        while let Some(line) = self.line().await {
            said.push(line.to_string());
        }
        let status = tokio::time::timeout(WITHIN, self.child.wait()).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(0), "{status}");
        assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
        none_marked_within(self.room.sandbox.root().to_str().unwrap(), Duration::from_secs(1)).await.unwrap();
        said.join("\n")
    }
}

#[tokio::test]
async fn an_abort_while_the_cli_starts_ends_the_session_at_once() {
    let mut session = Session::starting().await;
    session.say("{\"type\":\"abort\"}\n").await;
    assert_eq!(session.end().await, "");
}

#[tokio::test]
async fn a_signal_before_start_or_while_the_cli_starts_ends_the_session_at_once() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let session = Session::begin(STOPPED).await;
        signal_process(session.child.id().unwrap(), signal);
        assert_eq!(session.end().await, "", "{signal:?} before start");
        let session = Session::starting().await;
        signal_process(session.child.id().unwrap(), signal);
        assert_eq!(session.end().await, "", "{signal:?} while the CLI starts");
    }
}

/// The prompt that would run first is the one to stop, as it is when it runs.
#[tokio::test]
async fn an_interrupt_while_the_cli_starts_drops_the_message_that_would_run_first() {
    let mut session = Session::starting().await;
    session.say(&user_message()).await;
    session.say("{\"type\":\"interrupt\"}\n").await;
    assert_eq!(session.line().await.unwrap().to_string(), r#"{"reason":"cancelled","type":"message_dropped"}"#);
    session.say("{\"type\":\"interrupt\"}\n").await;
    assert_eq!(session.line().await.unwrap()["type"], "message_dropped");
    // There is nothing left to interrupt, which is no error.
    session.say("{\"type\":\"interrupt\",\"cancelQueued\":true}\n").await;
    session.say("{\"type\":\"abort\"}\n").await;
    assert_eq!(session.end().await, "");
}

#[tokio::test]
async fn an_interrupt_while_the_cli_starts_drops_everything_if_that_is_wanted_and_later_messages_count() {
    let mut session = Session::starting().await;
    session.say(&user_message()).await;
    session.say("{\"type\":\"interrupt\",\"cancelQueued\":true}\n").await;
    for _ in 0..2 {
        assert_eq!(session.line().await.unwrap()["type"], "message_dropped");
    }
    session.say(&user_message()).await;
    signal_cli_of(session.child.id().unwrap(), Signal::CONT);
    loop {
        let line = session.line().await.unwrap();
        assert_ne!(line["type"], "error", "{line}");
        if line["type"] == "turn_result" {
            break;
        }
    }
    session.stdin = None;
    assert_eq!(session.end().await, "");
}

#[tokio::test]
async fn a_system_without_dev_null_is_named_with_what_to_do() {
    let room = Room::new(STOPPED);
    let outside = room.command();
    let outside = outside.as_std();
    let mut inside = Command::new("unshare");
    inside.args(["-m", "sh", "-c", "mount -t tmpfs none /dev && exec \"$@\"", "sh"]).arg(outside.get_program());
    inside.args(outside.get_args()).current_dir(outside.get_current_dir().unwrap()).env_clear();
    inside.envs(outside.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = inside.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
    let mut session = Session { room, child, stdin, lines: BufReader::new(stdout).lines() };
    if session.line().await.is_none() {
        return common::skipped("nothing can be mounted here");
    }
    session.say(&start()).await;
    let error = session.line().await.unwrap();
    insta::assert_snapshot!(error["message"].as_str().unwrap(), @"cannot start a process: /dev/null cannot be opened: No such file or directory (os error 2); programs need it as their input or output: mount /dev, or make it with `mknod -m 666 /dev/null c 1 3`");
}
