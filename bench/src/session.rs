//! A running bridge and its client.

use std::io::{Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

use crate::process::{self, Usage};
use crate::subject::{Programs, Said, Subject};

/// After how long a bridge that says nothing is given up.
const SILENT_AT_MOST: Duration = Duration::from_secs(120);

/// How much is read at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// A bridge with a session, or before its start.
#[derive(Debug)]
pub struct Session {
    subject: Subject,
    programs: Programs,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: ChildStdout,
    /// What was read stands in it up to `filled`; up to `taken` it was looked at, up to `searched` there is no line end.
    buffer: Vec<u8>,
    filled: usize,
    taken: usize,
    searched: usize,
    folder: TempDir,
    spawned: Instant,
}

impl Session {
    /// Starts the bridge. Its CLI will play the script.
    pub fn spawn(subject: Subject, programs: &Programs, script: &str) -> Result<Session> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("script");
        std::fs::write(&path, script)?;
        let mut command = subject.command(programs).context("the Node bridge is not installed")?;
        command.env("HOME", folder.path()).env("FAKE_CLAUDE_SCRIPT", &path).current_dir(folder.path());
        let spawned = Instant::now();
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().context("cannot start it")?;
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

    /// Waits until it can be talked to, and says how long that took since it was started.
    pub fn wait_ready(&mut self) -> Result<Duration> {
        if self.subject.says_ready() {
            self.wait_for(|said| matches!(said, Said::Ready))?;
        }
        Ok(self.spawned.elapsed())
    }

    /// Since when it runs.
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

    /// Allows what was asked for.
    pub fn allow(&mut self, request: &str) -> Result<()> {
        self.write(&self.subject.allow(request))
    }

    fn write(&mut self, text: &str) -> Result<()> {
        let stdin = self.stdin.as_mut().context("its input is closed")?;
        stdin.write_all(text.as_bytes()).context("it does not listen any more")
    }

    /// Waits for the first line of a kind, and passes over all others.
    pub fn wait_for(&mut self, is_it: impl Fn(&Said<'_>) -> bool) -> Result<()> {
        self.take_until(|said| Ok(is_it(said)))
    }

    /// Takes line after line until one is the last that is wanted.
    pub fn take_until(&mut self, mut take: impl FnMut(&Said<'_>) -> Result<bool>) -> Result<()> {
        loop {
            while let Some(said) = self.next_said()? {
                if take(&said)? {
                    return Ok(());
                }
            }
            self.wait_readable()?;
            ensure!(self.read_more()?, "it ended in the middle");
        }
    }

    /// The next line that was read already.
    pub fn next_said(&mut self) -> Result<Option<Said<'_>>> {
        let Some(place) = memchr::memchr(b'\n', &self.buffer[self.searched..self.filled]) else {
            self.searched = self.filled;
            return Ok(None);
        };
        let end = self.searched + place;
        let line = &self.buffer[self.taken..end];
        (self.taken, self.searched) = (end + 1, end + 1);
        let said = self.subject.read(line);
        ensure!(said != Said::Failed, "{} said: {}", self.subject.name(), String::from_utf8_lossy(line));
        Ok(Some(said))
    }

    /// Reads once, and waits if there is nothing; false at the end.
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
        ensure!(!wait_readable(&[self])?.is_empty(), "{} says nothing any more", self.subject.name());
        Ok(())
    }

    /// What the bridge uses now.
    pub fn usage(&self) -> Result<Usage> {
        process::usage(self.child.id(), &self.programs.fake_claude)
    }

    /// Closes its input, and waits until it has ended.
    pub fn end(mut self) -> Result<()> {
        self.stdin = None;
        while self.read_more()? {}
        let status = self.child.wait()?;
        ensure!(status.success(), "{} ended with {status}", self.subject.name());
        Ok(())
    }
}

/// A bridge of a run that failed does not stay.
impl Drop for Session {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _waited = self.child.wait();
    }
}

/// Waits until at least one of them says something, and gives the places of those that do; none when all are silent
/// for too long.
pub fn wait_readable(sessions: &[&Session]) -> Result<Vec<usize>> {
    let mut waiting: Vec<PollFd<'_>> =
        sessions.iter().map(|session| PollFd::new(&session.stdout, PollFlags::IN)).collect();
    poll(&mut waiting, Some(&Timespec::try_from(SILENT_AT_MOST)?))?;
    let readable = waiting.iter().enumerate().filter(|(_, waiting)| !waiting.revents().is_empty());
    Ok(readable.map(|(place, _)| place).collect())
}
