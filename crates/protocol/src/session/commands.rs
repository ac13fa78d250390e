//! What the machine does for a client.

use std::time::Instant;

use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::closing::{Closing, Rung, Stop};
use super::prompts::{PROMPTS_WAITING_BYTES_MAX, PROMPTS_WAITING_MAX};
use super::state::{Phase, Trigger};
use super::{Machine, RequestKind};
use crate::command::{Accepted, Command, Decision, Prompt, PromptContent, Refused};
use crate::event::{AskEnding, DropReason, Event, ExitReason, InterruptReceipt, RequestReply};
use crate::id::{AskId, PromptId, RequestId};
use crate::json::Raw;
use crate::wire::outgoing::{self, Interrupts, OutgoingLine};

/// How many requests of ours the CLI may leave unanswered. One more is refused.
const REQUESTS_UNANSWERED_MAX: usize = 1024;

impl Machine {
    /// Carries out a command that the phase permits.
    pub(super) fn carry_out(&mut self, command: Command, now: Instant) -> Result<Accepted, Refused> {
        match command {
            Command::Prompt(prompt) => self.prompt(prompt),
            Command::Interrupt { cancel_queued } => {
                self.check_requests()?;
                Ok(Accepted::Request(self.interrupt(cancel_queued)))
            }
            Command::Answer { ask, decision } => self.answer(ask, &decision),
            Command::SetModel { model } => self.request(|id| outgoing::set_model(id, model.as_deref())),
            Command::SetPermissionMode { mode } => self.request(|id| outgoing::set_permission_mode(id, mode)),
            Command::Request { subtype, fields } => self.request(|id| outgoing::request(id, &subtype, fields)),
            Command::Close => {
                self.close(now);
                Ok(Accepted::Done)
            }
            Command::Abort => {
                self.abort(now);
                Ok(Accepted::Done)
            }
        }
    }

    fn prompt(&mut self, prompt: Prompt) -> Result<Accepted, Refused> {
        check_content(&prompt.content)?;
        let waiting = self.prompts.waiting().count();
        if waiting >= PROMPTS_WAITING_MAX {
            return Err(Refused::QueueFull { waiting });
        }
        let bytes = self.prompts.waiting_bytes();
        if bytes > 0 && bytes + prompt.content.bytes() > PROMPTS_WAITING_BYTES_MAX {
            return Err(Refused::QueueTooLong { bytes });
        }
        let id = self.prompts.queue(prompt.content);
        self.hand_over_prompt();
        Ok(Accepted::Prompt(id))
    }

    /// The CLI is always asked with its plain interrupt: what waits, waits here, so that a prompt which was
    /// handed over still gets its result. (Asked to cancel its queue, the CLI may drop that prompt silently.)
    fn interrupt(&mut self, cancel_queued: bool) -> RequestId {
        let mut cancelled = Vec::new();
        if self.phase == Phase::Starting {
            // Nothing was handed over yet: the prompt that would run first is the one to stop. The CLI is
            // not asked, because an interrupt that comes before its first prompt stops nothing.
            cancelled.extend(self.prompts.drop_next());
        }
        if cancel_queued {
            cancelled.extend(std::iter::from_fn(|| self.prompts.drop_next()));
        }
        for prompt in &cancelled {
            self.tell(Event::PromptDropped { prompt: *prompt, reason: DropReason::Cancelled });
        }
        if self.phase == Phase::Starting {
            let request = RequestId(self.request_ids.next());
            let reply = Ok(RequestReply::Interrupted(self.receipt(cancelled)));
            self.tell(Event::RequestAnswered { request, reply });
            request
        } else {
            let request = self.expect_answer(RequestKind::Interrupt { cancelled });
            self.interrupt_sent = self.phase == Phase::Running;
            self.write(outgoing::interrupt(request));
            request
        }
    }

    pub(super) fn receipt(&self, cancelled: Vec<PromptId>) -> InterruptReceipt {
        InterruptReceipt { still_queued: self.prompts.waiting().collect(), cancelled }
    }

