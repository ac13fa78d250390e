//! A folder on a way, where none can be held without the right to read it: by its path, which has no link in it.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

/// A folder that was passed.
#[derive(Debug)]
pub(in super::super) struct Folder {
    path: PathBuf,
    metadata: Metadata,
}

/// What there is in a folder.
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

    /// What a name in it stands for. A link is not followed.
    pub(super) fn look(&self, name: &OsStr) -> io::Result<Entry> {
        let path = self.path.join(name);
        let metadata = fs::symlink_metadata(&path)?;
        let kind = if metadata.is_dir() {
            Kind::Folder(Folder { path, metadata: metadata.clone() })
        } else if metadata.is_symlink() {
            // Descriptors by name.
            let is_magic = path.starts_with("/proc") || path.starts_with("/dev/fd");
            Kind::Link { target: fs::read_link(&path)?, is_magic }
        } else {
            Kind::Other
        };
        Ok(Entry { metadata, kind })
    }

    /// What the system is asked about a name in it.
    pub(in super::super) fn place(&self, name: &OsStr) -> (BorrowedFd<'static>, PathBuf) {
        (rustix::fs::CWD, self.path.join(name))
    }
}
