//! The pages about clients of `watari socket`: programs are run and transcripts are played, on the real CLI.

// Nothing in it depends on the system.
#![cfg(not(watari_portable))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Page, need};
use host::{Client, Host, Room, WITHIN, end_of};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::{UnixListener, UnixStream};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinSet;
use watari_testkit::Reply;

/// How long a compiler may take.
const COMPILED_WITHIN: Duration = Duration::from_secs(300);

const PAGE: Page = Page("clients/socket.md");

const NATIVE_PAGE: Page = Page("clients/native.md");

/// A language of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Go,
    Python,
}

impl Language {
    /// Fails where its programs cannot be run.
    fn need(self) {
        need(match self {
            Language::Go => "go",
            Language::Python => "python3",
        });
    }

    /// A JSON object as its program prints it.
    fn printed(self, input: &str) -> String {
        match self {
            Language::Go => input.to_owned(),
            Language::Python => input.replace("\":", "\": "),
        }
    }

    /// Writes the program of the page to a file, and returns its command.
    async fn install(self, folder: &Path) -> Vec<OsString> {
        match self {
            Language::Python => {
                let path = folder.join("socket_client.py");
                fs::write(&path, PAGE.block("python")).unwrap();
                ["python3".into(), "-W".into(), "error".into(), path.into()].into()
            }
            Language::Go => {
                let (source, program) = (folder.join("socket_client.go"), folder.join("socket_client"));
                fs::write(&source, PAGE.block("go")).unwrap();
                let mut compile = Command::new("go");
                compile.arg("build").arg("-o").arg(&program).arg(&source).current_dir(folder);
                // What was compiled before need not be again.
                compile.env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go")).kill_on_drop(true);
                let compiled = tokio::time::timeout(COMPILED_WITHIN, compile.output()).await.unwrap().unwrap();
                assert!(compiled.status.success(), "{compiled:?}");
                [program.into()].into()
            }
        }
    }
}

/// A user of a program of the page.
struct User {
    program: Vec<OsString>,
    state: PathBuf,
}

/// What the user sees of a run.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Seen {
    /// A run that ended well and printed this.
    fn well(stdout: impl Into<String>) -> Seen {
        Seen { code: Some(0), stdout: stdout.into(), stderr: String::new() }
    }
}

/// What the user does when there is a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answers {
    With(&'static str),
    /// No answer: the input ends.
    Never,
}

impl User {
    async fn new(language: Language, room: &Room) -> User {
        User { program: language.install(room.sandbox.root()).await, state: room.sandbox.root().join("place.json") }
    }

    /// Runs the program to its end.
    async fn run(&self, room: &Room, socket: &Path, message: &str, answers: Answers) -> Seen {
        self.start(room, socket, message).rest(answers).await
    }

    fn start(&self, room: &Room, socket: &Path, message: &str) -> Running {
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).arg(socket).arg(&self.state).arg(message);
        command.env_clear().envs(room.sandbox.environment());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Running { stdin: child.stdin.take(), lines, child }
    }
}

/// A program of the page that runs.
struct Running {
    child: Child,
    /// None at the end of the input.
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    async fn next_line(&mut self) -> Option<String> {
        tokio::time::timeout(WITHIN, self.lines.next_line()).await.unwrap_or_else(|_| panic!("it hangs")).unwrap()
    }

    async fn answer(&mut self, answers: Answers) {
        match (answers, &mut self.stdin) {
            (Answers::With(answer), Some(stdin)) => stdin.write_all(format!("{answer}\n").as_bytes()).await.unwrap(),
            (Answers::Never, _) | (_, None) => self.stdin = None,
        }
    }

    /// The rest of its output. Every question is answered as soon as it is printed.
    async fn rest(mut self, answers: Answers) -> Seen {
        let mut stdout = String::new();
        while let Some(line) = self.next_line().await {
            stdout.push_str(&line);
            stdout.push('\n');
            if line.starts_with("? ") {
                self.answer(answers).await;
            }
        }
        let (code, stderr) = end_of(&mut self.child).await;
        Seen { code, stdout, stderr }
    }
}

fn touch(id: &str, name: &str) -> Reply {
    Reply::text("I will look.").and_tool_use(id, "Bash", json!({"command": format!("touch {name}")}))
}

