//! Creates and opens files by their rule.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, RawMode, openat};
use rustix::io::Errno;

use super::modes::set_mode_of;
use super::path_walk::{PathError, Require, walk};
use super::users::is_this_user;

/// How one kind of file is created and opened.
#[derive(Debug, Clone, Copy)]
pub struct FileRule {
    /// What it is.
    pub what: &'static str,
    /// Where it is.
    pub place: &'static str,
    /// The mode it is created with, whatever the umask; `None` if it is never created.
    pub mode: Option<u32>,
    /// Who removes it, and when.
    pub removed: &'static str,
    pub(super) access: Access,
    pub(super) create: Create,
    pub(super) link: Link,
    pub(super) accepts: Accepts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    ReadWrite,
    Append,
    ReadAppend,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Create {
    Never,
    IfMissing,
    New,
    Emptied,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// The last part of the path must not be a symbolic link.
    Refused,
    /// Every link on the way must be owned by this user or root, and the file by this user, without another hard link:
    /// other users must not choose the file that is written, or be able to read it.
    FollowedIfOurs,
    /// Links are followed: the user or the system chose the path.
    Any,
}

/// What may be at the path. Everything else is refused without blocking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Accepts {
    RegularFile,
    RegularFileOrDevice,
    /// Also a pipe. Opening it does not block; the reader has a time limit.
    AnythingWithoutWaiting,
    /// Also a pipe. Opening it blocks.
    Anything,
    /// Only a pipe.
    Pipe,
}

impl FileRule {
    /// Opens a file of this kind, or creates it. Never blocks, unless the rule says so.
    pub fn open(&self, path: &Path) -> io::Result<File> {
        if ends_as_folder(path) {
            return Err(describe(Errno::ISDIR, OFlags::empty()));
        }
        let file = match self.link {
            Link::Refused | Link::Any => self.open_at(CWD, path, self.flags_to_open())?,
            Link::FollowedIfOurs => self.open_walked(path)?,
        };
        self.check(&file).map(|()| file)
    }

    /// Walks the path, checks every link, and opens the file relative to the folder that was found.
    fn open_walked(&self, path: &Path) -> io::Result<File> {
        let way = walk(path, Require::TrustedLinks).map_err(|error| refused(error, path))?;
        let Some(name) = &way.name else { return Err(describe(Errno::ISDIR, OFlags::empty())) };
        let (folder, name) = way.folder.place(name);
        // A link that is put in its place now must not be followed. A magic link is a descriptor of a process of this
        // user, and only the system can follow it.
        let mut flags = self.flags_to_open();
        flags.set(OFlags::NOFOLLOW, !way.is_magic);
        self.open_at(folder, &name, flags)
    }

    /// Opens or creates a file. A new file gets the rule's mode, whatever the umask; an existing file keeps its mode.
    #[expect(clippy::disallowed_methods, reason = "this is the place for it")]
    fn open_at(&self, folder: BorrowedFd<'_>, name: &Path, flags: OFlags) -> io::Result<File> {
        let plain = |error| describe(error, flags);
        let open_existing = |more| openat(folder, name, flags | more, Mode::empty()).map(File::from);
        let make = || {
            // A rule that creates files has a mode; without one, nobody could open the file.
            let mode = self.mode.unwrap_or(0);
            let more = OFlags::CREATE | OFlags::EXCL;
            let file = openat(folder, name, flags | more, Mode::from_raw_mode(mode as RawMode)).map(File::from)?;
            set_mode_of(&file, mode).map(|()| file)
        };
        let more = match self.create {
            Create::Never => return open_existing(OFlags::empty()).map_err(plain),
            Create::New => return make(),
            Create::IfMissing => OFlags::empty(),
            Create::Emptied => OFlags::TRUNC,
        };
        for _ in 0..TRIES_MAX {
            match open_existing(more) {
                Err(Errno::NOENT) => {}
                opened => return opened.map_err(plain),
            }
            match make() {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made,
            }
        }
        Err(io::Error::other("other processes create and remove it repeatedly, or it is a dangling symbolic link"))
    }

    fn flags_to_open(&self) -> OFlags {
        let mut flags = OFlags::NOCTTY | OFlags::CLOEXEC;
        flags |= match self.access {
            Access::Read => OFlags::RDONLY,
            Access::ReadWrite => OFlags::RDWR,
            Access::Append => OFlags::WRONLY | OFlags::APPEND,
            Access::ReadAppend => OFlags::RDWR | OFlags::APPEND,
        };
        flags.set(OFlags::NOFOLLOW, self.link == Link::Refused);
        flags.set(OFlags::NONBLOCK, self.accepts != Accepts::Anything);
        flags
    }

    /// Opens an existing file of this kind for reading.
    pub fn open_existing(&self, path: &Path) -> io::Result<File> {
        FileRule { mode: None, access: Access::Read, create: Create::Never, ..*self }.open(path)
    }

