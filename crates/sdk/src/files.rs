//! One rule for each kind of file, folder and socket that Watari creates, and for each path from a user that it opens.
//!
//! For Watari's own crates. Clippy forbids the underlying calls everywhere else, so that no file is created with a mode
//! that depends on the umask, and no path from a user can block the caller. [`FILES`], [`FOLDERS`] and [`SOCKET`] are
//! printed into `docs/files.md`.

mod folder_rules;
pub mod folders;
mod modes;
mod path_walk;
mod private;
pub mod programs;
mod reopened;
mod rule;
mod rules;
pub mod sockets;
mod users;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub use folder_rules::{FOLDERS, FolderRule, SOCKET};
pub(crate) use private::hold;
pub use private::{PrivateFolder, open_folder, remove_orphans};
pub use reopened::{reopened_input, reopened_output};
pub use rule::FileRule;
pub use rules::{
    CHECK_FILE, DEV_NULL, EVENTS, EVENTS_TEMPORARY, FILES, HAND_WRITTEN, HOST_LOG, LOCK, NAMED_LOG, PRIVATE_FILE,
    PRIVATE_PROGRAM, PROGRAM, RECORD, RECORD_TEMPORARY, STANDARD_INPUT, STANDARD_OUTPUT, STUB_RECORDING, SYSTEM,
    TEST_LOG, TRANSCRIPT, USER_CONFIG,
};
use tempfile::TempDir;
pub use users::{UnknownUser, check_this_user, is_this_user};

/// The mode of every folder that Watari creates, whatever the umask.
pub const FOLDER_MODE: u32 = 0o700;

/// Creates a folder for temporary files, for this user alone. It is removed when it is dropped.
pub fn temporary_folder(prefix: &str) -> io::Result<TempDir> {
    temporary_folder_in(&std::env::temp_dir(), prefix, SHORT_RANDOM)
}

/// The number of random characters in the name of a folder that may contain sockets, whose paths must be short.
pub const SHORT_RANDOM: usize = 6;

/// As [`temporary_folder`], but in a folder that the caller chooses, with a name that ends in as many random
/// characters.
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
pub fn temporary_folder_in(parent: &Path, prefix: &str, random: usize) -> io::Result<TempDir> {
    folders::check_unchangeable(parent).map_err(|trouble| {
        let (what, remedy) = trouble.describe(parent, "TMPDIR");
        io::Error::other(format!("{what}; {remedy}"))
    })?;
    let permissions = Permissions::from_mode(FOLDER_MODE);
    let folder =
        tempfile::Builder::new().prefix(prefix).rand_bytes(random).permissions(permissions).tempdir_in(parent)?;
    modes::set_mode(folder.path(), FOLDER_MODE)?;
    Ok(folder)
}

/// Creates a folder and its missing parents, for this user alone. A folder that already exists is not changed.
pub fn make_folder(path: &Path) -> io::Result<()> {
    let is_missing = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    for folder in missing.into_iter().rev() {
        match make_new_folder(folder) {
            // Another process was faster.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
            made => made?,
        }
    }
    if path.is_dir() { Ok(()) } else { Err(io::ErrorKind::NotADirectory.into()) }
}

/// Creates a folder at a path where nothing exists, for this user alone, whatever the umask.
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
fn make_new_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(FOLDER_MODE).create(path)?;
    modes::set_mode(path, FOLDER_MODE)
}

/// Reads a file of the system, such as one in /proc.
pub fn read_system(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    SYSTEM.open(path.as_ref())?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens /dev/null.
pub fn open_dev_null() -> io::Result<File> {
    DEV_NULL.open(Path::new("/dev/null")).map_err(|error| {
        let advice =
            "programs need it as their input or output: mount /dev, or make it with `mknod -m 666 /dev/null c 1 3`";
        io::Error::new(error.kind(), format!("/dev/null cannot be opened: {error}; {advice}"))
    })
}

/// Whether an open file is still the one at its path.
pub fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |one: fs::Metadata, other: fs::Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
    file.metadata().and_then(|held| Ok(same(held, fs::symlink_metadata(path)?))).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &Path) -> u32 {
        fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn no_temporary_folder_is_made_where_another_user_could_replace_it() {
        let root = tempfile::tempdir().unwrap();
        for (mode, is_safe) in [(0o700, true), (0o755, true), (0o1777, true), (0o770, false), (0o777, false)] {
            fs::set_permissions(root.path(), Permissions::from_mode(mode)).unwrap();
            let made = temporary_folder_in(root.path(), "t-", SHORT_RANDOM);
            assert_eq!(made.is_ok(), is_safe, "{mode:o}: {made:?}");
        }
    }

    #[test]
    fn every_file_and_folder_has_the_mode_of_its_rule_whatever_the_umask_and_an_existing_file_keeps_its_own() {
        for umask in [0o000, 0o022, 0o177, 0o777] {
            let root = tempfile::tempdir().unwrap();
            // The umask of the whole process; every test is a process of its own.
            let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
            let folder = root.path().join("a/b/c");
            make_folder(&folder).unwrap();
            let temporary = temporary_folder_in(&folder, "t-", SHORT_RANDOM).unwrap();
            for path in [&root.path().join("a"), &root.path().join("a/b"), &folder, temporary.path()] {
                assert_eq!(mode_of(path), 0o700, "{} with umask {umask:o}", path.display());
            }
            for rule in FILES.into_iter().filter(|rule| rule.mode.is_some()) {
                let path = folder.join("file");
                rule.open(&path).unwrap();
                assert_eq!(Some(mode_of(&path)), rule.mode, "{} with umask {umask:o}", rule.what);
                fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
                let again = rule.open(&path);
                assert!(again.is_ok() || rule.flags().contains("create new"), "{}: {again:?}", rule.what);
                assert_eq!(mode_of(&path), 0o640, "{}", rule.what);
                fs::remove_file(&path).unwrap();
            }
            rustix::process::umask(before);
        }
    }
}
