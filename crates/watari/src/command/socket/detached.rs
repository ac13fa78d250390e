//! A host in the background: started by a process that waits until it is ready, and then goes.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::watch;
use watari_hub::{HostState, Key};

use crate::command::{fail, mention};
use crate::standard_streams::write_all;

/// Starts this program again as a host in the background, and waits until its session is ready.
pub(super) fn start() -> ExitCode {
    let arguments = std::env::args_os().skip(1).map(|argument| match argument == "--detach" {
        true => OsString::from("--detached"),
        false => argument,
    });
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return fail(&format!("does not know where it is: {error}")),
    };
    let host = Command::new(program).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut host = match host {
        Ok(host) => host,
        Err(error) => return fail(&format!("cannot start the host: {error}")),
    };
    let mut said = String::new();
    let read = host.stdout.take().map(|mut out| out.read_to_string(&mut said));
    if let Some(Ok(1..)) = read {
        return match write_all(io::stdout(), said.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            // Nobody would know of it.
            Err(error) => end(host, &error),
        };
    }
    // It has said why on the same standard error.
    match host.wait().ok().and_then(|status| status.code()).and_then(|code| u8::try_from(code).ok()) {
        Some(code @ 1..) => ExitCode::from(code),
        Some(0) | None => fail("the host went away before it was ready; its log says more"),
    }
}

/// Ends a host whose key cannot be printed, and waits for its end.
fn end(mut host: Child, error: &io::Error) -> ExitCode {
    // It was not waited for yet, so the number is its own.
    let pid = rustix::process::Pid::from_raw(host.id().cast_signed());
    let _sent = pid.map(|pid| rustix::process::kill_process(pid, rustix::process::Signal::TERM));
    let _ended = host.wait();
    fail(&format!("the key of the session cannot be printed, so the session was ended: {error}"))
}

/// How the start of a session in the background went.
pub(super) enum Started {
    Ready,
    /// Its events cannot be stored, and why.
    NotStored(String),
    /// It ended before.
    Ended,
}

/// Waits until the session is ready, or cannot be because its events cannot be stored. Whoever waits for it could neither see
/// why nor make room. Cancel-safe: it only looks.
pub(super) async fn started(
    state: &mut watch::Receiver<HostState>,
    storage: &mut watch::Receiver<Option<String>>,
) -> Started {
    tokio::select! {
        // Both may be dropped half-way: they only look. A session that is ready was started, whatever comes next.
        biased;
        ready = state.wait_for(|state| *state == HostState::Idle) => match ready {
            Ok(_) => Started::Ready,
            Err(_) => Started::Ended,
        },
        failed = storage.wait_for(Option::is_some) => match failed {
            Ok(why) => Started::NotStored(why.clone().unwrap_or_default()),
            Err(_) => Started::Ended,
        },
    }
}

/// Leaves the terminal: its signals and its end are not for a host in the background, nor for what that starts.
pub(super) fn leave_terminal() {
    // It fails only for one that has left it already.
    let _left = rustix::process::setsid();
}

/// Waits until nobody waits any more for the session to be ready.
pub(super) async fn starter_went() {
    let stdout = io::stdout();
    let is_closed = || {
        let mut events = [PollFd::new(&stdout, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut events, Some(&at_once)).is_ok() && events[0].revents().contains(PollFlags::ERR)
    };
    // The system can tell, but not in the same way everywhere.
    while !is_closed() {
        tokio::time::sleep(LOOKED_EVERY).await;
    }
}

/// How often it is looked whether somebody still waits.
const LOOKED_EVERY: Duration = Duration::from_millis(200);

/// Says that the session is ready, and lets go of whoever waits for that; false if nobody waits any more.
pub(super) fn ready(key: &Key, socket: &Path) -> bool {
    let is_received = mention(format!("{key}\n").as_bytes()).is_ok();
    // The key is what was asked for; this is for people.
    crate::command::say(&format!("watari: listening on {}\n", socket.display()));
    let let_go = watari_sdk::files::nothing().and_then(|nothing| {
        rustix::stdio::dup2_stdout(&nothing)?;
        Ok(rustix::stdio::dup2_stderr(&nothing)?)
    });
    if let Err(error) = let_go {
        tracing::warn!("the host keeps the output of whoever started it: {error}");
    }
    is_received
}
