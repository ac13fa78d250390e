//! Locks that keep a session one session: at most one process has it, and everybody else is told who.
//!
//! The lock of a conversation is where the CLI stores the conversation ([`ConversationLocks`]).
//!
//! The system gives a lock back when its holder has ended, however it ended. What stands in the file is only for people.
//! The lock of a conversation is shared with the supervisor of the CLI, by the same open file: it is free when both have
//! let go, and so is never free while a process of the session lives.

mod orphans;
mod place;

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, fcntl_lock, flock};
use rustix::io::Errno;
use watari_sdk::files::{LOCK, is_at, open_folder};

use orphans::remove_if_free;
pub use orphans::{SOCKET_PREFIX, Swept, remove_orphans};
pub use place::ConversationLocks;

/// A lock that is held, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    /// None only while it is dropped.
    file: Option<Arc<File>>,
    path: PathBuf,
    /// Whether a supervisor may hold it longer than this process.
    is_shared: bool,
}

/// Why a lock was not had.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Somebody else has it.
    #[error("it is in use by {holder}")]
    Held {
        /// In the holder's own words.
        holder: String,
    },
    /// The system says no.
    #[error("cannot lock {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// How much of a holder's words is shown.
const HOLDER_BYTES_MAX: u64 = 200;

/// How long a supervisor is waited for that ends what a killed process has left: half a second for the CLI, and room for a
/// busy machine. Nothing tells when a lock is let go, so it is tried again each time.
const LET_GO_WITHIN: Duration = Duration::from_secs(5);
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// How often another process may make a file in the place to which a lock moves.
const MOVES_MAX: usize = 16;

impl Lock {
    /// Takes the lock of a conversation, which is the same for every front end. The same id in either case is the same
    /// conversation.
    ///
    /// One whose owner was killed is waited for, as long as its supervisor may need to end what is left; one whose owner
    /// lives is refused at once.
    pub fn of_conversation(locks: &Path, session_id: &str, holder: &str) -> Result<Lock, LockError> {
        let path = locks.join(session_id.to_ascii_lowercase());
        let deadline = Instant::now() + LET_GO_WITHIN;
        loop {
            // Nobody looks for orphans meanwhile, who would have each lock for a moment.
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

    /// Takes a lock for a conversation whose id is not known yet. It moves to the conversation when it is.
    pub fn of_new_conversation(locks: &Path, holder: &str) -> Result<Lock, LockError> {
        let random = RandomState::new().hash_one(std::process::id());
        Lock::take(&locks.join(format!("{}{random:016x}", orphans::NEW_PREFIX)), holder)
    }

    /// Makes it the lock of another conversation, and gives back that of the one before. It stays the same open file, so
    /// that a supervisor who shares it holds the new one too.
    pub fn move_to_conversation(&mut self, session_id: &str, holder: &str) -> Result<(), LockError> {
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
                    // If it cannot be removed, that conversation stays locked as long as this one.
                    let _removed = fs::remove_file(before);
                    return Ok(());
                }
                // Held by another, or an orphan, which goes when it is dropped.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    drop(Lock::of_conversation(&locks, session_id, holder)?);
                }
                // There are file systems without links. Then the supervisor holds only the first.
                Err(_) => break,
            }
        }
        *self = Lock::of_conversation(&locks, session_id, holder)?;
        Ok(())
    }

    /// The lock, for the supervisor of the CLI: it is free when both have let go.
    pub fn share(&mut self) -> Option<Arc<File>> {
        self.is_shared = true;
        self.file.clone()
    }

    /// Takes a lock without waiting. `holder` is what others are told who want it too.
    pub fn take(path: &Path, holder: &str) -> Result<Lock, LockError> {
        let io = |source| LockError::Io { path: path.to_owned(), source };
        loop {
            let mut file = LOCK.open(path).map_err(io)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Err(LockError::Held { holder: words_in(&mut file) }),
                Err(error) => return Err(io(error.into())),
            }
            // Somebody may have removed it between the two, and another may have made and locked a new one.
            if !is_at(&file, path) {
                continue;
            }
            file.set_len(0).and_then(|()| file.write_all(holder.as_bytes())).map_err(io)?;
            // This one is the process's alone, and tells others whether the owner lives. Without it they do not wait.
            let _noted = fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
            return Ok(Lock { file: Some(Arc::new(file)), path: path.to_owned(), is_shared: false });
        }
    }

    /// Whether its file is still in its place: if not, somebody else can take the lock.
    pub(crate) fn is_in_place(&self) -> bool {
        self.file.as_ref().is_some_and(|file| is_at(file, &self.path))
    }
}

/// Its file goes with it. Whoever has opened that file meanwhile finds that it is no longer in its place, and looks again.
/// One that the supervisor still holds stays, and is removed as an orphan later.
impl Drop for Lock {
    fn drop(&mut self) {
        if !self.is_in_place() {
            return;
        }
        if self.is_shared {
            self.file = None;
            remove_if_free(&self.path);
        } else {
            // One that cannot be removed is as good as free: the system gives the lock back.
            let _removed = fs::remove_file(&self.path);
        }
    }
}

/// Whether the process that took a lock is alive, rather than only its supervisor. What cannot be known counts as alive.
fn owner_lives(path: &Path) -> bool {
    LOCK.open_existing(path).is_ok_and(|file| fcntl_lock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

fn words_in(file: &mut File) -> String {
    let mut words = Vec::new();
    // A holder that has not yet said who it is, is somebody all the same.
    let _read = file.rewind().and_then(|()| file.take(HOLDER_BYTES_MAX).read_to_end(&mut words));
    let words = String::from_utf8_lossy(&words).trim().replace(char::is_control, " ");
    if words.is_empty() { "another process".to_owned() } else { words }
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
    fn a_lock_that_is_shared_is_free_only_when_both_have_let_go() {
        let folder = tempfile::tempdir().unwrap();
        let mut lock = Lock::of_new_conversation(folder.path(), "watari stdio, process 17").unwrap();
        let supervisors = lock.share().unwrap().try_clone().unwrap();
        // It keeps its holders when its conversation is known, and when that changes.
        for id in [ID, OTHER_ID] {
            lock.move_to_conversation(id, "x").unwrap();
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
        lock.move_to_conversation(OTHER_ID, "first").unwrap();
        assert_eq!(names(folder.path()), [OTHER_ID]);
        let mut second = Lock::of_conversation(folder.path(), ID, "second").unwrap();
        // (Both are of this process, which looks as if the owner were dead: so it is waited for.)
        assert_eq!(second.move_to_conversation(OTHER_ID, "x").unwrap_err().to_string(), "it is in use by first");
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
    fn a_folder_that_is_not_there_is_told() {
        let error = Lock::take(Path::new("/nowhere/lock"), "x").unwrap_err();
        assert!(error.to_string().starts_with("cannot lock /nowhere/lock: "), "{error}");
    }
}
