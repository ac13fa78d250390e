//! The queue of a session's commands. It outlives a process of the CLI: its owner lends it to one process after another.

use std::collections::VecDeque;

use tokio::sync::mpsc;
use watari_protocol::{Accepted, Command, Refusal};

use crate::sink::Sink;

/// How many commands may wait in the queue. After that, their senders wait.
const COMMANDS_WAITING_MAX: usize = 64;

/// How many commands may wait for the CLI to become ready, and the total size of their prompts. More are refused, so
/// that an interrupt behind them is still received.
const BEFORE_READY_MAX: usize = 1024;
const BEFORE_READY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A command on its way to the session. Its sender gets the outcome through the ticket.
#[derive(Debug)]
pub struct Envelope<T> {
    /// The command.
    pub command: Command,
    /// Identifies the sender and the command to the session's [`Sink`].
    pub ticket: T,
}

/// The receiving end of a session's commands.
#[derive(Debug)]
pub struct CommandQueue<T> {
    received: mpsc::Receiver<Envelope<T>>,
    /// Commands that wait until the CLI is ready, in order. The sink has registered each.
    before_ready: VecDeque<Envelope<T>>,
}

/// Creates the queue of a session's commands.
pub fn command_queue<T>() -> (mpsc::Sender<Envelope<T>>, CommandQueue<T>) {
    let (sender, received) = mpsc::channel(COMMANDS_WAITING_MAX);
    (sender, CommandQueue { received, before_ready: VecDeque::new() })
}

impl<T> CommandQueue<T> {
    /// Receives the next new command; `None` when every sender was dropped. Cancel-safe. Register it with the sink.
    pub async fn receive(&mut self) -> Option<Envelope<T>> {
        self.received.recv().await
    }

    /// Returns the oldest command that waited for the CLI.
    pub fn take_waiting(&mut self) -> Option<Envelope<T>> {
        self.before_ready.pop_front()
    }

    /// Whether commands wait for the CLI.
    pub fn has_waiting(&self) -> bool {
        !self.before_ready.is_empty()
    }

    /// Puts a registered command in front of those that wait for the CLI.
    pub fn put_first(&mut self, envelope: Envelope<T>) {
        self.before_ready.push_front(envelope);
    }

    /// Removes and returns the oldest prompt that waits for the CLI.
    pub fn take_waiting_prompt(&mut self) -> Option<Envelope<T>> {
        let index = self.before_ready.iter().position(|waiting| matches!(waiting.command, Command::Prompt(_)))?;
        self.before_ready.remove(index)
    }

    /// Handles a registered command while the CLI is not ready: an interrupt takes effect immediately, and most others
    /// wait. Returns a command that ends the session.
    pub(crate) fn hold(&mut self, envelope: Envelope<T>, sink: &mut impl Sink<Ticket = T>) -> Option<Envelope<T>> {
        match envelope.command {
            Command::Close | Command::Abort => return Some(envelope),
            Command::Interrupt { cancel_queued } => {
                self.interrupt(cancel_queued, sink);
                // Without a prompt it has no effect, which is not an error.
                sink.complete(envelope.ticket, Ok(Accepted::Done));
            }
            Command::Prompt(_) | Command::Answer { .. } | Command::Request { .. } => match self.refusal_of(&envelope) {
                Some(refusal) => sink.complete(envelope.ticket, Err(refusal)),
                None => self.before_ready.push_back(envelope),
            },
            #[cfg(not(feature = "exhaustive"))]
            _ => self.before_ready.push_back(envelope),
        }
        None
    }

    fn refusal_of(&self, envelope: &Envelope<T>) -> Option<Refusal> {
        let (waiting, bytes) = (self.before_ready.len(), self.before_ready.iter().map(prompt_bytes).sum());
        let is_full =
            waiting >= BEFORE_READY_MAX || (bytes > 0 && bytes + prompt_bytes(envelope) > BEFORE_READY_BYTES_MAX);
        is_full.then_some(Refusal::CliStarting { waiting, bytes })
    }

