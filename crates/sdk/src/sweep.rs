//! Finds and kills the processes of a session.

use std::collections::HashSet;
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::adoption;

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

/// How long processes that this user may not signal have to exit by themselves, once all others have exited.
pub(crate) const REFUSED_EXIT_WITHIN: Duration = Duration::from_secs(1);

/// The processes that a search found.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// They were sent SIGKILL, and exit unless they wait for the system.
    pub(crate) killed: Vec<Pid>,
    /// The system does not let this user signal them: they run as another user, for example after `sudo`.
    pub(crate) refused: Vec<Pid>,
}

/// Sends SIGKILL to every descendant of a process.
///
/// A process that is started during the search is missed: call this again until it finds nothing.
pub(crate) fn kill_descendants(ancestor: Pid) -> Sweep {
    kill_all(&descendants(ancestor, &processes_with_children_of(ancestor)))
}

/// Sends SIGKILL to every process with this mark in its environment. (The environment of a process that this user may
/// not signal cannot be read either.)
pub(crate) fn kill_marked(mark: &str) -> Sweep {
    kill_all(&marked(mark))
}

/// Sends SIGKILL to every process with this mark in its environment and to every adopted process, and reaps the adopted
/// ones that have exited.
pub(crate) fn kill_marked_and_adopted(mark: &str) -> Sweep {
    let mut victims = marked(mark);
    let adopted = adoption::adopted().into_iter().filter(|adopted| !victims.contains(adopted)).collect::<Vec<_>>();
    victims.extend(adopted);
    let sweep = kill_all(&victims);
    adoption::reap();
    sweep
}

/// Returns those of these processes and their descendants, and of the members of a process group, that this user may
/// not signal. Sends no signal.
pub(crate) fn refused(known: &[Pid], group: Option<Pid>) -> Vec<Pid> {
    let processes = processes();
    let members = group.map(members_of).unwrap_or_default();
    let living = processes.iter().map(|process| process.pid);
    let roots: Vec<Pid> = living.filter(|pid| known.contains(pid) || members.contains(pid)).collect();
    let below = roots.iter().flat_map(|root| descendants(*root, &processes));
    let found: HashSet<Pid> = below.chain(roots.iter().copied()).collect();
    let is_refused = |pid: &Pid| test_kill_process(*pid).is_err_and(|error| error != Errno::SRCH);
    found.into_iter().filter(is_refused).collect()
}

/// Whether a process with this mark is alive.
pub(crate) fn any_marked(mark: &str) -> bool {
    !marked(mark).is_empty()
}

fn kill_all(victims: &[Pid]) -> Sweep {
    let mut sweep = Sweep::default();
    for victim in victims {
        match kill_process(*victim, Signal::KILL) {
            Ok(()) => sweep.killed.push(*victim),
            // It has exited meanwhile and needs no signal.
            Err(Errno::SRCH) => {}
            Err(_) => sweep.refused.push(*victim),
        }
    }
    sweep
}

