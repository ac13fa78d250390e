//! `watari stdio` while the CLI starts: requests of the client and signals take effect immediately.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod fake;

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{cli_has_stopped, signal_cli_of, signal_process};
use fake::{Room, start, user_message};
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, Command};
use watari_testkit::processes::none_marked_within;

/// How long a line may take.
const WITHIN: Duration = Duration::from_secs(30);

/// How long an end without waiting may take: half a second for the CLI, and a margin for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(3);

/// A CLI that stops before it has answered anything, and then has one turn.
const STOPPED: &str = "stop\nprompt\ntext Good evening\nresult\n";

struct Session {
    room: Room,
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<Pin<Box<dyn AsyncRead>>>>,
}

fn lines_of(output: impl AsyncRead + 'static) -> Lines<BufReader<Pin<Box<dyn AsyncRead>>>> {
    BufReader::new(Box::pin(output) as Pin<Box<dyn AsyncRead>>).lines()
}

/// The locks of conversations in a clean room.
fn locks_below(room: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![room.to_owned()];
    while let Some(folder) = folders.pop() {
        let is_of_locks = folder.ends_with(".watari-locks");
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if is_of_locks {
                found.push(entry.path());
            }
        }
    }
    found
}

impl Session {
    async fn begin(script: &str) -> Session {
        let room = Room::new(script);
        let mut child = room.command().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut session = Session { room, child, stdin, lines: lines_of(stdout) };
        assert_eq!(session.line().await.unwrap()["type"], "ready");
        session
    }

    /// A session whose CLI has stopped before it answered anything.
    async fn starting() -> Session {
        Session::starting_with(&json!({})).await
    }

    async fn starting_with(options: &Value) -> Session {
        let mut session = Session::begin(STOPPED).await;
        session.say(&format!("{}\n", json!({"type": "start", "prompt": "Hello?", "options": options}))).await;
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

    /// Its last lines. Asserts that it exits immediately and leaves no process.
    async fn end(mut self) -> String {
        let begun = Instant::now();
        let mut printed = Vec::new();
        while let Some(line) = self.line().await {
            printed.push(line.to_string());
        }
        let status = tokio::time::timeout(WITHIN, self.child.wait()).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(0), "{status}");
        assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
        // Immediately: when Watari has exited, all its processes have.
        none_marked_within(self.room.sandbox.root().to_str().unwrap(), Duration::ZERO).await.unwrap();
        assert_eq!(locks_below(self.room.sandbox.root()), [] as [PathBuf; 0]);
        printed.join("\n")
    }
}

#[tokio::test]
async fn an_abort_while_the_cli_starts_ends_the_session_immediately() {
    let mut session = Session::starting().await;
    session.say("{\"type\":\"abort\"}\n").await;
    assert_eq!(session.end().await, "");
}

#[tokio::test]
async fn a_signal_before_start_or_while_the_cli_starts_ends_the_session_immediately() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let session = Session::begin(STOPPED).await;
        signal_process(session.child.id().unwrap(), signal);
        assert_eq!(session.end().await, "", "{signal:?} before start");
        let session = Session::starting().await;
        signal_process(session.child.id().unwrap(), signal);
        assert_eq!(session.end().await, "", "{signal:?} while the CLI starts");
    }
}

/// A session whose start was cancelled ends when no process of it is left, like a session that ran.
#[tokio::test]
async fn whatever_ends_a_start_nothing_of_the_session_and_no_lock_is_left_when_watari_has_exited() {
    let resume = json!({"resume": "0f0e0d0c-0b0a-4908-8706-050403020100"});
    for options in [json!({}), resume, json!({"continue": true})] {
        let mut session = Session::starting_with(&options).await;
        // Nothing that comes behind it is wanted any more.
        session.say("{\"type\":\"abort\"}\n{\"type\":\"set_model\",\"model\":\"x\"}\n").await;
        assert_eq!(session.end().await, "", "abort with {options}");
        let session = Session::starting_with(&options).await;
        signal_process(session.child.id().unwrap(), Signal::TERM);
        assert_eq!(session.end().await, "", "SIGTERM with {options}");
    }
    // The client does not read any more, and there is a line for it.
    let mut session = Session::starting().await;
    session.lines = lines_of(tokio::io::empty());
    session.say("noise\n").await;
    assert_eq!(session.end().await, "");
}

/// The interrupt drops the prompt that would run first, as it would interrupt it during its turn.
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
async fn an_interrupt_with_cancel_queued_while_the_cli_starts_drops_all_earlier_messages() {
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
async fn a_missing_dev_null_is_reported_with_the_remedy_needs_mounts() {
    let room = Room::new(STOPPED);
    let outside = room.command();
    let outside = outside.as_std();
    let mut inside = Command::new("unshare");
    inside.args(["-m", "sh", "-c", "mount -t tmpfs none /dev && exec \"$@\"", "sh"]).arg(outside.get_program());
    inside.args(outside.get_args()).current_dir(outside.get_current_dir().unwrap()).env_clear();
    inside.envs(outside.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = inside.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
    let mut session = Session { room, child, stdin, lines: lines_of(stdout) };
    assert!(session.line().await.is_some(), "nothing can be mounted here");
    session.say(&start()).await;
    let error = session.line().await.unwrap();
    insta::assert_snapshot!(error["message"].as_str().unwrap(), @"cannot start a process: /dev/null cannot be opened: No such file or directory (os error 2); programs need it as their input or output: mount /dev, or make it with `mknod -m 666 /dev/null c 1 3`");
}

/// No prompt is left, so the session does not wait for the CLI.
#[tokio::test]
async fn a_start_without_remaining_messages_ends_immediately_with_the_input() {
    let mut session = Session::starting().await;
    session.say("{\"type\":\"interrupt\"}\n").await;
    session.stdin = None;
    assert_eq!(session.end().await, r#"{"reason":"cancelled","type":"message_dropped"}"#);
}

/// Such a session can be neither locked nor resumed, and no line that names it can be sent.
#[tokio::test]
async fn an_unusable_session_id_of_the_cli_is_a_fatal_error() {
    for id in ["../../x1", "", "my title", &"x".repeat(100_000)] {
        let mut session = Session::begin("prompt\ntext Good evening\nresult\nstall\n").await;
        let options = json!({"env": {"FAKE_CLAUDE_SESSION_ID": id}});
        session.say(&format!("{}\n", json!({"type": "start", "prompt": "Hello?", "options": options}))).await;
        let error = session.line().await.unwrap();
        assert_eq!((&error["type"], &error["fatal"]), (&json!("error"), &json!(true)), "{error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.len() < 1000 && message.contains("is not a session id: expected a UUID"), "{message}");
        assert_eq!(session.line().await, None);
        assert_eq!(session.child.wait().await.unwrap().code(), Some(1));
        none_marked_within(session.room.sandbox.root().to_str().unwrap(), Duration::ZERO).await.unwrap();
        assert_eq!(locks_below(session.room.sandbox.root()), [] as [PathBuf; 0]);
    }
}
