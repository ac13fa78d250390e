//! Locks that give a session one owner: a process that cannot take a lock learns who holds it.
//!
//! The lock of a conversation is where the CLI stores the conversation ([`ConversationLocks`]).
//!
//! The kernel releases a lock when its holder exits, however it exits. The content of a lock file is only for people.
//! The lock of a conversation is shared with the CLI's supervisor through the same open file: it is free when both have
//! released it, and so never while a process of the session is alive.

mod conversation_locks;
mod orphans;
mod restore;

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use watari_sdk::files::{LOCK, is_at, open_folder};

pub use conversation_locks::ConversationLocks;
use orphans::remove_if_free;
pub use orphans::{SOCKET_PREFIX, Swept, remove_orphans};

/// A lock, held until it is dropped.
#[derive(Debug)]
pub struct Lock {
    /// None only during the drop.
    file: Option<Arc<File>>,
    path: PathBuf,
    /// The holder's description of itself, which other processes see.
    holder: String,
    /// Whether a supervisor may hold it longer than this process.
    is_shared: bool,
}

/// Why a lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds it.
    #[error("it is in use by {holder}")]
    Held {
        /// The holder's description of itself.
        holder: String,
    },
    /// The system refused.
    #[error("cannot lock {}: {source}", .path.display())]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// How many bytes of a holder's description are shown.
const HOLDER_BYTES_MAX: u64 = 200;

/// How long to wait for the supervisor of a killed process, which terminates what that process left behind: half a
/// second for the CLI, and a margin for a busy machine. The release of a lock sends no notification, so the lock is
/// polled.
const RELEASED_WITHIN: Duration = Duration::from_secs(5);
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// How many times another process may create the file to which a lock moves.
const MOVES_MAX: usize = 16;

impl Lock {
    /// Takes the lock of a conversation, which is the same for every front end. The case of the id does not matter.
    ///
    /// If the owner was killed, waits as long as its supervisor may need to terminate what is left. If the owner is
    /// alive, fails immediately.
    pub fn of_conversation(locks: &Path, session_id: &str, holder: &str) -> Result<Lock, LockError> {
        let path = locks.join(session_id.to_ascii_lowercase());
        let deadline = Instant::now() + RELEASED_WITHIN;
        loop {
            // This blocks sweeps for orphans, which hold each lock for a moment.
            let quiet =
                open_folder(locks).ok().filter(|locks| flock(locks, FlockOperation::NonBlockingLockShared).is_ok());
            match Lock::take(&path, holder) {
                Err(LockError::Held { .. })
                    if Instant::now() < deadline && (quiet.is_none() || !owner_lives(&path)) => {}
                taken => return taken,
            }
            drop(quiet);
            std::thread::sleep(TRY_AGAIN_AFTER);
        }
    }

    /// Takes a lock for a conversation whose id is not known yet. It moves to the conversation when the id is known.
    pub fn of_new_conversation(locks: &Path, holder: &str) -> Result<Lock, LockError> {
        let random = RandomState::new().hash_one(std::process::id());
        Lock::take(&locks.join(format!("{}{random:016x}", orphans::NEW_PREFIX)), holder)
    }

    /// Moves the lock to another conversation, and releases the previous one. The open file stays the same, so that a
    /// supervisor that shares it holds the new lock too.
    pub fn move_to_conversation(&mut self, session_id: &str) -> Result<(), LockError> {
        let Some(locks) = self.path.parent().map(Path::to_owned) else { return Ok(()) };
        let path = locks.join(session_id.to_ascii_lowercase());
        if path == self.path {
            return Ok(());
        }
        for _ in 0..MOVES_MAX {
            if !self.is_in_place() {
                break;
            }
            match fs::hard_link(&self.path, &path) {
                Ok(()) => {
                    let before = std::mem::replace(&mut self.path, path);
                    // If it cannot be removed, the previous conversation stays locked as long as this one.
                    let _removed = fs::remove_file(before);
                    return Ok(());
                }
                // The file is a held lock, or an orphan, which is removed by the drop.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    drop(Lock::of_conversation(&locks, session_id, &self.holder)?);
                }
                // Some file systems have no hard links. Then the supervisor holds only the first lock.
                Err(_) => break,
            }
        }
        *self = Lock::of_conversation(&locks, session_id, &self.holder)?;
        Ok(())
    }

    /// Returns the lock's open file for the CLI's supervisor: the lock is free when both have released it.
    pub fn share(&mut self) -> Option<Arc<File>> {
        self.is_shared = true;
        self.file.clone()
    }

    /// Takes a lock without waiting. `holder` is the description that other processes see.
    pub fn take(path: &Path, holder: &str) -> Result<Lock, LockError> {
        let io = |source| LockError::Io { path: path.to_owned(), source };
        loop {
            let mut file = LOCK.open(path).map_err(io)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(LockError::Held { holder: holder_in(&mut file) }),
                Err(error) => return Err(io(error.into())),
            }
            // Between open and flock, the file may have been removed, and another process may have created and locked a
            // new one.
            if !is_at(&file, path) {
                continue;
            }
            file.set_len(0).and_then(|()| file.write_all(holder.as_bytes())).map_err(io)?;
            // This lock belongs to the process alone, and shows others whether the owner is alive. Without it they do
            // not wait.
            let _noted = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
            let file = Some(Arc::new(file));
            return Ok(Lock { file, path: path.to_owned(), holder: holder.to_owned(), is_shared: false });
        }
    }

    /// Whether the lock file still has its name. If not, another process can take the lock.
    pub(crate) fn is_in_place(&self) -> bool {
        self.file.as_ref().is_some_and(|file| is_at(file, &self.path))
    }
}

