//! How the session of a client is ended, and the last lines.

use std::io;
use std::sync::Arc;

use tokio::time::Instant;

use super::running::{Answered, Ending};
use super::state::State;
use super::{BACKGROUND_WITHIN, Bridge, LAST_LINES_AFTER_ABORT};
use crate::dialect::bridge::{self, Fatal};

impl Bridge {
    /// A client that has closed its end waits only for what it has asked for.
    pub(super) fn look_for_the_end(&mut self) {
        let State::Running(running) = &mut self.state else { return };
        if running.ending != Ending::Draining || running.open_prompts > 0 {
            return;
        }
        if running.is_idle && !running.has_tasks {
            self.close();
        } else {
            running.give_up_at.get_or_insert_with(|| Instant::now() + BACKGROUND_WITHIN);
        }
    }

    pub(super) fn close(&mut self) {
        let State::Running(running) = &mut self.state else { return };
        running.give_up_at = None;
        running.ending = Ending::Closing;
        let client = Arc::clone(&running.client);
        self.requests.spawn(async move {
            client.close().await;
            Answered::Well
        });
    }

    /// A signal ends the session at once; a second one does not wait for the CLI to store its conversation.
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
            Answered::Well
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
                self.give_up();
            }
        }
    }

    /// Ends a session that does not run yet. One that is being started is over when nothing of it is left.
    pub(super) fn give_up(&mut self) {
        match &mut self.state {
            State::Starting { give_up, .. } => *give_up = None,
            State::Waiting | State::Over => self.over(),
            State::Running(_) => {}
        }
    }

    /// Nothing of the session is left, or there never was one.
    pub(super) fn over(&mut self) {
        self.state = State::Over;
        self.code = Some(u8::from(self.has_failed));
    }

    /// Ends the session with an error, which is the last that the client is told.
    pub(super) fn fail(&mut self, why: &str) {
        self.tell_failure(why);
        match &mut self.state {
            State::Running(running) => {
                running.ending = Ending::Aborting;
                self.abort_session();
            }
            State::Waiting | State::Starting { .. } | State::Over => self.give_up(),
        }
    }

    /// As [`Bridge::fail`], when nothing of the session is left.
    pub(super) fn fail_at_the_end(&mut self, why: &str) {
        self.tell_failure(why);
        self.over();
    }

    fn tell_failure(&mut self, why: &str) {
        if !std::mem::replace(&mut self.has_failed, true) {
            bridge::error(why, Fatal::Yes, self.outbox.lines());
        }
    }

    /// What was said is never cut, as long as the client takes something now and then.
    pub(super) async fn write_last_lines(&mut self) {
        let Some(output) = &mut self.output else { return };
        while !self.outbox.is_empty() {
            let writing = tokio::time::timeout(self.last_lines_within, output.write(self.outbox.unwritten()));
            let written = tokio::select! {
                // Both may be dropped half-way: what was not written stays, and a signal that was not heard stays too.
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
        // Where output goes through another thread, it is there when this returns.
        if let Ok(Err(error)) = tokio::time::timeout(self.last_lines_within, output.finish()).await {
            self.output_failed(&error);
        }
    }

    /// Nothing more can be read. A client that is gone has said its last; any other error is one of the session.
    pub(super) async fn input_failed(&mut self, error: &io::Error) {
        if error.kind() == io::ErrorKind::ConnectionReset {
            return self.input_ended().await;
        }
        self.input = None;
        self.fail(&format!("the input cannot be read: {error}"));
    }

    /// Nothing more can be written. A client that has closed its end wants nothing more; any other error is reported.
    pub(super) fn output_failed(&mut self, error: &io::Error) {
        self.output = None;
        let is_gone = [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset].contains(&error.kind());
        if !is_gone && !std::mem::replace(&mut self.has_lost_output, true) {
            crate::command::protocol_error(&format!("the output cannot be written, so the session ends: {error}"));
        }
    }
}
