//! `watari socket` in a sandbox, with the real CLI or the fake CLI, and its clients.

#![allow(dead_code, reason = "every test program uses some of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

#[path = "../judge/mod.rs"]
mod judge;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use judge::{Judge, NATIVE, SOCKET};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStdout, Command};
use watari_testkit::claude::pinned_claude;
use watari_testkit::fake_claude::{LOG_VARIABLE, SCRIPT_VARIABLE};
use watari_testkit::processes::none_marked_within;
use watari_testkit::sandbox::claude_without_project;
use watari_testkit::{Reply, Sandbox, Script, StubApi};

use crate::common::{self, WATARI};

/// How long a line may take, and the end.
pub(crate) const WITHIN: Duration = Duration::from_secs(30);

/// Folders and a CLI, in which hosts can be started one after the other.
pub(crate) struct Room {
    pub(crate) sandbox: Sandbox,
    pub(crate) stub: Option<StubApi>,
    pub(crate) claude: PathBuf,
}

impl Room {
    /// A room with the real CLI, which is answered so.
    pub(crate) async fn real(replies: impl IntoIterator<Item = Reply>) -> Room {
        Room::real_with(replies.into_iter().fold(Script::new(), Script::reply)).await
    }

    pub(crate) async fn real_with(script: Script) -> Room {
        let stub = StubApi::start(script).await.unwrap();
        let sandbox = Sandbox::new(&stub.base_url()).unwrap();
        let claude = claude_without_project(&pinned_claude(), sandbox.root()).unwrap();
        Room { sandbox, stub: Some(stub), claude }
    }

    /// A room with the fake CLI, which plays a script.
    pub(crate) fn fake(script: &str) -> Room {
        let sandbox = Sandbox::new("http://127.0.0.1:9").unwrap();
        let claude = common::program(&sandbox.root().join("claude"), &format!("exec '{WATARI}' __fake-claude \"$@\""));
        let path = sandbox.root().join("script");
        fs::write(&path, script).unwrap();
        let log = sandbox.root().join("fake.log");
        let sandbox = sandbox.with_env(SCRIPT_VARIABLE, path.to_str().unwrap());
        let sandbox = sandbox.with_env(LOG_VARIABLE, log.to_str().unwrap());
        Room { sandbox, stub: None, claude }
    }

    /// The lines that Watari wrote to the fake CLI.
    pub(crate) fn lines_sent_to_cli(&self) -> Vec<Value> {
        let log = fs::read_to_string(self.sandbox.root().join("fake.log")).unwrap();
        let entries = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        entries.filter_map(|mut entry| entry.get_mut("in").map(Value::take)).collect()
    }

    /// What the fake CLI plays from its next start on.
    pub(crate) fn rewrite(&self, script: &str) {
        fs::write(self.sandbox.root().join("script"), script).unwrap();
    }

    /// `watari socket`, not started yet.
    pub(crate) fn command(&self, flags: &[&str]) -> Command {
        let mut command = Command::new(WATARI);
        command.arg("socket").arg("--cwd").arg(self.sandbox.cwd()).arg("--claude").arg(&self.claude).args(flags);
        self.prepare(&mut command);
        command
    }

    /// Lets a program know nothing but this room.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.env_clear().envs(self.sandbox.environment()).current_dir(self.sandbox.root());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    }

    /// A host that listens.
    pub(crate) async fn host(&self, flags: &[&str]) -> Host {
        self.start(self.command(flags)).await
    }

    /// A host that this program becomes.
    pub(crate) async fn start(&self, mut command: Command) -> Host {
        self.prepare(&mut command);
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let output = tokio::time::timeout(WITHIN, lines.next_line()).await.unwrap().unwrap();
        let Some(socket) = output else {
            let (code, stderr) = end_of(&mut child).await;
            panic!("there is no host: exit {code:?}, {stderr}");
        };
        Host { child, socket: socket.into(), _lines: lines }
    }

