//! Fetches a Claude Code CLI from npm into the cache.
//!
//! It is installed in a temporary folder, tested, and then renamed into place. So an install in place is complete,
//! whatever happens to a fetch, and two concurrent fetches do not disturb each other. Dropping a fetch kills npm and
//! removes what it has installed so far, which blocks for some tens of milliseconds.
//!
//! The file system is accessed directly and not in other threads: no operation here takes longer than that.

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
use watari_sdk::files::folders::FolderError;
use watari_sdk::files::programs;

use crate::claude::{cache_of, installs_in};
use aside::Aside;
use run::Run;

/// How long an installed CLI may take to report its version. It may be the first read from a slow disk.
const START_WITHIN: Duration = Duration::from_secs(60);

/// The variable that sets the cache folder, before any other.
const CACHE_VARIABLE: &str = "WATARI_CACHE";

/// The variables that a fetch uses: for the cache folder, for the path of npm, and for npm's proxies and registries.
pub type Environment = BTreeMap<OsString, OsString>;

/// A CLI in the cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchedClaude {
    /// The program.
    pub path: PathBuf,
    /// Its version; for a tag, the one that the tag resolved to.
    pub version: ExactVersion,
    /// Whether it was in the cache before, or another fetch put it there meanwhile.
    pub already_there: bool,
}

/// Fetches a version into the cache unless it is there, with the environment of this process.
pub async fn fetch_claude(wanted: &WantedVersion) -> Result<FetchedClaude, FetchError> {
    fetch_claude_with(wanted, &std::env::vars_os().collect()).await
}

/// Fetches a version into the cache unless it is there, with the caller's environment.
pub async fn fetch_claude_with(wanted: &WantedVersion, environment: &Environment) -> Result<FetchedClaude, FetchError> {
    let cache = cache_of(|name| environment.get(OsStr::new(name)).cloned()).ok_or(FetchError::NoCache)?;
    let installs = Installs { folder: installs_in(&cache) };
    if let WantedVersion::Exact(version) = wanted
        && let Some(found) = installs.find(version)?
    {
        aside::remove_orphans(&installs.folder, SystemTime::now());
        return Ok(found);
    }
    // First of all: no other user may be able to replace what will be run.
    installs.make()?;
    aside::remove_orphans(&installs.folder, SystemTime::now());
    // Declared before npm is started, so that it is dropped after npm has exited.
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
    /// Creates the folder so that no other user can replace it, or its content.
    fn make(&self) -> Result<(), FetchError> {
        programs::make_installs(&self.folder).map_err(|trouble| match trouble {
            FolderError::NotWritable { path, source } => FetchError::Disk { doing: "make a folder in", path, source },
            FolderError::NotAFolder { .. }
            | FolderError::LinkToNothing { .. }
            | FolderError::NotOurs { .. }
            | FolderError::OpenToOthers { .. }
            | FolderError::OwnedAbove { .. }
            | FolderError::Replaceable { .. }
            | FolderError::Hidden { .. } => {
                let (what, remedy) = trouble.describe(&self.folder, CACHE_VARIABLE);
                FetchError::NoSafeCache { what, remedy }
            }
        })
    }

    /// The install of a version, if it is complete.
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
            // Another fetch may have been faster; its install is as good as this one.
            Err(source) => self.find(&version)?.ok_or(FetchError::NotPlaced { path: place, source }),
        }
    }
}

/// Runs the CLI once. It gets nothing of our environment: it must never see a key.
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
        Err(StartProblem::Failed { status: ended.status, said: ended.last_lines() })
    }
}

fn is_program(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
