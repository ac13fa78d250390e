//! Checks whether the folders of Watari can be used.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use watari_hub::lock;
use watari_sdk::files::folders::{self, FolderError, FolderState, runtime_folder, state_folder};

use super::report::{Check, Finding, Level, counted};

pub(super) fn examine(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Finding> {
    let (state, runtime) = (state_folder(&variable), runtime_folder(&variable));
    let of_runtime =
        runtime.as_ref().map_or(folders::RUNTIME_VARIABLE, |path| folders::runtime_variable(path, state.as_deref()));
    let within = |(check, variable, above, name): (Check, &'static str, &Option<PathBuf>, &str)| {
        // A missing folder is created with the right mode, if its parent can be used.
        let path = above.as_ref()?.join(name);
        path.symlink_metadata().is_ok().then(|| Folder { check, variable, path: Some(path) }.finding())
    };
    let inner = [
        (Check::LocksFolder, folders::STATE_VARIABLE, &state, LOCKS),
        (Check::PrivateFolder, of_runtime, &runtime, "private"),
    ];
    let inner: Vec<Finding> = inner.into_iter().filter_map(within).collect();
    let outer = [
        Folder { check: Check::StateFolder, variable: folders::STATE_VARIABLE, path: state },
        Folder { check: Check::RuntimeFolder, variable: of_runtime, path: runtime },
    ];
    outer.iter().map(Folder::finding).chain(inner).collect()
}

/// The folder with the locks, in the state folder.
const LOCKS: &str = "locks";

/// Removes the files of killed sessions: nothing needs them, and private files may hold secrets.
pub(super) fn orphans(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Finding> {
    let count = watari_sdk::files::remove_orphans();
    let files = (count > 0).then(|| Finding::ok(Check::PrivateFiles, removed(count)));
    let locks = state_folder(&variable).map(|state| state.join(LOCKS));
    // A folder that others can write to is left alone.
    let locks = locks.filter(|locks| folders::examine(locks).is_ok()).and_then(|locks| orphaned_locks(&locks));
    files.into_iter().chain(locks).collect()
}

fn orphaned_locks(locks: &Path) -> Option<Finding> {
    let swept = lock::remove_orphans(locks);
    if swept.foreign > 0 {
        let found = format!("{} in {} that Watari did not create", counted(swept.foreign, "item"), locks.display());
        return Some(Finding::warning(Check::LockFiles, found, "find out who put it there, and remove it"));
    }
    (swept.removed > 0).then(|| Finding::ok(Check::LockFiles, removed(swept.removed)))
}

fn removed(count: usize) -> String {
    format!("removed the files of {}", counted(count, "killed session"))
}

/// The free space below which a disk counts as full: a session needs room for its first events and for its files.
const FREE_BYTES_MIN: u64 = 1024 * 1024;
const FREE_FILES_MIN: u64 = 16;

/// Whether the disk of a folder, or of the folder it would be created in, has no room for a session.
fn is_on_a_full_disk(folder: &Path) -> bool {
    let nearest = folder.ancestors().find(|folder| folder.exists());
    // A disk that cannot be queried does not count as full.
    let Some(disk) = nearest.and_then(|folder| rustix::fs::statvfs(folder).ok()) else { return false };
    // A file system that reports no files in total has no limit for them.
    let is_without_files = disk.f_files > 0 && disk.f_favail < FREE_FILES_MIN;
    disk.f_bavail.saturating_mul(disk.f_frsize) < FREE_BYTES_MIN || is_without_files
}

struct Folder {
    check: Check,
    /// The environment variable that sets its path.
    variable: &'static str,
    path: Option<PathBuf>,
}

impl Folder {
    fn finding(&self) -> Finding {
        let Folder { check, variable, path } = self;
        let Some(path) = path else {
            let found = format!("neither {variable} nor HOME is an absolute path");
            return Finding::problem(*check, found, "set HOME to an absolute path");
        };
        match folders::examine(path) {
            Ok(FolderState::Exists | FolderState::Missing) if is_on_a_full_disk(path) => Finding::warning(
                *check,
                format!("the disk of {} is full", path.display()),
                format!("free space there, or set {variable} to a folder on another disk"),
            ),
            Ok(FolderState::Exists) => Finding::ok(*check, path.display().to_string()),
            Ok(FolderState::Missing) => Finding::ok(*check, format!("{} (will be created)", path.display())),
            Err(trouble) => {
                let level = self.level(&trouble);
                let (found, advice) = trouble.describe(path, variable);
                Finding { check: *check, level, found, advice: Some(advice) }
            }
        }
    }

    /// An open runtime folder would give others access to running sessions. In the state folder, every file has its own
    /// mode.
    fn level(&self, trouble: &FolderError) -> Level {
        match trouble {
            FolderError::OpenToOthers { .. } if self.check == Check::StateFolder => Level::Warning,
            FolderError::OpenToOthers { .. }
            | FolderError::NotAFolder { .. }
            | FolderError::LinkToNothing { .. }
            | FolderError::NotOurs { .. }
            | FolderError::OwnedAbove { .. }
            | FolderError::Replaceable { .. }
            | FolderError::NotWritable { .. }
            | FolderError::Hidden { .. } => Level::Problem,
        }
    }
}
