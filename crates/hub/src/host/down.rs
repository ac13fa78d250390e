//! A host while its CLI is down: it waits for the prompt that starts the CLI again, and takes what needs none.

use std::future::poll_fn;

use watari_sdk::{Accepted, Command, Event, NextProcessRequest, Request, RequestId, RequestReply, Sink, bypass_gate};

use super::carrier::begin;
use super::stopping::{CLOSED, stopped};
use super::{Given, Host};
use crate::command_dedup::CommandOutcome;
use crate::published::HostEvent;

/// Why an answer is refused: the asks and the tool calls of a CLI are closed when it ends.
const NOTHING_ASKED: &str = "cannot answer: Claude Code ended, and every ask and tool call was closed with it";

impl Host {
    /// Waits for something that only a CLI can do; none when the host is to end.
    pub(super) async fn wait_for_prompt(&mut self) -> Option<Given> {
        loop {
            let early_is_empty = self.early.is_empty();
            let Host { publisher, commands, stop, early, dedup, .. } = self;
            let given = tokio::select! {
                // All may be dropped half-way: what is not taken stays.
                () = poll_fn(|context| publisher.poll_work(context)) => continue,
                reason = stopped(stop) => {
                    self.publisher.publish(HostEvent::HostStopping { reason });
                    return None;
                }
                // What came while a CLI started that did not get ready.
                given = early.next() => Some(given),
                given = commands.recv(), if early_is_empty => begin(dedup, given?),
            };
            let Some(given) = given else { continue };
            self.publisher.verify();
            if let Some(refused) = self.publisher.refuses(&given.command) {
                self.complete(given, Err(refused.to_string()));
                continue;
            }
            match &given.command {
                Command::Prompt(_) => return Some(given),
                Command::Close | Command::Abort => {
                    self.complete(given, Ok(Accepted::Done));
                    self.publisher.publish(HostEvent::HostStopping { reason: CLOSED.to_owned() });
                    return None;
                }
                // There is no turn, so it has no effect.
                Command::Interrupt { .. } => self.complete(given, Ok(Accepted::Done)),
                Command::Answer { .. } => self.complete(given, Err(NOTHING_ASKED.to_owned())),
                Command::Request { request, .. } => {
                    let (request, by) = (request.clone(), given.sender.name.clone());
                    let outcome = self.take_request(&request, by);
                    self.complete(given, outcome);
                }
            }
        }
    }

    /// Takes a request for the process that is started next. A client sees what it sees while the CLI runs: the request on
    /// record, and then its reply.
    fn take_request(&mut self, request: &Request, by: String) -> CommandOutcome {
        let checked =
            NextProcessRequest::of(request, bypass_gate(&self.options)).map_err(|refused| refused.to_string())?;
        let Some(NextProcessRequest { body, reply }) = checked else {
            return Err("cannot send a request while there is no CLI: send a prompt first".to_owned());
        };
        // The number of this event: no id of an earlier process is higher, and those of the next process are.
        let id = RequestId(self.publisher.files.log.last().seq + 1);
        let sent = Event::RequestSent { request: id, body, by: Some(by) };
        self.publisher.publish_if_stored(sent).map_err(|refused| refused.to_string())?;
        if let Request::SetTools(tools) = request {
            self.options.program_tools.clone_from(tools);
        }
        // Settings change when this is stored; until it is, no prompt is taken.
        self.publisher.publish(Event::RequestAnswered { request: id, reply: RequestReply::Done(reply) });
        Ok(Accepted::Request(id))
    }
}