/// Removes the file. A process that has just opened it finds that it no longer has its name, and tries again. A file
/// whose lock the supervisor still holds stays, and is removed as an orphan later.
impl Drop for Lock {
    fn drop(&mut self) {
        if !self.is_in_place() {
            return;
        }
        if self.is_shared {
            self.file = None;
            remove_if_free(&self.path);
        } else {
            // If it cannot be removed, the lock is free anyway: the kernel releases it.
            let _removed = fs::remove_file(&self.path);
        }
    }
}

/// Whether the process that took a lock is alive, and not only its supervisor. If in doubt, it is alive.
fn owner_lives(path: &Path) -> bool {
    LOCK.open_existing(path).is_ok_and(|file| fcntl_lock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

fn holder_in(file: &mut File) -> String {
    let mut holder = Vec::new();
    // The holder may not have written its description yet.
    let _read = file.rewind().and_then(|()| file.take(HOLDER_BYTES_MAX).read_to_end(&mut holder));
    let holder = String::from_utf8_lossy(&holder).trim().replace(char::is_control, " ");
    if holder.is_empty() { "another process".to_owned() } else { holder }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_held_once_and_says_by_whom() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = Lock::take(&path, "watari socket, process 17").unwrap();
        let error = Lock::take(&path, "another").unwrap_err();
        assert_eq!(error.to_string(), "it is in use by watari socket, process 17");
        drop(lock);
        assert!(!path.exists());
        let _lock = Lock::take(&path, "x").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "x");
    }

    #[test]
    fn a_lock_that_was_removed_under_its_holder_is_another_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let _old = Lock::take(&path, "old").unwrap();
        std::fs::remove_file(&path).unwrap();
        let _new = Lock::take(&path, "new").unwrap();
        assert_eq!(Lock::take(&path, "third").unwrap_err().to_string(), "it is in use by new");
    }

    #[test]
    fn a_lock_that_is_shared_is_free_only_when_both_have_released_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut lock = Lock::of_new_conversation(folder.path(), "watari stdio, process 17").unwrap();
        let supervisors = lock.share().unwrap().try_clone().unwrap();
        // The holders stay the same when the conversation's id becomes known, and when it changes.
        for id in [ID, OTHER_ID] {
            lock.move_to_conversation(id).unwrap();
            assert_eq!(names(folder.path()), [id]);
            let error = Lock::take(&folder.path().join(id), "another").unwrap_err();
            assert_eq!(error.to_string(), "it is in use by watari stdio, process 17");
        }
        drop(lock);
        assert!(Lock::take(&folder.path().join(OTHER_ID), "another").is_err());
        assert_eq!(remove_orphans(folder.path()).removed, 0);
        drop(supervisors);
        assert_eq!(remove_orphans(folder.path()).removed, 1);
        let mut lock = Lock::of_conversation(folder.path(), ID, "x").unwrap();
        drop(lock.share());
        drop(lock);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_lock_moves_over_an_orphan_and_not_over_a_holder() {
        let folder = tempfile::tempdir().unwrap();
        let mut lock = Lock::of_conversation(folder.path(), ID, "first").unwrap();
        std::fs::write(folder.path().join(OTHER_ID), "of a session that was killed").unwrap();
        lock.move_to_conversation(OTHER_ID).unwrap();
        assert_eq!(names(folder.path()), [OTHER_ID]);
        let mut second = Lock::of_conversation(folder.path(), ID, "second").unwrap();
        // Both locks belong to this process, which therefore looks like a dead owner: so this waits.
        assert_eq!(second.move_to_conversation(OTHER_ID).unwrap_err().to_string(), "it is in use by first");
        assert_eq!(names(folder.path()), [ID, OTHER_ID]);
    }

    const ID: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";
    const OTHER_ID: &str = "1f1e1d1c-1b1a-4918-8716-151413121110";

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_missing_folder_is_reported() {
        let error = Lock::take(Path::new("/nowhere/lock"), "x").unwrap_err();
        assert!(error.to_string().starts_with("cannot lock /nowhere/lock: "), "{error}");
    }
}
