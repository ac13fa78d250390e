//! Processes of a session that Watari's user may not signal: they are reported, and nothing waits for them.
//!
//! Watari runs as an ordinary user here. What its CLI starts becomes root with a copy of `setpriv` that has the setuid
//! bit, as with `sudo`. (A program that only has the bit keeps its real user, and can be killed.)

#![cfg(all(target_os = "linux", not(watari_portable)))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use common::{WATARI, signal_process};
use host::{Room, end_of, of_type};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use watari_testkit::processes::{ProcessInfo, marked};

/// Connects a socket, whose path is the first line of its input, with its input and output: a host accepts only clients
/// of its own user. The path is not in its arguments, so that it does not look like a process of the room.
const RELAY: &str = "
import os, socket, sys, threading
server = socket.socket(socket.AF_UNIX)
server.connect(sys.stdin.readline().rstrip())
def send():
    for line in sys.stdin:
        server.sendall(line.encode())
threading.Thread(target=send, daemon=True).start()
for line in server.makefile():
    print(line, end='', flush=True)
os._exit(0)
";

const TURNS: &str = "prompt\ntext Good morning\nresult\nprompt\ntext Good evening\nresult\n";

/// An ordinary user.
const USER: u32 = 65533;

/// How long the end of a session may take: a second for the process that is root, half a second for the CLI, and a
/// margin for a busy machine. It is less than the five seconds after which a supervisor reports what does not exit.
const ENDED_WITHIN: Duration = Duration::from_secs(4);

/// A room of an ordinary user, whose CLI starts a process that becomes root before the CLI does anything else.
struct UsersRoom {
    room: Room,
    watari: PathBuf,
}

