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
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Access, access};

use crate::files::PrivateFolder;

/// The variable with the search path, and what a system takes without it.
const PATH: &str = "PATH";
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What stands for git.
const SCRIPT: &str =
    "#!/bin/sh\necho 'git is switched off in this session, because its directory is not trusted' >&2\nexit 1\n";

/// A program that does nothing but fail, for a folder on a disk from which nothing can be run.
const FAILS: &str = "false";

/// Has everything that gets this environment find a program that fails under the name of git.
pub(crate) fn hide_git(environment: &mut BTreeMap<OsString, OsString>, folder: &mut PrivateFolder) -> io::Result<()> {
    let path = environment.get(OsStr::new(PATH)).cloned().unwrap_or_else(|| USUAL_PATH.into());
    let stand_in = stand_in(folder, &path)?;
    let first = stand_in.parent().map(Path::to_owned);
    let path = join_paths(first.into_iter().chain(split_paths(&path))).map_err(io::Error::other)?;
    environment.insert(PATH.into(), path);
    Ok(())
}

/// A program called git that can be run and fails. One that cannot be run would be passed over on the search path, and the
/// next git taken: so it is tried.
fn stand_in(folder: &mut PrivateFolder, path: &OsStr) -> io::Result<PathBuf> {
    let script = folder.write_program("git", SCRIPT)?;
    if fails(&script) {
        return Ok(script);
    }
    let link = folder.link("git", &failing_program(path)?)?;
    if fails(&link) {
        return Ok(link);
    }
    Err(io::Error::other(format!("nothing can be run from {}", link.display())))
}

/// Whether a program can be run and fails, also if it is one of those that take the name of another for their first argument.
fn fails(program: &Path) -> bool {
    let run =
        Command::new(program).arg("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    run.is_ok_and(|status| !status.success())
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