/// All processes that are alive, with the children of one, even if the system hides them as another user's.
fn processes_with_children_of(parent: Pid) -> Vec<Process> {
    let mut processes = processes();
    let hidden: Vec<Pid> =
        children_of(parent).into_iter().filter(|child| processes.iter().all(|known| known.pid != *child)).collect();
    processes.extend(hidden.into_iter().map(|pid| Process { pid, parent: Some(parent) }));
    processes
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

    /// Returns the living processes with a mark. Those of other users cannot be read.
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

    /// Returns the children of a process that its main thread started, including those that have exited. None on a
    /// kernel without such lists.
    pub(super) fn children_of(parent: Pid) -> Vec<Pid> {
        let parent = parent.as_raw_nonzero();
        let list = read_system(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
        let list = String::from_utf8_lossy(&list);
        list.split_ascii_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?)).collect()
    }

    /// Returns the command line of a process, or its name if it has none; empty if the system does not show it.
    pub(crate) fn command(pid: Pid) -> String {
        let read = |name: &str| read_system(format!("/proc/{}/{name}", pid.as_raw_nonzero())).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&read("cmdline")).trim_end_matches('\0').replace('\0', " ");
        // A process that has overwritten its arguments still has a name.
        if arguments.is_empty() { String::from_utf8_lossy(&read("comm")).into_owned() } else { arguments }
    }

    fn pids() -> impl Iterator<Item = Pid> {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
    }

    /// Returns the living members of a process group.
    pub(super) fn members_of(group: Pid) -> Vec<Pid> {
        pids().filter(|pid| read_with_group(*pid).is_some_and(|(_, of)| of == Some(group))).collect()
    }

    /// Reads a process. `None` for a zombie.
    pub(crate) fn read(pid: Pid) -> Option<Process> {
        read_with_group(pid).map(|(process, _)| process)
    }

    /// The children of a process that have exited and were not reaped yet.
    pub(crate) fn zombies_of(parent: Pid) -> Vec<Pid> {
        let of_parent = |stat: &Stat| stat.process.parent == Some(parent) && stat.state == ZOMBIE;
        pids().filter_map(read_stat).filter(of_parent).map(|stat| stat.process.pid).collect()
    }

    const ZOMBIE: &str = "Z";

    /// Reads a process and its process group. `None` for a zombie.
    fn read_with_group(pid: Pid) -> Option<(Process, Option<Pid>)> {
        let stat = read_stat(pid).filter(|stat| stat.state != ZOMBIE && stat.state != "X")?;
        Some((stat.process, stat.group))
    }

    struct Stat {
        process: Process,
        state: String,
        /// May be hidden (0) by a PID namespace.
        group: Option<Pid>,
    }

    fn read_stat(pid: Pid) -> Option<Stat> {
        let stat = read_system(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
        // The name is in parentheses and may itself contain some; the fields follow the last one.
        let rest = &stat[stat.iter().rposition(|byte| *byte == b')')? + 1..];
        let mut fields = std::str::from_utf8(rest).ok()?.split_ascii_whitespace();
        let state = fields.next()?;
        let parent = Pid::from_raw(fields.next()?.parse().ok()?);
        let group = Pid::from_raw(fields.next()?.parse().ok()?);
        Some(Stat { process: Process { pid, parent }, state: state.to_owned(), group })
    }
}

#[cfg(not(all(target_os = "linux", not(watari_portable))))]
mod system {
    use super::{Pid, Process};

    /// All processes that are alive, as `ps` lists them.
    pub(crate) fn processes() -> Vec<Process> {
        list().into_iter().map(|(process, _)| process).collect()
    }

    /// Returns the living members of a process group.
    pub(super) fn members_of(group: Pid) -> Vec<Pid> {
        list().into_iter().filter(|(_, of)| *of == Some(group)).map(|(process, _)| process.pid).collect()
    }

    fn list() -> Vec<(Process, Option<Pid>)> {
        let listed = std::process::Command::new("ps").args(["-A", "-o", "pid=,ppid=,pgid=,stat="]).output();
        let text = listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        text.lines().filter_map(read).collect()
    }

    /// `ps` hides no process.
    pub(super) fn children_of(_parent: Pid) -> Vec<Pid> {
        Vec::new()
    }

    /// Returns the command line of a process; empty if the system does not show it.
    pub(crate) fn command(pid: Pid) -> String {
        let pid = pid.as_raw_nonzero().to_string();
        let listed = std::process::Command::new("ps").args(["-o", "args=", "-p", &pid]).output();
        listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
    }

    /// The environment of another process cannot be read portably.
    pub(super) fn marked(_mark: &str) -> Vec<Pid> {
        Vec::new()
    }

    /// Nothing is adopted on such a system.
    pub(crate) fn zombies_of(_parent: Pid) -> Vec<Pid> {
        Vec::new()
    }

    fn read(line: &str) -> Option<(Process, Option<Pid>)> {
        let mut fields = line.split_ascii_whitespace();
        let pid = Pid::from_raw(fields.next()?.parse().ok()?)?;
        let parent = Pid::from_raw(fields.next()?.parse().ok()?);
        let group = Pid::from_raw(fields.next()?.parse().ok()?);
        (!fields.next()?.starts_with('Z')).then_some((Process { pid, parent }, group))
    }
}

use system::{children_of, marked, members_of};
pub(crate) use system::{command, processes, zombies_of};
#[cfg(all(target_os = "linux", not(watari_portable)))]
pub(crate) use system::{marks_of, read};

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
