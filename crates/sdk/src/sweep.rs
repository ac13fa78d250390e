//! Which processes belong to a session, and ending them.

use rustix::process::{Pid, Signal, kill_process};

/// The variable that marks every process of a session, whoever its parent is. Each session has a variable of its
/// own, so that a session within another carries both.
pub(crate) fn mark_variable(mark: &str) -> String {
    format!("WATARI_SESSION_{mark}")
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
struct Process {
    pid: Pid,
    parent: Option<Pid>,
}

fn descendants(ancestor: Pid, processes: &[Process]) -> Vec<Pid> {
    let mut family = vec![ancestor];
    let mut looked = 0;
    while looked < family.len() {
        let parent = family[looked];
        family.extend(processes.iter().filter(|process| process.parent == Some(parent)).map(|process| process.pid));
        looked += 1;
    }
    family.remove(0);
    family
}

#[cfg(all(target_os = "linux", not(watari_portable)))]
mod system {
    use super::{Pid, Process, mark_variable};

    /// All processes that are alive, from /proc.
    pub(super) fn processes() -> Vec<Process> {
        pids().filter_map(read).collect()
    }

    /// The living processes with a mark. Those of other users cannot be read, and cannot be ours.
    pub(super) fn marked(mark: &str) -> Vec<Pid> {
        let wanted = format!("{}=1", mark_variable(mark));
        let carries = |pid: &Pid| {
            std::fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero()))
                .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes()))
        };
        pids().filter(carries).filter(|pid| read(*pid).is_some()).collect()
    }

    fn pids() -> impl Iterator<Item = Pid> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
    }

    /// None for one that has ended and only waits to be buried.
    fn read(pid: Pid) -> Option<Process> {
        let stat = std::fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
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

use system::{marked, processes};
