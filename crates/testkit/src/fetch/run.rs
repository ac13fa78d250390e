//! A program that is run to its end, and that is ended with everything it started when nobody waits for it any more.

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

/// How much of what a program says is kept: the end of it.
const SAID_BYTES_MAX: usize = 64 * 1024;
/// How much of that is shown to people.
const LAST_LINES_MAX: usize = 12;
const LAST_CHARS_MAX: usize = 1500;
/// How long what a program has said may take to be read after it has ended. Only a process that it left behind with
/// its stderr makes this pass.
const REST_WITHIN: Duration = Duration::from_secs(1);
/// How long killed processes may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(1);

/// A running program in a process group of its own.
pub(super) struct Run {
    child: Child,
    stderr: Option<ChildStderr>,
    said: Vec<u8>,
}

/// How a program ended, and what it said on stderr.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) said: String,
}

impl Run {
    pub(super) fn start(command: &mut Command) -> io::Result<Run> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
        let stderr = child.stderr.take();
        Ok(Run { child, stderr, said: Vec::new() })
    }

    /// Waits for its end. When this is dropped before, the program is ended.
    pub(super) async fn ended(mut self) -> io::Result<Ended> {
        let (stderr, said) = (&mut self.stderr, &mut self.said);
        let status = tokio::select! {
            // Cancel-safe: the child remembers that it was waited for.
            status = self.child.wait() => status?,
            // Cancel-safe: what was read is in `said`.
            never = listen_on(stderr, said) => match never {},
        };
        // A process that was left behind may have the stream; what the program itself has said is then read.
        let _held = tokio::time::timeout(REST_WITHIN, listen(stderr, said)).await;
        Ok(Ended { status, said: String::from_utf8_lossy(said).into_owned() })
    }
}

impl Ended {
    /// The last lines it said, as many as a person reads.
    pub(super) fn last_words(&self) -> String {
        let shown = |line: &str| line.trim_end().replace(char::is_control, " ");
        let lines: Vec<String> = self.said.lines().map(shown).filter(|line| !line.is_empty()).collect();
        let text = lines[lines.len().saturating_sub(LAST_LINES_MAX)..].join("\n");
        let unshown = text.chars().count().saturating_sub(LAST_CHARS_MAX);
        text.chars().skip(unshown).collect()
    }
}

async fn listen_on(stderr: &mut Option<ChildStderr>, said: &mut Vec<u8>) -> Infallible {
    listen(stderr, said).await;
    pending().await
}

/// Reads until there is no more.
async fn listen(stderr: &mut Option<ChildStderr>, said: &mut Vec<u8>) {
    let Some(stderr) = stderr else { return };
    while let Ok(1..) = stderr.read_buf(said).await {
        said.drain(..said.len().saturating_sub(SAID_BYTES_MAX));
    }
}

impl Drop for Run {
    /// Returns when the processes are gone, so that whoever removes their files is the last to touch them.
    fn drop(&mut self) {
        // None once it was waited for: the number may then be another's.
        let Some(group) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) else { return };
        // It may have ended by itself this moment.
        let _ended = kill_process_group(group, Signal::KILL);
        if let Some(stderr) = &self.stderr {
            wait_for_the_end_of(stderr.as_fd());
        }
    }
}

/// A stream ends when the last process is gone that could write to it.
fn wait_for_the_end_of(stream: BorrowedFd<'_>) {
    let deadline = Instant::now() + GONE_WITHIN;
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
