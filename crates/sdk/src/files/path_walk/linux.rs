//! A folder on the way, held open by a descriptor that needs no read permission.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, fstatfs, openat, readlinkat};
use rustix::io::Errno;

/// A folder on the way.
#[derive(Debug)]
pub(in super::super) struct Folder {
    held: File,
    path: PathBuf,
    metadata: Metadata,
}

/// An entry of a folder.
pub(super) struct Entry {
    pub(super) metadata: Metadata,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Folder(Folder),
    Link { target: PathBuf, is_magic: bool },
    Other,
}

impl Folder {
    pub(super) fn root() -> io::Result<Folder> {
        let held = held(CWD, OsStr::new("/"), OFlags::DIRECTORY)?;
        Ok(Folder { metadata: held.metadata()?, held, path: PathBuf::from("/") })
    }

    /// Its path, without any link.
    pub(in super::super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the entry of a name. A link is not followed.
    pub(super) fn entry(&self, name: &OsStr) -> io::Result<Entry> {
        // As a folder first: only that triggers automounts.
        let entry = match held(self.held.as_fd(), name, OFlags::DIRECTORY) {
            Err(Errno::NOTDIR | Errno::LOOP) => held(self.held.as_fd(), name, OFlags::empty())?,
            other => other?,
        };
        let metadata = entry.metadata()?;
        let kind = if metadata.is_dir() {
            Kind::Folder(Folder { held: entry, path: self.path.join(name), metadata: metadata.clone() })
        } else if metadata.is_symlink() {
            let target = readlinkat(&entry, c"", Vec::new())?.into_bytes();
            let is_magic = fstatfs(&entry)?.f_type == PROC_SUPER_MAGIC;
            Kind::Link { target: std::ffi::OsString::from_vec(target).into(), is_magic }
        } else {
            Kind::Other
        };
        Ok(Entry { metadata, kind })
    }

    /// The arguments for a system call about a name in it.
    pub(in super::super) fn place<'a>(&'a self, name: &'a OsStr) -> (BorrowedFd<'a>, PathBuf) {
        (self.held.as_fd(), PathBuf::from(name))
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
fn held(folder: BorrowedFd<'_>, name: &OsStr, flags: OFlags) -> Result<File, Errno> {
    let flags = flags | OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty()).map(|held: OwnedFd| File::from(held))
}
