//! Runs a program to its end, and kills its process group when the caller stops waiting.

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, ChildStderr, Command};

/// How many bytes of a program's output are stored: the last ones.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// How much of that is shown.
const LAST_LINES_MAX: usize = 12;
const LAST_CHARS_MAX: usize = 1500;
/// How long to wait for the rest of the output after the program has exited. Only a process that it left behind with
/// its stderr makes this expire.
const REST_WITHIN: Duration = Duration::from_secs(1);
/// How long killed processes may take to exit.
const EXIT_WITHIN: Duration = Duration::from_secs(1);

/// A running program in a process group of its own.
pub(super) struct Run {
    child: Child,
    stderr: Option<ChildStderr>,
    output: Vec<u8>,
}

/// How a program ended, and its stderr.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) output: String,
}

impl Run {
    pub(super) fn start(command: &mut Command) -> io::Result<Run> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
        let stderr = child.stderr.take();
        Ok(Run { child, stderr, output: Vec::new() })
    }

    /// Waits for its end. If this is dropped before, the program is killed.
    pub(super) async fn ended(mut self) -> io::Result<Ended> {
        let (stderr, output) = (&mut self.stderr, &mut self.output);
        let status = tokio::select! {
            // Cancel-safe: the child remembers its exit status.
            status = self.child.wait() => status?,
            // Cancel-safe: what was read is in `output`.
            never = read_forever(stderr, output) => match never {},
        };
        // A process that was left behind may hold the stream open; the program's own output is read by then.
        let _held = tokio::time::timeout(REST_WITHIN, read_all(stderr, output)).await;
        Ok(Ended { status, output: String::from_utf8_lossy(output).into_owned() })
    }
}

impl Ended {
    /// The last lines of its output, shortened for people.
    pub(super) fn last_lines(&self) -> String {
        let shown = |line: &str| line.trim_end().replace(char::is_control, " ");
        let lines: Vec<String> = self.output.lines().map(shown).filter(|line| !line.is_empty()).collect();
        let text = lines[lines.len().saturating_sub(LAST_LINES_MAX)..].join("\n");
        let unshown = text.chars().count().saturating_sub(LAST_CHARS_MAX);
        text.chars().skip(unshown).collect()
    }
}

async fn read_forever(stderr: &mut Option<ChildStderr>, output: &mut Vec<u8>) -> Infallible {
    read_all(stderr, output).await;
    pending().await
}

/// Reads to the end.
async fn read_all(stderr: &mut Option<ChildStderr>, output: &mut Vec<u8>) {
    let Some(stderr) = stderr else { return };
    while let Ok(1..) = stderr.read_buf(output).await {
        output.drain(..output.len().saturating_sub(OUTPUT_BYTES_MAX));
    }
}

impl Drop for Run {
    /// Returns when the processes have exited, so that they do not touch files that the caller removes.
    fn drop(&mut self) {
        // None after the wait: the number may then belong to another process.
        let Some(group) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) else { return };
        // It may have exited by itself just now.
        let _ended = kill_process_group(group, Signal::KILL);
        if let Some(stderr) = &self.stderr {
            wait_for_the_end_of(stderr.as_fd());
        }
    }
}

/// A stream ends when the last process that could write to it has exited.
fn wait_for_the_end_of(stream: BorrowedFd<'_>) {
    let deadline = Instant::now() + EXIT_WITHIN;
    let mut piece = [0; 4096];
    loop {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).unwrap_or_default();
        match poll(&mut [PollFd::new(&stream, PollFlags::IN)], Some(&left)) {
            Ok(0) => return,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        match rustix::io::read(stream, &mut piece) {
            Ok(0) => return,
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return,
        }
    }
}
