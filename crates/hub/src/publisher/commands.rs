//! Commands, as the session's sink sees them: each is carried out once, and acknowledged when its effect is stored.

use watari_sdk::{Command, HostEvent, Refusal, Request};

use super::Publisher;
use crate::command_dedup::{Registration, Retention};
use crate::ticket::{CommandOutcome, Ticket};

impl Publisher {
    /// Registers a command; `None` if it was sent before. A command that ends the session is announced to all clients
    /// before it has any effect.
    pub(super) fn register_command(&mut self, command: &Command, ticket: Ticket) -> Option<Ticket> {
        let Ticket { idempotency_key, reply_to } = ticket;
        let retention = match command {
            Command::Interrupt { .. } => Retention::Interrupt,
            Command::Prompt(_) | Command::Answer { .. } | Command::Request { .. } | Command::Close | Command::Abort => {
                Retention::Normal
            }
        };
        let reply_to = match self.dedup.begin(idempotency_key.as_ref(), retention, reply_to) {
            Registration::New(reply_to) => reply_to,
            Registration::Duplicate => return None,
        };
        if let Command::Close | Command::Abort = command
            && let Some(reason) = self.stop.closed_by_client()
        {
            self.publish(HostEvent::HostStopping { reason });
        }
        Some(Ticket { idempotency_key, reply_to })
    }

    /// Checks whether a command may be carried out now. The storage is verified as well: another program may just have
    /// removed the log.
    pub(super) fn admit_command(&mut self, command: &Command) -> Result<(), Refusal> {
        self.verify();
        // A command that is allowed while events cannot be stored does not wait for storage, which may take long.
        self.awaits_storage = self.storage_failure.is_none();
        self.offered_tools = match command {
            Command::Request { request: Request::SetTools(tools), .. } => Some(tools.clone()),
            Command::Request { .. }
            | Command::Prompt(_)
            | Command::Interrupt { .. }
            | Command::Answer { .. }
            | Command::Close
            | Command::Abort => None,
        };
        let Some((why, _)) = &self.storage_failure else { return Ok(()) };
        match command {
            Command::Prompt(_) | Command::Answer { .. } | Command::Request { .. } => {
                Err(Refusal::LogUnavailable { why: why.clone() })
            }
            Command::Interrupt { .. } | Command::Close | Command::Abort => Ok(()),
        }
    }

    /// Takes the outcome of a command that was registered.
    pub(crate) fn complete_command(&mut self, ticket: Ticket, outcome: CommandOutcome) {
        if let (Some(tools), Ok(_)) = (self.offered_tools.take(), &outcome) {
            self.settings.set_tools(tools);
        }
        if outcome.is_ok() && self.awaits_storage {
            self.unacknowledged.push((ticket, outcome));
        } else {
            self.dedup.complete(ticket, &outcome);
        }
    }

    /// Acknowledges the completed commands, if their events are stored.
    pub(crate) fn acknowledge_commands(&mut self) {
        if self.storage_failure.is_none() {
            for (ticket, outcome) in self.unacknowledged.drain(..) {
                self.dedup.complete(ticket, &outcome);
            }
        }
    }
}
