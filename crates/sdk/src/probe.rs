//! Asks a CLI for its version and login, without a session.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use watari_protocol::{Login, read_login};

use crate::adoption::OwnChild;
use crate::argv;
use crate::files;
use crate::find::{FindError, Search};
use crate::options::Options;
use crate::process::{self, Started};
use crate::sweep;
use crate::tail::Tail;
use crate::version::CliVersion;

/// How long a CLI may take to print its version, and whether it is logged in.
const VERSION_WITHIN: Duration = Duration::from_secs(5);
const LOGIN_WITHIN: Duration = Duration::from_secs(10);

/// How many times processes are listed to kill what a CLI has started: more often than a CLI could start new ones.
const SWEEPS_MAX: usize = 100;

/// How much of an answer is read: far more than any answer has.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Asks a CLI for its version and login, without a session.
///
/// The CLI runs with the environment of a session, but in the root directory: the settings of the working directory
/// may name a program that is run to get an API key, and a program of a directory that is not trusted must not be
/// run. A login that comes only from the settings of a directory is not detected.
#[derive(Debug, Clone)]
pub struct InstalledCli {
    program: PathBuf,
    environment: BTreeMap<OsString, OsString>,
}

/// Why a CLI did not say its version or whether it is logged in.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum InspectError {
    /// The system could not run it.
    #[error("{} cannot be run: {source}", .path.display())]
    NotRunnable {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It did not answer in time, and was terminated.
    #[error("{} did not answer within {within:?}", .path.display())]
    TimedOut {
        /// The path.
        path: PathBuf,
        /// The time limit.
        within: Duration,
        /// What it wrote to stderr, as text a terminal can show.
        stderr: String,
    },
    /// Its output could not be parsed.
    #[error("{} did not print a readable answer ({status})", .path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// Its exit status.
        status: ExitStatus,
        /// What it wrote to stderr, as text a terminal can show.
        stderr: String,
    },
}

impl InstalledCli {
    /// Finds the CLI that a session with these options would run.
    pub fn find(options: &Options) -> Result<InstalledCli, FindError> {
        let environment = process::environment(options);
        let program = Search::of(options, &environment).find()?;
        Ok(InstalledCli { program, environment })
    }

    /// Returns the files that the search tries, in order.
    pub fn candidates(options: &Options) -> Vec<PathBuf> {
        Search::of(options, &process::environment(options)).candidates()
    }

    pub(crate) fn of(started: &Started) -> InstalledCli {
        InstalledCli { program: started.program.clone(), environment: started.environment.clone() }
    }

    /// The path of the CLI.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Asks for the CLI's version; waits at most five seconds.
    pub async fn version(&self) -> Result<CliVersion, InspectError> {
        let output = self.run(argv::VERSION_ARGUMENTS, VERSION_WITHIN).await?;
        CliVersion::read(&output.text()).ok_or_else(|| self.unreadable(&output))
    }

    /// Asks whether the CLI is logged in; waits at most ten seconds. Check the version first: a CLI that is too old
    /// takes the arguments for a prompt.
    pub async fn login(&self) -> Result<Login, InspectError> {
        let output = self.run(argv::LOGIN_ARGUMENTS, LOGIN_WITHIN).await?;
        read_login(&output.text()).ok_or_else(|| self.unreadable(&output))
    }

    async fn run(&self, arguments: &[&str], within: Duration) -> Result<Output, InspectError> {
        let not_runnable = |source| InspectError::NotRunnable { path: self.program.clone(), source };
        let mut asked = self.start(arguments).map_err(not_runnable)?;
        let mut stdout = Vec::new();
        let mut stderr = Tail::default();
        let (out, err) = (asked.child.stdout.take(), asked.child.stderr.take());
        let answer = async {
            let keep =
                |bytes: &[u8]| stdout.extend_from_slice(&bytes[..bytes.len().min(ANSWER_BYTES_MAX - stdout.len())]);
            let (status, (), ()) =
                tokio::join!(asked.child.wait(), read_all(out, keep), read_all(err, |bytes| stderr.push(bytes)));
            status
        };
        let status = match tokio::time::timeout(within, answer).await {
            Ok(status) => Some(status.map_err(not_runnable)?),
            // It may have answered and exited, while a process that it started still holds its pipe.
            Err(_) => asked.child.try_wait().map_err(not_runnable)?,
        };
        match status {
            Some(status) => {
                asked.ended = true;
                Ok(Output { status, stdout, stderr: stderr.text() })
            }
            None => Err(InspectError::TimedOut { path: self.program.clone(), within, stderr: stderr.text() }),
        }
    }

    fn start(&self, arguments: &[&str]) -> io::Result<RunningQuery> {
        let mark = sweep::new_mark();
        let child = Command::new(&self.program)
            .args(arguments)
            .env_clear()
            .envs(&self.environment)
            .env(sweep::mark_variable(&mark), "1")
            .current_dir("/")
            .stdin(files::open_dev_null()?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let own = OwnChild::new(child.id());
        Ok(RunningQuery { child, _own: own, mark, ended: false })
    }

    fn unreadable(&self, output: &Output) -> InspectError {
        InspectError::Unreadable { path: self.program.clone(), status: output.status, stderr: output.stderr.clone() }
    }
}

/// What the CLI printed, and how it exited.
struct Output {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: String,
}

impl Output {
    fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }
}

/// A CLI that was asked and has not answered yet.
struct RunningQuery {
    child: Child,
    _own: OwnChild,
    mark: String,
    /// Whether the CLI has exited by itself.
    ended: bool,
}

impl Drop for RunningQuery {
    /// Kills the processes that the CLI has started, also those that it left when it exited by itself. The CLI itself
    /// is killed by its handle.
    fn drop(&mut self) {
        if !self.ended {
            let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
            pid.map(sweep::kill_descendants);
        }
        // One that is killed may have started another since the processes were listed.
        for _ in 0..SWEEPS_MAX {
            if sweep::kill_marked(&self.mark).killed.is_empty() {
                break;
            }
        }
    }
}

/// Reads a pipe to its end. A read error counts as the end.
async fn read_all(pipe: Option<impl AsyncRead + Unpin>, mut keep: impl FnMut(&[u8])) {
    let Some(mut pipe) = pipe else { return };
    let mut bytes = [0; 4096];
    while let Ok(count) = pipe.read(&mut bytes).await {
        if count == 0 {
            return;
        }
        keep(&bytes[..count]);
    }
}