    /// Refuses the prompt that would run first, or with `all` (`cancel_queued`) every prompt.
    fn interrupt(&mut self, all: bool, sink: &mut impl Sink<Ticket = T>) {
        while let Some(prompt) = self.take_waiting_prompt() {
            sink.complete(prompt.ticket, Err(Refusal::InterruptedBeforeSent));
            if !all {
                return;
            }
        }
    }
}

fn prompt_bytes<T>(envelope: &Envelope<T>) -> usize {
    match &envelope.command {
        Command::Prompt(prompt) => prompt.content.bytes(),
        Command::Interrupt { .. }
        | Command::Answer { .. }
        | Command::Request { .. }
        | Command::Close
        | Command::Abort => 0,
        #[cfg(not(feature = "exhaustive"))]
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use watari_protocol::{Event, Request};

    use super::*;

    type Outcome = Result<Accepted, Refusal>;

    /// A sink that only collects the outcomes of commands.
    #[derive(Default)]
    struct Outcomes(Vec<(u32, Outcome)>);

    impl Sink for Outcomes {
        type Ticket = u32;

        fn emit(&mut self, _event: Event) {}

        fn poll_room(&mut self, _context: &mut Context<'_>) -> Poll<()> {
            Poll::Ready(())
        }

        fn begin_closing(&mut self) {}

        fn complete(&mut self, ticket: u32, outcome: Outcome) {
            self.0.push((ticket, outcome));
        }
    }

    fn prompt() -> Command {
        Command::Prompt("go".into())
    }

    fn interrupt(cancel_queued: bool) -> Command {
        Command::Interrupt { cancel_queued }
    }

    /// Holds commands, whose tickets are their places, and returns the queue and the outcomes.
    fn held(commands: Vec<Command>) -> (CommandQueue<u32>, Vec<(u32, Outcome)>) {
        let ((_sender, mut queue), mut sink) = (command_queue(), Outcomes::default());
        for (ticket, command) in (0..).zip(commands) {
            assert!(queue.hold(Envelope { command, ticket }, &mut sink).is_none());
        }
        (queue, sink.0)
    }

    fn waiting(queue: &CommandQueue<u32>) -> Vec<u32> {
        queue.before_ready.iter().map(|envelope| envelope.ticket).collect()
    }

    #[test]
    fn an_interrupt_refuses_the_prompt_that_would_run_first_and_commands_keep_their_order() {
        let commands = vec![Request::McpStatus.into(), prompt(), prompt(), interrupt(false), prompt()];
        let (queue, outcomes) = held(commands);
        assert_eq!(waiting(&queue), [0, 2, 4]);
        assert_eq!(outcomes, [(1, Err(Refusal::InterruptedBeforeSent)), (3, Ok(Accepted::Done))]);
        let (queue, outcomes) = held(vec![prompt(), Request::McpStatus.into(), prompt(), interrupt(true)]);
        assert_eq!(waiting(&queue), [1]);
        assert_eq!(outcomes.len(), 3);
    }

    #[test]
    fn a_command_that_ends_the_session_never_waits() {
        let ((_sender, mut queue), mut sink) = (command_queue(), Outcomes::default());
        for command in [Command::Close, Command::Abort] {
            assert!(queue.hold(Envelope { command, ticket: 1 }, &mut sink).is_some());
        }
        assert!(!queue.has_waiting() && sink.0.is_empty());
    }

    #[test]
    fn the_number_and_the_size_of_waiting_commands_are_bounded() {
        let (queue, outcomes) = held(vec![prompt(); BEFORE_READY_MAX + 1]);
        assert_eq!(waiting(&queue).len(), BEFORE_READY_MAX);
        assert!(matches!(&outcomes[..], [(1024, Err(Refusal::CliStarting { waiting: 1024, bytes: 2048 }))]));
        let large = Command::Prompt("x".repeat(BEFORE_READY_BYTES_MAX / 2 + 1).into());
        let (queue, outcomes) = held(vec![large.clone(), large, Request::McpStatus.into()]);
        assert_eq!((waiting(&queue), outcomes.len()), (vec![0, 2], 1));
    }
}
