//! The temporary folder in which a CLI is installed before it is moved to its place.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;
use watari_sdk::files;

use super::FetchError;

/// Names are like `.aside-a1B2c3D4e5F6`. No version begins with a dot.
const PREFIX: &str = ".aside-";
const RANDOM_CHARS: usize = 12;

/// No fetch takes this long.
const ORPHAN_AFTER: Duration = Duration::from_hours(24);

/// A folder that is removed when it is dropped.
pub(super) struct Aside(TempDir);

impl Aside {
    pub(super) fn new_in(installs: &Path) -> Result<Aside, FetchError> {
        let disk = |source| FetchError::Disk { doing: "make a folder in", path: installs.to_owned(), source };
        files::temporary_folder_in(installs, PREFIX, RANDOM_CHARS).map(Aside).map_err(disk)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Moves the folder, or removes it if that fails.
    pub(super) fn rename_to(self, place: &Path) -> io::Result<()> {
        fs::rename(self.path(), place)?;
        let _moved = self.0.keep();
        Ok(())
    }
}

/// Removes what killed fetches left behind. What cannot be removed only takes up space.
pub(super) fn remove_orphans(installs: &Path, now: SystemTime) {
    let Ok(entries) = fs::read_dir(installs) else { return };
    for entry in entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_name)) {
        // Of the entry itself: a link is not ours.
        let is_orphan = entry.metadata().is_ok_and(|metadata| {
            let age = metadata.modified().ok().and_then(|changed| now.duration_since(changed).ok());
            metadata.is_dir() && age.is_some_and(|age| age > ORPHAN_AFTER)
        });
        if is_orphan {
            let _removed = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_name(name: &str) -> bool {
    let random = name.strip_prefix(PREFIX);
    random.is_some_and(|random| random.len() == RANDOM_CHARS && random.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}
