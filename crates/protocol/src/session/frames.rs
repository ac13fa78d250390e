//! What the machine does with a frame of the CLI. Every frame has a row in every phase, because the CLI
//! is right about what it does.

use std::time::Instant;

use super::closing::{Rung, Stop};
use super::state::{Phase, Trigger};
use super::{Machine, Output, RequestKind};
use crate::event::{
    AskEnding, AskKind, CliInfo, DropReason, Event, ExitReason, Failure, RequestFailed, RequestReply, SessionInfo,
    TurnCause, TurnEnding,
};
use crate::id::ToolUseId;
use crate::json::Raw;
use crate::wire::Incoming;
use crate::wire::control::{AskBody, AskRequest, Response, read_version};
use crate::wire::message::UserFrame;
use crate::wire::outgoing::{self, Interrupts};
use crate::wire::result::ResultFrame;
use crate::wire::system::{CliState, SystemFrame};

/// How much of a line that is not a message is kept.
const NOISE_KEPT_CHARACTERS: usize = 200;

impl Machine {
    pub(super) fn handle_frame(&mut self, frame: Incoming<'_>, line: &str, now: Instant) {
        match frame {
            Incoming::Stream(frame) => {
                self.messages.stream(frame, |event| self.outputs.push_back(Output::Event(event)));
            }
            Incoming::Assistant(frame) => {
                self.messages.complete(frame, |event| self.outputs.push_back(Output::Event(event)));
            }
            Incoming::User(frame) => self.tool_returned(frame),
            Incoming::Result(frame) => self.turn_finished(*frame, now),
            Incoming::System(frame) => self.system(frame, now),
            Incoming::ToolProgress(frame) => self.tell(Event::ToolProgressed {
                tool_use: frame.tool_use(),
                tool: frame.tool_name.to_string(),
                elapsed_seconds: frame.elapsed_time_seconds,
            }),
            Incoming::Request(request) => self.asked(request, now),
            Incoming::Cancel { request_id } => {
                if let Some(ask) = self.asks.take_withdrawn(&request_id) {
                    self.tell(Event::AskClosed { ask: ask.id, ending: AskEnding::Withdrawn });
                }
            }
            Incoming::Response(response) => self.answered(&response),
            Incoming::PromptCancelled { uuid } => self.prompt_cancelled(&uuid),
            Incoming::Nothing => {}
            Incoming::Unknown(frame) => self.tell(Event::Unknown { frame: Raw::copied(frame) }),
            Incoming::Noise => self.tell(Event::NoiseSkipped {
                beginning: line.chars().take(NOISE_KEPT_CHARACTERS).collect(),
                bytes: line.len() as u64,
            }),
        }
    }

    fn tool_returned(&mut self, frame: UserFrame<'_>) {
        for result in frame.tool_results {
            self.tell(Event::ToolReturned {
                tool_use: result.tool_use,
                parent: frame.parent.as_ref().map(|parent| ToolUseId(parent.to_string())),
                is_error: result.is_error,
                content: result.content,
            });
        }
    }

    fn turn_finished(&mut self, mut frame: ResultFrame, now: Instant) {
        if self.phase == Phase::Starting {
            self.start_errors.extend(frame.outcome.errors.iter().cloned());
        }
        // Older versions do not say that a turn was interrupted, only that it failed.
        let was_interrupted = std::mem::take(&mut self.interrupt_sent);
        if was_interrupted && frame.outcome.ending == TurnEnding::Failed(Failure::Execution) {
            frame.outcome.ending = TurnEnding::Interrupted;
        }
        // A message that the CLI did not stop before its result will not go on.
        self.messages.finish(|event| self.outputs.push_back(Output::Event(event)));
        let cause = match self.prompts.with_cli() {
            Some(prompt) if self.is_result_of(&frame) => {
                self.prompts.finish();
                TurnCause::Prompt(prompt)
            }
            Some(_) | None => {
                self.runs_by_itself = false;
                TurnCause::Cli
            }
        };
        self.tell(Event::TurnFinished { cause, outcome: frame.outcome });
        self.hand_over_prompt();
        if !self.cli_reports_state {
            self.went_idle();
        }
        self.interrupted_for_closing(now);
    }

    /// A prompt's result has no origin, and names the prompt when the CLI is new enough to name it.
    fn is_result_of(&self, frame: &ResultFrame) -> bool {
        let Some(prompt) = self.prompts.with_cli() else {
            return false;
        };
        !frame.has_origin && (frame.prompt_uuids.is_empty() || frame.prompt_uuids.contains(&self.prompts.uuid(prompt)))
    }

