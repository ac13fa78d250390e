//! Checks whether another user could have replaced a program that Watari runs.

use std::fs;
use std::path::Path;

use rustix::io::Errno;

use super::folders::{FolderError, nearest_existing};
use super::make_folder;
use super::path_walk::{PathError, Require, walk};

/// Creates the folder of the installs, if it is missing, where no other user can replace it or its content.
pub fn make_installs(folder: &Path) -> Result<(), FolderError> {
    let (nearest, _) = nearest_existing(folder)?;
    check(nearest)?;
    make_folder(folder).map_err(|source| FolderError::NotWritable { path: folder.to_owned(), source })?;
    // Another process may have been faster.
    Ok(check(folder)?)
}

/// Checks that no other user could or can change an install or the path to its program: every folder and link from the
/// root on, the program, and every other file of the install, which the program may read or run.
pub fn examine_install(install: &Path, program: &Path) -> Result<(), FolderError> {
    check(install)?;
    check(program)?;
    Ok(check_below(install)?)
}

/// Checks that no other user can replace a program that Watari did not install: the path to it, and its file.
pub fn examine_program(program: &Path) -> Result<(), FolderError> {
    Ok(check(program)?)
}

/// Checks every part of a path, including its end.
fn check(path: &Path) -> Result<(), PathError> {
    let way = walk(path, Require::Unchangeable)?;
    match &way.end {
        Some(end) => Require::Unchangeable.check(&way.real(), end),
        None => Err(PathError::Io { path: way.real(), source: Errno::NOENT.into() }),
    }
}

/// Checks everything in a folder. Links are not followed; only their owners are checked.
fn check_below(folder: &Path) -> Result<(), PathError> {
    let failed = |source| PathError::Io { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let (path, metadata) = (entry.path(), entry.metadata().map_err(failed)?);
        Require::Unchangeable.check(&path, &metadata)?;
        if metadata.is_dir() {
            check_below(&path)?;
        }
    }
    Ok(())
}
