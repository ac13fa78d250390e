//! What the fake CLI does to its own process, and that its child gets away.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

#[allow(dead_code, reason = "the other tests of the fake use the rest")]
mod fake;

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use fake::{Fake, request};
use rustix::process::{Pid, Signal, WaitOptions, getsid, kill_process, waitpid};
use watari_testkit::processes;

fn pid(fake: &Fake) -> Pid {
    Pid::from_child(&fake.child)
}

#[test]
fn it_stops_until_it_is_continued() {
    let mut fake = Fake::start("noise before\nstop\nnoise after");
    assert_eq!(fake.line(), "before");
    let (_, status) = waitpid(Some(pid(&fake)), WaitOptions::UNTRACED).unwrap().unwrap();
    assert!(status.stopped());
    kill_process(pid(&fake), Signal::CONT).unwrap();
    assert_eq!(fake.rest().transcript(), "? after\nexit 0");
}

#[test]
fn signals_are_ignored_only_when_the_script_says_so() {
    let mut fake = Fake::start("noise ready\nwait line");
    fake.line();
    kill_process(pid(&fake), Signal::TERM).unwrap();
    assert_eq!(fake.child.wait().unwrap().code(), None);

    let mut fake = Fake::start("ignore TERM\nignore INT\nnoise ready\nwait line\nexit 5");
    fake.line();
    kill_process(pid(&fake), Signal::TERM).unwrap();
    kill_process(pid(&fake), Signal::INT).unwrap();
    fake.say(&request("r1", "interrupt"));
    assert_eq!(fake.child.wait().unwrap().code(), Some(5));
}

#[test]
fn who_stalls_leaves_stdin_unread() {
    /// More than any pipe holds.
    const TOO_MUCH: usize = 16 << 20;
    let mut fake = Fake::start("wait line\nnoise stalling\nstall");
    fake.say("{}");
    assert_eq!(fake.line(), "stalling");
    let stdin = fake.stdin.as_mut().unwrap();
    rustix::io::ioctl_fionbio(&*stdin, true).unwrap();
    let mut written = 0;
    let error = loop {
        match stdin.write(&[b' '; 4096]) {
            Ok(count) => written += count,
            Err(error) => break error,
        }
        assert!(written < TOO_MUCH, "it reads");
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    fake.child.kill().unwrap();
    assert_eq!(fake.child.wait().unwrap().code(), None);
}

#[test]
fn a_test_can_wait_for_a_point_in_the_script() {
    let fifo = tempfile::tempdir().unwrap();
    let path = fifo.path().join("a fifo");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    let mut fake = Fake::start(&format!("noise before\nsignal {}\nsignal <folder>/file\nnoise after", path.display()));
    assert_eq!(fake.line(), "before");
    let mut signal = String::new();
    std::fs::File::open(&path).unwrap().read_to_string(&mut signal).unwrap();
    assert_eq!(signal, ".");
    assert_eq!(fake.line(), "after");
    assert_eq!(std::fs::read_to_string(fake.folder.path().join("file")).unwrap(), ".");
}

#[tokio::test]
async fn its_child_gets_away() {
    let unique = tempfile::tempdir().unwrap();
    let session = unique.path().to_str().unwrap();
    let flag = format!("--session-id={session}");
    let mut fake =
        Fake::start_with("child\nnoise started", |command| command.arg(flag).env("MARK", format!("{session}/mark")));
    assert_eq!(fake.line(), "started");
    assert_eq!(processes::children_of(fake.child.id()), []);
    let found: Vec<_> =
        processes::marked(session).into_iter().filter(|process| process.pid != fake.child.id()).collect();
    let [child] = found.as_slice() else { panic!("{found:?}") };
    #[cfg(all(target_os = "linux", not(watari_portable)))]
    assert!(processes::marked(&format!("{session}/mark")).iter().any(|process| process.pid == child.pid));

    let child = Pid::from_raw(child.pid.try_into().unwrap()).unwrap();
    assert_eq!(getsid(Some(child)).unwrap(), child);
    kill_process(child, Signal::TERM).unwrap();
    kill_process(child, Signal::HUP).unwrap();
    assert_eq!(fake.rest().transcript(), "exit 0");
    assert_eq!(processes::marked(session).len(), 1);
    kill_process(child, Signal::KILL).unwrap();
    processes::none_marked_within(session, Duration::from_secs(10)).await.unwrap();
}
