//! Starts the CLI, and terminates its process tree.

mod remains;
mod supervised;
mod unsupervised;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use tokio::net::unix::pipe;
use watari_protocol::{ProcessEnd, Stop};

use crate::argv::{self, OptionError};
use crate::files::{self, PrivateFolder};
use crate::find::{self, FindError, Search};
use crate::options::Options;
use crate::raw::RawStart;
use crate::supervisor::{SUPERVISOR_ARGUMENT, Supervisor};
use crate::sweep::{self, mark_variable, new_mark};
use crate::without_git;
use remains::SWEEP_INTERVAL;
use supervised::Supervised;
use unsupervised::Unsupervised;

/// Why the CLI could not be started. No process is left.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum StartError {
    /// No CLI was found.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The working directory does not exist.
    #[error("the working directory {} does not exist; create it, or choose another", .path.display())]
    NoDirectory {
        /// The path.
        path: PathBuf,
    },
    /// The working directory is not a directory.
    #[error("the working directory {} is not a directory; choose another", .path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// This user has no permission to enter the working directory.
    #[error("no permission to enter the working directory {}; give this user that permission, or choose another", .path.display())]
    DirectoryNotAllowed {
        /// The path.
        path: PathBuf,
    },
    /// The search for the latest conversation failed.
    #[error("cannot find the latest conversation of the working directory: {0}; resume it by its id")]
    NoLatest(io::Error),
    /// An option is invalid.
    #[error(transparent)]
    InvalidOption(#[from] OptionError),
    /// The system could not run the CLI.
    #[error("{} cannot be run: {source}; it may be damaged or made for another machine, so install it again", .path.display())]
    NotRunnable {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The supervisor could not be started.
    #[error("the supervisor {} cannot be started: {source}; check that its main begins with Supervisor::run_if_supervisor (in a test, use Supervisor::None, or Supervisor::Program with a program of that kind)", .path.display())]
    Supervisor {
        /// The path.
        path: PathBuf,
        /// What went wrong.
        source: io::Error,
    },
    /// This program is its own supervisor, but its `main` does not begin with [`Supervisor::run_if_supervisor`].
    #[error(
        "this program is its own supervisor, but its main does not begin with Supervisor::run_if_supervisor; add that call, or choose another supervisor (in a test, Supervisor::None or Supervisor::Program)"
    )]
    SupervisorNotRun,
    /// The arguments or the environment are too long.
    #[error(
        "cannot start Claude Code: its arguments or its environment are longer than the system allows ({0}); shorten an \
         option, such as the allowed tools or the managed settings, or the environment"
    )]
    TooLong(io::Error),
    /// `/dev/null` cannot be opened.
    #[error("cannot start a process: {0}")]
    NoDevNull(io::Error),
    /// The system could not start a process.
    #[error("cannot start a process: {0}; the machine may be short of processes, memory or open files")]
    System(io::Error),
}

/// A CLI that was started.
pub(crate) struct Started {
    pub(crate) stdin: pipe::Sender,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
    pub(crate) process: Process,
    pub(crate) program: PathBuf,
    pub(crate) directory: PathBuf,
    pub(crate) environment: BTreeMap<OsString, OsString>,
}

/// A session's processes.
pub(crate) enum Process {
    Supervised(Supervised),
    Unsupervised(Unsupervised),
}

impl Process {
    /// Takes a step to end the CLI. (The driver closes stdin.)
    pub(crate) fn stop(&mut self, stop: Stop) {
        match self {
            Process::Supervised(supervised) => supervised.stop(stop),
            Process::Unsupervised(unsupervised) => unsupervised.stop(stop),
        }
    }

    /// Waits until no process of the session is left, except those that cannot be ended. Cancel-safe.
    pub(crate) async fn exited(&mut self) -> ProcessEnd {
        match self {
            Process::Supervised(supervised) => supervised.exited().await,
            Process::Unsupervised(unsupervised) => unsupervised.exited().await,
        }
    }
}

/// Turns the error of a failed start into a [`StartError`]: `program` creates it if the executable is missing or
/// unusable.
fn start_error(error: io::Error, program: impl FnOnce(io::Error) -> StartError) -> StartError {
    // Missing, not permitted, not a program of this machine.
    let of_program = [Errno::NOENT, Errno::ACCESS, Errno::NOEXEC].map(|errno| Some(errno.raw_os_error()));
    if of_program.contains(&error.raw_os_error()) {
        program(error)
    } else if error.raw_os_error() == Some(Errno::TOOBIG.raw_os_error()) {
        StartError::TooLong(error)
    } else {
        StartError::System(error)
    }
}

/// Waits until no process has this mark, or the time limit expires.
async fn marked_ended_within(mark: &str, limit: Duration) {
    let deadline = tokio::time::Instant::now() + limit;
    while sweep::any_marked(mark) && tokio::time::Instant::now() < deadline {
        tokio::time::sleep(SWEEP_INTERVAL).await;
    }
}

/// How long the CLI has to store its conversation after an abort.
const GRACE: Duration = Duration::from_millis(500);

/// Everything needed to start the CLI, with or without a supervisor.
struct Plan {
    program: PathBuf,
    arguments: Vec<OsString>,
    directory: PathBuf,
    environment: BTreeMap<OsString, OsString>,
    /// Names the environment variable by which the session's processes are found.
    mark: String,
    folder: PrivateFolder,
    lock: Option<Arc<File>>,
}

/// The three streams of the CLI: its ends and ours.
struct Streams {
    theirs: [OwnedFd; 3],
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
}

/// Starts the CLI.
pub(crate) async fn start(options: &Options) -> Result<Started, StartError> {
    start_plan(plan(options)?, &options.supervisor).await
}