    fn system(&mut self, frame: SystemFrame<'_>, now: Instant) {
        match frame {
            SystemFrame::Init(session) => self.turn_announced(*session),
            SystemFrame::State(state) => {
                self.cli_reports_state = true;
                match state {
                    CliState::Idle => {
                        self.went_idle();
                        self.interrupted_for_closing(now);
                    }
                    CliState::Running | CliState::RequiresAction => {
                        self.step(Trigger::TurnBegan);
                    }
                }
            }
            SystemFrame::Status { status, permission_mode } => self.tell(Event::StatusChanged {
                status: status.map(|status| status.into_string()),
                permission_mode: permission_mode.map(|mode| mode.into_string()),
            }),
            SystemFrame::ApiRetry { attempt, max_retries, delay_ms, status } => {
                self.tell(Event::ApiRetried { attempt, max_retries, delay_ms, status });
            }
            SystemFrame::Task { id, news, detail } => {
                self.tell(Event::TaskChanged { task: id.into_string(), news, detail: Raw::copied(detail) });
            }
        }
    }

    /// The CLI repeats the session's description with every turn.
    fn turn_announced(&mut self, session: SessionInfo) {
        if self.session.as_ref() != Some(&session.session_id) {
            self.session = Some(session.session_id.clone());
            self.tell(Event::SessionOpened { session });
        }
        if self.prompts.with_cli().is_none() && !self.runs_by_itself {
            self.runs_by_itself = true;
            self.step(Trigger::TurnBegan);
            self.tell(Event::TurnStarted { cause: TurnCause::Cli });
        }
    }

    /// The CLI's word for idle may be about the turn before: it counts only when it has no prompt.
    fn went_idle(&mut self) {
        if self.prompts.with_cli().is_none() && self.step(Trigger::WentIdle).is_some() {
            self.interrupt_sent = false;
            self.tell(Event::BecameIdle);
        }
    }

    /// The turn that was in the way of closing is over.
    fn interrupted_for_closing(&mut self, now: Instant) {
        let waits_for_turn = self.closing.as_ref().is_some_and(|closing| closing.rung == Rung::Interrupted);
        if waits_for_turn && self.prompts.with_cli().is_none() {
            self.climb(now);
        }
    }

    fn asked(&mut self, request: AskRequest<'_>, now: Instant) {
        match request.body {
            AskBody::Permission(ask) if self.phase != Phase::Closing => {
                let deadline = self.config.answer_within.and_then(|limit| now.checked_add(limit));
                match self.asks.open(&request.request_id, ask.input.clone(), deadline) {
                    Some(id) => self.tell(Event::AskOpened { ask: id, kind: AskKind::Permission(*ask) }),
                    None => self.refuse(&request.request_id, "Too many permission requests are open"),
                }
            }
            AskBody::Permission(_) => self.refuse(&request.request_id, "The session is closing"),
            AskBody::UnreadablePermission => {
                self.refuse(&request.request_id, "The permission request could not be read");
            }
            AskBody::Unsupported(subtype) => self.write(outgoing::unsupported(&request.request_id, &subtype)),
        }
    }

    fn refuse(&mut self, request_id: &str, why: &str) {
        self.write(outgoing::denial(request_id, why, Interrupts::No));
    }

    fn answered(&mut self, response: &Response<'_>) {
        let Some(request) = outgoing::request_of_name(&response.request_id) else {
            return;
        };
        let Some(kind) = self.requests.remove(&request) else {
            return;
        };
        let body = match &response.body {
            Ok(body) => Ok(body.map_or_else(|| Raw::from("null"), Raw::copied)),
            Err(refusal) => Err(RequestFailed::Refused {
                message: refusal.message.to_string(),
                code: refusal.code.as_ref().map(|code| code.to_string()),
            }),
        };
        let reply = match kind {
            RequestKind::Initialize => return self.initialized(body),
            RequestKind::ClosingInterrupt => return,
            RequestKind::Interrupt { cancelled } => body.map(|_| RequestReply::Interrupted(self.receipt(cancelled))),
            RequestKind::Other => body.map(RequestReply::Done),
        };
        self.tell(Event::RequestAnswered { request, reply });
    }

    /// The CLI is there. Should it refuse the opening request, it would run without what was asked of it
    /// (a gate, a schema, a prompt), so the session is ended and the refusal told as the reason.
    fn initialized(&mut self, answer: Result<Raw, RequestFailed>) {
        match answer {
            Ok(detail) => {
                if self.step(Trigger::Initialized).is_some() {
                    self.tell(Event::Ready { cli: CliInfo { version: read_version(&detail), detail } });
                    self.hand_over_prompt();
                }
            }
            Err(refusal) => {
                if self.step(Trigger::EndAsked).is_some() {
                    self.exit_reason = ExitReason::StartRefused(refusal);
                    self.stop(Stop::Abort);
                }
            }
        }
    }

    fn prompt_cancelled(&mut self, uuid: &str) {
        let Some(prompt) = self.prompts.with_cli().filter(|prompt| self.prompts.uuid(*prompt) == uuid) else {
            return;
        };
        self.prompts.finish();
        self.tell(Event::PromptDropped { prompt, reason: DropReason::Cancelled });
        self.hand_over_prompt();
    }
}
