//! When the supervisor of a session is killed, everything of the session is terminated, also what has cleared its
//! environment. On the fake CLI, which starts such a daemon first.

#![cfg(all(target_os = "linux", not(watari_portable)))]
#![allow(clippy::duplicate_mod, reason = "both clients are judged by the same schemas")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod bridge;
mod common;
mod host;

use std::fs;
use std::time::Duration;

use bridge::Bridge;
use common::{WATARI, signal_process};
use host::Room;
use rustix::process::Signal;
use serde_json::json;
use tokio::process::Command;
use watari_testkit::processes::marked;

/// How long a process may take to exit, or to start.
const WITHIN: Duration = Duration::from_secs(10);

const TURNS: &str = "prompt\ntext Hello\nresult\nprompt\ntext Hello\nresult\n";

/// A room whose CLI starts two daemons, each forked twice, of which the second and all its children have no mark. The
/// numbers make their command lines unique.
fn room() -> Room {
    let room = Room::fake(TURNS);
    let (marked, unmarked) = (sleep("1"), sleep("2"));
    let start = format!(
        "setsid -f {marked} </dev/null >/dev/null 2>&1\n\
         env -i PATH=\"$PATH\" setsid -f sh -c '{unmarked} & wait' </dev/null >/dev/null 2>&1\n\
         exec '{WATARI}' __fake-claude \"$@\""
    );
    common::program(&room.claude, &start);
    room
}

/// The command line of a process that only this test has.
fn sleep(name: &str) -> String {
    format!("sleep 86{name}00.{}", std::process::id())
}

/// The processes with a command line.
fn running(command: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let command_of = |pid: u32| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let wanted = format!("{}\0", command.replace(' ', "\0"));
    pids.filter(|pid| command_of(*pid) == wanted.as_bytes()).collect()
}

/// Waits until so many processes have a command line.
async fn until_running(count: usize, command: &str) {
    let reached = async {
        while running(command).len() != count {
            // The system does not report it.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let reached = tokio::time::timeout(WITHIN, reached).await;
    assert!(reached.is_ok(), "{:?} run as {command}, expected {count}", running(command));
}

fn signal_supervisor(room: &Room, signal: Signal) {
    let processes = marked(room.sandbox.root().to_str().unwrap());
    let supervisors: Vec<_> = processes.iter().filter(|process| process.command.contains("__supervisor")).collect();
    assert_eq!(supervisors.len(), 1, "{processes:?}");
    signal_process(supervisors[0].pid, signal);
}

fn parent_of(pid: u32) -> u32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().parse().unwrap()
}

/// The children of a process that have exited and were not reaped.
fn zombies_of(parent: u32) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    let is_zombie = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(&format!("Z {parent} ")))
    };
    pids.filter(is_zombie).collect()
}

#[tokio::test]
async fn a_host_terminates_the_daemons_of_a_killed_supervisor_and_continues() {
    let room = room();
    // A process that the starting shell has left to the host: it is not of the session.
    let before = sleep("3");
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{before} </dev/null >/dev/null 2>&1 & exec \"$@\""), "sh", WATARI, "socket"]);
    command.arg("--cwd").arg(room.sandbox.cwd()).arg("--claude").arg(&room.claude);
    let host = room.start(command).await;
    let mut client = host.client().await;
    for _ in 0..2 {
        client.say("hi").await;
        client.until("done").await;
        let daemons = [sleep("1"), sleep("2")];
        for daemon in &daemons {
            until_running(1, daemon).await;
        }
        signal_supervisor(&room, Signal::KILL);
        client.until("error").await;
        for daemon in &daemons {
            assert_eq!(running(daemon), Vec::<u32>::new(), "{daemon}");
        }
        client.until("done").await;
        assert_eq!(zombies_of(host.pid()), Vec::<u32>::new());
    }
    let exits: Vec<_> = room.events().into_iter().filter(|event| event["type"] == "cli_exited").collect();
    assert!(exits.len() == 2 && exits.iter().all(|event| event["exit"]["left"] == 0), "{exits:#?}");
    let before = running(&before);
    assert_eq!(before.len(), 1);
    host.stop().await;
    signal_process(before[0], Signal::KILL);
}

#[tokio::test]
async fn a_host_terminates_the_daemons_of_a_supervisor_that_does_not_react() {
    let room = room();
    let host = room.host(&[]).await;
    let mut client = host.client().await;
    client.say("hi").await;
    client.until("done").await;
    until_running(1, &sleep("2")).await;
    signal_supervisor(&room, Signal::STOP);
    host.stop().await;
    assert_eq!([running(&sleep("1")), running(&sleep("2"))].concat(), Vec::<u32>::new());
    room.is_empty_within(WITHIN).await;
}

#[tokio::test]
async fn a_session_on_stdio_terminates_the_daemons_of_a_killed_supervisor() {
    let room = room();
    let mut session = Bridge::in_sandbox(&room.sandbox, &["--claude", room.claude.to_str().unwrap()]);
    session.start("hi", json!({})).await;
    session.until("turn_result").await;
    until_running(1, &sleep("2")).await;
    signal_supervisor(&room, Signal::KILL);
    session.until("error").await;
    assert_eq!(session.exit().await.code(), Some(1));
    assert_eq!([running(&sleep("1")), running(&sleep("2"))].concat(), Vec::<u32>::new());
}

/// A host can only adopt what its own children leave.
#[tokio::test]
async fn what_children_of_the_starting_shell_leave_to_the_host_is_reaped() {
    let room = Room::fake(TURNS);
    let pipes = ["first", "second"].map(|name| room.sandbox.root().join(name));
    for pipe in &pipes {
        rustix::fs::mkfifoat(rustix::fs::CWD, pipe, rustix::fs::Mode::from(0o600)).unwrap();
    }
    let [first, second] = pipes.each_ref().map(|pipe| pipe.display().to_string());
    // The child ends before its own child does.
    let mut command = Command::new("sh");
    command.args(["-c", &format!("(cat '{second}' & exec cat '{first}') & exec \"$@\""), "sh", WATARI, "socket"]);
    command.arg("--cwd").arg(room.sandbox.cwd()).arg("--claude").arg(&room.claude);
    let host = room.start(command).await;
    let mut client = host.client().await;
    client.say("hi").await;
    client.until("done").await;
    for (pipe, path) in pipes.iter().zip([first, second]) {
        let cat = format!("cat {path}");
        until_running(1, &cat).await;
        let adopted = async {
            while parent_of(running(&cat)[0]) != host.pid() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(WITHIN, adopted).await.unwrap();
        fs::write(pipe, "").unwrap();
        // A zombie has no command line, so it is looked for afterwards.
        until_running(0, &cat).await;
        let reaped = async {
            while !zombies_of(host.pid()).is_empty() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(WITHIN, reaped).await.unwrap();
    }
    host.stop().await;
}