/// Starts the CLI with the caller's own arguments.
pub(crate) async fn start_raw(start: RawStart) -> Result<Started, StartError> {
    if start.arguments.iter().any(|argument| argument.as_encoded_bytes().contains(&0)) {
        // The system would cut the argument there, and the supervisor would take the rest for another argument.
        return Err(StartError::System(io::Error::new(
            io::ErrorKind::InvalidInput,
            "an argument contains a zero byte",
        )));
    }
    let program = find::check(&start.program)?;
    let directory = directory(Some(&start.directory))?;
    let mut environment: BTreeMap<OsString, OsString> =
        start.environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let mark = new_mark();
    environment.insert(mark_variable(&mark).into(), "1".into());
    let folder = PrivateFolder::default();
    let plan = Plan { program, arguments: start.arguments, directory, environment, mark, folder, lock: None };
    start_plan(plan, &start.supervisor).await
}

async fn start_plan(plan: Plan, supervisor: &Supervisor) -> Result<Started, StartError> {
    let program = plan.program.clone();
    let (directory, environment) = (plan.directory.clone(), plan.environment.clone());
    let Streams { theirs, stdin, stdout, stderr } = streams().map_err(StartError::System)?;
    let process = match supervisor {
        Supervisor::None => Process::Unsupervised(Unsupervised::start(plan, theirs)?),
        Supervisor::ThisProgram => Process::Supervised(Supervised::start(plan, theirs, this_program()?).await?),
        Supervisor::Program(path) => {
            // The supervisor is started in another directory.
            let path = std::path::absolute(path).map_err(StartError::System)?;
            Process::Supervised(Supervised::start(plan, theirs, path).await?)
        }
    };
    Ok(Started { stdin, stdout, stderr, process, program, directory, environment })
}

/// Returns a path of the running program that is valid even if its file was replaced since it was started.
fn this_program() -> Result<PathBuf, StartError> {
    if std::env::args_os().nth(1).is_some_and(|argument| argument == SUPERVISOR_ARGUMENT) {
        // This process was started as a supervisor, but runs the program itself: it would start itself again and again.
        return Err(StartError::SupervisorNotRun);
    }
    if cfg!(all(target_os = "linux", not(watari_portable))) {
        Ok("/proc/self/exe".into())
    } else {
        std::env::current_exe().map_err(StartError::System)
    }
}

fn plan(options: &Options) -> Result<Plan, StartError> {
    argv::check(options)?;
    let documents = argv::ConfigFiles::read(options)?;
    let mut environment = environment(options);
    let program = Search::of(options, &environment).find()?;
    let directory = directory(options.cwd.as_deref())?;
    files::remove_orphans();
    let mut folder = PrivateFolder::default();
    let arguments = argv::arguments(options, &documents, &mut folder)?;
    if options.without_git {
        without_git::hide_git(&mut environment, &mut folder).map_err(|source| OptionError::WithoutGit { source })?;
    }
    let mark = new_mark();
    environment.insert(mark_variable(&mark).into(), "1".into());
    let lock = options.lock.clone();
    Ok(Plan { program, arguments, directory, environment, mark, folder, lock })
}

/// Returns the environment of a session's CLI, without the mark.
pub(crate) fn environment(options: &Options) -> BTreeMap<OsString, OsString> {
    let mut environment: BTreeMap<OsString, OsString> = BTreeMap::new();
    if options.environment.inherit {
        environment.extend(std::env::vars_os());
        for name in argv::MISLEADING_VARIABLES {
            environment.remove(std::ffi::OsStr::new(name));
        }
    }
    for (name, value) in &options.environment.set {
        match value {
            Some(value) => environment.insert(name.into(), value.into()),
            None => environment.remove(std::ffi::OsStr::new(name)),
        };
    }
    for (name, value) in argv::own_environment(options) {
        environment.insert(name.into(), value.into());
    }
    environment
}

/// Checks the working directory and makes it absolute. A missing directory is detected here, because the system reports
/// the same error for it as for a missing program. An empty path, or a removed current directory, counts as missing
/// too.
pub(crate) fn directory(given: Option<&Path>) -> Result<PathBuf, StartError> {
    let given = given.unwrap_or(Path::new("."));
    let Ok(path) = std::path::absolute(given) else {
        return Err(StartError::NoDirectory { path: given.to_owned() });
    };
    match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_dir() => match rustix::fs::access(&path, rustix::fs::Access::EXEC_OK) {
            Ok(()) => Ok(path),
            Err(_) => Err(StartError::DirectoryNotAllowed { path }),
        },
        Ok(_) => Err(StartError::NotADirectory { path }),
        Err(_) => Err(StartError::NoDirectory { path }),
    }
}

fn streams() -> io::Result<Streams> {
    let (their_stdin, stdin) = io::pipe()?;
    let (stdout, their_stdout) = io::pipe()?;
    let (stderr, their_stderr) = io::pipe()?;
    Ok(Streams {
        theirs: [their_stdin.into(), their_stdout.into(), their_stderr.into()],
        stdin: pipe::Sender::from_owned_fd(stdin.into())?,
        stdout: pipe::Receiver::from_owned_fd(stdout.into())?,
        stderr: pipe::Receiver::from_owned_fd(stderr.into())?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_variable_of_a_caller_takes_the_place_of_our_own() {
        for given in [Some("cli".to_owned()), None] {
            for name in argv::own_environment(&Options::default()).into_keys() {
                let mut options = Options::default();
                options.environment.set.insert(name.to_owned(), given.clone());
                let value = environment(&options).remove(std::ffi::OsStr::new(name));
                assert_eq!(
                    value.as_deref(),
                    Some(std::ffi::OsStr::new(argv::own_environment(&options)[name])),
                    "{name}"
                );
            }
        }
    }
}
