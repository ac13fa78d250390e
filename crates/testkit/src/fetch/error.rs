//! Why a CLI could not be fetched, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use super::npm::PACKAGE;
use super::wanted::{ExactVersion, WantedVersion};

/// Why there is no such CLI in the cache.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// There is no folder to install into.
    #[error(
        "cannot tell where the cache is: none of WATARI_CACHE, XDG_CACHE_HOME and HOME is set; set WATARI_CACHE to a \
         folder"
    )]
    NoCache,
    /// The file system refused something.
    #[error(
        "cannot {doing} {}: {source}; see that the folder may be written to and that the disk has room, or set \
         WATARI_CACHE to another folder",
        .path.display()
    )]
    Disk {
        /// What was to be done.
        doing: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// Why it could not be done.
        source: io::Error,
    },
    /// Another user could replace what would be put into the cache.
    #[error("no Claude Code is installed into the cache: {what}; {remedy}")]
    NoSafeCache {
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// Another user could have replaced what is in the cache.
    #[error(
        "no Claude Code is run from the cache: {what}; take that right away, remove {}, which may have been changed, and \
         fetch it again, or set WATARI_CACHE to another folder of this user's",
        .place.display()
    )]
    Replaceable {
        /// What is wrong.
        what: String,
        /// The install.
        place: PathBuf,
    },
    /// There is something at the place of the install, and it is none.
    #[error("{} is there and has no program in it; remove it and try again", .path.display())]
    InTheWay {
        /// The place.
        path: PathBuf,
    },
    /// There is no npm on the `PATH`.
    #[error("npm is not on the PATH; install Node.js with npm, or give --claude PATH")]
    NpmMissing,
    /// There is an npm, and it cannot be run.
    #[error("cannot run {}: {source}; install Node.js with npm anew, or give --claude PATH", .path.display())]
    NpmNotRunnable {
        /// The npm that was found.
        path: PathBuf,
        /// Why it could not be run.
        source: io::Error,
    },
    /// npm knows neither such a version nor such a tag.
    #[error("npm knows no Claude Code {wanted}; `npm view {PACKAGE} versions dist-tags` shows what it knows")]
    NoSuchVersion {
        /// What was asked for.
        wanted: WantedVersion,
    },
    /// npm ended with an error.
    #[error(
        "npm could not install Claude Code {wanted} ({status}); see that the network, npm's registry and proxy \
         settings and the disk are as they should be; npm said last:\n{said}"
    )]
    NpmFailed {
        /// What was asked for.
        wanted: WantedVersion,
        /// How npm ended.
        status: ExitStatus,
        /// The last lines it said.
        said: String,
    },
    /// npm said that all is well, and it is not.
    #[error("what npm installed as Claude Code {wanted} cannot be used: {problem}")]
    WrongPackage {
        /// What was asked for.
        wanted: WantedVersion,
        /// What is wrong with it.
        #[source]
        problem: PackageProblem,
    },
    /// The program was installed and cannot be used.
    #[error(
        "Claude Code {version} was installed and does not start, so it was removed again: {problem}; an older version \
         needs node on the PATH, and any needs a system that it was made for"
    )]
    NotStarting {
        /// The version that was installed.
        version: ExactVersion,
        /// What happened.
        #[source]
        problem: StartProblem,
    },
    /// The install is whole and could not be moved to its place.
    #[error("cannot move the install to {}: {source}; try again, or set WATARI_CACHE to another folder", .path.display())]
    NotPlaced {
        /// The place.
        path: PathBuf,
        /// Why it could not be moved.
        source: io::Error,
    },
}

/// What is wrong with an installed package.
#[derive(Debug, thiserror::Error)]
pub enum PackageProblem {
    /// It does not say what it is.
    #[error("its package.json cannot be read ({0}); see that npm is not set to install elsewhere")]
    NoManifest(#[source] io::Error),
    /// It does not say which version it is.
    #[error("its package.json names no version ({0}); see that npm's registry is one you trust")]
    NoVersion(#[source] serde_json::Error),
    /// It is another version than the one that was asked for, or none at all.
    #[error("its version is {found:?}; see that npm's registry is one you trust")]
    OtherVersion {
        /// The version that it says it is.
        found: String,
    },
    /// There is nothing to run in it.
    #[error("it has no program for this system; see that npm is not set to omit optional packages")]
    NoProgram,
}

/// Why an installed CLI did not say its version.
#[derive(Debug, thiserror::Error)]
pub enum StartProblem {
    /// The system does not run it.
    #[error("{0}")]
    NotRunnable(#[source] io::Error),
    /// It was still running after the time it was given.
    #[error("it did not say its version within {} s", .limit.as_secs())]
    TooSlow {
        /// The time it was given.
        limit: Duration,
    },
    /// It ended with an error.
    #[error("it ended with {status} and said {said:?}")]
    Failed {
        /// How it ended.
        status: ExitStatus,
        /// The last lines it said.
        said: String,
    },
}
