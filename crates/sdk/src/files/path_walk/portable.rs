//! A folder on the way, by its path without links, for systems that cannot hold a folder open without read permission.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

/// A folder on the way.
#[derive(Debug)]
pub(in super::super) struct Folder {
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
        let path = PathBuf::from("/");
        Ok(Folder { metadata: fs::symlink_metadata(&path)?, path })
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
        let path = self.path.join(name);
        let metadata = fs::symlink_metadata(&path)?;
        let kind = if metadata.is_dir() {
            Kind::Folder(Folder { path, metadata: metadata.clone() })
        } else if metadata.is_symlink() {
            // Links to descriptors.
            let is_magic = path.starts_with("/proc") || path.starts_with("/dev/fd");
            Kind::Link { target: fs::read_link(&path)?, is_magic }
        } else {
            Kind::Other
        };
        Ok(Entry { metadata, kind })
    }

    /// The arguments for a system call about a name in it.
    pub(in super::super) fn place(&self, name: &OsStr) -> (BorrowedFd<'static>, PathBuf) {
        (rustix::fs::CWD, self.path.join(name))
    }
}
