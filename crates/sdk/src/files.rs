//! Every file, folder and socket that Watari makes, and every path it opens that a user named: one rule for each kind.
//!
//! For Watari's own crates. Clippy forbids the calls behind these functions everywhere else, so that no file can be made
//! with the umask's mode, and no path of a user's can block the caller. [`FILES`], [`FOLDERS`] and [`SOCKET`] are printed
//! into `docs/files.md`.

mod folder_rules;
pub mod folders;
mod given;
mod private;
mod rules;
pub mod sockets;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

pub use folder_rules::{FOLDERS, FolderRule, SOCKET};
pub use given::{reopened_input, reopened_output};
pub(crate) use private::hold;
pub use private::{PrivateFolder, remove_orphans};
pub use rules::{
    CHECK_FILE, EVENTS, EVENTS_ASIDE, FILES, FileRule, GIVEN_INPUT, GIVEN_OUTPUT, HAND_WRITTEN, HOST_LOG, LOCK,
    NAMED_LOG, NOTHING, PRIVATE_FILE, PROGRAM, RECORD, RECORD_ASIDE, SYSTEM, TEST_LOG, TRANSCRIPT, WANTED_RECORD,
};
use tempfile::TempDir;

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
    let permissions = Permissions::from_mode(FOLDER_MODE);
    tempfile::Builder::new().prefix(prefix).rand_bytes(chance).permissions(permissions).tempdir_in(parent)
}

/// A folder, and those above it that are missing, for this user alone. One that is there already is taken as it is.
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
pub fn make_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(path)
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
    NOTHING.open(Path::new("/dev/null"))
}

/// Whether a file that is held is still the one at its path.
pub fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let same = |one: fs::Metadata, other: fs::Metadata| (one.dev(), one.ino()) == (other.dev(), other.ino());
    file.metadata().and_then(|held| Ok(same(held, fs::symlink_metadata(path)?))).unwrap_or(false)
}
