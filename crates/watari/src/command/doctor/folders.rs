//! The folders of Watari: what is kept of sessions, and the sockets of those that live.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::process::geteuid;

use super::report::{Check, Finding, Level};

pub(super) fn examine(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Finding> {
    let folders = [
        Folder { check: Check::StateFolder, variable: "XDG_STATE_HOME", path: state_folder(&variable) },
        Folder { check: Check::RuntimeFolder, variable: "XDG_RUNTIME_DIR", path: runtime_folder(&variable) },
    ];
    folders.iter().map(Folder::finding).collect()
}

/// Where the sockets of living sessions are.
pub(super) fn runtime_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    match absolute("XDG_RUNTIME_DIR", &variable) {
        Some(runtime) => Some(runtime.join("watari")),
        None => state_folder(variable).map(|state| state.join("run")),
    }
}

/// Where what is kept of sessions is.
fn state_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let state = absolute("XDG_STATE_HOME", &variable)
        .or_else(|| absolute("HOME", &variable).map(|home| home.join(".local/state")));
    state.map(|state| state.join("watari"))
}

/// By the XDG base directory rules a variable that is empty or no absolute path counts as unset.
fn absolute(name: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
}

struct Folder {
    check: Check,
    /// The variable that says where it is.
    variable: &'static str,
    path: Option<PathBuf>,
}

/// Why a folder cannot be used as it is.
#[derive(Debug)]
enum Trouble {
    /// It, or what it would be made in, is something else than a folder.
    NotAFolder { path: PathBuf },
    /// It, or what it would be made in, is a link to nothing.
    LinkToNothing { path: PathBuf },
    /// Somebody else owns it.
    NotOurs { owner: u32 },
    /// Others may look into it, or more.
    OpenToOthers { mode: u32 },
    /// It, or what it would be made in, may not be written.
    NotWritable { path: PathBuf, source: io::Error },
    /// The system does not tell.
    Hidden { path: PathBuf, source: io::Error },
}

/// How a folder can be used.
#[derive(Debug)]
enum Usable {
    AsItIs,
    /// It is not there, but can be made.
    OnceMade,
}

impl Folder {
    fn finding(&self) -> Finding {
        let Folder { check, variable, path } = self;
        let Some(path) = path else {
            let found = format!("neither {variable} nor HOME is an absolute path");
            return Finding::problem(*check, found, "set HOME");
        };
        match examine_folder(path) {
            Ok(Usable::AsItIs) => Finding::ok(*check, path.display().to_string()),
            Ok(Usable::OnceMade) => Finding::ok(*check, format!("{} (not there yet; it can be made)", path.display())),
            Err(trouble) => {
                let level = self.level(&trouble);
                let (found, advice) = self.words(path, trouble);
                Finding { check: *check, level, found, advice: Some(advice) }
            }
        }
    }

    /// Through the runtime folder others would get at living sessions; in the state folder every file has a mode of
    /// its own.
    fn level(&self, trouble: &Trouble) -> Level {
        match trouble {
            Trouble::OpenToOthers { .. } if self.check == Check::StateFolder => Level::Warning,
            Trouble::OpenToOthers { .. }
            | Trouble::NotAFolder { .. }
            | Trouble::LinkToNothing { .. }
            | Trouble::NotOurs { .. }
            | Trouble::NotWritable { .. }
            | Trouble::Hidden { .. } => Level::Problem,
        }
    }

    fn words(&self, folder: &Path, trouble: Trouble) -> (String, String) {
        let (folder, variable) = (folder.display(), self.variable);
        match trouble {
            Trouble::NotAFolder { path } => (
                format!("{folder} cannot be a folder: {} is something else", path.display()),
                format!("move that away, or set {variable} to another folder"),
            ),
            Trouble::LinkToNothing { path } => (
                format!("{folder} cannot be made: {} is a link to nothing", path.display()),
                format!("remove that link, or set {variable} to another folder"),
            ),
            Trouble::NotOurs { owner } => (
                format!("{folder} is owned by user {owner}, not by this one ({})", geteuid().as_raw()),
                format!("set {variable} to a folder of this user's"),
            ),
            Trouble::OpenToOthers { mode } => {
                (format!("{folder} is open to others (mode {mode:o})"), format!("run `chmod 700 {folder}`"))
            }
            Trouble::NotWritable { path, source } => (
                format!("{folder} cannot be written: {}: {source}", path.display()),
                format!("give this user the right to, or set {variable} to another folder"),
            ),
            Trouble::Hidden { path, source } => (
                format!("cannot look at {}: {source}", path.display()),
                format!("give this user the right to, or set {variable} to another folder"),
            ),
        }
    }
}

/// Looks at a folder, or at what it would be made in, and changes nothing.
fn examine_folder(folder: &Path) -> Result<Usable, Trouble> {
    let (nearest, metadata) = nearest_existing(folder)?;
    if !metadata.is_dir() {
        return Err(Trouble::NotAFolder { path: nearest.to_owned() });
    }
    let is_there = nearest == folder;
    if is_there && metadata.uid() != geteuid().as_raw() {
        return Err(Trouble::NotOurs { owner: metadata.uid() });
    }
    access(nearest, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|errno| Trouble::NotWritable { path: nearest.to_owned(), source: errno.into() })?;
    if !is_there {
        return Ok(Usable::OnceMade);
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 == 0 { Ok(Usable::AsItIs) } else { Err(Trouble::OpenToOthers { mode }) }
}

/// The folder itself or the nearest of those it would be in.
fn nearest_existing(folder: &Path) -> Result<(&Path, Metadata), Trouble> {
    let mut missing = io::Error::from(io::ErrorKind::NotFound);
    for path in folder.ancestors() {
        match fs::metadata(path) {
            Ok(metadata) => return Ok((path, metadata)),
            Err(_) if fs::symlink_metadata(path).is_ok_and(|link| link.is_symlink()) => {
                return Err(Trouble::LinkToNothing { path: path.to_owned() });
            }
            // Below a file there is nothing, which is not the same word to the system.
            Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()) => {
                missing = error;
            }
            Err(source) => return Err(Trouble::Hidden { path: path.to_owned(), source }),
        }
    }
    // Not even the first directory is there.
    Err(Trouble::Hidden { path: folder.to_owned(), source: missing })
}

#[cfg(test)]
mod tests {
    use super::*;

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
