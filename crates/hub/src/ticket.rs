//! The way of a command's outcome back to the connection that sent it.

use tokio::sync::mpsc::OwnedPermit;
use watari_sdk::{Accepted, Refusal};

use crate::command_dedup::IdempotencyKey;

/// The outcome of a command.
pub type CommandOutcome = Result<Accepted, Refusal>;

/// The outcome of a connection's command.
#[derive(Debug)]
pub struct Acknowledgement {
    /// The number that the connection gave the command.
    pub command: u64,
    /// The outcome.
    pub outcome: CommandOutcome,
}

/// A reserved place in a connection's queue of acknowledgements: each command is answered exactly once, without
/// waiting. If it is dropped, the session has ended.
#[derive(Debug)]
pub struct ReplyTo {
    command: u64,
    place: Option<OwnedPermit<Acknowledgement>>,
}

impl ReplyTo {
    /// Creates the way back for the command with this number.
    pub fn new(command: u64, place: OwnedPermit<Acknowledgement>) -> ReplyTo {
        ReplyTo { command, place: Some(place) }
    }

    pub(crate) fn send(mut self, outcome: CommandOutcome) {
        self.fill(outcome);
    }

    fn fill(&mut self, outcome: CommandOutcome) {
        if let Some(place) = self.place.take() {
            place.send(Acknowledgement { command: self.command, outcome });
        }
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        self.fill(Err(Refusal::SessionClosed));
    }
}

/// Identifies a command and its sender.
#[derive(Debug)]
pub struct Ticket {
    /// Set if the command must not be carried out twice.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Where the outcome goes.
    pub reply_to: ReplyTo,
}
