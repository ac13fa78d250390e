//! Processes that this process adopts: orphans of a session whose supervisor was killed.
//!
//! While a supervisor lives, it is the parent of every orphan below it. If it is killed, the nearest ancestor that asked
//! for orphans gets them; without one they go to init, where only the mark in their environment shows whose they are.
//! An owner that adopts them finds also those that have cleared their environment: they are its children, and it has
//! not started them.

use std::future::pending;
use std::io;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, getpid, waitid, waitpid};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::sweep::{descendants, processes, zombies_of};

/// Makes this process the parent of the processes of its sessions whose supervisor is killed. It then terminates all of
/// them, also those that have cleared their environment, before it reports the exit of the CLI.
///
/// This is for a program that does nothing else than to run one session at a time, such as `watari socket`: it
/// terminates every process that is or was a descendant of this one, except the descendants that existed when this was
/// called, and it waits for all children. Do not call it in a program that starts processes without this crate or runs
/// several sessions at the same time. Call it before the first session, and before anything else starts a process.
///
/// On Linux only; elsewhere it does nothing. An error means that the system refused, and that this changes nothing.
pub fn adopt_orphans() -> io::Result<()> {
    if cfg!(all(target_os = "linux", not(watari_portable))) {
        become_parent_of_orphans()?;
        // Most programs have none, and need not read the list of processes.
        let before = if has_children() { descendants(getpid(), &processes()) } else { Vec::new() };
        // If it was called before, nothing changes.
        let _again = FAMILY.set(Mutex::new(Family { own: Vec::new(), before }));
    }
    Ok(())
}

fn has_children() -> bool {
    let unchanged = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(waitid(WaitId::All, unchanged), Err(Errno::CHILD))
}

/// Makes this process the parent of orphans below it, instead of init.
#[cfg(all(target_os = "linux", not(watari_portable)))]
pub(crate) fn become_parent_of_orphans() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(getpid()))?)
}

#[cfg(not(all(target_os = "linux", not(watari_portable))))]
pub(crate) fn become_parent_of_orphans() -> io::Result<()> {
    Ok(())
}

/// The processes that were not adopted. Unset in a process that does not adopt orphans.
static FAMILY: OnceLock<Mutex<Family>> = OnceLock::new();

struct Family {
    /// Children of this process that have an owner in it, who waits for them.
    own: Vec<Pid>,
    /// Descendants from before the first session, until they are reaped.
    before: Vec<Pid>,
}

fn family() -> Option<MutexGuard<'static, Family>> {
    FAMILY.get().map(|family| family.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A child that this process has started itself, until this is dropped.
#[derive(Debug)]
pub(crate) struct OwnChild(Option<Pid>);

impl OwnChild {
    /// Notes a child, by its process id, right after its start.
    pub(crate) fn new(pid: Option<u32>) -> OwnChild {
        let pid = pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
        if let (Some(mut family), Some(pid)) = (family(), pid) {
            family.own.push(pid);
        }
        OwnChild(pid)
    }
}

impl Drop for OwnChild {
    fn drop(&mut self) {
        if let Some(mut family) = family() {
            family.own.retain(|own| Some(*own) != self.0);
        }
    }
}

/// Returns the adopted processes that are alive, with their descendants.
pub(crate) fn adopted() -> Vec<Pid> {
    let Some(family) = family() else { return Vec::new() };
    let processes = processes();
    let is_adopted = |pid: &Pid| !family.own.contains(pid) && !family.before.contains(pid);
    let children = processes.iter().filter(|process| process.parent == Some(getpid())).map(|process| process.pid);
    let with_descendants = |pid| [vec![pid], descendants(pid, &processes)].concat();
    children.filter(is_adopted).flat_map(with_descendants).collect()
}

/// Reaps the children that have exited and that nobody else in this process waits for.
pub(crate) fn reap() {
    let Some(mut family) = family() else { return };
    for pid in zombies_of(getpid()) {
        if !family.own.contains(&pid) {
            // It has exited, and only this process can reap it.
            let _reaped = waitpid(Some(pid), WaitOptions::NOHANG);
            family.before.retain(|before| *before != pid);
        }
    }
}

/// Reports that a child of this process has exited. Of interest only to a process that adopts orphans.
pub(crate) struct ChildExits(Option<Signal>);

impl ChildExits {
    pub(crate) fn listen() -> ChildExits {
        // Without it, adopted processes stay zombies until this process exits.
        ChildExits(FAMILY.get().and_then(|_| signal(SignalKind::child()).ok()))
    }

    /// Cancel-safe.
    pub(crate) async fn next(&mut self) {
        match &mut self.0 {
            Some(signal) => drop(signal.recv().await),
            None => pending().await,
        }
    }
}
