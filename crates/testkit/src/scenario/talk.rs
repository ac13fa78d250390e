//! A conversation with one CLI in its own words: lines to it, messages from it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use watari_sdk::{RawProcess, RawStart, StartError, Supervisor};

use super::file::Form;
use crate::sandbox::{ROOM_FLAGS, SKIP_PERMISSIONS, Sandbox};

/// How much a CLI may say in one form of a scenario, and in how many messages.
const SAID_BYTES_MAX: u64 = 32 * 1024 * 1024;
const MESSAGES_MAX: usize = 20_000;

/// How much of what a CLI complains of is kept.
const COMPLAINT_BYTES_MAX: usize = 2000;

/// How long the end of what a CLI complains of is waited for when it is gone.
const COMPLAINTS_WITHIN: Duration = Duration::from_secs(1);

/// The CLI that is spoken with.
#[derive(Debug, Clone)]
pub struct Cli {
    /// Its path.
    pub program: PathBuf,
    /// Who sees to it that nothing of it is left.
    pub supervisor: Supervisor,
}

/// Up to when a conversation may go on.
#[derive(Debug, Clone)]
pub(super) struct Until {
    pub(super) limit: Duration,
    /// Turns true when it is to be ended before that.
    pub(super) stop: watch::Receiver<bool>,
}

/// A CLI that runs, and up to when.
pub(super) struct Talk {
    process: RawProcess,
    stdin: Option<pipe::Sender>,
    stdout: Option<BufReader<pipe::Receiver>>,
    complaints: JoinSet<String>,
    stop: watch::Receiver<bool>,
    deadline: Instant,
    said_bytes: u64,
    messages: usize,
}

/// What came when a message was waited for.
#[derive(Debug)]
pub(super) enum Received {
    Message(Value),
    /// The CLI closed its output.
    End,
    /// The time for the scenario is over, or it is to be stopped.
    TooLate,
    /// More came than a scenario can be about.
    TooMuch,
}

impl Talk {
    pub(super) async fn start(cli: &Cli, sandbox: &Sandbox, form: &Form, until: &Until) -> Result<Talk, StartError> {
        let skip = form.skip_permissions.then_some(SKIP_PERMISSIONS);
        let flags = ROOM_FLAGS.into_iter().chain(skip).chain(form.flags.iter().map(String::as_str));
        let start = RawStart {
            program: cli.program.clone(),
            arguments: flags.map(Into::into).collect(),
            directory: sandbox.cwd().to_owned(),
            environment: sandbox.environment(),
            supervisor: cli.supervisor.clone(),
        };
        let mut process = RawProcess::start(start).await?;
        let stdin = process.stdin.take();
        let stdout = process.stdout.take().map(BufReader::new);
        let mut complaints = JoinSet::new();
        if let Some(stderr) = process.stderr.take() {
            complaints.spawn(keep_beginning(stderr));
        }
        let deadline = Instant::now() + until.limit;
        Ok(Talk { process, stdin, stdout, complaints, stop: until.stop.clone(), deadline, said_bytes: 0, messages: 0 })
    }

    /// Sends a line. A CLI that does not read it any more is heard of by listening.
    pub(super) async fn send(&mut self, line: &Value) {
        let Some(stdin) = &mut self.stdin else { return };
        let line = format!("{line}\n");
        let sent = timeout_at(self.deadline, stdin.write_all(line.as_bytes())).await;
        if !matches!(sent, Ok(Ok(()))) {
            self.stdin = None;
        }
    }

    /// The next message. A line that is not JSON comes as a message of a type that no CLI has.
    pub(super) async fn receive(&mut self) -> Received {
        let Some(stdout) = &mut self.stdout else { return Received::End };
        let mut line = Vec::new();
        let mut stdout = stdout.take(SAID_BYTES_MAX - self.said_bytes);
        let read = tokio::select! {
            // All three may be dropped half-way: after any of them the conversation is over, or the line is whole.
            read = stdout.read_until(b'\n', &mut line) => read,
            () = tokio::time::sleep_until(self.deadline) => return Received::TooLate,
            () = asked_to_stop(&mut self.stop) => return Received::TooLate,
        };
        self.said_bytes += line.len() as u64;
        self.messages += 1;
        match read {
            Ok(_) if self.said_bytes >= SAID_BYTES_MAX || self.messages > MESSAGES_MAX => Received::TooMuch,
            Err(_) | Ok(0) => Received::End,
            Ok(_) => Received::Message(serde_json::from_slice(&line).unwrap_or_else(|_| {
                let text = String::from_utf8_lossy(&line);
                json!({"type": "not_json", "text": text.trim_end()})
            })),
        }
    }

    /// Ends the CLI with everything it started, and tells what it complained of.
    pub(super) async fn end(mut self) -> Result<String, io::Error> {
        drop((self.stdin.take(), self.stdout.take()));
        let left = self.process.end().await;
        if left > 0 {
            return Err(io::Error::other(format!("{left} processes of the CLI could not be ended")));
        }
        // Everything that could hold its end of the pipe is gone; but for what got away where that cannot be helped.
        match timeout(COMPLAINTS_WITHIN, self.complaints.join_next()).await {
            Ok(Some(Ok(complaints))) => Ok(complaints),
            Ok(Some(Err(_)) | None) | Err(_) => Ok(String::new()),
        }
    }
}

/// Waits until it is said to stop; for ever if nobody is left who could say so.
async fn asked_to_stop(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending().await
    }
}

/// Reads to the end and keeps the beginning.
async fn keep_beginning(mut stderr: pipe::Receiver) -> String {
    let (mut kept, mut piece) = (Vec::new(), vec![0; 8192]);
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        let room = COMPLAINT_BYTES_MAX.saturating_sub(kept.len());
        kept.extend_from_slice(&piece[..count.min(room)]);
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}
