//! Watari's folders: the state folder with the files of sessions, and the runtime folder with their sockets.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::path_walk::{PathError, Require, walk};
use super::users::is_this_user;

/// The variable that locates the state folder; it takes precedence over `HOME`.
pub const STATE_VARIABLE: &str = "XDG_STATE_HOME";

/// The variable that locates the runtime folder.
pub const RUNTIME_VARIABLE: &str = "XDG_RUNTIME_DIR";

/// Returns the runtime folder, with the sockets of live sessions.
pub fn runtime_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    match absolute(RUNTIME_VARIABLE, &variable) {
        Some(runtime) => Some(runtime.join("watari")),
        None => state_folder(variable).map(|state| state.join(RUN)),
    }
}

/// The runtime folder inside the state folder, if no variable names another.
const RUN: &str = "run";

/// Returns the variable that determined this runtime folder, and must be set to choose another.
pub fn runtime_variable(runtime: &Path, state: Option<&Path>) -> &'static str {
    let is_in_state = state.is_some_and(|state| runtime == state.join(RUN));
    if is_in_state { STATE_VARIABLE } else { RUNTIME_VARIABLE }
}

/// Returns the state folder, with the files of sessions.
pub fn state_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let state = absolute(STATE_VARIABLE, &variable)
        .or_else(|| absolute("HOME", &variable).map(|home| home.join(".local/state")));
    state.map(|state| state.join("watari"))
}

