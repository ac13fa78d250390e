//! Asking a CLI about itself, without a session.

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

use crate::argv;
use crate::files;
use crate::find::{FindError, Search};
use crate::options::Options;
use crate::process::{self, Started};
use crate::sweep;
use crate::tail::Tail;
use crate::version::CliVersion;

/// How long a CLI may take to say its version, and whether it is logged in.
const VERSION_WITHIN: Duration = Duration::from_secs(5);
const LOGIN_WITHIN: Duration = Duration::from_secs(10);

/// How often processes are listed to kill what a CLI has started: more than it can start meanwhile, in earnest.
const SWEEPS_MAX: usize = 100;

/// How much of an answer is kept: far more than any has.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A CLI that can be asked about itself, without a session.
///
/// It is asked with the environment of a session, but in the system's first directory: the settings of the working
/// directory may name a program that is run to get a key, and asking should run nothing of a directory that nobody
/// has trusted. A login that only a directory's settings bring is not seen.
#[derive(Debug, Clone)]
pub struct ClaudeProbe {
    program: PathBuf,
    environment: BTreeMap<OsString, OsString>,
}

/// Why a CLI did not say what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The system would not run it.
    #[error("{} cannot be run: {source}", .path.display())]
    NotRunnable {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It did not answer in time, and was ended.
    #[error("{} did not answer within {within:?}", .path.display())]
    Silent {
        /// The path.
        path: PathBuf,
        /// How long it was given.
        within: Duration,
        /// What it said on stderr, as text a terminal can show.
        stderr: String,
    },
    /// It said something else.
    #[error("{} gave no answer that can be read ({status})", .path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// What it said on stderr, as text a terminal can show.
        stderr: String,
    },
}

impl ClaudeProbe {
    /// Finds the CLI that a session with these options would run.
    pub fn find(options: &Options) -> Result<ClaudeProbe, FindError> {
        let environment = process::environment(options);
        let program = Search::of(options, &environment).find()?;
        Ok(ClaudeProbe { program, environment })
    }

    /// The files that are tried to find it, in this order.
    pub fn candidates(options: &Options) -> Vec<PathBuf> {
        Search::of(options, &process::environment(options)).candidates()
    }

    pub(crate) fn of(started: &Started) -> ClaudeProbe {
        ClaudeProbe { program: started.program.clone(), environment: started.environment.clone() }
    }

    /// Where the CLI is.
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Asks for its version, and waits at most five seconds for it.
    pub async fn version(&self) -> Result<CliVersion, ProbeError> {
        let said = self.ask(argv::VERSION_QUESTION, VERSION_WITHIN).await?;
        CliVersion::read(&said.text()).ok_or_else(|| self.unreadable(&said))
    }

    /// Asks whether it is logged in, and waits at most ten seconds for it. Only to be asked of a CLI that is not too
    /// old: one that does not know the question takes it for a prompt.
    pub async fn login(&self) -> Result<Login, ProbeError> {
        let said = self.ask(argv::LOGIN_QUESTION, LOGIN_WITHIN).await?;
        read_login(&said.text()).ok_or_else(|| self.unreadable(&said))
    }

    async fn ask(&self, question: &[&str], within: Duration) -> Result<Said, ProbeError> {
        let not_runnable = |source| ProbeError::NotRunnable { path: self.program.clone(), source };
        let mut asked = self.start(question).map_err(not_runnable)?;
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
            // It may have answered and gone, and only have left its pipe to somebody who stays.
            Err(_) => asked.child.try_wait().map_err(not_runnable)?,
        };
        match status {
            Some(status) => {
                asked.ended = true;
                Ok(Said { status, stdout, stderr: stderr.text() })
            }
            None => Err(ProbeError::Silent { path: self.program.clone(), within, stderr: stderr.text() }),
        }
    }

    fn start(&self, question: &[&str]) -> io::Result<Asked> {
        let mark = sweep::new_mark();
        let child = Command::new(&self.program)
            .args(question)
            .env_clear()
            .envs(&self.environment)
            .env(sweep::mark_variable(&mark), "1")
            .current_dir("/")
            .stdin(files::nothing()?)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        Ok(Asked { child, mark, ended: false })
    }

    fn unreadable(&self, said: &Said) -> ProbeError {
        ProbeError::Unreadable { path: self.program.clone(), status: said.status, stderr: said.stderr.clone() }
    }
}

/// What the CLI said.
struct Said {
    status: ExitStatus,
    stdout: Vec<u8>,
    stderr: String,
}

impl Said {
    fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }
}

/// A CLI that was asked something.
struct Asked {
    child: Child,
    mark: String,
    /// Whether it has ended by itself.
    ended: bool,
}

impl Drop for Asked {
    /// Nobody waits for the answer any more. The CLI itself is killed by its handle, what it has started here; also what
    /// it has left behind when it ended by itself.
    fn drop(&mut self) {
        if !self.ended {
            let pid = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
            pid.map(sweep::kill_descendants);
        }
        // One that is killed may have started another since the processes were listed.
        for _ in 0..SWEEPS_MAX {
            if sweep::kill_marked(&self.mark) == 0 {
                break;
            }
        }
    }
}

/// Reads a pipe to its end. What cannot be read is the end too.
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
