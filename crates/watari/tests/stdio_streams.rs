//! What standard input and output of `watari stdio` may be, and how it notices that the other end is closed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod fake;

use std::fs::{self, File};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use common::WATARI;
use fake::{Room, start, user_message};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

/// How long a line may take.
const WITHIN: Duration = Duration::from_secs(30);

const ONE_TURN: &str = "prompt\ntext Good morning\nresult\n";

/// A turn that does not end by itself while a test waits, of a CLI that can be interrupted.
const LONG_TURN: &str = "prompt\ntext Once upon a time\nwait interrupt\n";

impl Room {
    /// Starts it with a socket as its output and a pipe as its input.
    fn on_a_socket(&self) -> (Child, Peer) {
        let (ours, theirs) = StdUnixStream::pair().unwrap();
        let child = self.command().stdin(Stdio::piped()).stdout(OwnedFd::from(theirs)).spawn().unwrap();
        (child, Peer::new(ours))
    }

    /// Starts it with one socket as both, as inetd does.
    fn on_one_socket(&self) -> (Child, Peer) {
        let (ours, theirs) = StdUnixStream::pair().unwrap();
        let stdin = Stdio::from(OwnedFd::from(theirs.try_clone().unwrap()));
        let child = self.command().stdin(stdin).stdout(OwnedFd::from(theirs)).spawn().unwrap();
        (child, Peer::new(ours))
    }

    /// A file with all lines of a client that wants one turn.
    fn conversation(&self) -> PathBuf {
        let path = self.sandbox.root().join("conversation");
        fs::write(&path, start()).unwrap();
        path
    }
}

/// The client's end of a socket.
struct Peer {
    socket: BufReader<UnixStream>,
    /// The same socket, for calls that the other type does not have.
    end: StdUnixStream,
}

impl Peer {
    fn new(end: StdUnixStream) -> Peer {
        end.set_nonblocking(true).unwrap();
        let socket = BufReader::new(UnixStream::from_std(end.try_clone().unwrap()).unwrap());
        Peer { socket, end }
    }

    async fn say(&mut self, line: &str) {
        self.socket.write_all(line.as_bytes()).await.unwrap();
    }

    /// All lines up to one of a type.
    async fn receive(&mut self, kind: &str) {
        loop {
            let mut line = String::new();
            let read = tokio::time::timeout(WITHIN, self.socket.read_line(&mut line)).await;
            let read = read.unwrap_or_else(|_| panic!("no {kind} came within {WITHIN:?}")).unwrap();
            assert_ne!(read, 0, "it ended without {kind}");
            if type_of(&line) == kind {
                return;
            }
        }
    }

    fn shut(&self, how: Shutdown) {
        self.end.shutdown(how).unwrap();
    }
}

fn type_of(line: &str) -> String {
    let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
    line["type"].as_str().unwrap().to_owned()
}

