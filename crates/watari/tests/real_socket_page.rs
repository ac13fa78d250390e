//! The page about clients of `watari socket`: its programs are run and its transcripts are played, on the real CLI.

// Nothing in it depends on the system.
#![cfg(not(watari_portable))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{Page, is_installed, not_run};
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

/// A language of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Language {
    Go,
    Python,
}

impl Language {
    /// Whether its programs can be run; where the tests must run, they can.
    fn is_there(self) -> bool {
        let program = match self {
            Language::Go => "go",
            Language::Python => "python3",
        };
        let found = is_installed(program);
        assert!(found || std::env::var("CI").as_deref() != Ok("true"), "there must be a {program}");
        if !found {
            not_run(&format!("{program} is not on the PATH"));
        }
        found
    }

    /// A JSON object as its program prints it.
    fn printed(self, input: &str) -> String {
        match self {
            Language::Go => input.to_owned(),
            Language::Python => input.replace("\":", "\": "),
        }
    }

    /// Takes its program out of the page; says how it is started.
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
struct Seen {
    code: Option<i32>,
    stdout: String,
}

impl User {
    async fn new(language: Language, room: &Room) -> User {
        User { program: language.install(room.sandbox.root()).await, state: room.sandbox.root().join("place.json") }
    }

    /// Runs the program, and types an answer to each question when it is there.
    async fn run(&self, room: &Room, socket: &Path, message: &str, answer: &str) -> Seen {
        let mut running = self.start(room, socket, message);
        let mut stdout = String::new();
        while let Some(line) = running.next_line().await {
            // Which connection it was that answered, is not the same each time.
            let shown = line.split_once(" (client ").map_or(line.as_str(), |(before, _)| before);
            stdout.push_str(shown);
            stdout.push('\n');
            if line.starts_with("? ") {
                running.stdin.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
            }
        }
        let (code, stderr) = end_of(&mut running.child).await;
        assert_eq!(stderr, "");
        Seen { code, stdout }
    }

