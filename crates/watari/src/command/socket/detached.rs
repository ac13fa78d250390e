//! A background host. The process that starts it waits until the session is ready, and then exits.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::watch;
use watari_hub::{Key, SessionState};

use crate::command::{fail, print_stdout};
use crate::standard_streams::write_all;

/// Starts this program again as a host in the background, and waits until its session is ready.
pub(super) fn start() -> ExitCode {
    let arguments = std::env::args_os().skip(1).map(|argument| match argument == "--detach" {
        true => OsString::from("--detached"),
        false => argument,
    });
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return fail(&format!("cannot find its own executable: {error}")),
    };
    let host = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut host = match host {
        Ok(host) => host,
        Err(error) => return fail(&format!("cannot start the host: {error}")),
    };
    let mut output = String::new();
    let read = host.stdout.take().map(|mut stdout| stdout.read_to_string(&mut output));
    if let Some(Ok(1..)) = read {
        return match write_all(io::stdout(), output.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            // The caller would not know the session.
            Err(error) => terminate(host, &error),
        };
    }
    // The host has printed the reason to the same standard error.
    match host.wait().ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok()) {
        Some(code @ 1..) => ExitCode::from(code),
        Some(0) | None => fail("the host exited before it was ready; see its log"),
    }
}

/// Terminates a host whose key cannot be printed, and waits for its exit.
fn terminate(mut host: Child, error: &io::Error) -> ExitCode {
    // The host was not waited for yet, so its process id cannot have been reused.
    let pid = rustix::process::Pid::from_raw(host.id().cast_signed());
    let _sent = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
    let _ended = host.wait();
    fail(&format!("cannot print the session's key, so the session was ended: {error}"))
}

/// The outcome of starting a session in the background.
pub(super) enum StartOutcome {
    Ready,
    /// Its events cannot be stored, for this reason.
    LogUnavailable(String),
    /// It ended before it was ready.
    Ended,
}

/// Waits until the session is ready, or until its events cannot be stored. It does not wait for storage to recover,
/// because the user would see neither the session nor the reason. Cancel-safe: it only observes.
pub(super) async fn started(
    state: &mut watch::Receiver<SessionState>,
    storage: &mut watch::Receiver<Option<String>>,
) -> StartOutcome {
    tokio::select! {
        // Both may be dropped half-way: they only observe. A session that is ready was started, whatever happens next.
        biased;
        ready = state.wait_for(|state| *state == SessionState::Idle) => match ready {
            Ok(_) => StartOutcome::Ready,
            Err(_) => StartOutcome::Ended,
        },
        failed = storage.wait_for(Option::is_some) => match failed {
            Ok(why) => StartOutcome::LogUnavailable(why.clone().unwrap_or_default()),
            Err(_) => StartOutcome::Ended,
        },
    }
}

/// Detaches from the terminal, whose signals must reach neither a background host nor its children.
pub(super) fn leave_terminal() {
    // It fails only for a process that is a session leader already.
    let _left = rustix::process::setsid();
}

/// Waits until the process that started this host has exited.
pub(super) async fn starter_exited() {
    let stdout = io::stdout();
    let is_closed = || {
        let mut events = [PollFd::new(&stdout, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut events, Some(&at_once)).is_ok() && events[0].revents().contains(PollFlags::ERR)
    };
    // Polled, because systems differ in how they report it.
    while !is_closed() {
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// How often the standard output is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Prints that the session is ready, and releases the standard output and error of the process that waits for it; false
/// if that process has exited.
pub(super) fn ready(key: &Key, socket: &Path) -> bool {
    let is_received = print_stdout(format!("{key}\n").as_bytes()).is_ok();
    // Programs read the key; this line is for people.
    crate::command::print_stderr(&format!("watari: listening on {}\n", socket.display()));
    let released = watari_sdk::files::open_dev_null().and_then(|nothing| {
        rustix::stdio::dup2_stdout(&nothing)?;
        Ok(rustix::stdio::dup2_stderr(&nothing)?)
    });
    if let Err(error) = released {
        tracing::warn!("cannot release the standard output and error of the process that started the host: {error}");
    }
    is_received
}
