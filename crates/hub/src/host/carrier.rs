//! Submits commands to the CLI's session, each once, and returns their outcomes.

use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};
use watari_sdk::{Accepted, Command, OrderError, Orders, Request, Tool};

use super::Given;
use super::before_ready::CommandsBeforeReady;
use crate::command_dedup::{CommandDedup, CommandOrigin, CommandOutcome, IdempotencyKey, Registration, Retention};

/// An outcome on its way to the command's sender.
pub(super) type CompletedCommand = (Option<IdempotencyKey>, oneshot::Sender<CommandOutcome>, CommandOutcome);

/// Registers a command with the dedup; returns none if it was sent before.
pub(super) fn register(dedup: &mut CommandDedup, submitted: Given) -> Option<Given> {
    let Given { sender, command, answer } = submitted;
    let retention = match &command {
        Command::Interrupt { .. } => Retention::Interrupt,
        Command::Prompt(_) | Command::Answer { .. } | Command::Request { .. } | Command::Close | Command::Abort => {
            Retention::Normal
        }
    };
    match dedup.begin(sender.idempotency_key.as_ref(), retention, answer) {
        Registration::New(answer) => Some(Given { sender, command, answer }),
        Registration::Duplicate => None,
    }
}

/// Submits commands to the CLI's session, and returns their outcomes.
pub(super) struct Carrier<'a> {
    /// Dropped to abort the session: a session that can get no more commands ends itself.
    pub(super) orders: Option<Orders>,
    pub(super) dedup: &'a mut CommandDedup,
    pub(super) answers: &'a mut JoinSet<CompletedCommand>,
    /// The clients' tools, for the next process of the CLI.
    pub(super) tools: &'a mut Vec<Tool>,
}

impl Carrier<'_> {
    /// Registers a client's command, and submits it, or queues it while the CLI is not ready. A command that ends the
    /// session is not submitted but returned.
    pub(super) fn register_and_submit(
        &mut self,
        submitted: Given,
        queue: Option<&mut CommandsBeforeReady>,
    ) -> Option<Given> {
        let submitted = register(self.dedup, submitted)?;
        if let Some(before_ready) = queue {
            return before_ready.add(submitted, self.dedup);
        }
        if let Command::Close | Command::Abort = submitted.command {
            return Some(submitted);
        }
        self.submit(submitted);
        None
    }

    /// Submits a registered command. If the command queue is full, the command is refused; one that ends the session is
    /// not, and the session is aborted.
    pub(super) fn submit(&mut self, submitted: Given) {
        let Given { sender: CommandOrigin { name, idempotency_key }, mut command, answer } = submitted;
        if let Command::Answer { by, .. } | Command::Request { by, .. } = &mut command {
            *by = Some(name);
        }
        if let Command::Request { request: Request::SetTools(tools), .. } = &command {
            self.tools.clone_from(tools);
        }
        let ends_session = matches!(command, Command::Close | Command::Abort);
        let receipt = self.orders.as_ref().ok_or(OrderError::Ended).and_then(|orders| orders.submit(command));
        match receipt {
            Ok(receipt) => {
                self.answers.spawn(async move {
                    let outcome = receipt.accepted().await.map_err(|error| error.to_string());
                    (idempotency_key, answer, outcome)
                });
            }
            Err(OrderError::Busy) if ends_session => {
                self.orders = None;
                self.dedup.complete(idempotency_key.as_ref(), answer, &Ok(Accepted::Done));
            }
            Err(error) => {
                self.dedup.complete(idempotency_key.as_ref(), answer, &Err(error.to_string()));
            }
        }
    }

    /// Closes the session with the command that ends it, or else with a close; aborts it if the command queue is full.
    pub(super) fn end(&mut self, closing_command: Option<Given>) {
        if let Some(closing_command) = closing_command {
            return self.submit(closing_command);
        }
        let closes = self.orders.as_ref().is_some_and(|orders| orders.submit(Command::Close).is_ok());
        if !closes {
            self.orders = None;
        }
    }

    /// Ends the session immediately.
    pub(super) fn abort(&mut self) {
        let aborts = self.orders.as_ref().is_some_and(|orders| orders.submit(Command::Abort).is_ok());
        if !aborts {
            self.orders = None;
        }
    }

    pub(super) fn complete(&mut self, answered: Result<CompletedCommand, JoinError>) {
        // A task that waits for an outcome does not panic and is not aborted.
        if let Ok((idempotency_key, answer, outcome)) = answered {
            self.dedup.complete(idempotency_key.as_ref(), answer, &outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::task::{Context, Poll};
    use std::time::Duration;

    use watari_sdk::{Event, Options, Sink, open};

    use super::*;

    struct Ignored;

    impl Sink for Ignored {
        fn emit(&mut self, _event: Event) {}

        fn poll_room(&mut self, _context: &mut Context<'_>) -> Poll<()> {
            Poll::Ready(())
        }

        fn begin_closing(&mut self) {}
    }

    #[tokio::test]
    async fn a_command_that_ends_the_session_ends_it_even_if_the_command_queue_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let claude = folder.path().join("claude");
        fs::write(&claude, "#!/bin/sh\nexec sleep 600\n").unwrap();
        fs::set_permissions(&claude, fs::Permissions::from_mode(0o755)).unwrap();
        let cwd = Some(folder.path().to_owned());
        let (opening, running) =
            open(Options { claude: Some(claude), cwd, ..Options::default() }, Ignored).await.unwrap();
        let orders = opening.orders();
        drop(opening);
        // The session does not run yet, so it receives none of these.
        while orders.submit(Command::Interrupt { cancel_queued: false }).is_ok() {}
        let (mut dedup, mut answers, mut tools) = (CommandDedup::default(), JoinSet::new(), Vec::new());
        let mut carrier = Carrier { orders: Some(orders), dedup: &mut dedup, answers: &mut answers, tools: &mut tools };
        let (answer, answered) = oneshot::channel();
        let sender = CommandOrigin { name: "a client".to_owned(), idempotency_key: None };
        carrier.end(Some(Given { sender, command: Command::Close, answer }));
        tokio::time::timeout(Duration::from_secs(20), running).await.unwrap();
        assert_eq!(answered.await.unwrap(), Ok(Accepted::Done));
    }
}
