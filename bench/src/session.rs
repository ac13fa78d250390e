//! A running bridge and its client.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

use crate::process::{self, Usage};
use crate::subject::{BridgeMessage, Programs, Subject};

/// The time limit for a bridge that writes nothing.
const SILENT_AT_MOST: Duration = Duration::from_secs(120);

/// How many bytes one read returns at most.
const CHUNK_BYTES: usize = 256 * 1024;

/// A bridge with a session, or before its start.
#[derive(Debug)]
pub struct Session {
    subject: Subject,
    programs: Programs,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// Filled with output up to `filled`, handled up to `taken`; no newline between `taken` and `searched`.
    buffer: Vec<u8>,
    filled: usize,
    taken: usize,
    searched: usize,
    folder: TempDir,
    spawned: Instant,
}

impl Session {
    /// Starts the bridge, whose CLI will play the script.
    pub fn spawn(subject: Subject, programs: &Programs, script: &str) -> Result<Session> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("script");
        std::fs::write(&path, script)?;
        let mut command = subject.command(programs).context("the Node bridge is not installed")?;
        command.env("HOME", folder.path()).env("FAKE_CLAUDE_SCRIPT", &path).current_dir(folder.path());
        let spawned = Instant::now();
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start the bridge")?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("a child without pipes");
        };
        Ok(Session {
            subject,
            programs: programs.clone(),
            child,
            stdin: Some(stdin),
            stdout,
            buffer: vec![0; 2 * CHUNK_BYTES],
            filled: 0,
            taken: 0,
            searched: 0,
            folder,
            spawned,
        })
    }

    /// Starts the bridge, waits until it is ready, and begins the session.
    pub fn begin(subject: Subject, programs: &Programs, script: &str) -> Result<Session> {
        let mut session = Session::spawn(subject, programs, script)?;
        session.wait_ready()?;
        session.send_start()?;
        Ok(session)
    }

    /// Waits until it is ready, and returns the time since it was started.
    pub fn wait_ready(&mut self) -> Result<Duration> {
        if self.subject.reports_ready() {
            self.wait_for(|message| matches!(message, BridgeMessage::Ready))?;
        }
        Ok(self.spawned.elapsed())
    }

    /// When it was started.
    pub fn spawned(&self) -> Instant {
        self.spawned
    }

    /// Begins the session with its first prompt.
    pub fn send_start(&mut self) -> Result<()> {
        let start = self.subject.start(self.folder.path());
        self.write(&start)
    }

    /// Sends another prompt.
    pub fn send_prompt(&mut self) -> Result<()> {
        self.write(self.subject.prompt())
    }

    /// Allows a permission request.
    pub fn allow(&mut self, request: &str) -> Result<()> {
        self.write(&self.subject.allow(request))
    }

    fn write(&mut self, text: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("the bridge's input is closed")?;
        stdin.write_all(text.as_bytes()).context("the bridge no longer reads its input")
    }

    /// Waits for the first matching message, and skips all others.
    pub fn wait_for(&mut self, is_it: impl Fn(&BridgeMessage<'_>) -> bool) -> Result<()> {
        self.take_until(|message| Ok(is_it(message)))
    }

    /// Calls `take` for each message until it returns true.
    pub fn take_until(&mut self, mut take: impl FnMut(&BridgeMessage<'_>) -> Result<bool>) -> Result<()> {
        loop {
            while let Some(message) = self.next_message()? {
                if take(&message)? {
                    return Ok(());
                }
            }
            self.wait_readable()?;
            ensure!(self.read_more()?, "the bridge exited too early");
        }
    }

    /// The next message that was read already.
    pub fn next_message(&mut self) -> Result<Option<BridgeMessage<'_>>> {
        let Some(place) = memchr::memchr(b'\n', &self.buffer[self.searched..self.filled]) else {
            self.searched = self.filled;
            return Ok(None);
        };
        let end = self.searched + place;
        let line = &self.buffer[self.taken..end];
        (self.taken, self.searched) = (end + 1, end + 1);
        let message = self.subject.read(line);
        ensure!(message != BridgeMessage::Failed, "{} failed: {}", self.subject.name(), String::from_utf8_lossy(line));
        Ok(Some(message))
    }

    /// Reads once, and waits if nothing is available; false at the end.
    pub fn read_more(&mut self) -> Result<bool> {
        self.buffer.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.searched -= self.taken;
        self.taken = 0;
        if self.buffer.len() < self.filled + CHUNK_BYTES {
            self.buffer.resize(2 * self.buffer.len(), 0);
        }
        let count = self.stdout.read(&mut self.buffer[self.filled..])?;
        self.filled += count;
        Ok(count > 0)
    }

    fn wait_readable(&self) -> Result<()> {
        ensure!(!wait_readable(&[self])?.is_empty(), "{} is silent", self.subject.name());
        Ok(())
    }

    /// What the bridge uses now.
    pub fn usage(&self) -> Result<Usage> {
        process::usage(self.child.id(), &self.programs.fake_claude)
    }

    /// Closes its input, and waits until it has exited.
    pub fn end(mut self) -> Result<()> {
        self.stdin = None;
        while self.read_more()? {}
        let status = self.child.wait()?;
        ensure!(status.success(), "{} ended with {status}", self.subject.name());
        Ok(())
    }
}

/// Kills the bridge of a failed run.
impl Drop for Session {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// Waits until at least one session has output, and returns the indices of those that do; none if the time limit
/// passed.
pub fn wait_readable(sessions: &[&Session]) -> Result<Vec<usize>> {
    let mut waiting: Vec<PollFd<'_>> =
        sessions.iter().map(|session| PollFd::new(&session.stdout, PollFlags::IN)).collect();
    poll(&mut waiting, Some(&Timespec::try_from(SILENT_AT_MOST)?))?;
    let readable = waiting.iter().enumerate().filter(|(_, waiting)| !waiting.revents().is_empty());
    Ok(readable.map(|(place, _)| place).collect())
}
