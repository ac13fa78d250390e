//! Private folders: the files that one CLI process gets, for this user alone, removed with the process.
//!
//! The owner of a process and its supervisor each hold a shared lock on the folder. A folder without a lock is an
//! orphan: both were killed.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use super::folders;
use super::{FileRule, PRIVATE_FILE, PRIVATE_PROGRAM, is_at, is_this_user, make_new_folder};

/// The private folder of one CLI process. It is created when it is needed, and removed when this is dropped.
#[derive(Debug, Default)]
pub struct PrivateFolder(Option<Held>);

/// A folder with a lock, so that it is not taken for an orphan.
#[derive(Debug)]
pub(crate) struct Held {
    path: PathBuf,
    _lock: File,
}

/// The parent of all private folders, in the runtime folder.
const PARENT: &str = "private";

/// How many names a search for orphans reads, and how many folders it tries. The rest is left to the next search.
const NAMES_MAX: usize = 65_536;
const TRIED_MAX: usize = 1024;

/// How often another name is tried when a search for orphans removes a folder that was just created.
const TRIES_MAX: usize = 16;

impl PrivateFolder {
    /// The path, if the folder was created.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.0.as_ref().map(|held| held.path.as_path())
    }

    /// Writes a file into it.
    pub(crate) fn write(&mut self, name: &str, content: &str) -> io::Result<PathBuf> {
        self.write_as(&PRIVATE_FILE, name, content)
    }

    /// Writes a program into it.
    pub(crate) fn write_program(&mut self, name: &str, content: &str) -> io::Result<PathBuf> {
        self.write_as(&PRIVATE_PROGRAM, name, content)
    }

    fn write_as(&mut self, rule: &FileRule, name: &str, content: &str) -> io::Result<PathBuf> {
        let path = self.made()?.join(name);
        let written = rule.open(&path).and_then(|mut file| file.write_all(content.as_bytes()));
        written.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        Ok(path)
    }

    /// Creates a symbolic link in it, replacing an entry of that name, and returns the path of the link.
    pub(crate) fn link(&mut self, name: &str, target: &Path) -> io::Result<PathBuf> {
        let path = self.made()?.join(name);
        // An existing entry was created by this process.
        let _absent = fs::remove_file(&path);
        std::os::unix::fs::symlink(target, &path)?;
        Ok(path)
    }

    fn made(&mut self) -> io::Result<&Path> {
        let folder = match self.0.take() {
            Some(folder) => folder,
            None => make()?,
        };
        Ok(&self.0.insert(folder).path)
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        if let Some(path) = self.path() {
            // The supervisor may have been faster.
            let _removed = fs::remove_dir_all(path);
        }
    }
}

/// Locks a folder that another process has created. `None` if it was removed.
pub(crate) fn hold(path: &Path) -> Option<Held> {
    let lock = open_folder(path).ok()?;
    flock(&lock, FlockOperation::NonBlockingLockShared).ok()?;
    Some(Held { path: path.to_owned(), _lock: lock })
}

/// Removes the folders of processes whose owner and supervisor were both killed, and returns their number. A parent
/// folder that another user could change is not searched: its entries may be links to any file of this user.
pub fn remove_orphans() -> usize {
    let Some(parent) = runtime_folder().map(|runtime| runtime.join(PARENT)) else { return 0 };
    if !matches!(folders::examine(&parent), Ok(folders::FolderState::Exists)) {
        return 0;
    }
    remove_orphans_in(&parent)
}

fn remove_orphans_in(parent: &Path) -> usize {
    let Ok(entries) = fs::read_dir(parent) else { return 0 };
    let ours = entries.flatten().take(NAMES_MAX).filter(|entry| entry.file_name().to_str().is_some_and(is_name));
    ours.take(TRIED_MAX).filter(|entry| remove_orphan(&entry.path()).is_ok()).count()
}

/// Whether a name has the form that [`make`] gives to folders.
fn is_name(name: &str) -> bool {
    name.split_once('-').is_some_and(|(process, random)| {
        let is_number = !process.is_empty() && process.bytes().all(|byte| byte.is_ascii_digit());
        is_number && random.len() == RANDOM_DIGITS && random.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

/// The number of random hexadecimal digits at the end of a folder's name.
const RANDOM_DIGITS: usize = 16;

fn remove_orphan(path: &Path) -> io::Result<()> {
    let folder = open_folder(path)?;
    if !is_this_user(folder.metadata()?.uid()) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    // Fails if another process holds a lock: then the folder is not an orphan.
    flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
    if !is_at(&folder, path) {
        return Err(io::ErrorKind::NotFound.into());
    }
    fs::remove_dir_all(path)
}

fn make() -> io::Result<Held> {
    let nowhere = || io::Error::other("there is no runtime folder; set HOME or XDG_RUNTIME_DIR to an absolute path");
    let runtime = runtime_folder().ok_or_else(nowhere)?;
    let state = folders::state_folder(|name| std::env::var_os(name));
    let variable = folders::runtime_variable(&runtime, state.as_deref());
    let refused = |parent: &Path, trouble: folders::FolderError| {
        let (what, remedy) = trouble.describe(parent, variable);
        io::Error::other(format!("{what}; {remedy}"))
    };
    let parent = runtime.join(PARENT);
    folders::make(&parent).map_err(|trouble| refused(&parent, trouble))?;
    // From here on only the resolved path is used, and every part of it is checked: a link on the way may belong to
    // another user.
    let parent = fs::canonicalize(&parent)?;
    folders::examine(&parent).map_err(|trouble| refused(&parent, trouble))?;
    for _ in 0..TRIES_MAX {
        let (process, random) = (std::process::id(), RandomState::new().hash_one(std::process::id()));
        // The process id is for people; the lock decides whether the folder is an orphan.
        let path = parent.join(format!("{process}-{random:0RANDOM_DIGITS$x}"));
        make_new_folder(&path)?;
        match hold(&path) {
            Some(held) if is_at(&held._lock, &path) => return Ok(held),
            // Removed as an orphan before it was locked.
            Some(_) | None => {}
        }
    }
    Err(io::ErrorKind::ResourceBusy.into())
}

/// Opens a folder, which must not be a symbolic link, to hold a lock on it.
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
pub fn open_folder(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(folder) => Ok(File::from(folder)),
        Err(Errno::NOTDIR | Errno::LOOP) => Err(io::ErrorKind::NotADirectory.into()),
        Err(error) => Err(error.into()),
    }
}

fn runtime_folder() -> Option<PathBuf> {
    folders::runtime_folder(|name| std::env::var_os(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orphaned_folders_are_removed_and_nothing_that_is_held_or_foreign_is_touched() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        let names = ["17-0123456789abcdef", "18-0123456789abcdef", "notes", "17-0", "x-0123456789abcdef", "secrets-17"];
        for name in names {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("mcp.json"), "{}").unwrap();
        }
        let _held = hold(&path(names[1])).unwrap();
        std::os::unix::fs::symlink(path("notes"), path("19-0123456789abcdef")).unwrap();
        fs::write(path("20-0123456789abcdef"), "").unwrap();
        assert_eq!(remove_orphans_in(parent.path()), 1);
        assert!(!path(names[0]).exists());
        for name in &names[1..] {
            assert!(path(name).join("mcp.json").exists(), "{name}");
        }
    }
}
