//! Raw stream-json with one CLI: lines to it, messages from it.

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
use crate::sandbox::{SANDBOX_FLAGS, SKIP_PERMISSIONS, Sandbox};

/// How much a CLI may send in one form of a scenario, and in how many messages.
const RECEIVED_BYTES_MAX: u64 = 32 * 1024 * 1024;
const MESSAGES_MAX: usize = 20_000;

/// How much of a CLI's stderr is stored.
const STDERR_BYTES_MAX: usize = 2000;

/// How long to wait for the end of stderr after the CLI has exited.
const STDERR_WITHIN: Duration = Duration::from_secs(1);

/// A CLI to talk to.
#[derive(Debug, Clone)]
pub struct Cli {
    /// Its path.
    pub program: PathBuf,
    /// The supervisor that terminates everything it starts.
    pub supervisor: Supervisor,
}

/// When a conversation ends.
#[derive(Debug, Clone)]
pub(super) struct Until {
    pub(super) limit: Duration,
    /// Becomes true when it is to end earlier.
    pub(super) stop: watch::Receiver<bool>,
}

/// A running CLI, and its deadline.
pub(super) struct Talk {
    process: RawProcess,
    stdin: Option<pipe::Sender>,
    stdout: Option<BufReader<pipe::Receiver>>,
    errors: JoinSet<String>,
    stop: watch::Receiver<bool>,
    deadline: Instant,
    received_bytes: u64,
    messages: usize,
}

/// The result of waiting for a message.
#[derive(Debug)]
pub(super) enum Received {
    Message(Value),
    /// The CLI closed its output.
    End,
    /// The time limit passed, or the check is stopped.
    TooLate,
    /// The CLI sent more than a scenario may.
    TooMuch,
}

impl Talk {
    pub(super) async fn start(cli: &Cli, sandbox: &Sandbox, form: &Form, until: &Until) -> Result<Talk, StartError> {
        let skip = form.skip_permissions.then_some(SKIP_PERMISSIONS);
        let flags = SANDBOX_FLAGS.into_iter().chain(skip).chain(form.flags.iter().map(String::as_str));
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
        let mut errors = JoinSet::new();
        if let Some(stderr) = process.stderr.take() {
            errors.spawn(read_beginning(stderr));
        }
        let deadline = Instant::now() + until.limit;
        Ok(Talk { process, stdin, stdout, errors, stop: until.stop.clone(), deadline, received_bytes: 0, messages: 0 })
    }

    /// Sends a line. If the CLI no longer reads, `receive` shows it.
    pub(super) async fn send(&mut self, line: &Value) {
        let Some(stdin) = &mut self.stdin else { return };
        let line = format!("{line}\n");
        let sent = timeout_at(self.deadline, stdin.write_all(line.as_bytes())).await;
        if !matches!(sent, Ok(Ok(()))) {
            self.stdin = None;
        }
    }

    /// Returns the next message. A line that is not JSON becomes a message of a type that no CLI uses.
    pub(super) async fn receive(&mut self) -> Received {
        let Some(stdout) = &mut self.stdout else { return Received::End };
        let mut line = Vec::new();
        let mut stdout = stdout.take(RECEIVED_BYTES_MAX - self.received_bytes);
        let read = tokio::select! {
            // Each of the three may be cancelled: after any of them the conversation is over, or the line is complete.
            read = stdout.read_until(b'\n', &mut line) => read,
            () = tokio::time::sleep_until(self.deadline) => return Received::TooLate,
            () = stopped(&mut self.stop) => return Received::TooLate,
        };
        self.received_bytes += line.len() as u64;
        self.messages += 1;
        match read {
            Ok(_) if self.received_bytes >= RECEIVED_BYTES_MAX || self.messages > MESSAGES_MAX => Received::TooMuch,
            Err(_) | Ok(0) => Received::End,
            Ok(_) => Received::Message(serde_json::from_slice(&line).unwrap_or_else(|_| {
                let text = String::from_utf8_lossy(&line);
                json!({"type": "not_json", "text": text.trim_end()})
            })),
        }
    }

    /// Terminates the CLI with its process tree, and returns its stderr.
    pub(super) async fn end(mut self) -> Result<String, io::Error> {
        drop((self.stdin.take(), self.stdout.take()));
        let left = self.process.end().await;
        if left > 0 {
            return Err(io::Error::other(format!("{left} processes of the CLI could not be terminated")));
        }
        // Every process that could hold the pipe open has exited, except those that escaped where that cannot be
        // prevented.
        match timeout(STDERR_WITHIN, self.errors.join_next()).await {
            Ok(Some(Ok(errors))) => Ok(errors),
            Ok(Some(Err(_)) | None) | Err(_) => Ok(String::new()),
        }
    }
}

/// Waits for a stop; forever if the sender is dropped.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        std::future::pending().await
    }
}

/// Reads to the end and stores the beginning.
async fn read_beginning(mut stderr: pipe::Receiver) -> String {
    let (mut stored, mut piece) = (Vec::new(), vec![0; 8192]);
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        let room = STDERR_BYTES_MAX.saturating_sub(stored.len());
        stored.extend_from_slice(&piece[..count.min(room)]);
    }
    String::from_utf8_lossy(&stored).trim().to_owned()
}