    /// The folder with the files of the sessions.
    pub(crate) fn state(&self) -> PathBuf {
        self.sandbox.home().join(".local/state/watari")
    }

    /// Where the locks of conversations are.
    pub(crate) fn conversation_locks(&self) -> PathBuf {
        self.sandbox.home().join(".claude/projects/.watari-locks")
    }

    /// The folders of the sessions that there are.
    pub(crate) fn sessions(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.state().join("sessions")).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// The record of the only session.
    pub(crate) fn record(&self) -> Value {
        let sessions = self.sessions();
        assert_eq!(sessions.len(), 1, "{sessions:?}");
        serde_json::from_slice(&fs::read(sessions[0].join("record.json")).unwrap()).unwrap()
    }

    /// The events of the only session, as they are stored.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.sessions()[0].join("events.jsonl")).unwrap();
        let events: Vec<Value> = text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
        events.iter().for_each(|event| NATIVE.judge("from_watari", event).unwrap());
        events
    }

    /// What the host of the only session has logged.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.sessions()[0].join("host.log")).unwrap()
    }

    /// Nothing of any session runs.
    pub(crate) async fn is_empty_within(&self, limit: Duration) {
        let left = none_marked_within(self.sandbox.root().to_str().unwrap(), limit).await;
        assert!(left.is_ok(), "{left:?}");
    }

    /// No socket and no lock is left of those that ended in good order.
    pub(crate) fn is_tidy(&self) {
        let [run, locks, private] = ["run", "locks", "run/private"].map(|name| self.state().join(name));
        for folder in [run, locks, private, self.conversation_locks()] {
            // The folder in which those of CLI processes are stays, once there was one; `watari stdio` has no other.
            let names = if folder.exists() { common::names_in(&folder) } else { Vec::new() };
            let left: Vec<_> = names.into_iter().filter(|name| name != "private").collect();
            assert_eq!(left, Vec::<std::ffi::OsString>::new(), "{}", folder.display());
        }
    }
}

/// A program that ended: its exit code, and its standard error.
pub(crate) async fn end_of(child: &mut Child) -> (Option<i32>, String) {
    let mut stderr = String::new();
    if let Some(mut out) = child.stderr.take() {
        tokio::time::timeout(WITHIN, out.read_to_string(&mut stderr)).await.unwrap().unwrap();
    }
    let status = tokio::time::timeout(WITHIN, child.wait()).await.unwrap().unwrap();
    (status.code(), stderr)
}

/// A host that runs.
pub(crate) struct Host {
    child: Child,
    pub(crate) socket: PathBuf,
    _lines: Lines<BufReader<ChildStdout>>,
}

impl Host {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id().unwrap()
    }

    pub(crate) fn kill_cli(&self) {
        self.signal_cli(Signal::KILL);
    }

    pub(crate) fn signal_cli(&self, signal: Signal) {
        common::signal_cli_of(self.pid(), signal);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.pid().cast_signed()).unwrap(), signal).unwrap();
    }

    /// A client in the dialect of the document.
    pub(crate) async fn client(&self) -> Client {
        Client::speaking(&SOCKET, &self.socket).await
    }

    /// A client that has read the first line.
    pub(crate) async fn client_with_init(&self) -> Client {
        let mut client = self.client().await;
        assert_eq!(client.next().await.unwrap()["type"], "init");
        client
    }

    /// Where Watari's own dialect is spoken.
    pub(crate) fn native_path(&self) -> PathBuf {
        let name = self.socket.file_name().unwrap().to_str().unwrap();
        self.socket.with_file_name(name.replace(".agent.sock", ".sock"))
    }

    /// A client of the native dialect that has sent nothing.
    pub(crate) async fn native(&self) -> Client {
        Client::speaking(&NATIVE, &self.native_path()).await
    }

    /// A client in Watari's own dialect that follows from a position on, and what it was greeted with.
    pub(crate) async fn native_since(&self, since: Value) -> (Client, Value) {
        let mut client = self.native().await;
        client.send(json!({"type": "hello", "protocol": [1], "since": since})).await;
        let hello = client.next().await.unwrap();
        assert_eq!(hello["type"], "hello", "{hello}");
        (client, hello)
    }

    /// Ends the host with a signal, and asserts that it ends cleanly.
    pub(crate) async fn stop(mut self) {
        self.signal(Signal::TERM);
        let (code, stderr) = self.end().await;
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
    }

    pub(crate) async fn kill(mut self) {
        self.signal(Signal::KILL);
        self.end().await;
    }

    pub(crate) async fn end(&mut self) -> (Option<i32>, String) {
        end_of(&mut self.child).await
    }
}

