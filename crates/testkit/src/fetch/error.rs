//! Why a CLI could not be fetched, and what to do about it.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use super::npm::PACKAGE;
use super::wanted::{ExactVersion, WantedVersion};

/// Why a CLI could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// No cache folder is known.
    #[error(
        "cannot determine the cache folder: none of WATARI_CACHE, XDG_CACHE_HOME and HOME is set; set WATARI_CACHE to a \
         folder"
    )]
    NoCache,
    /// The file system refused an operation.
    #[error(
        "cannot {doing} {}: {source}; check that the folder is writable and that the disk has space, or set \
         WATARI_CACHE to another folder",
        .path.display()
    )]
    Disk {
        /// The operation.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// Another user could replace what would be installed into the cache.
    #[error("cannot install Claude Code into the cache: {what}; {remedy}")]
    NoSafeCache {
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// Another user could have replaced what is in the cache.
    #[error(
        "cannot run Claude Code from the cache: {what}; revoke that permission, remove {}, which may have been changed, and \
         fetch it again, or set WATARI_CACHE to another folder of this user's",
        .place.display()
    )]
    Replaceable {
        /// What is wrong.
        what: String,
        /// The install.
        place: PathBuf,
    },
    /// The place of the install is occupied by something else.
    #[error("{} exists but contains no program; remove it and try again", .path.display())]
    InTheWay {
        /// The place.
        path: PathBuf,
    },
    /// npm is not on the `PATH`.
    #[error("npm is not on the PATH; install Node.js with npm, or use --claude PATH")]
    NpmMissing,
    /// npm cannot be run.
    #[error("cannot run {}: {source}; reinstall Node.js with npm, or use --claude PATH", .path.display())]
    NpmNotRunnable {
        /// The npm that was found.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// npm has neither such a version nor such a tag.
    #[error("npm has no Claude Code {wanted}; `npm view {PACKAGE} versions dist-tags` lists what it has")]
    NoSuchVersion {
        /// The requested version.
        wanted: WantedVersion,
    },
    /// npm failed.
    #[error(
        "npm could not install Claude Code {wanted} ({status}); check the network, npm's registry and proxy \
         settings and the disk; npm's last output:\n{said}"
    )]
    NpmFailed {
        /// The requested version.
        wanted: WantedVersion,
        /// The exit status of npm.
        status: ExitStatus,
        /// The last lines of its output.
        said: String,
    },
    /// npm reported success, but the package is wrong.
    #[error("the package that npm installed as Claude Code {wanted} cannot be used: {problem}")]
    WrongPackage {
        /// The requested version.
        wanted: WantedVersion,
        /// What is wrong with it.
        #[source]
        problem: PackageProblem,
    },
    /// The installed program does not start.
    #[error(
        "Claude Code {version} was installed and does not start, so it was removed again: {problem}; an older version \
         needs node on the PATH, and every version needs a supported system"
    )]
    NotStarting {
        /// The installed version.
        version: ExactVersion,
        /// What happened.
        #[source]
        problem: StartProblem,
    },
    /// The install is complete but could not be moved to its place.
    #[error("cannot move the install to {}: {source}; try again, or set WATARI_CACHE to another folder", .path.display())]
    NotPlaced {
        /// The place.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// What is wrong with an installed package.
#[derive(Debug, thiserror::Error)]
pub enum PackageProblem {
    /// It has no readable manifest.
    #[error("its package.json cannot be read ({0}); check that npm is not configured to install elsewhere")]
    NoManifest(#[source] io::Error),
    /// Its manifest has no version.
    #[error("its package.json names no version ({0}); check that you trust npm's registry")]
    NoVersion(#[source] serde_json::Error),
    /// Its version is not the requested one, or is not a version.
    #[error("its version is {found:?}; check that you trust npm's registry")]
    OtherVersion {
        /// Its version.
        found: String,
    },
    /// It contains no program.
    #[error("it has no program for this system; check that npm is not configured to omit optional packages")]
    NoProgram,
}

/// Why an installed CLI did not report its version.
#[derive(Debug, thiserror::Error)]
pub enum StartProblem {
    /// The system cannot run it.
    #[error("{0}")]
    NotRunnable(#[source] io::Error),
    /// It did not exit within the time limit.
    #[error("it did not report its version within {} s", .limit.as_secs())]
    TooSlow {
        /// The time limit.
        limit: Duration,
    },
    /// It failed.
    #[error("it exited with {status} and wrote {said:?}")]
    Failed {
        /// Its exit status.
        status: ExitStatus,
        /// The last lines of its output.
        said: String,
    },
}
