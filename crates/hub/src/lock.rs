//! Locks that keep a session one session: at most one process has it, and everybody else is told who.
//!
//! The system gives a lock back when its holder has ended, however it ended. What stands in the file is only for people.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use watari_sdk::files::{LOCK, is_at};

/// A lock that is held, until it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: File,
    path: PathBuf,
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

impl Lock {
    /// Takes the lock of a conversation, which is the same for every front end. The same id in either case is the same
    /// conversation.
    pub fn of_conversation(locks: &Path, session_id: &str, holder: &str) -> Result<Lock, LockError> {
        Lock::take(&locks.join(session_id.to_ascii_lowercase()), holder)
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
            return Ok(Lock { file, path: path.to_owned() });
        }
    }

    /// Whether its file is still in its place: if not, somebody else can take the lock.
    pub(crate) fn is_in_place(&self) -> bool {
        is_at(&self.file, &self.path)
    }
}

/// Removes the files of locks in a folder that nobody holds: of sessions that were killed. Says how many there were.
pub fn remove_orphans(locks: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(locks) else { return 0 };
    let is_orphan = |path: &Path| {
        // Dropping what was taken removes it.
        LOCK.open_existing(path).is_ok() && Lock::take(path, "a look for orphans").is_ok()
    };
    entries.flatten().filter(|entry| is_orphan(&entry.path())).count()
}

/// Its file goes with it. Whoever has opened that file meanwhile finds that it is no longer in its place, and looks again.
impl Drop for Lock {
    fn drop(&mut self) {
        if is_at(&self.file, &self.path) {
            // One that cannot be removed is as good as free: the system gives the lock back.
            let _removed = std::fs::remove_file(&self.path);
        }
    }
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
    fn a_folder_that_is_not_there_is_told() {
        let error = Lock::take(Path::new("/nowhere/lock"), "x").unwrap_err();
        assert!(error.to_string().starts_with("cannot lock /nowhere/lock: "), "{error}");
    }
}
