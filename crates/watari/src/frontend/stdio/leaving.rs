//! How the session of a client is ended, and the last lines.

use std::sync::Arc;

use super::running::{Answered, Ending};
use super::state::State;
use super::{Bridge, LAST_LINES_AFTER_ABORT};

impl Bridge {
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
            // A CLI that is being started is ended by its keeper when nobody wants it any more.
            State::Waiting | State::Starting { .. } | State::Over => {
                self.state = State::Over;
                self.code = Some(self.code.unwrap_or(0));
            }
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
                () = self.signals.heard() => {
                    self.last_lines_within = self.last_lines_within.min(LAST_LINES_AFTER_ABORT);
                    continue;
                }
            };
            match written {
                Ok(Ok(count)) => {
                    self.outbox.written(count);
                }
                Ok(Err(_)) | Err(_) => return,
            }
        }
        // Where output goes through another thread, it is there when this returns.
        let _flushed = tokio::time::timeout(self.last_lines_within, output.flush()).await;
    }
}
