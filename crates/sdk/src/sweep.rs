//! Which processes belong to a session, and ending them.

use rustix::process::{Pid, Signal, kill_process};

/// What the variable begins with that marks every process of a session, whoever its parent is. Each session has a
/// variable of its own, so that a session within another carries both.
const MARK_PREFIX: &str = "WATARI_SESSION_";

/// A text that no other session's processes have in their environment: it begins with the process that owns the
/// session, which is this one.
pub(crate) fn new_mark() -> String {
    format!("{}_{:x}", std::process::id(), crate::opening::random_u128())
}

/// The variable that carries a mark; its value is 1.
pub(crate) fn mark_variable(mark: &str) -> String {
    format!("{MARK_PREFIX}{mark}")
}

/// The process that owns the session with this mark; none when the mark is not one that is made here.
pub(crate) fn owner_of(mark: &str) -> Option<Pid> {
    let (owner, random_u128) = mark.split_once('_')?;
    let is_random = !random_u128.is_empty() && random_u128.bytes().all(|byte| byte.is_ascii_hexdigit());
    // A sign would be read as part of the number.
    let is_number = owner.bytes().all(|byte| byte.is_ascii_digit());
    if is_random && is_number { Pid::from_raw(owner.parse().ok()?) } else { None }
}

/// Sends SIGKILL to every descendant of a process, and tells how many there were.
///
/// A descendant that starts another while this looks is missed: call it again until there is none.
pub(crate) fn kill_descendants(ancestor: Pid) -> usize {
    kill_all(&descendants(ancestor, &processes()))
}

/// Sends SIGKILL to every process with this mark in its environment, and tells how many there were.
pub(crate) fn kill_marked(mark: &str) -> usize {
    kill_all(&marked(mark))
}

/// Whether a process with this mark is alive.
pub(crate) fn any_marked(mark: &str) -> bool {
    !marked(mark).is_empty()
}

fn kill_all(victims: &[Pid]) -> usize {
    // One that has ended in the meantime is what was wanted.
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
    let mut looked = 0;
    while looked < family.len() {
        let parent = family[looked];
        // The list is not of one moment: a number that was given away meanwhile can make a circle.
        let is_new = |process: &&Process| process.parent == Some(parent) && !family.contains(&process.pid);
        let children: Vec<Pid> = processes.iter().filter(is_new).map(|process| process.pid).collect();
        family.extend(children);
        looked += 1;
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

    /// The living processes with a mark. Those of other users cannot be read, and cannot be ours.
    pub(super) fn marked(mark: &str) -> Vec<Pid> {
        let carries = |pid: &Pid| marks_of(*pid).iter().any(|carried| carried == mark);
        pids().filter(carries).filter(|pid| read(*pid).is_some()).collect()
    }

    /// The marks a process was started with. One that is not as it should be is given as it is, with its value.
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

    /// None for one that has ended and only waits to be buried.
    pub(crate) fn read(pid: Pid) -> Option<Process> {
        let stat = read_system(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name is in parentheses and may itself have some: what follows the last one is regular.
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
