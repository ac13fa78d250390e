//! Finds and terminates orphans: processes of sessions whose owner is dead.
//!
//! Every process of a session has a mark in its environment that names the process that owns the session. A process is
//! an orphan if none of its marks has a living owner. `orphans/rule.rs` has the exact rule, which is conservative: a
//! process that may still be in use is not an orphan.

#[cfg(all(target_os = "linux", not(watari_portable)))]
mod linux;
#[cfg(not(all(target_os = "linux", not(watari_portable))))]
mod portable;
#[cfg(all(target_os = "linux", not(watari_portable)))]
mod rule;

#[cfg(all(target_os = "linux", not(watari_portable)))]
use linux as system;
#[cfg(not(all(target_os = "linux", not(watari_portable))))]
use portable as system;

use crate::sweep::owner_of;
use crate::threads;

/// A process that belongs to dead sessions only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Orphan {
    /// Its process id.
    pub pid: u32,
    /// Its command line, separated by spaces. It may contain any character.
    pub command: String,
    /// The marks of the sessions it belongs to.
    marks: Vec<String>,
}

impl Orphan {
    /// Returns the process ids of the dead owners of its sessions.
    pub fn owners(&self) -> Vec<u32> {
        let owners = self.marks.iter().filter_map(|mark| owner_of(mark));
        owners.map(|owner| owner.as_raw_nonzero().get().cast_unsigned()).collect()
    }
}

/// Orphans cannot be detected on this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot detect orphaned processes: this system hides other processes' environments")]
pub struct OrphansError;

/// Finds the orphans of this user.
///
/// A supervisor whose owner has just died is still terminating its session, and a CLI without a supervisor may be about
/// to exit. So processes that are found get three seconds, which suffice for a supervisor, and only those that still
/// run are returned. If none is found, this takes no time.
pub async fn orphans() -> Result<Vec<Orphan>, OrphansError> {
    // `None` after a panic of the search.
    threads::run(system::orphans).await.unwrap_or(Err(OrphansError))
}

/// Kills these processes, and those that they start meanwhile, with SIGKILL, and returns those that did not exit within
/// five seconds. A process that is no longer an orphan, because its id was reused, is not touched.
pub async fn terminate_orphans(found: &[Orphan]) -> Vec<Orphan> {
    let victims = found.to_vec();
    // `None` after a panic, when nothing is known to have exited.
    threads::run(move || system::end(&victims)).await.unwrap_or_else(|| found.to_vec())
}
