//! Calls npm.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use tokio::process::Command;

use super::run::{Ended, Run};
use super::{Environment, FetchError, WantedVersion, is_program};

/// The package of the CLI.
pub(super) const PACKAGE: &str = "@anthropic-ai/claude-code";

/// No package scripts, no lock file, no unnecessary output.
const FLAGS: [&str; 5] = ["--ignore-scripts", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"];

/// Installs the package into a folder.
pub(super) async fn install(wanted: &WantedVersion, into: &Path, environment: &Environment) -> Result<(), FetchError> {
    let npm = find(environment).ok_or(FetchError::NpmMissing)?;
    let mut command = Command::new(&npm);
    command.arg("install").arg("--prefix").arg(into).args(FLAGS).arg(format!("{PACKAGE}@{wanted}"));
    // In the folder itself, so that nothing in the current directory has an effect.
    command.current_dir(into).env_clear().envs(environment.iter().filter(|(name, _)| is_for_npm(name)));
    let ended = match Run::start(&mut command) {
        Ok(run) => run.ended().await,
        Err(error) => Err(error),
    };
    let ended = ended.map_err(|source| FetchError::NpmNotRunnable { path: npm, source })?;
    if ended.status.success() {
        Ok(())
    } else if says_that_there_is_none(&ended) {
        Err(FetchError::NoSuchVersion { wanted: wanted.clone() })
    } else {
        Err(FetchError::NpmFailed { wanted: wanted.clone(), status: ended.status, said: ended.last_lines() })
    }
}

fn find(environment: &Environment) -> Option<PathBuf> {
    let path = environment.get(OsStr::new("PATH"))?;
    // A relative entry would depend on the working directory, which may belong to another user.
    let places = std::env::split_paths(path).filter(|place| place.is_absolute());
    places.map(|place| place.join("npm")).find(|npm| is_program(npm))
}

/// Whether npm gets a variable: it gets the user's settings and proxies, and no key for the API.
pub fn is_for_npm(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    !name.starts_with(b"ANTHROPIC_") && !name.starts_with(b"CLAUDE")
}

/// Older versions write `npm ERR! code E404`, newer ones `npm error code E404`.
fn says_that_there_is_none(npm: &Ended) -> bool {
    let is_code = |line: &str| line.ends_with(" code E404") || line.ends_with(" code ETARGET");
    npm.output.lines().any(|line| line.starts_with("npm ") && is_code(line.trim_end()))
}
