//! The commands of the program, each in a file of its own.

mod check;
mod doctor;
mod schema;
mod socket;
mod stdio;
mod stub;

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::time::Duration;

use rustix::io::Errno;
use tokio::signal::unix::{Signal, SignalKind, signal};
use watari_sdk::files::folders::MORE_DESCRIPTORS;
use watari_sdk::{WatchdogLimits, files, is_signal_ignored};

use crate::printable::printable;
use crate::standard_streams::{write_all, write_within};

/// A subcommand.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Stdio(stdio::Stdio),
    Socket(Box<socket::Socket>),
    Schema(schema::Schema),
    Stub(stub::Stub),
    Check(check::Check),
    Doctor(doctor::Doctor),
}

impl Command {
    pub(crate) fn run(self) -> ExitCode {
        if let Err(unknown) = self.check_user() {
            return fail(&unknown.to_string());
        }
        match self {
            Command::Stdio(stdio) => stdio.run(),
            Command::Socket(socket) => socket.run(),
            Command::Schema(schema) => schema.run(),
            Command::Stub(stub) => stub.run(),
            Command::Check(check) => check.run(),
            Command::Doctor(doctor) => doctor.run(),
        }
    }

    /// A command that uses files or listens must be able to tell its own user from others.
    fn check_user(&self) -> Result<(), files::UnknownUser> {
        match self {
            // This command only prints.
            Command::Schema(_) => Ok(()),
            Command::Stdio(_) | Command::Socket(_) | Command::Stub(_) | Command::Check(_) | Command::Doctor(_) => {
                files::check_this_user()
            }
        }
    }
}

/// Prints why a command failed, and returns its exit code. (Code 2 is for a wrong command line only.)
pub(crate) fn fail(why: &str) -> ExitCode {
    print_error(why);
    ExitCode::FAILURE
}

/// Prints an error. It may quote untrusted text, so everything that a terminal would interpret is escaped.
pub(crate) fn print_error(why: &str) {
    print_stderr(&format!("watari: {}{}\n", printable(why), descriptors_remedy(why)));
}

/// The remedy for too few file descriptors, an error that any step can meet, unless the text already has it.
fn descriptors_remedy(why: &str) -> String {
    let few = io::Error::from(Errno::MFILE).to_string();
    let is_missing = why.contains(&few) && !why.contains(MORE_DESCRIPTORS);
    if is_missing { format!("; {MORE_DESCRIPTORS}") } else { String::new() }
}

/// How long a short text may take to be written.
const WRITE_LIMIT: Duration = Duration::from_secs(1);

/// Writes to standard error within a limit: a reader that does not read must not block the program.
pub(crate) fn print_stderr(text: &str) {
    // If it cannot be written, there is still the exit code.
    let _written = write_within(WRITE_LIMIT, io::stderr(), text.as_bytes());
}

/// Writes to standard output within the same limit.
pub(crate) fn print_stdout(bytes: &[u8]) -> io::Result<()> {
    write_within(WRITE_LIMIT, io::stdout(), bytes)
}

/// Prints the result of a command, and returns its exit code.
fn print(text: &str, code: ExitCode) -> ExitCode {
    let out = io::stdout();
    // A program gets the text unescaped.
    let text = if out.is_terminal() { printable(text) } else { Cow::Borrowed(text) };
    match write_all(&out, text.as_bytes()) {
        Ok(()) => code,
        Err(error) => fail(&format!("cannot print the result: {error}")),
    }
}

/// Parses the number of a flag. (The flag allows negative numbers, so that they reach this error.)
fn whole_number(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("expected a whole number from 0 to {}", u32::MAX))
}

/// Makes a command that runs one session terminate all its processes even if the supervisor is killed. It must not have
/// started a process yet.
fn adopt_orphans() {
    // If the system refuses, those that have cleared their environment stay.
    let _adopts = watari_sdk::adopt_orphans();
}

/// When the CLI counts as stalled, and what happens then.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct StallOptions {
    /// Report Claude Code as stalled when it writes nothing for SECONDS during a turn and then does not answer a probe
    /// for ten seconds (0 = never)
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = whole_number, allow_negative_numbers = true)]
    stalled_after: u32,
    /// Terminate Claude Code when it is stalled, instead of only reporting it
    #[arg(long)]
    end_stalled: bool,
}

impl StallOptions {
    pub(crate) fn watchdog(self) -> WatchdogLimits {
        let probe_after = match self.stalled_after {
            0 => Duration::MAX,
            seconds => Duration::from_secs(seconds.into()),
        };
        WatchdogLimits { probe_after, end_stalled: self.end_stalled, ..WatchdogLimits::default() }
    }
}

/// The signals that stop the program: SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal was closed).
pub(crate) struct StopSignals {
    /// None if no handler could be registered, so that the default disposition terminates the program, or if the parent
    /// process ignored the signal, so that it stays ignored.
    signals: [Option<Signal>; 3],
}

impl StopSignals {
    /// Registers the handlers. No later signal is missed.
    pub(crate) fn listen() -> StopSignals {
        // `nohup` ignores SIGHUP, and a shell ignores SIGINT for background jobs: both are deliberate. An ignored
        // SIGTERM never is.
        let unless_ignored = |kind: SignalKind| match is_signal_ignored(kind.as_raw_value()) {
            true => None,
            false => signal(kind).ok(),
        };
        let terminate = signal(SignalKind::terminate()).ok();
        let [interrupt, hangup] = [SignalKind::interrupt(), SignalKind::hangup()].map(unless_ignored);
        StopSignals { signals: [interrupt, terminate, hangup] }
    }

    /// Waits for the next signal. Cancel-safe: a signal that has arrived stays pending until it is received.
    pub(crate) async fn received(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            // Each may be dropped half-way: one signal is enough.
            () = next(interrupt) => {}
            () = next(terminate) => {}
            () = next(hangup) => {}
        }
    }
}

/// Waits for a signal; forever if it has no handler. Cancel-safe like `recv`.
async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
