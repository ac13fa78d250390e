//! Orphans on Linux: marks are read from /proc, and a process is held by a pidfd while it is killed, so that its id
//! cannot be reused in between.

use std::collections::BTreeSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::process::{Pid, PidfdFlags, Signal, getpid, getuid, pidfd_open, pidfd_send_signal, test_kill_process};

use super::rule::{Seen, orphaned};
use super::{Orphan, OrphansError};
use crate::files::read_system;
use crate::sweep;

/// How long a supervisor may take at most to terminate a session whose owner was killed.
const SUPERVISOR_WITHIN: Duration = Duration::from_secs(3);

/// How long to wait for processes to exit after SIGKILL, in all and before the next search for them.
const END_WITHIN: Duration = Duration::from_secs(5);
const ROUND_WITHIN: Duration = Duration::from_secs(1);

pub(super) fn orphans() -> Result<Vec<Orphan>, OrphansError> {
    let found = search()?;
    if found.is_empty() {
        return Ok(found);
    }
    wait_for(found.iter().filter_map(hold).collect(), SUPERVISOR_WITHIN);
    // Only for these: a session whose owner has died meanwhile has not had its three seconds yet.
    Ok(search_again_for(&found))
}

pub(super) fn end(found: &[Orphan]) -> Vec<Orphan> {
    let deadline = Instant::now() + END_WITHIN;
    // Processes that were started meanwhile are found by the next search.
    while kill(found) > 0 && Instant::now() < deadline {}
    search_again_for(found)
}

/// Kills those that still run, waits for their exit, and returns their number.
fn kill(found: &[Orphan]) -> usize {
    let held: Vec<(u32, OwnedFd)> =
        search_again_for(found).iter().filter_map(|orphan| Some((orphan.pid, hold(orphan)?))).collect();
    // An id that is still an orphan's while a pidfd is held belongs to the held process; if that has exited, nothing
    // gets the signal.
    let still: BTreeSet<u32> = search_again_for(found).iter().map(|orphan| orphan.pid).collect();
    let orphans = held.into_iter().filter(|(pid, _)| still.contains(pid)).map(|(_, process)| process);
    let killed: Vec<OwnedFd> = orphans.filter(|process| pidfd_send_signal(process, Signal::KILL).is_ok()).collect();
    let count = killed.len();
    wait_for(killed, ROUND_WITHIN);
    count
}

/// Returns the orphans that belong to the same sessions.
fn search_again_for(found: &[Orphan]) -> Vec<Orphan> {
    let mut now = search().unwrap_or_default();
    // Every process that one of them starts has all of its marks.
    let is_akin = |known: &Orphan, found: &Orphan| known.marks.iter().all(|mark| found.marks.contains(mark));
    now.retain(|orphan| found.iter().any(|known| is_akin(known, orphan)));
    now
}

fn search() -> Result<Vec<Orphan>, OrphansError> {
    // In a sandbox /proc may be missing, or show another PID namespace.
    let shows_us = fs::read_link("/proc/self").is_ok_and(|link| link == Path::new(&getpid().to_string()));
    if !shows_us {
        return Err(OrphansError);
    }
    let processes = sweep::processes().into_iter();
    let seen: Vec<Seen> = processes.map(|process| Seen { process, marks: sweep::marks_of(process.pid) }).collect();
    let left = orphaned(&seen, getpid(), is_alive).into_iter().filter(|seen| is_ours(seen.process.pid));
    let orphan = |seen: &Seen| Orphan {
        pid: seen.process.pid.as_raw_nonzero().get().cast_unsigned(),
        command: sweep::command(seen.process.pid),
        marks: seen.marks.clone(),
    };
    Ok(left.map(orphan).collect())
}

/// Whether a process is alive. A zombie is not; a process that cannot be inspected is.
fn is_alive(pid: Pid) -> bool {
    match test_kill_process(pid) {
        Err(Errno::SRCH) => false,
        Ok(()) | Err(_) => sweep::read(pid).is_some() || fs::metadata(file(pid, "stat")).is_err(),
    }
}

/// Whether a process is this user's and in this PID namespace: the owner in a mark is an id of the namespace in which
/// the mark was made, and a container has its own.
fn is_ours(pid: Pid) -> bool {
    let status = text(file(pid, "status"));
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_ascii_whitespace().next()?.parse().ok());
    let namespace = |pid: Pid| fs::read_link(file(pid, "ns/pid")).ok();
    let ours = namespace(getpid());
    user == Some(getuid().as_raw()) && ours.is_some() && namespace(pid) == ours
}

fn text(path: PathBuf) -> String {
    String::from_utf8_lossy(&read_system(path).unwrap_or_default()).into_owned()
}

fn file(pid: Pid, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{}/{name}", pid.as_raw_nonzero()))
}

/// Opens a pidfd. `None` if the process has exited, and on a system without pidfds, where nothing is waited for or
/// killed.
fn hold(orphan: &Orphan) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(orphan.pid.cast_signed())?, PidfdFlags::empty()).ok()
}

/// Waits until all of these have exited, or the time limit expires. The next search finds those that still run.
fn wait_for(processes: Vec<OwnedFd>, limit: Duration) {
    let deadline = Instant::now() + limit;
    for process in processes {
        let rest = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok();
        // A pidfd is readable when its process has exited.
        let mut events = [PollFd::new(&process, PollFlags::IN)];
        let _ended = retry_on_intr(|| poll(&mut events, rest.as_ref()));
    }
}
