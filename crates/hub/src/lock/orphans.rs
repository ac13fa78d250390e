//! Orphaned locks: files left by killed sessions. The next start removes them.

use std::fs;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use watari_sdk::SessionId;
use watari_sdk::files::{LOCK, is_at, open_folder};

/// How many names one sweep reads, and how many locks it tries. The next sweep handles the rest.
const NAMES_MAX: usize = 65_536;
const TRIED_MAX: usize = 1024;

/// The prefix of a socket's lock, before sixteen hexadecimal digits.
pub const SOCKET_PREFIX: &str = "socket-";

/// The prefix of the lock of a new conversation, before sixteen hexadecimal digits.
pub(super) const NEW_PREFIX: &str = "new-";

/// The result of a sweep.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Orphans that were removed.
    pub removed: usize,
    /// Locks that a process holds.
    pub held: usize,
    /// Files that are not Watari's, which stay.
    pub foreign: usize,
}

/// Removes the lock files in a folder that no process holds. It does not touch foreign files and does not wait. It does
/// nothing while another process sweeps.
pub fn remove_orphans(locks: &Path) -> Swept {
    let mut swept = Swept::default();
    let sweep_lock =
        open_folder(locks).ok().filter(|locks| flock(locks, FlockOperation::NonBlockingLockExclusive).is_ok());
    let (Some(_sweep_lock), Ok(entries)) = (sweep_lock, fs::read_dir(locks)) else { return swept };
    for entry in entries.flatten().take(NAMES_MAX) {
        let is_ours = entry.file_name().to_str().is_some_and(is_name_of_a_lock);
        // The type of the entry itself, not of a link's target.
        if !is_ours || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            swept.foreign += 1;
        } else if swept.removed + swept.held >= TRIED_MAX {
            break;
        } else if remove_if_free(&entry.path()) {
            swept.removed += 1;
        } else {
            swept.held += 1;
        }
    }
    swept
}

/// Removes a lock file, unless a process holds the lock.
pub(super) fn remove_if_free(path: &Path) -> bool {
    let Ok(file) = LOCK.open_existing(path) else { return false };
    // A process that has just opened it finds that it no longer has its name, and tries again.
    flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && is_at(&file, path)
        && fs::remove_file(path).is_ok()
}

fn is_name_of_a_lock(name: &str) -> bool {
    let is_number = |digits: &str| digits.len() == 16 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let is_numbered = |prefix| name.strip_prefix(prefix).is_some_and(is_number);
    SessionId::parse(name).is_ok() || is_numbered(SOCKET_PREFIX) || is_numbered(NEW_PREFIX)
}

#[cfg(test)]
mod tests {
    use super::super::Lock;
    use super::*;

    fn id(number: usize) -> String {
        format!("{number:08x}-0000-4000-8000-000000000000")
    }

    #[test]
    fn orphaned_locks_are_removed_and_nothing_that_is_held_or_foreign_is_touched() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for orphan in [id(1).as_str(), "socket-0123456789abcdef", "new-0123456789abcdef"] {
            fs::write(path(orphan), "watari stdio, process 17").unwrap();
        }
        let _held = Lock::of_conversation(folder.path(), &id(2), "x").unwrap();
        let foreign = ["notes.txt", "socket-1", "new-", ".hidden", "lock"];
        for name in foreign {
            fs::write(path(name), name).unwrap();
        }
        std::os::unix::fs::symlink(path("notes.txt"), path(&id(3))).unwrap();
        fs::create_dir(path(&id(4))).unwrap();
        let pipe = path(&id(5));
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
        assert_eq!(remove_orphans(folder.path()), Swept { removed: 3, held: 1, foreign: 8 });
        assert_eq!(remove_orphans(folder.path()), Swept { removed: 0, held: 1, foreign: 8 });
        for name in foreign {
            assert_eq!(fs::read_to_string(path(name)).unwrap(), name);
        }
        assert_eq!(remove_orphans(Path::new("/nowhere")), Swept::default());
    }

    #[test]
    fn a_sweep_of_ten_thousand_orphans_is_bounded_and_the_next_ones_go_on() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..10_000 {
            fs::write(folder.path().join(id(number)), "").unwrap();
        }
        assert_eq!(remove_orphans(folder.path()).removed, TRIED_MAX);
        while remove_orphans(folder.path()).removed > 0 {}
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn two_sweeps_at_once_are_one() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(id(1)), "").unwrap();
        let other = open_folder(folder.path()).unwrap();
        flock(&other, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(remove_orphans(folder.path()), Swept::default());
        drop(other);
        assert_eq!(remove_orphans(folder.path()).removed, 1);
    }
}
