//! Walks a path from the root and checks every folder and symbolic link on the way.
//!
//! The system follows no link by itself here. Each part is opened relative to the folder before it, which stays open if
//! the system supports that: so the checked folders are the ones used, whatever another user renames meanwhile.

#[cfg(all(target_os = "linux", not(watari_portable)))]
#[path = "path_walk/linux.rs"]
mod folder;
#[cfg(not(all(target_os = "linux", not(watari_portable))))]
#[path = "path_walk/portable.rs"]
mod folder;

use std::ffi::OsString;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

pub(super) use folder::Folder;
use folder::{Entry, Kind};
use rustix::io::Errno;

use super::users::is_trusted;

/// What is required of every folder and link on the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Require {
    /// No other user can change where the path leads: this user or root owns its folders and links, and no other user
    /// can write to a folder unless it is sticky.
    Unchangeable,
    /// This user or root owns every link.
    TrustedLinks,
}

/// Where a path leads.
#[derive(Debug)]
pub(super) struct ResolvedPath {
    /// The folder that contains its end.
    pub(super) folder: Folder,
    /// The name in that folder. `None` for the root.
    pub(super) name: Option<OsString>,
    /// The metadata of the end. `None` if nothing exists there.
    pub(super) end: Option<Metadata>,
    /// Whether the end is a link that only the system can follow, such as `/proc/self/fd/1`.
    pub(super) is_magic: bool,
}

/// Why a path is refused.
#[derive(Debug)]
pub(super) enum PathError {
    /// A part of it belongs to another user.
    Owned { path: PathBuf, owner: u32 },
    /// Other users can write to a folder on it.
    Writable { path: PathBuf, mode: u32 },
    /// The system reported an error.
    Io { path: PathBuf, source: io::Error },
}

/// As many links as Linux follows.
const LINKS_MAX: usize = 40;

/// A part of a path that was not walked yet.
enum Part {
    Up,
    Down(OsString),
}

/// Walks a path to its end. The end itself is not checked, unless it is a link.
pub(super) fn walk(path: &Path, require: Require) -> Result<ResolvedPath, PathError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| PathError::Io { path, source }
    };
    let path = std::path::absolute(path).map_err(failed(path))?;
    let root = Folder::root().map_err(failed(Path::new("/")))?;
    require.check(root.path(), root.metadata())?;
    let (mut above, mut folder, mut links) = (Vec::new(), root, 0);
    let mut parts = parts_of(&path);
    while let Some(part) = parts.pop() {
        let name = match part {
            Part::Down(name) => name,
            Part::Up => {
                folder = above.pop().unwrap_or(folder);
                continue;
            }
        };
        let here = folder.path().join(&name);
        let entry = match folder.entry(&name) {
            Ok(entry) => entry,
            Err(error) if error.kind() == io::ErrorKind::NotFound && parts.is_empty() => {
                return Ok(ResolvedPath { folder, name: Some(name), end: None, is_magic: false });
            }
            Err(source) => return Err(PathError::Io { path: here, source }),
        };
        let Entry { metadata, kind } = entry;
        match kind {
            Kind::Link { is_magic: true, .. } if parts.is_empty() => {
                require.check(&here, &metadata)?;
                return Ok(ResolvedPath { folder, name: Some(name), end: Some(metadata), is_magic: true });
            }
            Kind::Link { target, .. } => {
                require.check(&here, &metadata)?;
                links += 1;
                if links > LINKS_MAX {
                    return Err(PathError::Io { path, source: Errno::LOOP.into() });
                }
                if target.is_absolute() {
                    folder = above.into_iter().next().unwrap_or(folder);
                    above = Vec::new();
                }
                parts.extend(parts_of(&target));
            }
            Kind::Folder(_) | Kind::Other if parts.is_empty() => {
                return Ok(ResolvedPath { folder, name: Some(name), end: Some(metadata), is_magic: false });
            }
            Kind::Folder(next) => {
                require.check(&here, &metadata)?;
                above.push(std::mem::replace(&mut folder, next));
            }
            Kind::Other => return Err(PathError::Io { path: here, source: Errno::NOTDIR.into() }),
        }
    }
    let end = Some(folder.metadata().clone());
    Ok(ResolvedPath { folder, name: None, end, is_magic: false })
}

/// Returns the parts of a path in reverse order.
fn parts_of(path: &Path) -> Vec<Part> {
    let parts = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(Part::Down(name.to_owned())),
        Component::ParentDir => Some(Part::Up),
        Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
    });
    parts.rev().collect()
}

impl ResolvedPath {
    /// The path of its end, without any link.
    pub(super) fn real(&self) -> PathBuf {
        self.name.as_ref().map_or_else(|| self.folder.path().to_owned(), |name| self.folder.path().join(name))
    }
}

impl Require {
    /// Checks a folder, a link or a file.
    pub(super) fn check(self, path: &Path, metadata: &Metadata) -> Result<(), PathError> {
        let (is_link, owner, mode) = (metadata.is_symlink(), metadata.uid(), metadata.mode() & 0o7777);
        if (is_link || self == Require::Unchangeable) && !is_trusted(owner) {
            return Err(PathError::Owned { path: path.to_owned(), owner });
        }
        // The group's permission counts too: its members are not known here, and with an ACL its bits are those of
        // named users. The mode of a link means nothing, and a file is never sticky.
        let is_sticky = metadata.is_dir() && mode & 0o1000 != 0;
        if self == Require::Unchangeable && !is_link && mode & 0o022 != 0 && !is_sticky {
            return Err(PathError::Writable { path: path.to_owned(), mode });
        }
        Ok(())
    }
}
