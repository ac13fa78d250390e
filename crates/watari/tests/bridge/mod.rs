//! A client of `watari stdio` in a sandbox, with the real CLI and a stub of the API.

#![allow(dead_code, reason = "every test program uses some of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

#[path = "../judge/mod.rs"]
mod judge;

use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use judge::BRIDGE;
use rustix::io::ioctl_fionread;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use watari_testkit::claude::pinned_claude;
use watari_testkit::processes::none_marked_within;
use watari_testkit::{Reply, Sandbox, Script, StubApi};

/// How long a line may take, and the end.
const WITHIN: Duration = Duration::from_secs(30);

/// A stub and folders, in which clients can be started one after the other.
pub(crate) struct Room {
    pub(crate) stub: StubApi,
    pub(crate) sandbox: Sandbox,
}

/// A client with its `watari stdio`.
pub(crate) struct Bridge {
    child: Child,
    stdin: Option<ChildStdin>,
    /// None once the client has closed it.
    lines: Option<Lines<BufReader<ChildStdout>>>,
    /// How long a line may take.
    pub(crate) within: Duration,
}

impl Room {
    pub(crate) async fn with_replies(replies: impl IntoIterator<Item = Reply>) -> Room {
        Room::with_script(replies.into_iter().fold(Script::new(), Script::reply)).await
    }

    pub(crate) async fn with_script(script: Script) -> Room {
        let stub = StubApi::start(script).await.unwrap();
        let sandbox = Sandbox::new(&stub.base_url()).unwrap();
        Room { stub, sandbox }
    }

    pub(crate) fn bridge(&self) -> Bridge {
        self.bridge_with(&["--claude", pinned_claude().to_str().unwrap()])
    }

    pub(crate) fn bridge_with(&self, flags: &[&str]) -> Bridge {
        Bridge::in_sandbox(&self.sandbox, flags)
    }

    /// Nothing of any session is left.
    pub(crate) async fn is_empty_within(&self, limit: Duration) {
        let left = none_marked_within(self.sandbox.root().to_str().unwrap(), limit).await;
        assert!(left.is_ok(), "{left:?}");
    }
}

impl Bridge {
    /// A client in these folders.
    pub(crate) fn in_sandbox(sandbox: &Sandbox, flags: &[&str]) -> Bridge {
        let mut child = Command::new(env!("CARGO_BIN_EXE_watari"))
            .arg("stdio")
            .args(flags)
            .env_clear()
            .envs(sandbox.environment())
            .current_dir(sandbox.cwd())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        Bridge { child, stdin, lines: Some(BufReader::new(stdout).lines()), within: WITHIN }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    /// Writes a text unchanged, such as invalid lines.
    pub(crate) async fn write(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
    }

    /// Sends a message that is right.
    pub(crate) async fn send(&mut self, message: Value) {
        BRIDGE.judge("to_watari", &message).unwrap();
        self.write(&format!("{message}\n")).await;
    }

    /// Starts a session with a prompt and the options that most tests need.
    pub(crate) async fn start(&mut self, prompt: &str, options: Value) {
        let mut all = json!({"settingSources": ["user"]});
        all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
        self.send(json!({"type": "start", "prompt": prompt, "options": all})).await;
    }

    /// Answers a permission request.
    pub(crate) async fn answer(&mut self, request_id: &str, result: Value) {
        self.send(json!({"type": "permission_response", "requestId": request_id, "result": result})).await;
    }

    pub(crate) async fn allow(&mut self, request_id: &str) {
        self.answer(request_id, json!({"behavior": "allow"})).await;
    }

    /// The next line; none at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let within = self.within;
        let line = tokio::time::timeout(within, self.lines.as_mut().unwrap().next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("no line came within {within:?}")).unwrap()?;
        let line = serde_json::from_str(&line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        BRIDGE.judge("from_watari", &line).unwrap();
        Some(line)
    }

    /// All lines up to one of a type, that one included.
    pub(crate) async fn until(&mut self, kind: &str) -> Vec<Value> {
        self.until_one_of(&[kind]).await
    }

    /// All lines up to one of some types, that one included.
    pub(crate) async fn until_one_of(&mut self, kinds: &[&str]) -> Vec<Value> {
        let mut seen = Vec::new();
        while let Some(line) = self.next().await {
            let is_it = kinds.iter().any(|kind| line["type"] == *kind);
            seen.push(line);
            if is_it {
                return seen;
            }
        }
        panic!("it ended without {kinds:?}: {seen:#?}");
    }

    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut seen = Vec::new();
        while let Some(line) = self.next().await {
            seen.push(line);
        }
        seen
    }

    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// The client reads no more, and says so by closing its end.
    pub(crate) fn close_output(&mut self) {
        self.lines = None;
    }

    /// How many bytes wait in the pipe for the client.
    pub(crate) fn waiting_bytes(&mut self) -> u64 {
        ioctl_fionread(self.lines.as_mut().unwrap().get_ref().get_ref()).unwrap()
    }

    pub(crate) async fn exit(&mut self) -> ExitStatus {
        self.exit_within(WITHIN).await
    }

    pub(crate) async fn exit_within(&mut self, limit: Duration) -> ExitStatus {
        let ended = tokio::time::timeout(limit, self.child.wait()).await;
        ended.unwrap_or_else(|_| panic!("it still runs after {limit:?}")).unwrap()
    }
}

/// Lines as a transcript, in which what differs from run to run has its name in the place of its value.
pub(crate) fn transcript(lines: &[Value]) -> String {
    let lines = lines.iter().filter(|line| line["type"] != "status");
    transcript_without(&["sessionId", "model", "claudeCodeVersion", "tools", "totalCostUsd", "usage"], lines)
}

/// Lines as a transcript, in which some fields have their name in the place of their value.
pub(crate) fn transcript_without<'a>(names: &[&str], lines: impl IntoIterator<Item = &'a Value>) -> String {
    let shown = lines.into_iter().map(|line| {
        let mut line = line.clone();
        for name in names {
            if let Some(value) = line.get_mut(name) {
                *value = json!(name);
            }
        }
        line.to_string()
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// The lines of one type.
pub(crate) fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

/// The types of lines, those in a row once.
pub(crate) fn types(lines: &[Value]) -> String {
    let mut names: Vec<&str> = lines.iter().map(|line| line["type"].as_str().unwrap()).collect();
    names.dedup();
    names.join(" ")
}