/// The flow of agent-socket with an approval, with a denial, at the end of the input, and with an API that fails. Every
/// run continues the last one.
async fn holds_the_flow_of_the_document(language: Language) {
    language.need();
    let room = Room::real([
        touch("toolu_1", "made"),
        Reply::text("Fixed."),
        touch("toolu_2", "other"),
        Reply::text("Then not."),
        touch("toolu_3", "third"),
        Reply::text("Nor this."),
        Reply::status(400, "the stub will not"),
    ])
    .await;
    let host = room.host(&[]).await;
    let user = User::new(language, &room).await;
    for (answers, name, decision, end) in [
        (Answers::With("y"), "made", "approved", "Fixed."),
        (Answers::With("n"), "other", "denied", "Then not."),
        (Answers::Never, "third", "denied", "Nor this."),
    ] {
        let input = language.printed(&format!("{{\"command\":\"touch {name}\"}}"));
        let expected = format!("I will look.\n? Bash {input} [y/n]\n! {decision}\n{end}\n");
        assert_eq!(user.run(&room, &host.socket, "fix the bug", answers).await, Seen::well(expected));
        assert_eq!(room.sandbox.cwd().join(name).exists(), decision == "approved");
    }
    let seen = user.run(&room, &host.socket, "again", Answers::Never).await;
    assert!(seen.code == Some(1) && seen.stdout.contains("error: "), "{seen:?}");
    assert!(seen.stdout.contains("the stub will not"), "{seen:?}");
    // A message that is refused has no end to wait for.
    let seen = user.run(&room, &host.socket, "", Answers::Never).await;
    assert!(seen.code == Some(1) && seen.stdout.starts_with("error: the prompt has no content"), "{seen:?}");
    host.stop().await;
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn the_go_program_follows_the_flow_of_agent_socket() {
    holds_the_flow_of_the_document(Language::Go).await;
}

#[tokio::test]
async fn the_python_program_follows_the_flow_of_agent_socket() {
    holds_the_flow_of_the_document(Language::Python).await;
}

/// After how many bytes in each direction a connection is cut.
#[derive(Debug, Clone, Copy)]
struct Cut {
    to_host: u64,
    to_client: u64,
}

/// A socket that leads to a host, over connections that are cut. Those after the last cut stay.
struct Proxy {
    path: PathBuf,
    connections: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl Proxy {
    fn new(room: &Room, host: &Host, cuts: Vec<Cut>) -> Proxy {
        let (path, socket) = (room.sandbox.root().join("proxy.sock"), host.socket.clone());
        let listener = UnixListener::bind(&path).unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut cuts = cuts.into_iter();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                let cut = cuts.next().unwrap_or(Cut { to_host: u64::MAX, to_client: u64::MAX });
                let (from_client, mut to_client) = client.into_split();
                let (from_host, mut to_host) = UnixStream::connect(&socket).await.unwrap().into_split();
                let (mut down, mut up) = (from_host.take(cut.to_client), from_client.take(cut.to_host));
                // The end of either direction ends both. A client that has disconnected is an error here, but not a failure.
                tokio::select! {
                    _cut = tokio::io::copy(&mut down, &mut to_client) => {}
                    _cut = tokio::io::copy(&mut up, &mut to_host) => {}
                }
            }
        });
        Proxy { path, connections, _serving: serving }
    }
}

/// Connections are cut before the answer to hello, in the middle of the message, of the text, of the answer.
async fn comes_back(language: Language) {
    language.need();
    let story: String = (0..120).map(|number| format!("{number} 渡り, ")).collect();
    let paced = Duration::from_millis(5);
    let room = Room::real([
        Reply::text(story.as_str()).and_tool_use("toolu_1", "Bash", json!({"command": "touch made"})).paced(paced),
        Reply::text(story.as_str()).paced(paced),
    ])
    .await;
    let host = room.host(&[]).await;
    let user = User::new(language, &room).await;
    let cuts = (0..30).map(|number| Cut {
        // Mostly a hello goes through, but no command behind it.
        to_host: if number % 6 == 2 { u64::MAX } else { 120 },
        to_client: 50 + 250 * number,
    });
    let proxy = Proxy::new(&room, &host, cuts.collect());
    let seen = user.run(&room, &proxy.path, "tell a story", Answers::With("y")).await;
    let input = language.printed("{\"command\":\"touch made\"}");
    assert_eq!(seen, Seen::well(format!("{story}\n? Bash {input} [y/n]\n! approved\n{story}\n")));
    let connections = proxy.connections.load(Ordering::Relaxed);
    assert!(connections > 5, "only {connections} connections");
    // The message was carried out once.
    assert_eq!(room.events().iter().filter(|event| event["type"] == "prompt_accepted").count(), 1);
    host.stop().await;
}

