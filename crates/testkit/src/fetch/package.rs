//! Inspects what npm has installed.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::npm::PACKAGE;
use super::{ExactVersion, FetchError, PackageProblem, WantedVersion};
use crate::hand_written;

/// The name of the program, in an install and in a package for a platform.
pub(super) const PROGRAM: &str = "claude";

const PACKAGES: &str = "node_modules";

#[derive(Deserialize)]
struct Manifest {
    version: String,
}

/// The installed version. It becomes the name of a folder, so it is parsed as strictly as a requested one.
pub(super) fn version_in(install: &Path, wanted: &WantedVersion) -> Result<ExactVersion, FetchError> {
    let version = || {
        let manifest = install.join(PACKAGES).join(PACKAGE).join("package.json");
        let text = hand_written::text_in(&manifest).map_err(PackageProblem::NoManifest)?;
        let found = serde_json::from_str::<Manifest>(&text).map_err(PackageProblem::NoVersion)?.version;
        match (found.parse::<ExactVersion>(), wanted) {
            (Ok(version), WantedVersion::Tag(_)) => Ok(version),
            (Ok(version), WantedVersion::Exact(exact)) if version == *exact => Ok(version),
            (Ok(_), WantedVersion::Exact(_)) | (Err(_), _) => Err(PackageProblem::OtherVersion { found }),
        }
    };
    version().map_err(|problem| FetchError::WrongPackage { wanted: wanted.clone(), problem })
}

/// Creates a link to the program at the top of an install.
pub(super) fn link_program_in(install: &Path, wanted: &WantedVersion) -> Result<PathBuf, FetchError> {
    let found = program_in(install).map_err(disk("read", install))?;
    let missing = || FetchError::WrongPackage { wanted: wanted.clone(), problem: PackageProblem::NoProgram };
    let program = found.ok_or_else(missing)?;
    let link = install.join(PROGRAM);
    make_executable(&install.join(&program)).map_err(disk("make executable what is in", install))?;
    // Relative, because the install will be moved.
    symlink(program, &link).map_err(disk("make", &link))?;
    Ok(link)
}

/// The path of the program inside the install: newer versions are a native program in a package for the platform, older
/// ones a script for Node.
fn program_in(install: &Path) -> io::Result<Option<PathBuf>> {
    let package = Path::new(PACKAGES).join(PACKAGE);
    let Some(family) = package.parent() else { return Ok(None) };
    let mut candidates = Vec::new();
    for entry in fs::read_dir(install.join(family))? {
        candidates.push(family.join(entry?.file_name()).join(PROGRAM));
    }
    candidates.sort();
    candidates.push(package.join("cli.js"));
    // No links: the program must be in the install itself.
    let is_file = |path: &PathBuf| install.join(path).symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    Ok(candidates.into_iter().find(is_file))
}

/// Removes other users' write permission from an install, which npm grants under an open umask.
pub(super) fn close_to_writing(install: &Path) -> Result<(), FetchError> {
    close_below(install).map_err(disk("close to others what is in", install))
}

fn close_below(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let (entry, metadata) = entry.and_then(|entry| entry.metadata().map(|metadata| (entry.path(), metadata)))?;
        // Links have no mode, and their targets are here too.
        if metadata.is_symlink() {
            continue;
        }
        let mut permissions = metadata.permissions();
        if permissions.mode() & 0o022 != 0 {
            permissions.set_mode(permissions.mode() & !0o022);
            fs::set_permissions(&entry, permissions)?;
        }
        if metadata.is_dir() {
            close_below(&entry)?;
        }
    }
    Ok(())
}

fn make_executable(program: &Path) -> io::Result<()> {
    let mut permissions = fs::metadata(program)?.permissions();
    permissions.set_mode(permissions.mode() | 0o111);
    fs::set_permissions(program, permissions)
}

fn disk(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FetchError {
    move |source| FetchError::Disk { doing, path: path.to_owned(), source }
}