impl UsersRoom {
    fn new() -> UsersRoom {
        let mut room = Room::fake(TURNS);
        let root = room.sandbox.root().to_owned();
        let [watari, become_root, fifo] = ["watari", "become-root", "fifo"].map(|name| root.join(name));
        // Copies: the user may not reach the originals, and one of them gets another mode.
        for (from, to) in [(Path::new(WATARI), &watari), (Path::new("/usr/bin/setpriv"), &become_root)] {
            assert!(run("cp", &[from, to]));
        }
        assert!(run("mkfifo", &[&fifo]));
        let (become_root_shown, fifo, shown) = (become_root.display(), fifo.display(), watari.display());
        let as_root = common::program(&root.join("as-root"), &format!("echo yes > '{fifo}'\nexec tail -f /dev/null"));
        let script = format!(
            "[ \"$1\" = --version ] && echo '2.1.325 (Claude Code)' && exit\n\
             ( setsid '{become_root_shown}' --reuid 0 --regid 0 --clear-groups '{}' || echo no > '{fifo}' ) \
             < /dev/null > /dev/null 2>&1 &\n\
             read -r is_root < '{fifo}'\n\
             [ $is_root = yes ] || {{ echo 'the folder for temporary files has the mount option nosuid' >&2; exit 1; }}\n\
             exec '{shown}' __fake-claude \"$@\"",
            as_root.display(),
        );
        room.claude = common::program(&root.join("claude-of-the-user"), &script);
        assert!(run("chown", &[Path::new("-R"), Path::new(&format!("{USER}:{USER}")), &root]));
        lchown(&become_root, Some(0), Some(0)).unwrap();
        fs::set_permissions(&become_root, Permissions::from_mode(0o4755)).unwrap();
        UsersRoom { room, watari }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.watari);
        command.args(arguments);
        self.room.prepare(&mut command);
        command.current_dir(self.room.sandbox.cwd()).uid(USER).gid(USER);
        command
    }

    /// A session on stdio to which the first message was sent.
    async fn start(&self, options: Value) -> Session {
        let command = self.command(&["stdio", "--claude", self.room.claude.to_str().unwrap()]);
        let mut session = Session::through(command);
        session.send(json!({"type": "start", "prompt": "Hello?", "options": options})).await;
        session
    }

    /// A session on stdio that has answered a prompt, and its id.
    async fn session(&self, options: Value) -> (Session, String) {
        let mut session = self.start(options).await;
        let seen = session.until("turn_result").await;
        let opened = of_type(&seen, "session_init");
        assert_eq!(opened.len(), 1, "{seen:?}");
        let id = opened[0]["sessionId"].as_str().unwrap().to_owned();
        (session, id)
    }

    fn relay(&self) -> Command {
        let mut command = Command::new("/usr/bin/env");
        command.args(["python3", "-c", RELAY]).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.uid(USER).gid(USER).stdout(Stdio::piped()).kill_on_drop(true);
        command
    }

    /// The processes of the room, except hosts.
    fn processes(&self) -> Vec<ProcessInfo> {
        let mut found = marked(self.room.sandbox.root().to_str().unwrap());
        found.retain(|process| !process.command.contains("/watari socket "));
        found
    }

    /// A text in which the only process that is left is called PID.
    fn with_pid(&self, text: &str) -> String {
        let left = self.processes();
        let [left] = left.as_slice() else { panic!("{left:?}") };
        assert_eq!(left.command, "tail -f /dev/null");
        text.replace(&left.pid.to_string(), "PID")
    }

    /// Waits until only one process is left: the supervisor has exited.
    async fn only_one_is_left(&self) {
        let exited = async {
            while self.processes().len() != 1 {
                // No event reports it, so it is polled.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let exited = tokio::time::timeout(ENDED_WITHIN, exited).await;
        assert!(exited.is_ok(), "{:?}", self.processes());
    }

    fn end_the_process_that_is_left(&self) {
        let left = self.processes();
        assert_eq!(left.len(), 1, "{left:?}");
        left.iter().for_each(|left| signal_process(left.pid, Signal::KILL));
    }
}

impl Drop for UsersRoom {
    fn drop(&mut self) {
        for left in self.processes() {
            // It may have exited meanwhile.
            let _sent = kill_process(Pid::from_raw(left.pid.cast_signed()).unwrap(), Signal::KILL);
        }
    }
}

fn run(program: &str, arguments: &[&Path]) -> bool {
    std::process::Command::new(program).args(arguments).status().unwrap().success()
}

/// A session of the user on stdio.
struct Session {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Session {
    fn through(mut command: Command) -> Session {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Session { stdin: child.stdin.take(), lines, child }
    }

    async fn send(&mut self, message: Value) {
        self.write(&format!("{message}\n")).await;
    }

    async fn write(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(host::WITHIN, self.lines.next_line()).await.unwrap().unwrap();
        line.map(|line| serde_json::from_str(&line).unwrap())
    }

    async fn until(&mut self, kind: &str) -> Vec<Value> {
        let mut seen = Vec::new();
        while let Some(line) = self.next().await {
            seen.push(line);
            if seen[seen.len() - 1]["type"] == kind {
                return seen;
            }
        }
        panic!("it ended without {kind}: {seen:#?}");
    }

    async fn rest(&mut self) -> Vec<Value> {
        let mut seen = Vec::new();
        while let Some(line) = self.next().await {
            seen.push(line);
        }
        seen
    }

    /// The last lines that are errors, the standard error and the exit code.
    async fn end(mut self) -> String {
        let ended = tokio::time::timeout(ENDED_WITHIN, async {
            let rest = self.rest().await;
            let errors: String = of_type(&rest, "error").iter().map(|line| format!("{line}\n")).collect();
            let (code, stderr) = end_of(&mut self.child).await;
            format!("{errors}{stderr}exit {code:?}")
        });
        ended.await.unwrap_or_else(|_| panic!("it still runs after {ENDED_WITHIN:?}"))
    }
}

#[tokio::test]
async fn a_session_on_stdio_reports_a_process_that_it_cannot_end_and_frees_its_conversation_needs_root() {
    let room = UsersRoom::new();
    let (mut session, id) = room.session(json!({})).await;
    drop(session.stdin.take());
    insta::assert_snapshot!(room.with_pid(&session.end().await), @r#"
    {"fatal":false,"message":"1 process of the session could not be ended, because this user may not signal it: PID (tail -f /dev/null); run `kill -9 PID` as root, or ask an administrator to do it","type":"error"}
    watari: 1 process of the session could not be ended, because this user may not signal it: PID (tail -f /dev/null); run `kill -9 PID` as root, or ask an administrator to do it
    exit Some(0)
    "#);
    room.end_the_process_that_is_left();

    // An abort, which else writes no error.
    let (mut session, _) = room.session(json!({"resume": id})).await;
    session.send(json!({"type": "abort"})).await;
    insta::assert_snapshot!(room.with_pid(&session.end().await), @r#"
    {"fatal":false,"message":"1 process of the session could not be ended, because this user may not signal it: PID (tail -f /dev/null); run `kill -9 PID` as root, or ask an administrator to do it","type":"error"}
    watari: 1 process of the session could not be ended, because this user may not signal it: PID (tail -f /dev/null); run `kill -9 PID` as root, or ask an administrator to do it
    exit Some(0)
    "#);
    room.end_the_process_that_is_left();

    let (session, _) = room.session(json!({"resume": id})).await;
    common::signal_cli_of(session.child.id().unwrap(), Signal::KILL);
    insta::assert_snapshot!(room.with_pid(&session.end().await), @r#"
    {"fatal":true,"message":"Claude Code was terminated by signal 9; 1 process of the session could not be ended, because this user may not signal it: PID (tail -f /dev/null); run `kill -9 PID` as root, or ask an administrator to do it","type":"error"}
    watari: 1 process of the session could not be ended, because this user may not signal it: PID (tail -f /dev/null); run `kill -9 PID` as root, or ask an administrator to do it
    exit Some(1)
    "#);
}

#[tokio::test]
async fn a_killed_session_frees_its_conversation_although_a_process_of_it_cannot_be_ended_needs_root() {
    let room = UsersRoom::new();
    let (mut session, id) = room.session(json!({})).await;
    signal_process(session.child.id().unwrap(), Signal::KILL);
    session.child.wait().await.unwrap();
    room.only_one_is_left().await;

    let printed = room.command(&["doctor"]).output().await.unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let of_orphans = printed.lines().find(|line| line.contains(" orphans "));
    insta::assert_snapshot!(of_orphans.unwrap_or(&printed), @"ok       orphans         none of this user's (what runs as another user, for example after sudo, cannot be checked)");

    room.end_the_process_that_is_left();
    let (mut session, again) = room.session(json!({"resume": id})).await;
    assert_eq!(again, id);
    drop(session.stdin.take());
    session.end().await;
}

#[tokio::test]
async fn a_session_that_does_not_start_reports_a_process_that_it_cannot_end_needs_root() {
    let room = UsersRoom::new();
    room.room.rewrite("exit 3\n");
    let mut session = room.start(json!({})).await;
    drop(session.stdin.take());
    insta::assert_snapshot!(room.with_pid(&session.end().await), @r#"
    {"fatal":true,"message":"the Claude Code CLI exited before it was ready (exit code 3): it reported no error; try `claude --version` by hand; 1 process of the session could not be ended, because this user may not signal it: PID (tail -f /dev/null); run `kill -9 PID` as root, or ask an administrator to do it","type":"error"}
    watari: 1 process of the session could not be ended, because this user may not signal it: PID (tail -f /dev/null); run `kill -9 PID` as root, or ask an administrator to do it
    exit Some(1)
    "#);
}

#[tokio::test]
async fn a_host_reports_a_process_that_it_cannot_end_to_every_client_and_in_its_log_needs_root() {
    let room = UsersRoom::new();
    let claude = room.room.claude.to_str().unwrap();
    let mut host = room.command(&["socket", "--claude", claude]).spawn().unwrap();
    let mut lines = BufReader::new(host.stdout.take().unwrap()).lines();
    let socket = tokio::time::timeout(host::WITHIN, lines.next_line()).await.unwrap().unwrap().unwrap();
    let mut client = Session::through(room.relay());
    client.write(&format!("{socket}\n")).await;
    client.send(json!({"type": "message", "text": "hi"})).await;
    client.until("done").await;

    // The CLI is killed while it is idle, and the next message starts it again.
    common::signal_cli_of(host.id().unwrap(), Signal::KILL);
    let ended = tokio::time::timeout(ENDED_WITHIN, client.until("done")).await.unwrap();
    insta::assert_snapshot!(room.with_pid(&host::transcript(&["seq"], &ended)), @r#"
    {"kind":"session","message":"1 process of the session could not be ended, because this user may not signal it: PID (tail -f /dev/null); run `kill -9 PID` as root, or ask an administrator to do it","type":"error"}
    {"kind":"session","message":"Claude Code was terminated by signal 9; the next message starts it again","type":"error"}
    {"type":"done","usage":{"input_tokens":0,"output_tokens":0}}
    "#);
    room.end_the_process_that_is_left();
    client.send(json!({"type": "message", "text": "hi"})).await;
    client.until("done").await;

    signal_process(host.id().unwrap(), Signal::TERM);
    let rest = tokio::time::timeout(ENDED_WITHIN, client.rest()).await.unwrap();
    insta::assert_snapshot!(room.with_pid(&host::transcript(&["seq"], &rest)), @r#"
    {"kind":"session","message":"the session ends: the host received a signal to stop","type":"error"}
    {"kind":"session","message":"1 process of the session could not be ended, because this user may not signal it: PID (tail -f /dev/null); run `kill -9 PID` as root, or ask an administrator to do it","type":"error"}
    "#);
    assert_eq!(end_of(&mut host).await, (Some(0), String::new()));
    let events = room.room.events();
    let exits: Vec<Value> = of_type(&events, "cli_exited").iter().map(|exit| exit["exit"].clone()).collect();
    assert_eq!(exits.len(), 2);
    insta::assert_snapshot!(room.with_pid(&exits[1].to_string()), @r#"{"code":0,"errors":[],"left":1,"left_processes":[{"command":"tail -f /dev/null","pid":PID,"why":"not_permitted"}],"reason":"requested","signal":null,"stderr":""}"#);
    let log = room.room.log();
    assert_eq!(log.matches("WARN 1 process of the session could not be ended").count(), 2, "{log}");
}