#[tokio::test]
async fn the_go_program_reconnects_and_prints_everything_once() {
    comes_back(Language::Go).await;
}

#[tokio::test]
async fn the_python_program_reconnects_and_prints_everything_once() {
    comes_back(Language::Python).await;
}

/// A position of another session is not used, and without a host there is no answer.
async fn recognizes_its_session(language: Language) {
    language.need();
    let room = Room::real([Reply::text("One."), Reply::text("Two."), Reply::text("Three."), touch("toolu_1", "made")]);
    let room = room.await;
    let socket = room.sandbox.root().join("watari.sock");
    let flags = ["--socket", socket.to_str().unwrap()];
    let host = room.host(&flags).await;
    let user = User::new(language, &room).await;
    assert_eq!(user.run(&room, &socket, "first", Answers::Never).await, Seen::well("One.\n"));
    // Of another session; and of this one, but behind its end.
    let kept: Value = serde_json::from_slice(&fs::read(&user.state).unwrap()).unwrap();
    assert_eq!(kept["key"], room.record()["key"]);
    for (field, value, expected) in [("key", "another", "One.\nTwo.\n"), ("since", "1:100000", "One.\nTwo.\nThree.\n")]
    {
        let mut kept = kept.clone();
        kept[field] = json!(value);
        fs::write(&user.state, kept.to_string()).unwrap();
        assert_eq!(user.run(&room, &socket, "next", Answers::Never).await, Seen::well(expected));
    }
    // Another session takes the place of the one that has the message.
    let mut running = user.start(&room, &socket, "last");
    assert_eq!(running.next_line().await.unwrap(), "I will look.");
    running.next_line().await.filter(|line| line.starts_with("? ")).unwrap();
    host.kill().await;
    let other = room.host(&flags).await;
    running.answer(Answers::With("y")).await;
    let seen = running.rest(Answers::Never).await;
    assert!(seen.code == Some(1) && seen.stderr.ends_with("another session is there now\n"), "{seen:?}");
    other.stop().await;
    let seen = user.run(&room, &socket, "too late", Answers::Never).await;
    assert!(seen.code == Some(1) && seen.stderr.ends_with("there is no host any more\n"), "{seen:?}");
}

#[tokio::test]
async fn the_go_program_recognizes_its_session() {
    recognizes_its_session(Language::Go).await;
}

#[tokio::test]
async fn the_python_program_recognizes_its_session() {
    recognizes_its_session(Language::Python).await;
}

/// What a value of the page is in this run.
type Names = BTreeMap<String, Value>;

/// What the page has for what differs from run to run.
const NAMED: [&str; 2] = ["key", "seq"];

/// A line without what differs from run to run. Right after `done` a session may still be `running`.
fn without_random(mut line: Value) -> Value {
    for name in ["session_id", "usage", "state"].iter().chain(&NAMED) {
        if let Some(value) = line.get_mut(name) {
            *value = json!(name);
        }
    }
    line
}

/// Notes what values of the page are in this run; the same ones are the same each time.
fn note(names: &mut Names, shown: &Value, received: &Value) {
    for field in NAMED.iter().filter(|field| shown.get(field).is_some()) {
        let name = format!("{field} {}", shown[field]);
        let known = names.entry(name.clone()).or_insert_with(|| received[field].clone());
        assert_eq!(*known, received[field], "{name}");
    }
}

