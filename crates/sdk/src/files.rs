//! Every file, folder and socket that Watari makes, and every path it opens that a user named: one rule for each kind.
//!
//! For Watari's own crates. Clippy forbids the calls behind these functions everywhere else, so that no file can be made
//! with the umask's mode, and no path of a user's can block the caller. [`FILES`], [`FOLDERS`] and [`SOCKET`] are printed
//! into `docs/files.md`.

mod exact;
mod folder_rules;
pub mod folders;
mod given;
mod private;
pub mod programs;
mod rule;
mod rules;
pub mod sockets;
mod users;
mod way;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub use folder_rules::{FOLDERS, FolderRule, SOCKET};
pub use given::{reopened_input, reopened_output};
pub(crate) use private::hold;
pub use private::{PrivateFolder, open_folder, remove_orphans};
pub use rule::FileRule;
pub use rules::{
    CHECK_FILE, EVENTS, EVENTS_ASIDE, FILES, GIVEN, GIVEN_INPUT, GIVEN_OUTPUT, HAND_WRITTEN, HOST_LOG, LOCK, NAMED_LOG,
    NOTHING, PRIVATE_FILE, PRIVATE_PROGRAM, PROGRAM, RECORD, RECORD_ASIDE, SYSTEM, TEST_LOG, TRANSCRIPT, WANTED_RECORD,
};
use tempfile::TempDir;
pub use users::{UnknownUser, check_this_user, is_this_user};

/// The mode of every folder of ours, whatever the umask.
pub const FOLDER_MODE: u32 = 0o700;

/// A new folder for temporary files, for this user alone. It is removed when it is dropped.
pub fn temporary_folder(prefix: &str) -> io::Result<TempDir> {
    temporary_folder_in(&std::env::temp_dir(), prefix, SHORT_CHANCE)
}

/// How many characters of chance end the name of a folder in which sockets may be: their paths may not be long.
pub const SHORT_CHANCE: usize = 6;

/// The same in a folder of the caller's choice, with as many characters of chance at the end of its name.
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
pub fn temporary_folder_in(parent: &Path, prefix: &str, chance: usize) -> io::Result<TempDir> {
    folders::check_unchangeable(parent).map_err(|trouble| {
        let (what, remedy) = trouble.words(parent, "TMPDIR");
        io::Error::other(format!("{what}; {remedy}"))
    })?;
    let permissions = Permissions::from_mode(FOLDER_MODE);
    let folder =
        tempfile::Builder::new().prefix(prefix).rand_bytes(chance).permissions(permissions).tempdir_in(parent)?;
    exact::set_mode(folder.path(), FOLDER_MODE)?;
    Ok(folder)
}

/// A folder, and those above it that are missing, for this user alone. One that is there already is taken as it is.
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

/// A folder at a path at which there is nothing, for this user alone, whatever the umask.
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
fn make_new_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(FOLDER_MODE).create(path)?;
    exact::set_mode(path, FOLDER_MODE)
}

/// Reads a file of the system's, such as one in /proc.
pub fn read_system(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let mut bytes = Vec::new();
    SYSTEM.open(path.as_ref())?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What swallows everything and has nothing to read.
pub fn nothing() -> io::Result<File> {
    NOTHING.open(Path::new("/dev/null")).map_err(|error| {
        let advice =
            "programs need it as their input or output: mount /dev, or make it with `mknod -m 666 /dev/null c 1 3`";
        io::Error::new(error.kind(), format!("/dev/null cannot be opened: {error}; {advice}"))
    })
}

/// Whether a file that is held is still the one at its path.
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
            let made = temporary_folder_in(root.path(), "t-", SHORT_CHANCE);
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
            let temporary = temporary_folder_in(&folder, "t-", SHORT_CHANCE).unwrap();
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