/// By the XDG base directory specification, a variable that is empty or not an absolute path counts as unset.
fn absolute(name: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Why a folder cannot be used.
#[derive(Debug)]
pub enum FolderError {
    /// It, or its nearest existing parent, is not a folder.
    NotAFolder {
        /// Which of them.
        path: PathBuf,
    },
    /// It, or one of its parents, is a dangling symbolic link.
    LinkToNothing {
        /// Which of them.
        path: PathBuf,
    },
    /// Another user owns it.
    NotOurs {
        /// The id of that user.
        owner: u32,
    },
    /// Other users have permissions on it.
    OpenToOthers {
        /// Its mode.
        mode: u32,
    },
    /// Another user can replace it, because that user owns a part of the path to it.
    OwnedAbove {
        /// That part.
        above: PathBuf,
        /// The id of that user.
        owner: u32,
    },
    /// Other users can replace it, because they can write to a part of the path to it.
    Replaceable {
        /// That part.
        above: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It, or its nearest existing parent, cannot be written.
    NotWritable {
        /// Which of them.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It, or a part of the path to it, cannot be inspected.
    Hidden {
        /// Which of them.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Whether a folder exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FolderState {
    /// It exists and can be used.
    Exists,
    /// It does not exist, but can be created.
    Missing,
}

impl FolderError {
    /// Describes what is wrong with a folder, and the remedy. `variable` is the variable that locates the folder.
    pub fn describe(&self, folder: &Path, variable: &str) -> (String, String) {
        let folder = folder.display();
        match self {
            FolderError::NotAFolder { path } => (
                format!("{folder} cannot be used: {} is not a folder", path.display()),
                format!("move it away, or set {variable} to another folder"),
            ),
            FolderError::LinkToNothing { path } => (
                format!("{folder} cannot be created: {} is a dangling symbolic link", path.display()),
                format!("remove that link, or set {variable} to another folder"),
            ),
            FolderError::NotOurs { owner } => (
                format!("{folder} is owned by user {owner}, not by this one ({})", geteuid().as_raw()),
                format!("set {variable} to a folder of this user's"),
            ),
            FolderError::OpenToOthers { mode } => {
                (format!("{folder} is open to others (mode {mode:o})"), format!("run `chmod 700 {folder}`"))
            }
            FolderError::OwnedAbove { above, owner } => (
                format!("user {owner} can replace {folder}: {} belongs to that user", above.display()),
                format!("set {variable} to a folder of this user's, below folders of this user's or root's"),
            ),
            FolderError::Replaceable { above, mode } => (
                format!("others can replace {folder}: they can write to {} (mode {mode:o})", above.display()),
                format!("run `chmod go-w {}`, or set {variable} to another folder", above.display()),
            ),
            FolderError::NotWritable { path, source } => {
                (format!("{folder} cannot be written: {}: {source}", path.display()), remedy_of(source, variable))
            }
            FolderError::Hidden { path, source } => {
                (format!("cannot inspect {}: {source}", path.display()), remedy_of(source, variable))
            }
        }
    }
}

/// The remedy when this process has no file descriptor left.
pub const MORE_DESCRIPTORS: &str =
    "raise the limit of open files with `ulimit -n 1024` in the shell that starts watari";

/// The remedy for an error of the system.
fn remedy_of(error: &io::Error, variable: &str) -> String {
    let is = |kinds: &[io::ErrorKind]| kinds.contains(&error.kind());
    // Another folder would not help.
    if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) {
        return MORE_DESCRIPTORS.to_owned();
    }
    let first = if is(&[io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded]) {
        "free space on its disk"
    } else if is(&[io::ErrorKind::ReadOnlyFilesystem]) {
        "mount its file system for writing"
    } else {
        "give this user permission"
    };
    format!("{first}, or set {variable} to another folder")
}

/// Creates a folder for this user alone, unless it exists.
pub fn make(folder: &Path) -> Result<(), FolderError> {
    if examine(folder)? == FolderState::Exists {
        return Ok(());
    }
    super::make_folder(folder).map_err(|source| FolderError::NotWritable { path: folder.to_owned(), source })?;
    // Another process may have been faster.
    examine(folder).map(drop)
}

/// Checks that no other user can replace an existing folder, or this user's files in it.
pub fn check_unchangeable(folder: &Path) -> Result<(), FolderError> {
    let way = walk(folder, Require::Unchangeable)?;
    match &way.end {
        Some(end) if end.is_dir() => Ok(Require::Unchangeable.check(&way.real(), end)?),
        Some(_) => Err(FolderError::Hidden { path: way.real(), source: Errno::NOTDIR.into() }),
        None => Err(FolderError::Hidden { path: way.real(), source: Errno::NOENT.into() }),
    }
}

/// Checks a folder, or the nearest existing parent of a missing one. Changes nothing.
pub fn examine(folder: &Path) -> Result<FolderState, FolderError> {
    let (nearest, metadata) = nearest_existing(folder)?;
    if !metadata.is_dir() {
        return Err(FolderError::NotAFolder { path: nearest.to_owned() });
    }
    let is_there = nearest == folder;
    if is_there && !is_this_user(metadata.uid()) {
        return Err(FolderError::NotOurs { owner: metadata.uid() });
    }
    access(nearest, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|errno| FolderError::NotWritable { path: nearest.to_owned(), source: errno.into() })?;
    check_above(nearest, is_there)?;
    if !is_there {
        return Ok(FolderState::Missing);
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 == 0 { Ok(FolderState::Exists) } else { Err(FolderError::OpenToOthers { mode }) }
}

/// Checks that no other user can put another folder in its place. A user who owns a folder, or can write to it, can
/// rename its entries; in a sticky folder only its owner can rename those of others. The owner of a link decides where
/// it leads.
fn check_above(nearest: &Path, is_there: bool) -> Result<(), FolderError> {
    let way = walk(nearest, Require::Unchangeable)?;
    match &way.end {
        Some(end) if !is_there => Ok(Require::Unchangeable.check(&way.real(), end)?),
        Some(_) | None => Ok(()),
    }
}

impl From<PathError> for FolderError {
    fn from(error: PathError) -> FolderError {
        match error {
            PathError::Owned { path, owner } => FolderError::OwnedAbove { above: path, owner },
            PathError::Writable { path, mode } => FolderError::Replaceable { above: path, mode },
            PathError::Io { path, source } => FolderError::Hidden { path, source },
        }
    }
}

/// Returns the folder itself, or its nearest existing parent.
pub(super) fn nearest_existing(folder: &Path) -> Result<(&Path, Metadata), FolderError> {
    let mut missing = io::Error::from(io::ErrorKind::NotFound);
    for path in folder.ancestors() {
        match fs::metadata(path) {
            Ok(metadata) => return Ok((path, metadata)),
            Err(_) if fs::symlink_metadata(path).is_ok_and(|link| link.is_symlink()) => {
                return Err(FolderError::LinkToNothing { path: path.to_owned() });
            }
            // For a path below a file, the system reports another error than for a missing one.
            Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {
                missing = error;
            }
            Err(source) => return Err(FolderError::Hidden { path: path.to_owned(), source }),
        }
    }
    // Not even the root directory exists.
    Err(FolderError::Hidden { path: folder.to_owned(), source: missing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_for_its_user_alone_and_a_strange_one_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("state/watari");
        make(&folder).unwrap();
        make(&folder).unwrap();
        assert_eq!(fs::metadata(&folder).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        assert!(matches!(make(&folder), Err(FolderError::OpenToOthers { mode: 0o755 })));
        fs::write(root.path().join("file"), "").unwrap();
        assert!(matches!(make(&root.path().join("file/watari")), Err(FolderError::NotAFolder { .. })));
        std::os::unix::fs::symlink("nothing", root.path().join("link")).unwrap();
        assert!(matches!(make(&root.path().join("link")), Err(FolderError::LinkToNothing { .. })));
    }

    #[test]
    fn a_folder_that_cannot_be_written_says_what_to_do_about_the_reason() {
        let remedy = |kind: io::ErrorKind| {
            let trouble = FolderError::NotWritable { path: "/r/watari".into(), source: kind.into() };
            trouble.describe(Path::new("/r/watari"), RUNTIME_VARIABLE).1
        };
        let otherwise = "or set XDG_RUNTIME_DIR to another folder";
        assert_eq!(remedy(io::ErrorKind::StorageFull), format!("free space on its disk, {otherwise}"));
        assert_eq!(remedy(io::ErrorKind::QuotaExceeded), format!("free space on its disk, {otherwise}"));
        let read_only = format!("mount its file system for writing, {otherwise}");
        assert_eq!(remedy(io::ErrorKind::ReadOnlyFilesystem), read_only);
        assert_eq!(remedy(io::ErrorKind::PermissionDenied), format!("give this user permission, {otherwise}"));
    }

    #[test]
    fn the_nearest_variable_that_is_an_absolute_path_decides() {
        let (home, state, runtime) = (("HOME", "/h"), ("XDG_STATE_HOME", "/s"), ("XDG_RUNTIME_DIR", "/r"));
        let folders = |variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let set = variables.iter().rev().find(|(key, _)| *key == name);
                set.map(|(_, value)| OsString::from(value))
            };
            let text = |path: Option<PathBuf>| path.map_or("nowhere".to_owned(), |path| path.display().to_string());
            [text(state_folder(variable)), text(runtime_folder(variable))]
        };
        assert_eq!(folders(&[home, state, runtime]), ["/s/watari", "/r/watari"]);
        assert_eq!(folders(&[home, state]), ["/s/watari", "/s/watari/run"]);
        assert_eq!(folders(&[home]), ["/h/.local/state/watari", "/h/.local/state/watari/run"]);
        assert_eq!(folders(&[runtime]), ["nowhere", "/r/watari"]);
        assert_eq!(folders(&[]), ["nowhere", "nowhere"]);
        let relative = [home, ("XDG_STATE_HOME", "s"), ("XDG_RUNTIME_DIR", "")];
        assert_eq!(folders(&relative), ["/h/.local/state/watari", "/h/.local/state/watari/run"]);
        assert_eq!(folders(&[("HOME", "h")]), ["nowhere", "nowhere"]);
    }
}
