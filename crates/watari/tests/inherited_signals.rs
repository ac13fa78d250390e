//! Signals that `watari` inherits as blocked or ignored: it can still be stopped, and the CLI inherits none of that.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{WATARI, signal_process};
use host::{Client, Room, end_of, text_of};
use rustix::process::Signal;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use watari_testkit::processes::children_of;

const WITHIN: Duration = Duration::from_secs(30);

/// How long an end without waiting may take: half a second for the CLI, and a margin for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(3);

const TWO_TURNS: &str = "prompt\ntext One\nresult\nprompt\ntext Two\nresult\n";

/// Blocks every signal there is.
const BLOCKING: &str = "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())";

/// Ignores the signals that `nohup` and shells ignore, and others that a host relies on.
#[cfg(not(watari_portable))]
const LIKE_NOHUP: &str = "[signal.signal(s, signal.SIG_IGN) for s in (1, 2, signal.SIGCHLD, signal.SIGTERM)]";

/// Ignores SIGCHLD and the signals that end a program.
const IGNORING: &str = "[signal.signal(s, signal.SIG_IGN) for s in (signal.SIGCHLD, signal.SIGPIPE, signal.SIGTERM)]";

/// Starts `watari` with such signals.
fn after(done: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    let script = format!("import os, signal, sys; {done}; os.execv(sys.argv[1], sys.argv[1:])");
    command.args(["-c", &script, WATARI]).args(arguments);
    command
}

/// A set of signals of a process, as the system shows it.
fn signals(pid: u32, kind: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix(kind)).unwrap();
    u64::from_str_radix(mask.trim_start_matches(':').trim(), 16).unwrap()
}

/// The processes of a session: this one, its supervisor and the CLI.
fn processes(pid: u32) -> [u32; 3] {
    let [supervisor] = children_of(pid).try_into().unwrap_or_else(|found: Vec<_>| panic!("{}", found.len()));
    let [cli] = children_of(supervisor.pid).try_into().unwrap_or_else(|found: Vec<_>| panic!("{}", found.len()));
    [pid, supervisor.pid, cli.pid]
}

#[cfg(not(watari_portable))]
fn number(signal: Signal) -> u64 {
    1 << (signal.as_raw() - 1)
}

#[tokio::test]
async fn with_every_signal_blocked_stdio_can_be_ended_and_the_cli_has_none_blocked() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let room = Room::fake(TWO_TURNS);
        let mut command = after(BLOCKING, &["stdio", "--claude", room.claude.to_str().unwrap()]);
        room.prepare(&mut command);
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"{\"type\":\"start\",\"prompt\":\"Hello?\",\"options\":{}}\n").await.unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next_line().await.unwrap().unwrap().contains("turn_result") {}
        let blocked = processes(child.id().unwrap()).map(|pid| signals(pid, "SigBlk"));
        assert_eq!(blocked, [0; 3]);
        let begun = Instant::now();
        signal_process(child.id().unwrap(), signal);
        assert_eq!(end_of(&mut child).await, (Some(0), String::new()), "{signal:?}");
        assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
        room.is_empty_within(Duration::from_secs(1)).await;
    }
}

#[tokio::test]
async fn with_every_signal_blocked_a_host_can_be_ended_and_the_cli_has_none_blocked() {
    let room = Room::fake(TWO_TURNS);
    let (cwd, claude) = (room.sandbox.cwd().to_owned(), room.claude.clone());
    let command = after(BLOCKING, &["socket", "--cwd", cwd.to_str().unwrap(), "--claude", claude.to_str().unwrap()]);
    let host = room.start(command).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    assert_eq!(text_of(&client.until("done").await), "One");
    assert_eq!(processes(host.pid()).map(|pid| signals(pid, "SigBlk")), [0; 3]);
    host.stop().await;
}

/// What `nohup` and shells ignore stays ignored by the host and is not passed on; SIGTERM still ends it. Only Linux
/// says what is ignored.
#[cfg(not(watari_portable))]
#[tokio::test]
async fn ignored_sighup_and_sigint_do_not_end_a_host_and_the_cli_does_not_ignore_them() {
    let room = Room::fake(TWO_TURNS);
    let (cwd, claude) = (room.sandbox.cwd().to_owned(), room.claude.clone());
    let command = after(LIKE_NOHUP, &["socket", "--cwd", cwd.to_str().unwrap(), "--claude", claude.to_str().unwrap()]);
    let host = room.start(command).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    client.until("done").await;
    host.signal(Signal::HUP);
    host.signal(Signal::INT);
    client.say("and now?").await;
    assert_eq!(text_of(&client.until("done").await), "Two");
    let [_, _, cli] = processes(host.pid());
    let ignorable = [Signal::HUP, Signal::INT, Signal::CHILD, Signal::TERM];
    let ignored: Vec<Signal> =
        ignorable.into_iter().filter(|signal| signals(cli, "SigIgn") & number(*signal) != 0).collect();
    assert_eq!(ignored, []);
    host.stop().await;
}

#[tokio::test]
async fn with_sigchld_ignored_a_host_starts_in_the_background_and_ends_cleanly() {
    let room = Room::fake(TWO_TURNS);
    let (cwd, claude) = (room.sandbox.cwd().to_owned(), room.claude.clone());
    let arguments = ["socket", "--cwd", cwd.to_str().unwrap(), "--claude", claude.to_str().unwrap(), "--detach"];
    let mut command = after(IGNORING, &arguments);
    room.prepare(&mut command);
    let mut starter = command.spawn().unwrap();
    let (code, stderr) = end_of(&mut starter).await;
    assert_eq!(code, Some(0), "{stderr}");
    let socket = stderr.trim().strip_prefix("watari: listening on ").unwrap();
    let mut client = Client::at(socket.as_ref()).await;
    client.send(json!({"type": "close"})).await;
    client.rest().await;
    room.is_empty_within(WITHIN).await;
    room.is_tidy();
}

/// A host that cannot start says so with its own exit code, also to a starter that ignores the end of its children.
#[tokio::test]
async fn with_sigchld_ignored_a_host_that_cannot_start_has_its_exit_code() {
    let room = Room::fake("exit 3\n");
    let (cwd, claude) = (room.sandbox.cwd().to_owned(), room.claude.clone());
    let arguments = ["socket", "--cwd", cwd.to_str().unwrap(), "--claude", claude.to_str().unwrap(), "--detach"];
    let mut command = after(IGNORING, &arguments);
    room.prepare(&mut command);
    let mut starter = command.spawn().unwrap();
    let (code, stderr) = end_of(&mut starter).await;
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("exit code 3") && !stderr.contains("its log says more"), "{stderr}");
}
