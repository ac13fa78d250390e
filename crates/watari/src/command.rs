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
use watari_sdk::{Liveness, files, is_signal_ignored};

use crate::printable::printable;
use crate::standard_streams::{write_all, write_within};

/// What the program is asked to do.
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
            protocol_error(&unknown.to_string());
            return self.code_for_no_start();
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

    /// What uses files or listens must know its own user from others.
    fn check_user(&self) -> Result<(), files::UnknownUser> {
        match self {
            // It only prints.
            Command::Schema(_) => Ok(()),
            Command::Stdio(_) | Command::Socket(_) | Command::Stub(_) | Command::Check(_) | Command::Doctor(_) => {
                files::check_this_user()
            }
        }
    }

    /// What a command exits with that could not begin.
    fn code_for_no_start(&self) -> ExitCode {
        match self {
            Command::Stdio(_) | Command::Socket(_) => ExitCode::FAILURE,
            Command::Schema(_) | Command::Stub(_) | Command::Check(_) | Command::Doctor(_) => ExitCode::from(CANNOT),
        }
    }
}

/// What a command exits with that could not do what it was asked to; one is for an answer that is a no.
const CANNOT: u8 = 2;

/// Says why a command cannot do what it was asked to.
pub(crate) fn fail(why: &str) -> ExitCode {
    protocol_error(why);
    ExitCode::from(CANNOT)
}

/// Prints why something cannot be done. It may quote anybody, so a terminal shows it and obeys nothing of it.
pub(crate) fn protocol_error(why: &str) {
    say(&format!("watari: {}{}\n", printable(why), descriptors_remedy(why)));
}

/// What to do about a limit that any step can meet, unless that is said already.
fn descriptors_remedy(why: &str) -> String {
    let few = io::Error::from(Errno::MFILE).to_string();
    let is_unsaid = why.contains(&few) && !why.contains(MORE_DESCRIPTORS);
    if is_unsaid { format!("; {MORE_DESCRIPTORS}") } else { String::new() }
}

/// How long somebody may take to read what is told in passing.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// Writes to standard error, if that takes it: nobody may read it, and nothing waits for that.
pub(crate) fn say(text: &str) {
    // If it cannot be written, the exit code still tells.
    let _written = write_within(TOLD_WITHIN, io::stderr(), text.as_bytes());
}

/// Writes to standard output in the same way.
pub(crate) fn mention(bytes: &[u8]) -> io::Result<()> {
    write_within(TOLD_WITHIN, io::stdout(), bytes)
}

/// Prints what a command found, and ends with the code for what it found.
fn print(text: &str, code: ExitCode) -> ExitCode {
    let out = io::stdout();
    // A program that reads it gets it as it is.
    let text = if out.is_terminal() { printable(text) } else { Cow::Borrowed(text) };
    match write_all(&out, text.as_bytes()) {
        Ok(()) => code,
        Err(error) => fail(&format!("cannot print the result: {error}")),
    }
}

/// When a CLI that does not react counts as stalled, and what then.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct StallOptions {
    /// Report Claude Code as stalled when it writes nothing for SECONDS during a turn and then does not answer a probe for ten
    /// seconds (0 = never)
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    stalled_after: u32,
    /// End Claude Code when it is stalled, instead of only reporting it
    #[arg(long)]
    end_stalled: bool,
}

impl StallOptions {
    pub(crate) fn liveness(self) -> Liveness {
        let silent_for = match self.stalled_after {
            0 => Duration::MAX,
            seconds => Duration::from_secs(seconds.into()),
        };
        Liveness { silent_for, end_stalled: self.end_stalled, ..Liveness::default() }
    }
}

/// Listens for those who want the program to end: by Ctrl-C, by SIGTERM, or because the terminal is gone.
pub(crate) struct StopSignals {
    /// One is none if the system does not let us listen, and then ends the program by itself; or if it was ignored before
    /// this program started, and then stays so.
    signals: [Option<Signal>; 3],
}

impl StopSignals {
    /// From here on no signal is missed.
    pub(crate) fn listen() -> StopSignals {
        // `nohup` ignores the hangup, and a shell the interrupt for what it puts into the background: both mean it. Nobody
        // means that a program cannot be terminated.
        let unless_ignored = |kind: SignalKind| match is_signal_ignored(kind.as_raw_value()) {
            true => None,
            false => signal(kind).ok(),
        };
        let terminate = signal(SignalKind::terminate()).ok();
        let [interrupt, hangup] = [SignalKind::interrupt(), SignalKind::hangup()].map(unless_ignored);
        StopSignals { signals: [interrupt, terminate, hangup] }
    }

    /// Waits for the next. Cancel-safe: a signal that has come stays until it is heard.
    pub(crate) async fn received(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.signals;
        tokio::select! {
            // All may be dropped half-way: one is enough.
            () = next(interrupt) => {}
            () = next(terminate) => {}
            () = next(hangup) => {}
        }
    }
}

/// The next of a signal; never, if it is not listened for. Cancel-safe like `recv`.
async fn next(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