/// A client of a host. What it sends and what it reads is judged by the schema of the dialect that it speaks.
pub(crate) struct Client {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
    judge: &'static Judge,
}

impl Client {
    /// A client in the dialect that is spoken there: Watari's own in the folder that is for sockets, unless the name
    /// says something else.
    pub(crate) async fn connect(path: &Path) -> Client {
        let is_own = path.parent().is_some_and(|folder| folder.ends_with("watari/run") || folder.ends_with("watari"));
        let is_documents = path.to_str().unwrap().ends_with(".agent.sock");
        Client::speaking(if is_own && !is_documents { &NATIVE } else { &SOCKET }, path).await
    }

    /// A client in the dialect of the document, whatever the path is called.
    pub(crate) async fn at(path: &Path) -> Client {
        Client::speaking(&SOCKET, path).await
    }

    async fn speaking(judge: &'static Judge, path: &Path) -> Client {
        let (read, write) = UnixStream::connect(path).await.unwrap().into_split();
        Client { lines: BufReader::new(read).lines(), write, judge }
    }

    /// Writes a text unchanged, such as invalid lines.
    pub(crate) async fn write(&mut self, text: &str) {
        let written = tokio::time::timeout(WITHIN, self.write.write_all(text.as_bytes())).await;
        written.unwrap_or_else(|_| panic!("the text was not taken within {WITHIN:?}")).unwrap();
    }

    /// Says that it sends nothing any more. It still reads.
    pub(crate) async fn half_close(&mut self) {
        self.write.shutdown().await.unwrap();
    }

    /// Sends a message that is right.
    pub(crate) async fn send(&mut self, message: Value) {
        self.judge.judge("to_watari", &message).unwrap();
        self.write(&format!("{message}\n")).await;
    }

    /// Sends a message of the document's.
    pub(crate) async fn say(&mut self, text: &str) {
        self.send(json!({"type": "message", "text": text})).await;
    }

    /// The next line; none at the end.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        let line = self.next_line().await?;
        Some(self.judged(&line))
    }

    /// What became of a command in Watari's own dialect. Events before it are passed over unread: they may be long.
    pub(crate) async fn next_outcome(&mut self) -> Value {
        loop {
            let line = self.next_line().await.unwrap();
            if !line.starts_with("{\"seq\":") && !line.starts_with("{\"after\":") {
                return self.judged(&line);
            }
        }
    }

    async fn next_line(&mut self) -> Option<String> {
        let line = tokio::time::timeout(WITHIN, self.lines.next_line()).await;
        line.unwrap_or_else(|_| panic!("no line came within {WITHIN:?}")).unwrap()
    }

    fn judged(&self, line: &str) -> Value {
        let line = serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        self.judge.judge("from_watari", &line).unwrap();
        line
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
}

/// Lines as a transcript, in which some fields have their name in the place of their value.
pub(crate) fn transcript<'a>(hidden: &[&str], lines: impl IntoIterator<Item = &'a Value>) -> String {
    let shown = lines.into_iter().map(|line| {
        let mut line = line.clone();
        for name in hidden {
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

/// The texts of the deltas of the document's dialect, joined.
pub(crate) fn text_of(lines: &[Value]) -> String {
    of_type(lines, "text_delta").iter().map(|line| line["text"].as_str().unwrap()).collect()
}