    fn answer(&mut self, ask: AskId, decision: &Decision) -> Result<Accepted, Refused> {
        check_decision(decision)?;
        let open = self.asks.take(ask).ok_or(Refused::AskNotOpen { ask })?;
        let ending = match decision {
            Decision::Allow { .. } => AskEnding::Allowed,
            Decision::Deny { .. } => AskEnding::Denied,
        };
        self.tell(Event::AskClosed { ask, ending });
        self.write(match decision {
            Decision::Allow { input, permissions } => {
                // Older versions need an input even when it is not changed.
                let input = input.as_ref().filter(|input| !is_empty_object(input)).unwrap_or(&open.input);
                outgoing::consent(&open.request_id, input, permissions.as_ref())
            }
            Decision::Deny { message, interrupt } => {
                outgoing::denial(&open.request_id, message, if *interrupt { Interrupts::Yes } else { Interrupts::No })
            }
        });
        Ok(Accepted::Done)
    }

    fn request(&mut self, line: impl FnOnce(RequestId) -> OutgoingLine) -> Result<Accepted, Refused> {
        self.check_requests()?;
        let request = self.expect_answer(RequestKind::Other);
        self.write(line(request));
        Ok(Accepted::Request(request))
    }

    fn check_requests(&self) -> Result<(), Refused> {
        let unanswered = self.requests.len();
        if unanswered < REQUESTS_UNANSWERED_MAX { Ok(()) } else { Err(Refused::TooManyRequests { unanswered }) }
    }

    fn close(&mut self, now: Instant) {
        let runs = self.phase == Phase::Running;
        if self.step(Trigger::EndAsked).is_none() {
            return;
        }
        self.exit_reason = ExitReason::Asked;
        while let Some(prompt) = self.prompts.drop_next() {
            self.tell(Event::PromptDropped { prompt, reason: DropReason::SessionEnded });
        }
        // The interrupt withdraws what the CLI asks; what it does not withdraw is refused when stdin closes.
        self.close_asks();
        if runs {
            let request = self.expect_answer(RequestKind::ClosingInterrupt);
            self.interrupt_sent = true;
            self.write(outgoing::interrupt(request));
            self.closing = Some(Closing::on(Rung::Interrupted, now));
        } else {
            self.stop(Stop::CloseStdin);
            self.closing = Some(Closing::on(Rung::StdinClosed, now));
        }
    }

    fn abort(&mut self, now: Instant) {
        self.step(Trigger::EndAsked);
        self.exit_reason = ExitReason::Asked;
        self.close_asks();
        self.stop(Stop::Abort);
        self.closing = Some(Closing::on(Rung::Killed, now));
    }
}

/// The CLI drops a prompt it cannot read without a word, so it is checked here.
fn check_content(content: &PromptContent) -> Result<(), Refused> {
    match content {
        PromptContent::Text(text) if text.is_empty() => Err(Refused::EmptyPrompt),
        PromptContent::Text(_) => Ok(()),
        PromptContent::Blocks(blocks) => {
            #[derive(serde::Deserialize)]
            struct Head {
                #[serde(rename = "type")]
                _kind: String,
            }
            let blocks: Vec<&RawValue> = blocks.parse().map_err(|_| Refused::BadBlocks)?;
            if blocks.is_empty() {
                return Err(Refused::EmptyPrompt);
            }
            let readable = blocks.iter().all(|block| serde_json::from_str::<Head>(block.get()).is_ok());
            readable.then_some(()).ok_or(Refused::BadBlocks)
        }
    }
}

/// An edit that takes everything away is none: the CLI would run the tool as it was asked.
fn is_empty_object(input: &Raw) -> bool {
    input.parse::<Map<String, Value>>().is_ok_and(|members| members.is_empty())
}

fn check_decision(decision: &Decision) -> Result<(), Refused> {
    match decision {
        Decision::Allow { input: Some(input), .. } if !input.as_str().trim_start().starts_with('{') => {
            Err(Refused::BadInput)
        }
        Decision::Allow { .. } | Decision::Deny { .. } => Ok(()),
    }
}