/// How a client can disconnect. Returns the descriptors that it still holds, so that no other end is closed.
#[cfg(target_os = "linux")]
fn ways_to_leave() -> [fn(Peer) -> Option<Peer>; 3] {
    [
        |_peer| None,
        |peer| {
            peer.shut(Shutdown::Both);
            Some(peer)
        },
        |peer| {
            peer.shut(Shutdown::Write);
            peer.shut(Shutdown::Read);
            Some(peer)
        },
    ]
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn an_output_socket_whose_reader_closed_it_ends_the_session_immediately() {
    for leave in ways_to_leave() {
        // Before there is a session.
        let room = Room::new(ONE_TURN);
        let (mut child, mut peer) = room.on_a_socket();
        let stdin = child.stdin.take();
        peer.receive("ready").await;
        let left = leave(peer);
        room.ends(child).await;
        drop((left, stdin));
        // When it is idle, and in a turn.
        for (script, last) in [(ONE_TURN, "turn_result"), (LONG_TURN, "assistant_message")] {
            let room = Room::new(script);
            let (mut child, mut peer) = room.on_a_socket();
            let mut stdin = child.stdin.take().unwrap();
            peer.receive("ready").await;
            stdin.write_all(start().as_bytes()).await.unwrap();
            peer.receive(last).await;
            let left = leave(peer);
            room.ends(child).await;
            drop((left, stdin));
        }
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_closed_socket_for_input_and_output_ends_the_session_immediately() {
    for leave in ways_to_leave() {
        for (script, last) in [(ONE_TURN, "turn_result"), (LONG_TURN, "assistant_message")] {
            let room = Room::new(script);
            let (child, mut peer) = room.on_one_socket();
            peer.say(&start()).await;
            peer.receive(last).await;
            let left = leave(peer);
            room.ends(child).await;
            drop(left);
        }
    }
}

#[tokio::test]
async fn a_half_closed_socket_for_input_and_output_receives_all_lines() {
    let room = Room::new(&ONE_TURN.repeat(2).replace("text", "pause 200\ntext"));
    let (child, mut peer) = room.on_one_socket();
    peer.receive("ready").await;
    peer.say(&start()).await;
    peer.say(&user_message()).await;
    peer.shut(Shutdown::Write);
    peer.receive("turn_result").await;
    peer.receive("turn_result").await;
    room.ends(child).await;
}

#[tokio::test]
async fn an_output_socket_without_a_writer_still_receives_lines() {
    let room = Room::new(&ONE_TURN.repeat(2));
    let (mut child, mut peer) = room.on_a_socket();
    let mut stdin = child.stdin.take().unwrap();
    peer.shut(Shutdown::Write);
    peer.receive("ready").await;
    for line in [start(), user_message()] {
        stdin.write_all(line.as_bytes()).await.unwrap();
        peer.receive("turn_result").await;
    }
    drop(stdin);
    room.ends(child).await;
}

#[tokio::test]
async fn a_file_and_dev_null_receive_all_lines() {
    let room = Room::new(ONE_TURN);
    let file = room.sandbox.root().join("lines");
    for path in [file.as_path(), Path::new("/dev/null")] {
        let (input, output) = (File::open(room.conversation()).unwrap(), File::create(path).unwrap());
        let child = room.command().stdin(input).stdout(output).spawn().unwrap();
        room.ends(child).await;
    }
    let lines = fs::read_to_string(file).unwrap();
    assert_eq!(lines.lines().last().map(type_of).unwrap(), "turn_result");
}

/// The terminal is one of util-linux's `script`.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_terminal_can_be_input_or_output() {
    let room = Room::new(ONE_TURN);
    let (claude, conversation) = (room.claude.display(), room.conversation());
    let with_input = format!("'{WATARI}' stdio --claude '{claude}' < '{}'", conversation.display());
    let with_both = format!("'{WATARI}' stdio --claude '{claude}'");
    for (command, typed) in [(with_input, ""), (with_both, &*start())] {
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &command, "/dev/null"]).current_dir(room.sandbox.cwd());
        script.env_clear().envs(room.sandbox.environment()).kill_on_drop(true);
        let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // The end of what is typed is the end of the input.
        child.stdin.take().unwrap().write_all(typed.as_bytes()).await.unwrap();
        let output = tokio::time::timeout(WITHIN, child.wait_with_output()).await.unwrap().unwrap();
        let shown = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && shown.contains(r#"{"type":"turn_result""#), "{shown}");
    }
}

/// A device that is always full, which only Linux has.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_write_error_is_an_error_and_not_a_disconnect() {
    let room = Room::new(ONE_TURN);
    let (input, full) =
        (File::open(room.conversation()).unwrap(), File::options().write(true).open("/dev/full").unwrap());
    let child = room.command().stdin(input).stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let output = tokio::time::timeout(WITHIN, child.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8(output.stderr).unwrap(),
        "watari: cannot write the output, so the session ends: No space left on device (os error 28)\n"
    );
}
