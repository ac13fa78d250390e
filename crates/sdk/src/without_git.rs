//! Keeping a CLI from running git.
//!
//! A repository's own configuration names programs that git runs, also in commands that only read (`core.fsmonitor`,
//! `filter.NAME.clean`, `diff.NAME.command`, …), and the CLI runs git by itself. No variable keeps git from reading it: for
//! some of its calls the CLI clears all that begin with `GIT_`. (Measured on 2.1.325.) So the CLI does not find git: first on
//! its search path stands a program of that name which only fails.

use std::collections::BTreeMap;
use std::env::{join_paths, split_paths};
use std::ffi::{OsStr, OsString};
use std::io;
use std::iter::once;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::files::PrivateFolder;

/// The variable with the search path, and what a system takes without it.
const PATH: &str = "PATH";
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// A program that does nothing but fail.
const FAILS: &str = "false";

/// Has everything that gets this environment find a program that fails under the name of git.
///
/// It is a link, because the folder may be on a disk from which nothing can be run: such a program would be passed over, and
/// the next one on the search path taken.
pub(crate) fn hide_git(environment: &mut BTreeMap<OsString, OsString>, folder: &mut PrivateFolder) -> io::Result<()> {
    let path = environment.get(OsStr::new(PATH)).cloned().unwrap_or_else(|| USUAL_PATH.into());
    let first = folder.link("git", &failing_program(&path)?)?;
    let path = join_paths(once(first).chain(split_paths(&path))).map_err(io::Error::other)?;
    environment.insert(PATH.into(), path);
    Ok(())
}

fn failing_program(path: &OsStr) -> io::Result<PathBuf> {
    let usual = ["/bin", "/usr/bin"].map(PathBuf::from).into_iter();
    // A relative entry may lead into the folder that git is kept from.
    let on_path = split_paths(path).filter(|folder| folder.is_absolute());
    let is_runnable = |program: &Path| program.is_file() && access(program, Access::EXEC_OK).is_ok();
    let found = usual.chain(on_path).map(|folder| folder.join(FAILS)).find(|program| is_runnable(program));
    found.ok_or_else(|| {
        io::Error::new(io::ErrorKind::NotFound, format!("there is no program `{FAILS}` to stand for git"))
    })
}
