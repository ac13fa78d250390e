//! What sessions left behind whose owner is dead: finding it, and ending it.
//!
//! Every process of a session carries a mark in its environment that names the process that owns the session. A
//! process is a leftover when none of its marks has a living owner; `orphans/rule.rs` says it exactly, and is
//! careful: what may still be of use to anybody is none.

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
    /// Its command line, with a blank between two words. It may hold any character.
    pub command: String,
    /// The marks of the sessions it belongs to.
    marks: Vec<String>,
}

impl Orphan {
    /// The process ids that the owners of its sessions had.
    pub fn owners(&self) -> Vec<u32> {
        let owners = self.marks.iter().filter_map(|mark| owner_of(mark));
        owners.map(|owner| owner.as_raw_nonzero().get().cast_unsigned()).collect()
    }
}

/// Why it is not known what was left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this system does not show the environment of other processes, by which what sessions left behind is found")]
pub struct OrphansUnknown;

/// Looks for what dead sessions have left behind, of this user.
///
/// A keeper whose owner has just died is ending its session, and a CLI that nobody keeps may be about to end by
/// itself. So what is found is given three seconds, in which everything must be gone when a keeper is at work, and
/// only what is still there then is told. When nothing is found this takes no time.
pub async fn orphans() -> Result<Vec<Orphan>, OrphansUnknown> {
    // None is a panic in there, after which nothing is known either.
    threads::run(system::orphans).await.unwrap_or(Err(OrphansUnknown))
}

/// Ends these processes with SIGKILL, and what they start in the meantime, and tells which of them it could not end
/// within five seconds. One that is no leftover any more, because its number has become another's, is left alone.
pub async fn terminate_orphans(found: &[Orphan]) -> Vec<Orphan> {
    let given = found.to_vec();
    // None is a panic in there, after which nothing is known to have ended.
    threads::run(move || system::end(&given)).await.unwrap_or_else(|| found.to_vec())
}
