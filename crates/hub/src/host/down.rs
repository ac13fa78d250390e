//! A host whose CLI has exited: it waits for the prompt that restarts the CLI, and handles the commands that need no
//! CLI.

use std::future::poll_fn;

use watari_sdk::{
    Accepted, Command, Event, NextProcessRequest, Request, RequestId, RequestReply, Sink, bypass_permission,
};

use super::carrier::register;
use super::stopping::{CLOSED, stop_requested};
use super::{Given, Host};
use crate::command_dedup::CommandOutcome;
use crate::publication::HostEvent;

/// Why an answer is refused: the asks and tool calls of a CLI are closed when it exits.
const NOTHING_ASKED: &str = "cannot answer: Claude Code has exited, which closed every ask and tool call";

impl Host {
    /// Waits for a prompt, which needs a CLI; returns none when the host is stopping.
    pub(super) async fn wait_for_prompt(&mut self) -> Option<Given> {
        loop {
            let none_waits = self.before_ready.is_empty();
            let Host { publisher, commands, stop, before_ready, dedup, .. } = self;
            let submitted = tokio::select! {
                // Every branch is cancel-safe: commands that are not received stay queued.
                () = poll_fn(|context| publisher.poll_work(context)) => continue,
                reason = stop_requested(stop) => {
                    self.publisher.publish(HostEvent::HostStopping { reason });
                    return None;
                }
                // Commands that arrived during a failed start of the CLI.
                submitted = before_ready.next() => Some(submitted),
                submitted = commands.recv(), if none_waits => register(dedup, submitted?),
            };
            let Some(submitted) = submitted else { continue };
            self.publisher.verify();
            if let Some(refused) = self.publisher.refusal_of(&submitted.command) {
                self.complete(submitted, Err(refused.to_string()));
                continue;
            }
            match &submitted.command {
                Command::Prompt(_) => return Some(submitted),
                Command::Close | Command::Abort => {
                    self.complete(submitted, Ok(Accepted::Done));
                    self.publisher.publish(HostEvent::HostStopping { reason: CLOSED.to_owned() });
                    return None;
                }
                // There is no turn, so it has no effect.
                Command::Interrupt { .. } => self.complete(submitted, Ok(Accepted::Done)),
                Command::Answer { .. } => self.complete(submitted, Err(NOTHING_ASKED.to_owned())),
                Command::Request { request, .. } => {
                    let (request, by) = (request.clone(), submitted.sender.name.clone());
                    let outcome = self.take_request(&request, by);
                    self.complete(submitted, outcome);
                }
            }
        }
    }

    /// Accepts a request for the next process. The client sees the same events as while the CLI runs: the request, and
    /// then its reply.
    fn take_request(&mut self, request: &Request, by: String) -> CommandOutcome {
        let checked =
            NextProcessRequest::of(request, bypass_permission(&self.options)).map_err(|refused| refused.to_string())?;
        let Some(NextProcessRequest { body, reply }) = checked else {
            return Err("cannot send a request while Claude Code is not running: send a prompt first".to_owned());
        };
        // The id is this event's sequence number. The next process starts above it; an earlier process may have used
        // it, because some requests have no event.
        let id = RequestId(self.publisher.files.log.last().seq + 1);
        let sent = Event::RequestSent { request: id, body, by: Some(by) };
        self.publisher.publish_if_stored(sent).map_err(|refused| refused.to_string())?;
        if let Request::SetTools(tools) = request {
            self.options.program_tools.clone_from(tools);
        }
        // The settings change when this event is stored; until then the host accepts no prompt.
        self.publisher.publish(Event::RequestAnswered { request: id, reply: RequestReply::Done(reply) });
        Ok(Accepted::Request(id))
    }
}
