//! What the fake CLI does to its own process, and the child that escapes from it.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::{Signal, getpid, kill_process, setsid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use watari_sdk::files::TEST_LOG;

use super::script::Ignored;

/// The argument that makes a fake CLI start a child and exit, so that the child is orphaned.
const STARTER: &str = "__fake-claude-starter";
/// The argument that makes a fake CLI that child.
const CHILD: &str = "__fake-claude-child";

/// Never returns.
pub(super) fn stall() -> ! {
    loop {
        std::thread::park();
    }
}

/// Stops this process until it receives SIGCONT.
pub(super) fn stop() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::STOP)?)
}

pub(super) fn kill() -> io::Result<()> {
    Ok(kill_process(getpid(), Signal::KILL)?)
}

pub(super) fn ignore(signal: Ignored) -> io::Result<()> {
    match signal {
        Ignored::Term => ignore_number(SIGTERM),
        Ignored::Int => ignore_number(SIGINT),
    }
}

/// Installs an empty handler: it has the effect of ignoring, and children do not inherit it.
fn ignore_number(signal: i32) -> io::Result<()> {
    signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false))).map(drop)
}

/// Writes a byte to a file, or to a FIFO as soon as it has a reader.
pub(super) fn signal(path: &Path) -> io::Result<()> {
    TEST_LOG.open(path)?.write_all(b".")
}

/// Starts a process that escapes: it is not this process's child, has a session of its own, and ignores SIGTERM and
/// SIGHUP. All of that is so when this returns. Its command line contains the session's id.
pub(super) fn start_child(session: &str) -> io::Result<()> {
    let mut starter = this_program(OsStr::new(session), STARTER)?;
    let status = starter.stdin(Stdio::null()).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("the child did not start: {status}"))) }
}

/// If this process was started as one of the above, runs it, and returns its exit code.
pub(super) fn run_if_helper(arguments: &[OsString]) -> Option<ExitCode> {
    let [.., session, role] = arguments else { return None };
    let outcome = match role.to_str() {
        Some(STARTER) => start_and_leave(session),
        Some(CHILD) => be_child(),
        Some(_) | None => return None,
    };
    Some(match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _written = writeln!(io::stderr(), "fake-claude: {error}");
            ExitCode::FAILURE
        }
    })
}

/// Waits until the child is set up. When this process exits, the child is orphaned.
fn start_and_leave(session: &OsStr) -> io::Result<()> {
    let mut child = this_program(session, CHILD)?;
    let mut child = child.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    match &mut child.stdout {
        Some(ready) => ready.read_exact(&mut [0]),
        None => Ok(()),
    }
}

fn be_child() -> io::Result<()> {
    ignore_number(SIGTERM)?;
    ignore_number(SIGHUP)?;
    setsid()?;
    io::stdout().write_all(b".")?;
    io::stdout().flush()?;
    stall()
}

/// This program with its own arguments, so that it gets here again, and two more.
fn this_program(session: &OsStr, role: &str) -> io::Result<Command> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    if arguments.last().is_some_and(|last| last == STARTER) {
        arguments.truncate(arguments.len() - 2);
    }
    let mut arguments = arguments.into_iter();
    let mut command = Command::new(std::env::current_exe()?);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).arg(session).arg(role);
    Ok(command)
}
