//! Prevents a CLI from running git.
//!
//! A repository's own configuration names programs that git runs, even in commands that only read (`core.fsmonitor`,
//! `filter.NAME.clean`, `diff.NAME.command`, …), and the CLI runs git by itself. No variable prevents git from reading
//! it: for some of its calls the CLI clears all variables that begin with `GIT_`. (Measured on 2.1.325.) So the search
//! path begins with a program named git that only fails.

use std::collections::BTreeMap;
use std::env::{join_paths, split_paths};
use std::ffi::{OsStr, OsString};
use std::io;
use std::iter::once;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::files::PrivateFolder;

/// The variable with the search path, and the default of a system without it.
const PATH: &str = "PATH";
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program that does nothing but fail.
const FAILS: &str = "false";

/// Puts a failing program named git first on the search path of this environment.
///
/// The program is a link, because the folder may be on a file system mounted `noexec`: a program there would be
/// skipped, and the next git on the search path found.
pub(crate) fn hide_git(environment: &mut BTreeMap<OsString, OsString>, folder: &mut PrivateFolder) -> io::Result<()> {
    let path = environment.get(OsStr::new(PATH)).cloned().unwrap_or_else(|| USUAL_PATH.into());
    let first = folder.link("git", &failing_program(&path)?)?;
    let path = join_paths(once(first).chain(split_paths(&path))).map_err(io::Error::other)?;
    environment.insert(PATH.into(), path);
    Ok(())
}

fn failing_program(path: &OsStr) -> io::Result<PathBuf> {
    let usual = ["/bin", "/usr/bin"].map(PathBuf::from).into_iter();
    // A relative entry may lead into the untrusted directory.
    let on_path = split_paths(path).filter(|folder| folder.is_absolute());
    let is_runnable = |program: &Path| program.is_file() && access(program, Access::EXEC_OK).is_ok();
    let found = usual.chain(on_path).map(|folder| folder.join(FAILS)).find(|program| is_runnable(program));
    found.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("no program `{FAILS}` found to put in the place of git"))
    })
}
