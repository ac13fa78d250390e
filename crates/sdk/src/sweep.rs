//! Finds and kills the processes of a session.

use rustix::process::{Pid, Signal, kill_process};

/// The prefix of the variable that marks every process of a session, whatever its parent. Each session has a variable
/// of its own, so that a nested session carries both.
const MARK_PREFIX: &str = "WATARI_SESSION_";

/// Returns a unique mark for a session. It begins with the id of the owner, which is this process.
pub(crate) fn new_mark() -> String {
    format!("{}_{:x}", std::process::id(), crate::opening::random_u128())
}

/// Returns the variable that carries a mark; its value is 1.
pub(crate) fn mark_variable(mark: &str) -> String {
    format!("{MARK_PREFIX}{mark}")
}

/// Returns the owner of the session with this mark, or `None` if the mark does not have the form of [`new_mark`].
pub(crate) fn owner_of(mark: &str) -> Option<Pid> {
    let (owner, random) = mark.split_once('_')?;
    let is_random = !random.is_empty() && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    // The parser would accept a sign.
    let is_number = owner.bytes().all(|byte| byte.is_ascii_digit());
    if is_random && is_number { Pid::from_raw(owner.parse().ok()?) } else { None }
}

/// Sends SIGKILL to every descendant of a process, and returns their number.
///
/// A process that is started during the search is missed: call this again until it returns 0.
pub(crate) fn kill_descendants(ancestor: Pid) -> usize {
    kill_all(&descendants(ancestor, &processes()))
}

/// Sends SIGKILL to every process with this mark in its environment, and returns their number.
pub(crate) fn kill_marked(mark: &str) -> usize {
    kill_all(&marked(mark))
}

/// Whether a process with this mark is alive.
pub(crate) fn any_marked(mark: &str) -> bool {
    !marked(mark).is_empty()
}

fn kill_all(victims: &[Pid]) -> usize {
    // A process that has exited meanwhile needs no signal.
    victims.iter().filter(|victim| kill_process(**victim, Signal::KILL).is_ok()).count()
}

/// A process and its parent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pub(crate) pid: Pid,
    pub(crate) parent: Option<Pid>,
}

pub(crate) fn descendants(ancestor: Pid, processes: &[Process]) -> Vec<Pid> {
    let mut family = vec![ancestor];
    let mut visited = 0;
    while visited < family.len() {
        let parent = family[visited];
        // The list is not a snapshot of one moment: an id that was reused meanwhile can cause a cycle.
        let is_new = |process: &&Process| process.parent == Some(parent) && !family.contains(&process.pid);
        let children: Vec<Pid> = processes.iter().filter(is_new).map(|process| process.pid).collect();
        family.extend(children);
        visited += 1;
    }
    family.remove(0);
    family
}

#[cfg(all(target_os = "linux", not(watari_portable)))]
mod system {
    use super::{MARK_PREFIX, Pid, Process};
    use crate::files::read_system;

    /// All processes that are alive, from /proc.
    pub(crate) fn processes() -> Vec<Process> {
        pids().filter_map(read).collect()
    }

    /// Returns the living processes with a mark. Those of other users cannot be read, and cannot be the session's.
    pub(super) fn marked(mark: &str) -> Vec<Pid> {
        let carries = |pid: &Pid| marks_of(*pid).iter().any(|carried| carried == mark);
        pids().filter(carries).filter(|pid| read(*pid).is_some()).collect()
    }

    /// Returns the marks that a process was started with. A malformed mark is returned unchanged, with its value.
    pub(crate) fn marks_of(pid: Pid) -> Vec<String> {
        let environment = read_system(format!("/proc/{}/environ", pid.as_raw_nonzero())).unwrap_or_default();
        let entries = environment.split(|byte| *byte == 0).map(String::from_utf8_lossy);
        let marks = entries.filter_map(|entry| entry.strip_prefix(MARK_PREFIX).map(str::to_owned));
        marks.map(|mark| mark.strip_suffix("=1").map(str::to_owned).unwrap_or(mark)).collect()
    }

    fn pids() -> impl Iterator<Item = Pid> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
    }

    /// Reads a process. `None` for a zombie.
    pub(crate) fn read(pid: Pid) -> Option<Process> {
        let stat = read_system(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name is in parentheses and may itself contain some; the fields follow the last one.
        let rest = &stat[stat.iter().rposition(|byte| *byte == b')')? + 1..];
        let mut fields = std::str::from_utf8(rest).ok()?.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = Pid::from_raw(fields.next()?.parse().ok()?);
        (state != "Z" && state != "X").then_some(Process { pid, parent })
    }
}

#[cfg(not(all(target_os = "linux", not(watari_portable))))]
mod system {
    use super::{Pid, Process};

    /// All processes that are alive, as `ps` lists them.
    pub(super) fn processes() -> Vec<Process> {
        let listed = std::process::Command::new("ps").args(["-A", "-o", "pid=,ppid=,stat="]).output();
        let text = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        text.lines().filter_map(read).collect()
    }

    /// The environment of another process cannot be read portably.
    pub(super) fn marked(_mark: &str) -> Vec<Pid> {
        Vec::new()
    }

    fn read(line: &str) -> Option<Process> {
        let mut fields = line.split_ascii_whitespace();
        let pid = Pid::from_raw(fields.next()?.parse().ok()?)?;
        let parent = Pid::from_raw(fields.next()?.parse().ok()?);
        (!fields.next()?.starts_with('Z')).then_some(Process { pid, parent })
    }
}

#[cfg(not(all(target_os = "linux", not(watari_portable))))]
use system::processes;
#[cfg(all(target_os = "linux", not(watari_portable)))]
pub(crate) use system::{marks_of, processes, read};

use system::marked;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_who_owns_the_session() {
        assert_eq!(owner_of(&new_mark()), Some(rustix::process::getpid()));
        for wrong in ["", "12", "12_", "_ab", "0_ab", "-3_ab", "+3_ab", "12_ab=0", "12_xyz", "99999999999_ab"] {
            assert_eq!(owner_of(wrong), None, "{wrong}");
        }
    }
}