    fn check(&self, file: &File) -> io::Result<()> {
        if [Accepts::Anything, Accepts::AnythingWithoutWaiting].contains(&self.accepts) {
            return Ok(());
        }
        let metadata = file.metadata()?;
        let kind = metadata.file_type();
        if kind.is_file() && self.link == Link::FollowedIfOurs && !is_this_user(metadata.uid()) {
            return Err(io::Error::other(format!("user {} owns it; choose a file of this user", metadata.uid())));
        }
        if kind.is_file() && self.link == Link::FollowedIfOurs && metadata.nlink() > 1 {
            let links = metadata.nlink();
            return Err(io::Error::other(format!(
                "the file has {links} names (hard links), and another user may have created this one; choose another file"
            )));
        }
        if self.accepts == Accepts::Pipe {
            return if kind.is_fifo() { Ok(()) } else { Err(io::Error::other("it is not a pipe")) };
        }
        let is_device = kind.is_char_device() && self.accepts == Accepts::RegularFileOrDevice;
        let what = if kind.is_file() || is_device {
            return Ok(());
        } else if kind.is_fifo() {
            "a pipe"
        } else if kind.is_dir() {
            "a folder"
        } else {
            "a device"
        };
        Err(io::Error::other(format!("it is {what}, not a file")))
    }

    /// Describes how it is opened, for the table in the docs. Most rules follow no symbolic link, accept regular files
    /// only and never block, so the description names only what differs from that.
    pub fn flags(&self) -> String {
        let access = match self.access {
            Access::Read => "read",
            Access::ReadWrite => "read, write",
            Access::Append => "append",
            Access::ReadAppend => "read, append",
        };
        let create = match self.create {
            Create::Never => "",
            Create::IfMissing => ", create",
            Create::New => ", create new",
            Create::Emptied => ", create, truncate",
        };
        let link = match self.link {
            Link::Refused => "",
            Link::FollowedIfOurs => {
                ", follows only links of this user or of root, to a file of this user without further hard links; an existing file keeps its mode"
            }
            Link::Any => ", follows links",
        };
        let accepts = match self.accepts {
            Accepts::RegularFile => "",
            Accepts::RegularFileOrDevice => ", may be a device",
            Accepts::AnythingWithoutWaiting => ", may be a pipe (read for at most ten seconds)",
            Accepts::Anything => ", may be a pipe, and then blocks",
            Accepts::Pipe => ", pipes only",
        };
        format!("{access}{create}{link}{accepts}")
    }
}

/// How often opening and creating is tried while other processes create and remove the file.
const TRIES_MAX: usize = 16;

/// Describes why a path from a user is refused.
fn refused(error: PathError, named: &Path) -> io::Error {
    match error {
        PathError::Owned { path, owner } if path == named => {
            io::Error::other(format!("it is a symbolic link of user {owner}; choose a file"))
        }
        PathError::Owned { path, owner } => {
            let path = path.display();
            io::Error::other(format!(
                "it leads through {path}, a symbolic link of user {owner}; choose the file itself"
            ))
        }
        PathError::Writable { path, mode } => {
            io::Error::other(format!("others can write to {} (mode {mode:o})", path.display()))
        }
        PathError::Io { source, .. } => source,
    }
}

/// Whether only a folder can have this path. `Path::components` ignores how a path ends.
fn ends_as_folder(path: &Path) -> bool {
    let path = path.as_os_str().as_encoded_bytes();
    path.ends_with(b"/") || path.ends_with(b"/.")
}

/// Replaces errors of the system that mislead: for a link that is not followed, it reports a loop.
fn describe(error: Errno, flags: OFlags) -> io::Error {
    match error {
        Errno::LOOP if flags.contains(OFlags::NOFOLLOW) => io::Error::other("it is a symbolic link, not a file"),
        Errno::ISDIR => io::Error::other("it is a folder, not a file"),
        Errno::NXIO => io::Error::other("it is a pipe or a socket, not a file"),
        error => error.into(),
    }
}

#[cfg(all(test, target_os = "linux", not(watari_portable)))]
mod tests {
    use std::os::unix::fs::{lchown, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{RenameFlags, renameat_with};

    use super::super::NAMED_LOG;

    #[test]
    fn a_link_that_another_user_swaps_in_while_the_way_is_walked_is_never_followed_needs_root() {
        let root = tempfile::tempdir().unwrap();
        let [ours, shared] = ["ours", "shared"].map(|name| root.path().join(name));
        for folder in [&ours, &shared, &shared.join("folder")] {
            std::fs::create_dir(folder).unwrap();
        }
        symlink(&ours, shared.join("link")).unwrap();
        lchown(shared.join("link"), Some(65534), Some(65534)).unwrap();
        let is_over = AtomicBool::new(false);
        let (mut opened, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let (one, other) = (shared.join("folder"), shared.join("link"));
                while !is_over.load(Ordering::Relaxed) {
                    renameat_with(super::CWD, &one, super::CWD, &other, RenameFlags::EXCHANGE).unwrap();
                }
            });
            // Until both outcomes are frequent, so that some swaps fell between two steps of the walk.
            while opened < 500 || refused < 500 {
                match NAMED_LOG.open(&shared.join("folder/log")) {
                    Ok(_) => opened += 1,
                    Err(_) => refused += 1,
                }
            }
            is_over.store(true, Ordering::Relaxed);
        });
        assert_eq!(std::fs::read_dir(&ours).unwrap().count(), 0);
    }
}