#[tokio::test]
async fn the_transcripts_of_the_page_are_what_happens() {
    let room =
        Room::real([touch("toolu_1", "made"), Reply::text("Fixed."), Reply::text("Nothing to thank for.")]).await;
    let host = room.host(&[]).await;
    let mut names = Names::new();
    let transcripts: Vec<String> =
        PAGE.blocks("text").into_iter().filter(|block| block.contains("{\"type\"")).collect();
    assert_eq!(transcripts.len(), 3);
    for transcript in transcripts {
        // Each is a connection of its own.
        let mut client: Client =
            if transcript.starts_with('<') { host.client().await } else { host.client_with_init().await };
        for line in transcript.lines() {
            let (direction, shown) = line.split_once(' ').unwrap();
            let mut shown: Value = serde_json::from_str(shown).unwrap();
            if direction == ">" {
                for (field, named) in [("since", "seq"), ("key", "key")] {
                    if let Some(value) = names.get(&format!("{named} {}", shown[field])) {
                        shown[field] = value.clone();
                    }
                }
                client.send(shown).await;
                continue;
            }
            let received = client.next().await.unwrap();
            note(&mut names, &shown, &received);
            assert_eq!(without_random(shown), without_random(received), "{line}");
        }
    }
    host.stop().await;
}

/// Whether a line shown on a page is a part of a received one. Where the page has a name, the received value is noted.
fn shows(names: &mut Names, shown: &Value, received: &Value) -> bool {
    let (Some(shown), Some(received)) = (shown.as_object(), received.as_object()) else { return shown == received };
    shown.iter().all(|(field, value)| match (field.as_str(), received.get(field)) {
        (_, None) => false,
        ("key" | "seq" | "after", Some(found)) => {
            let name = if field == "key" { "key" } else { "seq" };
            names.entry(format!("{name} {value}")).or_insert_with(|| found.clone()) == found
        }
        ("session_id" | "state", Some(found)) => found.is_string(),
        (_, Some(found)) => shows(names, value, found),
    })
}

/// Whether a line of the native dialect is not an event but a reply, which has no place among the events.
fn is_reply(line: &Value) -> bool {
    ["hello", "accepted", "refused", "error"].iter().any(|kind| line["type"] == *kind)
}

/// A client of the native dialect, and the lines that it has received and not yet shown.
struct NativePlayer {
    client: Client,
    events: VecDeque<Value>,
    replies: VecDeque<Value>,
}

impl NativePlayer {
    /// Receives lines until the one that the page shows. Events that the page leaves out are passed over.
    async fn receive(&mut self, names: &mut Names, shown: &Value) {
        loop {
            let waiting = if is_reply(shown) { &mut self.replies } else { &mut self.events };
            while let Some(line) = waiting.pop_front() {
                // A line of another type is left out. One of the same type may be, too, if it is about something else.
                let mut tried = names.clone();
                if line["type"] == shown["type"] && shows(&mut tried, shown, &line) {
                    *names = tried;
                    return;
                }
                assert!(!is_reply(shown), "{shown} is not {line}");
            }
            let Some(line) = self.client.next().await else { panic!("{shown} did not come") };
            if is_reply(&line) { self.replies.push_back(line) } else { self.events.push_back(line) }
        }
    }
}

#[tokio::test]
async fn the_transcripts_of_the_native_page_are_what_happens() {
    let room = Room::real([touch("toolu_1", "made"), Reply::text("Fixed.")]).await;
    let host = room.host(&[]).await;
    let (mut first, _) = host.native_since(Value::Null).await;
    first.until("ready").await;
    let mut names = Names::new();
    let transcripts = NATIVE_PAGE.blocks("text");
    assert_eq!(transcripts.len(), 2);
    for transcript in transcripts {
        let (events, replies) = (VecDeque::new(), VecDeque::new());
        let mut player = NativePlayer { client: host.native().await, events, replies };
        for line in transcript.lines() {
            let (direction, shown) = line.split_once(' ').unwrap();
            let mut shown: Value = serde_json::from_str(shown).unwrap();
            if direction == "<" {
                player.receive(&mut names, &shown).await;
                continue;
            }
            for (field, named) in [("since", "seq"), ("key", "key")] {
                if let Some(value) = names.get(&format!("{named} {}", shown[field])) {
                    shown[field] = value.clone();
                }
            }
            player.client.send(shown).await;
        }
    }
    host.stop().await;
}
