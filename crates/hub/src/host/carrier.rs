//! Carries commands to the session of a CLI, each once, and their outcomes back.

use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use watari_sdk::{Command, OrderError, Orders, Request, Tool};

use super::Given;
use super::early::Early;
use crate::command_dedup::{Begun, CommandDedup, CommandOrigin, CommandOutcome, IdempotencyKey, Kind};

/// An outcome on its way to whoever gave the command.
pub(super) type Settled = (Option<IdempotencyKey>, oneshot::Sender<CommandOutcome>, CommandOutcome);

/// Enters a command that is to be carried out; none if it was given before.
pub(super) fn begin(dedup: &mut CommandDedup, given: Given) -> Option<Given> {
    let Given { sender, command, answer } = given;
    let kind = match &command {
        Command::Interrupt { .. } => Kind::Interrupt,
        Command::Prompt(_) | Command::Answer { .. } | Command::Request { .. } | Command::Close | Command::Abort => {
            Kind::Ordinary
        }
    };
    match dedup.begin(sender.idempotency_key.as_ref(), kind, answer) {
        Begun::New(answer) => Some(Given { sender, command, answer }),
        Begun::Known => None,
    }
}

/// Carries commands to the CLI's session and their outcomes back.
pub(super) struct Carrier<'a> {
    /// None once the session is told to end at once.
    pub(super) orders: Option<Orders>,
    pub(super) dedup: &'a mut CommandDedup,
    pub(super) answers: &'a mut JoinSet<Settled>,
    /// The tools of clients, for the next life of the CLI.
    pub(super) tools: &'a mut Vec<Tool>,
}

impl Carrier<'_> {
    /// Takes a command of a client, and carries it out, or has it wait for a CLI that is not ready. One that ends the
    /// session is given back.
    pub(super) fn take(&mut self, given: Given, waits_in: Option<&mut Early>) -> Option<Given> {
        let given = begin(self.dedup, given)?;
        if let Some(early) = waits_in {
            return early.take(given, self.dedup);
        }
        if let Command::Close | Command::Abort = given.command {
            return Some(given);
        }
        self.carry(given);
        None
    }

    /// Carries out a command that was entered.
    pub(super) fn carry(&mut self, given: Given) {
        let Given { sender: CommandOrigin { name, idempotency_key }, mut command, answer } = given;
        if let Command::Answer { by, .. } | Command::Request { by, .. } = &mut command {
            *by = Some(name);
        }
        if let Command::Request { request: Request::SetTools(tools), .. } = &command {
            self.tools.clone_from(tools);
        }
        let given = self.orders.as_ref().ok_or(OrderError::Ended).and_then(|orders| orders.submit(command));
        match given {
            Ok(receipt) => {
                self.answers.spawn(async move {
                    let outcome = receipt.accepted().await.map_err(|error| error.to_string());
                    (idempotency_key, answer, outcome)
                });
            }
            Err(error) => {
                self.dedup.complete(idempotency_key.as_ref(), answer, &Err(error.to_string()));
            }
        }
    }

    /// Ends the session by the command that ends it, or else in good order; at once if there is no room for that wish.
    pub(super) fn end(&mut self, ending: Option<Given>) {
        if let Some(ending) = ending {
            return self.carry(ending);
        }
        let closes = self.orders.as_ref().is_some_and(|orders| orders.submit(Command::Close).is_ok());
        if !closes {
            self.orders = None;
        }
    }

    /// Ends the session at once.
    pub(super) fn abort(&mut self) {
        let aborts = self.orders.as_ref().is_some_and(|orders| orders.submit(Command::Abort).is_ok());
        if !aborts {
            self.orders = None;
        }
    }

    pub(super) fn answered(&mut self, answered: Result<Settled, JoinError>) {
        // A task that waits for an answer does not panic, and nobody aborts it.
        if let Ok((idempotency_key, answer, outcome)) = answered {
            self.dedup.complete(idempotency_key.as_ref(), answer, &outcome);
        }
    }
}
