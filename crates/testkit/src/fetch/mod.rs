//! Fetches a Claude Code CLI from npm into the cache.
//!
//! It is installed aside, tried, and only then renamed into place. So what is in place is whole, whatever becomes of
//! a fetch, and two at once do not disturb one another. A fetch that is dropped ends npm and removes what it has
//! installed so far; whoever drops it waits for that, some tens of milliseconds.
//!
//! The file system is used directly and not through other threads: nothing that is done with it here takes longer.

mod aside;
mod error;
mod npm;
mod package;
mod run;
mod wanted;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub use error::{FetchError, PackageProblem, StartProblem};
pub use npm::is_for_npm;
use tokio::process::Command;
pub use wanted::{DistTag, ExactVersion, NotAVersion, WantedVersion};
use watari_sdk::files::folders::Trouble;
use watari_sdk::files::programs;

use crate::claude::{cache_of, installs_in};
use aside::Aside;
use run::Run;

/// How long an installed CLI may take to say its version. It may be read from a slow disk for the first time.
const START_WITHIN: Duration = Duration::from_secs(60);

/// The variable that says where the cache is, before any other.
const CACHE_VARIABLE: &str = "WATARI_CACHE";

/// The variables that a fetch goes by: where the cache is, where npm is, and what npm is to know of proxies and
/// registries.
pub type Environment = BTreeMap<OsString, OsString>;

/// A CLI that is in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedClaude {
    /// The program.
    pub path: PathBuf,
    /// Its version; for a tag, the one that the tag stood for.
    pub version: ExactVersion,
    /// Whether it had been in the cache before, or was put there by somebody else meanwhile.
    pub already_there: bool,
}

/// Sees to it that a version is in the cache, with the environment of this process.
pub async fn fetch_claude(wanted: &WantedVersion) -> Result<FetchedClaude, FetchError> {
    fetch_claude_with(wanted, &std::env::vars_os().collect()).await
}

/// Sees to it that a version is in the cache, with an environment of the caller's.
pub async fn fetch_claude_with(wanted: &WantedVersion, environment: &Environment) -> Result<FetchedClaude, FetchError> {
    let cache = cache_of(|name| environment.get(OsStr::new(name)).cloned()).ok_or(FetchError::NoCache)?;
    let installs = Installs { folder: installs_in(&cache) };
    if let WantedVersion::Exact(version) = wanted
        && let Some(found) = installs.find(version)?
    {
        aside::remove_orphans(&installs.folder, SystemTime::now());
        return Ok(found);
    }
    // Before anything is put there: no other user can replace what will be run.
    installs.make()?;
    aside::remove_orphans(&installs.folder, SystemTime::now());
    // Declared before npm is started, so it is dropped after npm has ended.
    let aside = Aside::new_in(&installs.folder)?;
    npm::install(wanted, aside.path(), environment).await?;
    let version = package::version_in(aside.path(), wanted)?;
    let program = package::link_program_in(aside.path(), wanted)?;
    package::close_to_writing(aside.path())?;
    try_to_start(&program, environment)
        .await
        .map_err(|problem| FetchError::NotStarting { version: version.clone(), problem })?;
    installs.take(aside, version)
}

/// The folder with one folder per version.
struct Installs {
    folder: PathBuf,
}

impl Installs {
    /// Makes the folder where no other user can replace it, or what is in it.
    fn make(&self) -> Result<(), FetchError> {
        programs::make_installs(&self.folder).map_err(|trouble| match trouble {
            Trouble::NotWritable { path, source } => FetchError::Disk { doing: "make a folder in", path, source },
            Trouble::NotAFolder { .. }
            | Trouble::LinkToNothing { .. }
            | Trouble::NotOurs { .. }
            | Trouble::OpenToOthers { .. }
            | Trouble::OwnedAbove { .. }
            | Trouble::Replaceable { .. }
            | Trouble::Hidden { .. } => {
                let (what, remedy) = trouble.describe(&self.folder, CACHE_VARIABLE);
                FetchError::NoSafeCache { what, remedy }
            }
        })
    }

    /// The install of a version, if it is there and whole.
    fn find(&self, version: &ExactVersion) -> Result<Option<FetchedClaude>, FetchError> {
        let place = self.folder.join(version.as_str());
        let path = place.join(package::PROGRAM);
        if is_program(&path) {
            programs::examine_install(&place, &path).map_err(|trouble| {
                let (what, _) = trouble.describe(&place, CACHE_VARIABLE);
                FetchError::Replaceable { what, place: place.clone() }
            })?;
            Ok(Some(FetchedClaude { path, version: version.clone(), already_there: true }))
        } else if place.symlink_metadata().is_ok() {
            Err(FetchError::InTheWay { path: place })
        } else {
            Ok(None)
        }
    }

    fn take(&self, aside: Aside, version: ExactVersion) -> Result<FetchedClaude, FetchError> {
        let place = self.folder.join(version.as_str());
        match aside.rename_to(&place) {
            Ok(()) => Ok(FetchedClaude { path: place.join(package::PROGRAM), version, already_there: false }),
            // Another fetch may have been faster; then its install is as good as this one.
            Err(source) => self.find(&version)?.ok_or(FetchError::NotPlaced { path: place, source }),
        }
    }
}

/// Runs the CLI once. It gets nothing of our environment: it must never see anybody's key.
async fn try_to_start(program: &Path, environment: &Environment) -> Result<(), StartProblem> {
    let mut command = Command::new(program);
    command.arg("--version").env_clear();
    command.envs(environment.get_key_value(OsStr::new("PATH")));
    if let Some(folder) = program.parent() {
        command.env("HOME", folder).current_dir(folder);
    }
    let run = Run::start(&mut command).map_err(StartProblem::NotRunnable)?;
    let ended = tokio::time::timeout(START_WITHIN, run.ended()).await;
    let ended = ended.map_err(|_| StartProblem::TooSlow { limit: START_WITHIN })?.map_err(StartProblem::NotRunnable)?;
    if ended.status.success() {
        Ok(())
    } else {
        Err(StartProblem::Failed { status: ended.status, said: ended.last_words() })
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
