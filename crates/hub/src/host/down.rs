//! A host whose CLI has exited: it waits for the prompt that restarts the CLI, and handles the commands that need no
//! CLI.

use std::future::poll_fn;

use watari_sdk::{
    Accepted, Command, Envelope, Event, NextProcessRequest, Refusal, Request, RequestId, RequestReply, Sink, Work,
    bypass_permission,
};

use super::Host;
use crate::ticket::{CommandOutcome, Ticket};

impl Host {
    /// Waits for a prompt, which needs a CLI; returns none when the host is stopping.
    pub(super) async fn wait_for_prompt(&mut self) -> Option<Envelope<Ticket>> {
        loop {
            let Envelope { command, ticket } = self.next_registered().await?;
            if let Err(refusal) = self.publisher.admit(&command) {
                self.complete(ticket, Err(refusal));
                continue;
            }
            match &command {
                Command::Prompt(_) => return Some(Envelope { command, ticket }),
                Command::Close | Command::Abort => {
                    self.complete(ticket, Ok(Accepted::Done));
                    return None;
                }
                // There is no turn, so it has no effect.
                Command::Interrupt { .. } => self.complete(ticket, Ok(Accepted::Done)),
                Command::Answer { .. } => self.complete(ticket, Err(Refusal::AskClosedByExit)),
                Command::Request { request, by } => {
                    let outcome = self.take_request(request, by.clone());
                    self.complete(ticket, outcome);
                }
            }
        }
    }

    /// Waits for the next command, of those that waited for the CLI first; returns none when the host is stopping.
    async fn next_registered(&mut self) -> Option<Envelope<Ticket>> {
        loop {
            // Commands that arrived during a failed start of the CLI.
            if let Some(envelope) = self.commands.take_waiting() {
                return Some(envelope);
            }
            let Host { publisher, commands, .. } = self;
            tokio::select! {
                // Both are cancel-safe: each step of the publisher is complete, and a command that is not received stays
                // queued.
                work = poll_fn(|context| publisher.poll_work(context)) => match work {
                    Work::Done => {}
                    Work::Close | Work::Abort => return None,
                },
                envelope = commands.receive() => {
                    let Envelope { command, ticket } = envelope?;
                    if let Some(ticket) = self.publisher.register(&command, ticket) {
                        return Some(Envelope { command, ticket });
                    }
                }
            }
        }
    }

    /// Accepts a request for the next process. The client sees the same events as while the CLI runs: the request, and
    /// then its reply.
    fn take_request(&mut self, request: &Request, by: Option<String>) -> CommandOutcome {
        let checked = NextProcessRequest::of(request, bypass_permission(&self.options))?;
        let Some(NextProcessRequest { body, reply }) = checked else {
            return Err(Refusal::CliNotRunning);
        };
        // The id is this event's sequence number. The next process starts above it; an earlier process may have used
        // it, because some requests have no event.
        let id = RequestId(self.publisher.files.log.last().seq + 1);
        let sent = Event::RequestSent { request: id, body, by };
        self.publisher.publish_if_stored(sent)?;
        // The settings change when this event is stored; until then the host accepts no prompt.
        self.publisher.publish(Event::RequestAnswered { request: id, reply: RequestReply::Done(reply) });
        Ok(Accepted::Request(id))
    }
}