    fn start(&self, room: &Room, socket: &Path, message: &str) -> Running {
        let mut command = Command::new(&self.program[0]);
        command.args(&self.program[1..]).arg(socket).arg(&self.state).arg(message);
        command.env_clear().envs(room.sandbox.environment());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Running { stdin: child.stdin.take().unwrap(), lines, child }
    }
}

/// A program of the page that runs.
struct Running {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    async fn next_line(&mut self) -> Option<String> {
        tokio::time::timeout(WITHIN, self.lines.next_line()).await.unwrap_or_else(|_| panic!("it hangs")).unwrap()
    }
}

fn touch(id: &str, name: &str) -> Reply {
    Reply::text("I will look.").and_tool_use(id, "Bash", json!({"command": format!("touch {name}")}))
}

/// The document's own flow, with a yes, with a no, and with an API that fails; every run goes on where the last was.
async fn holds_the_flow_of_the_document(language: Language) {
    if !language.is_there() {
        return;
    }
    let room = Room::real([
        touch("toolu_1", "made"),
        Reply::text("Fixed."),
        touch("toolu_2", "other"),
        Reply::text("Then not."),
        Reply::status(400, "the stub will not"),
    ])
    .await;
    let host = room.host(&[]).await;
    let user = User::new(language, &room).await;
    let by = format!("example-{}", if language == Language::Go { "go" } else { "python" });
    for (answer, name, decision, end) in [("y", "made", "approved", "Fixed."), ("n", "other", "denied", "Then not.")] {
        let input = language.printed(&format!("{{\"command\":\"touch {name}\"}}"));
        let expected = format!("I will look.\n? Bash {input} [y/n]\n! {decision} by {by}\n{end}\n");
        let seen = user.run(&room, &host.socket, "fix the bug", answer).await;
        assert_eq!((seen.code, seen.stdout), (Some(0), expected));
        assert_eq!(room.sandbox.cwd().join(name).exists(), answer == "y");
    }
    let calls = room.stub.as_ref().unwrap().model_calls();
    assert!(calls.last().unwrap().to_string().contains("The user said no."));
    let seen = user.run(&room, &host.socket, "again", "n").await;
    assert_eq!(seen.code, Some(1), "{}", seen.stdout);
    assert!(seen.stdout.contains("error: ") && seen.stdout.contains("the stub will not"), "{}", seen.stdout);
    host.stop().await;
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn the_go_program_holds_the_flow_of_the_document() {
    holds_the_flow_of_the_document(Language::Go).await;
}

#[tokio::test]
async fn the_python_program_holds_the_flow_of_the_document() {
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
                // Whichever ends first ends both; a client that has gone is an error here, and not one of the test's.
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
    if !language.is_there() {
        return;
    }
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
    let seen = user.run(&room, &proxy.path, "tell a story", "y").await;
    let input = language.printed("{\"command\":\"touch made\"}");
    let by = format!("example-{}", if language == Language::Go { "go" } else { "python" });
    let expected = format!("{story}\n? Bash {input} [y/n]\n! approved by {by}\n{story}\n");
    assert_eq!((seen.code, seen.stdout), (Some(0), expected));
    let connections = proxy.connections.load(Ordering::Relaxed);
    assert!(connections > 5, "only {connections} connections");
    // The message was carried out once.
    assert_eq!(room.events().iter().filter(|event| event["type"] == "prompt_accepted").count(), 1);
    host.stop().await;
}

#[tokio::test]
async fn the_go_program_comes_back_and_prints_everything_once() {
    comes_back(Language::Go).await;
}

#[tokio::test]
async fn the_python_program_comes_back_and_prints_everything_once() {
    comes_back(Language::Python).await;
}

/// A place that is not of this session counts for nothing, and without a host there is no answer.
async fn knows_its_session(language: Language) {
    if !language.is_there() {
        return;
    }
    let room = Room::real([Reply::text("One."), Reply::text("Two.")]).await;
    let host = room.host(&[]).await;
    let user = User::new(language, &room).await;
    let seen = user.run(&room, &host.socket, "first", "y").await;
    assert_eq!((seen.code, seen.stdout.as_str()), (Some(0), "One.\n"));
    // Of another session; and of this one, but behind its end.
    let kept = fs::read_to_string(&user.state).unwrap();
    let id = room.record()["session_id"].as_str().unwrap().to_owned();
    let (_, place) = kept.rsplit_once("\"1:").unwrap();
    let number = place.split_once('"').unwrap().0;
    let other = kept.replace(&id, "00000000-0000-4000-8000-000000000000");
    let behind = kept.replace(&format!("\"1:{number}\""), "\"1:100000\"");
    let expected = ["One.\nTwo.\n", "One.\nTwo.\nTwo.\n"];
    for (state, expected) in [other, behind].iter().zip(expected) {
        assert_ne!(*state, kept);
        fs::write(&user.state, state).unwrap();
        let seen = user.run(&room, &host.socket, "second", "y").await;
        assert_eq!((seen.code, seen.stdout.as_str()), (Some(0), expected));
    }
    let socket = host.socket.clone();
    host.stop().await;
    let seen = user.run(&room, &socket, "third", "y").await;
    assert!(seen.code == Some(1) && seen.stdout.contains("there is no host any more"), "{}", seen.stdout);
}

#[tokio::test]
async fn the_go_program_knows_its_session() {
    knows_its_session(Language::Go).await;
}

#[tokio::test]
async fn the_python_program_knows_its_session() {
    knows_its_session(Language::Python).await;
}

/// A line without what differs from run to run. Right after `done` a session may still be `running`.
fn without_chance(mut line: Value) -> Value {
    for name in ["session_id", "usage", "seq", "state"] {
        if let Some(value) = line.get_mut(name) {
            *value = json!(name);
        }
    }
    line
}

#[tokio::test]
async fn the_transcripts_of_the_page_are_what_happens() {
    let room =
        Room::real([touch("toolu_1", "made"), Reply::text("Fixed."), Reply::text("Nothing to thank for.")]).await;
    let host = room.host(&[]).await;
    // Places of the page as those of this run.
    let mut places: BTreeMap<String, Value> = BTreeMap::new();
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
                if let Some(place) = shown["since"].as_str().and_then(|since| places.get(since)) {
                    shown["since"] = place.clone();
                }
                client.send(shown).await;
                continue;
            }
            let heard = client.next().await.unwrap();
            if let Some(place) = shown["seq"].as_str() {
                places.insert(place.to_owned(), heard["seq"].clone());
            }
            assert_eq!(without_chance(shown), without_chance(heard), "{line}");
        }
    }
    host.stop().await;
}
