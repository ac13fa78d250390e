//! Queries the processes of this machine, so that a test can assert that none is left.

#[cfg(all(target_os = "linux", not(watari_portable)))]
mod linux;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(not(all(target_os = "linux", not(watari_portable))))]
mod portable;

#[cfg(all(target_os = "linux", not(watari_portable)))]
use linux as system;
#[cfg(not(all(target_os = "linux", not(watari_portable))))]
use portable as system;

use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
pub use memory::{peak_memory_of_this_process, reset_peak_memory};

/// The time between two queries of the process table.
const LOOK_EACH: Duration = Duration::from_millis(10);

/// A process at the time of the query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its id.
    pub pid: u32,
    /// The id of its parent.
    pub parent: u32,
    /// The letter that `ps` shows: `R`, `S`, `D`, `T`, `Z` and so on.
    pub state: char,
    /// Its command line, or its name in brackets if it has none.
    pub command: String,
}

impl ProcessInfo {
    fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

/// All live processes with `marker` in their environment or command line, for example a sandbox's root. Without
/// `/proc`, in their command line only.
///
/// # Panics
/// If the process table cannot be read: an empty result would let every test pass.
pub fn marked(marker: &str) -> Vec<ProcessInfo> {
    let mut found = system::all();
    found.retain(|process| process.is_alive() && system::carries(process, marker));
    found
}

/// The children of a process, including those that exited and were not waited for.
///
/// # Panics
/// If the process table cannot be read.
pub fn children_of(pid: u32) -> Vec<ProcessInfo> {
    let mut found = system::all();
    found.retain(|process| process.parent == pid);
    found
}

/// Waits until no live process has `marker`, and returns how long that took, or the remaining processes at the limit.
///
/// # Panics
/// If the process table cannot be read.
pub async fn none_marked_within(marker: &str, limit: Duration) -> Result<Duration, Vec<ProcessInfo>> {
    // The machine's clock, not tokio's: processes do not stop for a paused test.
    let started = Instant::now();
    loop {
        let left = marked(marker);
        let elapsed = started.elapsed();
        if left.is_empty() {
            return Ok(elapsed);
        }
        if elapsed >= limit {
            return Err(left);
        }
        // Nothing notifies an outsider that a whole process tree has exited, so this polls.
        tokio::time::sleep(LOOK_EACH).await;
    }
}

/// How many files this process has open.
///
/// # Panics
/// If the system does not report them.
#[expect(clippy::panic, reason = "only tests call this, and a wrong count would let them pass")]
pub fn open_files_of_this_process() -> usize {
    match std::fs::read_dir(system::OPEN_FILES) {
        // The folder itself is open while it is read.
        Ok(entries) => entries.count().saturating_sub(1),
        Err(error) => panic!("cannot read {}: {error}", system::OPEN_FILES),
    }
}
