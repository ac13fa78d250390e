//! Ends the session and writes the last lines.

use std::io;
use std::sync::Arc;

use tokio::time::Instant;

use super::running::{Answered, Ending};
use super::state::State;
use super::{BACKGROUND_WITHIN, LAST_LINES_AFTER_ABORT, StdioSession};
use crate::dialect::bridge::{self};

impl StdioSession {
    /// Closes the session of a client that has closed its input, once its prompts and background work are done.
    pub(super) fn close_if_drained(&mut self) {
        let State::Running(running) = &mut self.state else { return };
        if running.ending != Ending::Draining || running.open_prompts > 0 {
            return;
        }
        if running.is_idle && !running.has_tasks {
            self.close();
        } else {
            running.background_deadline.get_or_insert_with(|| Instant::now() + BACKGROUND_WITHIN);
        }
    }

    pub(super) fn close(&mut self) {
        let State::Running(running) = &mut self.state else { return };
        running.background_deadline = None;
        running.ending = Ending::Closing;
        let client = Arc::clone(&running.client);
        self.requests.spawn(async move {
            client.close().await;
            Answered::Succeeded
        });
    }

    /// A signal aborts the session; a second one does not wait for the CLI to store its conversation.
    pub(super) fn signalled(&mut self) {
        match &self.state {
            State::Running(running) if running.ending == Ending::Aborting => self.abort_session(),
            State::Waiting | State::Starting { .. } | State::Running(_) | State::Over => self.abort(),
        }
    }

    fn abort_session(&mut self) {
        let State::Running(running) = &self.state else { return };
        let client = Arc::clone(&running.client);
        self.requests.spawn(async move {
            client.abort().await;
            Answered::Succeeded
        });
    }

    pub(super) fn abort(&mut self) {
        match &mut self.state {
            State::Running(running) if running.ending != Ending::Aborting => {
                running.ending = Ending::Aborting;
                self.abort_session();
            }
            State::Running(_) => {}
            State::Starting { .. } | State::Waiting | State::Over => {
                self.last_lines_within = LAST_LINES_AFTER_ABORT;
                self.cancel_start();
            }
        }
    }

    /// Ends a session that is not running yet. A session that is starting is over when its processes have exited.
    pub(super) fn cancel_start(&mut self) {
        match &mut self.state {
            State::Starting { start_guard, .. } => *start_guard = None,
            State::Waiting | State::Over => self.finish(),
            State::Running(_) => {}
        }
    }

    /// The session is over, or was never started.
    pub(super) fn finish(&mut self) {
        self.state = State::Over;
        self.code = Some(u8::from(self.has_failed));
    }

    /// Ends the session with an error, which is the last line that the client receives.
    pub(super) fn fail(&mut self, why: &str) {
        self.send_fatal_error(why);
        match &mut self.state {
            State::Running(running) => {
                running.ending = Ending::Aborting;
                self.abort_session();
            }
            State::Waiting | State::Starting { .. } | State::Over => self.cancel_start(),
        }
    }

    /// Like [`StdioSession::fail`], for a session that is already over.
    pub(super) fn fail_ended_session(&mut self, why: &str) {
        self.send_fatal_error(why);
        self.finish();
    }

    fn send_fatal_error(&mut self, why: &str) {
        if !std::mem::replace(&mut self.has_failed, true) {
            bridge::fatal_error(why, self.outbox.lines());
        }
    }

    /// Writes the remaining lines, as long as the client keeps reading.
    pub(super) async fn write_last_lines(&mut self) {
        let Some(output) = &mut self.output else { return };
        while !self.outbox.is_empty() {
            let writing = tokio::time::timeout(self.last_lines_within, output.write(self.outbox.unwritten()));
            let written = tokio::select! {
                // Both may be dropped half-way: unwritten bytes stay in the outbox, and a signal stays pending.
                written = writing => written,
                () = self.signals.received() => {
                    self.last_lines_within = self.last_lines_within.min(LAST_LINES_AFTER_ABORT);
                    continue;
                }
            };
            match written {
                Ok(Ok(count)) => {
                    self.outbox.written(count);
                }
                Ok(Err(error)) => return self.output_failed(&error),
                Err(_) => return,
            }
        }
        // If a thread copies the output, this waits for it.
        if let Ok(Err(error)) = tokio::time::timeout(self.last_lines_within, output.finish()).await {
            self.output_failed(&error);
        }
    }

    /// The client's input has ended.
    pub(super) async fn input_ended(&mut self) {
        self.input = None;
        let mut lines = std::mem::take(&mut self.lines);
        if let Some(line) = lines.last() {
            self.handle_line(line).await;
        }
        match self.state {
            State::Waiting => self.finish(),
            // The client has interrupted all its prompts.
            State::Starting { ref prompts, .. } if prompts.is_empty() => self.cancel_start(),
            // The queued prompts run when the session has started.
            State::Starting { .. } | State::Over => {}
            State::Running(_) => self.drain().await,
        }
    }

    /// The client's input has ended: denies open asks, and lets the session finish its prompts.
    pub(super) async fn drain(&mut self) {
        let State::Running(running) = &mut self.state else { return };
        running.drain(&mut self.outbox).await;
        if running.is_stalled {
            // No later event reports it, and nobody is left who could interrupt the turn.
            running.interrupt_all(&mut self.requests, &mut self.outbox).await;
        }
        self.close_if_drained();
    }

    /// The input cannot be read. A client that has disconnected ends its input; any other error fails the session.
    pub(super) async fn input_failed(&mut self, error: &io::Error) {
        if error.kind() == io::ErrorKind::ConnectionReset {
            return self.input_ended().await;
        }
        self.input = None;
        self.fail(&format!("cannot read the input: {error}"));
    }

    /// The output cannot be written. A client that has closed its end expects nothing; any other error is reported.
    pub(super) fn output_failed(&mut self, error: &io::Error) {
        self.output = None;
        let is_disconnected = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset].contains(&error.kind());
        if !is_disconnected && !std::mem::replace(&mut self.has_lost_output, true) {
            crate::command::print_error(&format!("cannot write the output, so the session ends: {error}"));
        }
    }
}
