//! Leftovers on Linux: marks are read from /proc, and a process is held by a descriptor while it is ended, so that
//! its number cannot become another's in between.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, getuid, pidfd_open, pidfd_send_signal, test_kill_process};

use super::rule::{Seen, left_behind};
use super::{Orphan, OrphansUnknown};
use crate::files::read_system;
use crate::sweep;

/// How long a keeper may take to end a session whose owner was killed; that is its promise.
const SUPERVISOR_WITHIN: Duration = Duration::from_secs(3);

/// How long processes may take to end after SIGKILL before they are given up, and before they are looked for again.
const END_WITHIN: Duration = Duration::from_secs(5);
const ROUND_WITHIN: Duration = Duration::from_secs(1);

pub(super) fn orphans() -> Result<Vec<Orphan>, OrphansUnknown> {
    let found = look()?;
    if found.is_empty() {
        return Ok(found);
    }
    wait_for(found.iter().filter_map(hold).collect(), SUPERVISOR_WITHIN);
    // A session that has died in the meantime has not had its time yet.
    Ok(look_again_for(&found))
}

pub(super) fn end(found: &[Orphan]) -> Vec<Orphan> {
    let deadline = Instant::now() + END_WITHIN;
    // What a process starts while it is being killed is found by looking again.
    while kill(found) > 0 && Instant::now() < deadline {}
    look_again_for(found)
}

/// Kills what is there, waits until it has ended, and tells how many there were.
fn kill(found: &[Orphan]) -> usize {
    let held: Vec<(u32, OwnedFd)> =
        look_again_for(found).iter().filter_map(|orphan| Some((orphan.pid, hold(orphan)?))).collect();
    // A number that is a leftover's while it is held is that of the process that is held, or of nobody who gets
    // the signal.
    let still: BTreeSet<u32> = look_again_for(found).iter().map(|orphan| orphan.pid).collect();
    let orphans = held.into_iter().filter(|(pid, _)| still.contains(pid)).map(|(_, process)| process);
    let killed: Vec<OwnedFd> = orphans.filter(|process| pidfd_send_signal(process, Signal::KILL).is_ok()).collect();
    let count = killed.len();
    wait_for(killed, ROUND_WITHIN);
    count
}

/// The leftovers that belong to the sessions of these.
fn look_again_for(found: &[Orphan]) -> Vec<Orphan> {
    let mut now = look().unwrap_or_default();
    // Everything that one of them starts has all of its marks.
    let is_akin = |known: &Orphan, found: &Orphan| known.marks.iter().all(|mark| found.marks.contains(mark));
    now.retain(|orphan| found.iter().any(|known| is_akin(known, orphan)));
    now
}

fn look() -> Result<Vec<Orphan>, OrphansUnknown> {
    // In a sandbox the folder may not be there, or show the processes of another world by their numbers there.
    let shows_us = fs::read_link("/proc/self").is_ok_and(|link| link == Path::new(&getpid().to_string()));
    if !shows_us {
        return Err(OrphansUnknown);
    }
    let processes = sweep::processes().into_iter();
    let seen: Vec<Seen> = processes.map(|process| Seen { process, marks: sweep::marks_of(process.pid) }).collect();
    let left = left_behind(&seen, getpid(), is_alive).into_iter().filter(|seen| is_ours(seen.process.pid));
    let orphan = |seen: &Seen| Orphan {
        pid: seen.process.pid.as_raw_nonzero().get().cast_unsigned(),
        command: command(seen.process.pid),
        marks: seen.marks.clone(),
    };
    Ok(left.map(orphan).collect())
}

/// Whether there is such a process. One that has ended and only waits to be buried is none; one that we may not look
/// at is.
fn is_alive(pid: Pid) -> bool {
    match test_kill_process(pid) {
        Err(Errno::SRCH) => false,
        Ok(()) | Err(_) => sweep::read(pid).is_some() || fs::metadata(file(pid, "stat")).is_err(),
    }
}

/// Whether a process is this user's and has its number from the same world as we: the owner that a mark names is a
/// number of the world in which the mark was made, and a container has a world of its own.
fn is_ours(pid: Pid) -> bool {
    let status = text(file(pid, "status"));
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_ascii_whitespace().next()?.parse().ok());
    let world = |pid: Pid| fs::read_link(file(pid, "ns/pid")).ok();
    let ours = world(getpid());
    user == Some(getuid().as_raw()) && ours.is_some() && world(pid) == ours
}

fn command(pid: Pid) -> String {
    let words = read_system(file(pid, "cmdline")).unwrap_or_default();
    let words = String::from_utf8_lossy(&words).trim_end_matches('\0').replace('\0', " ");
    // One that has overwritten its words still has a name.
    if words.is_empty() { text(file(pid, "comm")) } else { words }
}

fn text(path: PathBuf) -> String {
    String::from_utf8_lossy(&read_system(path).unwrap_or_default()).into_owned()
}

fn file(pid: Pid, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/{name}", pid.as_raw_nonzero()))
}

/// None when it has ended. (Also on a system too old for such descriptors: then nothing is waited for or ended.)
fn hold(orphan: &Orphan) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(orphan.pid.cast_signed())?, PidfdFlags::empty()).ok()
}

/// Waits until all of these have ended, or the time is over. What has not ended is found by looking again.
fn wait_for(processes: Vec<OwnedFd>, limit: Duration) {
    let deadline = Instant::now() + limit;
    for process in processes {
        let rest = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok();
        // Such a descriptor can be read when its process has ended.
        let mut events = [PollFd::new(&process, PollFlags::IN)];
        let _ended = retry_on_intr(|| poll(&mut events, rest.as_ref()));
    }
}
