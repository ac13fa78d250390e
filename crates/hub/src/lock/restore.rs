//! Restores a lock whose file another program removed, moved or replaced while the lock was held.
//!
//! The lock itself is still held then, but nobody finds it: another process would create a new file and lock that.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use watari_sdk::files::{is_at, open_folder};

use super::{Lock, LockError};

/// How often the lock is tried while a sweep for orphans may hold it, and how long to wait in between.
const TRIES_MAX: usize = 100;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(1);

impl Lock {
    /// Makes sure that the lock file has its name in this folder, and returns whether it had to be restored. If another
    /// process has taken the lock meanwhile, fails, and changes nothing.
    ///
    /// An open file that still has another name, because it or its folder was moved, gets its own name back; then the
    /// supervisor that shares it holds the restored lock too. Without a name it cannot get one: the lock is then
    /// another file, which the supervisor of a running CLI does not hold.
    pub fn restore(&mut self, folder: &Path) -> Result<bool, LockError> {
        let Some(path) = self.path.file_name().map(|name| folder.join(name)) else { return Ok(false) };
        let (Some(file), holder) = (&self.file, &self.holder) else { return Ok(false) };
        if is_at(file, &path) {
            return Ok(false);
        }
        if link(file, &path) {
            self.path = path;
        } else {
            *self = take_beside_sweeps(folder, &path, holder)?;
        }
        Ok(true)
    }
}

/// Takes a lock without waiting for its holder, except for a sweep for orphans, which holds each lock for a moment.
fn take_beside_sweeps(folder: &Path, path: &Path, holder: &str) -> Result<Lock, LockError> {
    let mut tries = 0;
    loop {
        // This blocks sweeps; without it, one may be running.
        let quiet =
            open_folder(folder).ok().filter(|folder| flock(folder, FlockOperation::NonBlockingLockShared).is_ok());
        match Lock::take(path, holder) {
            Err(LockError::Held { .. }) if quiet.is_none() && tries < TRIES_MAX => tries += 1,
            taken => return taken,
        }
        std::thread::sleep(TRY_AGAIN_AFTER);
    }
}

/// Gives an open file this name, if nothing has the name and the file still has another one.
#[cfg(all(target_os = "linux", not(watari_portable)))]
fn link(file: &File, path: &Path) -> bool {
    use std::os::fd::AsRawFd;

    use rustix::fs::{AtFlags, CWD, linkat};

    let itself = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, itself, CWD, path, AtFlags::SYMLINK_FOLLOW).is_ok()
}

/// Other systems cannot do this.
#[cfg(not(all(target_os = "linux", not(watari_portable))))]
fn link(_file: &File, _path: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const ID: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";

    /// What another program does to a folder with a lock in it.
    type Removal = fn(&Path);

    const REMOVALS: [(&str, Removal); 5] = [
        ("the file is removed", |folder| fs::remove_file(folder.join(ID)).unwrap()),
        ("the file is moved away", |folder| fs::rename(folder.join(ID), folder.join("away")).unwrap()),
        ("the file is replaced by a copy", |folder| {
            fs::copy(folder.join(ID), folder.join("copy")).unwrap();
            fs::rename(folder.join("copy"), folder.join(ID)).unwrap();
        }),
        ("the folder is removed", |folder| {
            fs::remove_dir_all(folder).unwrap();
            fs::create_dir(folder).unwrap();
        }),
        ("the folder is moved away", |folder| {
            fs::rename(folder, folder.with_file_name("away")).unwrap();
            fs::create_dir(folder).unwrap();
        }),
    ];

    #[test]
    fn a_lock_that_another_program_removed_is_restored_under_its_holder() {
        for (name, removal) in REMOVALS {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join("locks");
            fs::create_dir(&folder).unwrap();
            let mut lock = Lock::of_conversation(&folder, ID, "the first").unwrap();
            assert!(!lock.restore(&folder).unwrap());
            removal(&folder);
            assert!(lock.restore(&folder).unwrap(), "{name}");
            let second = Lock::take(&folder.join(ID), "the second").unwrap_err();
            assert_eq!(second.to_string(), "it is in use by the first", "{name}");
            assert!(!lock.restore(&folder).unwrap(), "{name}");
            drop(lock);
            assert!(!folder.join(ID).exists(), "{name}");
        }
    }

    #[test]
    fn a_lock_that_another_process_has_taken_meanwhile_is_restored_when_that_has_released_it() {
        for (name, removal) in REMOVALS {
            let root = tempfile::tempdir().unwrap();
            let folder = root.path().join("locks");
            fs::create_dir(&folder).unwrap();
            let mut lock = Lock::of_conversation(&folder, ID, "the first").unwrap();
            removal(&folder);
            let second = Lock::of_conversation(&folder, ID, "the second").unwrap();
            for _ in 0..2 {
                assert_eq!(lock.restore(&folder).unwrap_err().to_string(), "it is in use by the second", "{name}");
            }
            drop(second);
            assert!(lock.restore(&folder).unwrap(), "{name}");
            assert_eq!(Lock::take(&folder.join(ID), "x").unwrap_err().to_string(), "it is in use by the first");
        }
    }

    #[cfg(all(target_os = "linux", not(watari_portable)))]
    #[test]
    fn a_lock_that_was_moved_away_is_still_shared_with_the_supervisor_when_it_is_restored() {
        let folder = tempfile::tempdir().unwrap();
        let mut lock = Lock::of_conversation(folder.path(), ID, "the first").unwrap();
        let supervisors = lock.share().unwrap().try_clone().unwrap();
        fs::rename(folder.path().join(ID), folder.path().join("away")).unwrap();
        assert!(lock.restore(folder.path()).unwrap());
        drop(lock);
        assert!(Lock::take(&folder.path().join(ID), "x").is_err());
        drop(supervisors);
        Lock::take(&folder.path().join(ID), "x").unwrap();
    }

    #[test]
    fn a_sweep_for_orphans_does_not_look_like_another_holder() {
        let folder = tempfile::tempdir().unwrap();
        let mut lock = Lock::of_conversation(folder.path(), ID, "the first").unwrap();
        fs::remove_file(folder.path().join(ID)).unwrap();
        // A sweep that has just locked an orphan of the same name.
        let sweep = open_folder(folder.path()).unwrap();
        flock(&sweep, FlockOperation::NonBlockingLockExclusive).unwrap();
        let swept = Lock::take(&folder.path().join(ID), "").unwrap();
        let sweeping = std::thread::Builder::new().spawn(move || {
            std::thread::sleep(10 * TRY_AGAIN_AFTER);
            drop((swept, sweep));
        });
        assert!(lock.restore(folder.path()).unwrap());
        sweeping.unwrap().join().unwrap();
    }
}
