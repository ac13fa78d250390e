//! Commands that arrive while the CLI starts or restarts. Interrupts and commands that end the session take effect
//! immediately; the others wait until the CLI is ready.

use std::collections::VecDeque;

use watari_sdk::{Accepted, Command};

use super::Given;
use crate::command_dedup::{CommandDedup, CommandOutcome};

/// How many commands may wait for the CLI, and the total size of their prompts. More are refused, so that the host
/// still receives interrupts behind them.
const BEFORE_READY_MAX: usize = 1024;
const BEFORE_READY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The refusal of a prompt that was interrupted before the CLI could receive it.
const INTERRUPTED: &str = "interrupted while Claude Code was starting: the prompt was not sent";

/// Commands that wait for the CLI. Each is registered with the dedup.
#[derive(Debug, Default)]
pub(super) struct CommandsBeforeReady {
    waiting: VecDeque<Given>,
}

impl CommandsBeforeReady {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Puts the prompt that caused the start of the CLI in front.
    pub(super) fn put_first(&mut self, prompt: Given) {
        self.waiting.push_front(prompt);
    }

    /// Queues a registered command; returns it if it ends the session.
    pub(super) fn add(&mut self, submitted: Given, dedup: &mut CommandDedup) -> Option<Given> {
        match submitted.command {
            Command::Close | Command::Abort => return Some(submitted),
            Command::Interrupt { cancel_queued } => {
                self.interrupt(cancel_queued, dedup);
                // Without a prompt it has no effect, which is not an error.
                complete(dedup, submitted, &Ok(Accepted::Done));
            }
            Command::Prompt(_) | Command::Answer { .. } | Command::Request { .. } => self.wait(submitted, dedup),
        }
        None
    }

    fn wait(&mut self, submitted: Given, dedup: &mut CommandDedup) {
        let bytes: usize = self.waiting.iter().map(prompt_bytes).sum();
        let is_full = self.waiting.len() >= BEFORE_READY_MAX
            || (bytes > 0 && bytes + prompt_bytes(&submitted) > BEFORE_READY_BYTES_MAX);
        if is_full {
            let message = format!(
                "Claude Code is starting, and {} commands ({bytes} bytes) already wait for it: try again later",
                self.waiting.len()
            );
            return complete(dedup, submitted, &Err(message));
        }
        self.waiting.push_back(submitted);
    }

    /// Carries out an interrupt: refuses the prompt that would run first, or with `all` (`cancel_queued`) every prompt.
    fn interrupt(&mut self, all: bool, dedup: &mut CommandDedup) {
        while let Some(prompt) = self.next_prompt() {
            complete(dedup, prompt, &Err(INTERRUPTED.to_owned()));
            if !all {
                return;
            }
        }
    }

    /// Removes and returns the oldest prompt.
    pub(super) fn next_prompt(&mut self) -> Option<Given> {
        let index = self.waiting.iter().position(|submitted| matches!(submitted.command, Command::Prompt(_)))?;
        self.waiting.remove(index)
    }

    /// Removes and returns the oldest command.
    pub(super) fn pop(&mut self) -> Option<Given> {
        self.waiting.pop_front()
    }

    /// Removes and returns the oldest command, and waits forever if there is none. Cancel-safe.
    pub(super) async fn next(&mut self) -> Given {
        match self.pop() {
            Some(submitted) => submitted,
            None => std::future::pending().await,
        }
    }
}

fn complete(dedup: &mut CommandDedup, submitted: Given, outcome: &CommandOutcome) {
    dedup.complete(submitted.sender.idempotency_key.as_ref(), submitted.answer, outcome);
}

fn prompt_bytes(submitted: &Given) -> usize {
    match &submitted.command {
        Command::Prompt(prompt) => prompt.content.bytes(),
        Command::Interrupt { .. }
        | Command::Answer { .. }
        | Command::Request { .. }
        | Command::Close
        | Command::Abort => 0,
    }
}
