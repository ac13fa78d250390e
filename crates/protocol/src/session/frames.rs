//! How the machine handles frames of the CLI. Every frame is legal in every phase, because the CLI decides what it
//! does.

use std::time::Instant;

use super::closing::ClosingStep;
use super::messages::Shown;
use super::state::{Phase, Trigger};
use super::{Machine, Output, RequestKind};
use crate::event::{
    AskResolution, CliInfo, Event, ExitReason, NoticeKind, RequestFailure, RequestReply, SessionInfo, TaskUpdate,
    TurnCause, TurnEnding, TurnFailure,
};
use crate::id::ToolUseId;
use crate::json::RawJson;
use crate::wire::control::{Response, read_version};
use crate::wire::mcp;
use crate::wire::message::UserFrame;
use crate::wire::outgoing;
use crate::wire::result::ResultFrame;
use crate::wire::stream::StreamFrame;
use crate::wire::system::{CliState, SystemFrame};
use crate::wire::{Incoming, Text};

impl Machine {
    pub(super) fn handle_frame(&mut self, frame: Incoming<'_>, now: Instant) {
        match frame {
            Incoming::Stream(frame) => {
                if let StreamFrame::MessageStarted { .. } = frame {
                    self.interrupt_again(now);
                }
                self.messages.handle_stream_frame(frame, |event| self.outputs.push_back(Output::Event(event)));
            }
            Incoming::Assistant(frame) => {
                self.messages.handle_assistant_frame(frame, |event| self.outputs.push_back(Output::Event(event)));
            }
            Incoming::User(frame) => {
                self.messages.note_shown(Shown::Work);
                self.handle_user_frame(frame);
            }
            Incoming::Result(frame) => self.turn_finished(*frame, now),
            Incoming::System(frame) => self.system(frame, now),
            Incoming::ToolProgress(frame) => self.emit(Event::ToolProgressed {
                tool_use: frame.tool_use(),
                tool: frame.tool_name.to_string(),
                elapsed_seconds: frame.elapsed_time_seconds,
            }),
            Incoming::Cleared(raw) => {
                self.messages.note_shown(Shown::Work);
                self.emit(Event::ConversationCleared { raw: RawJson::copied(raw) });
            }
            Incoming::Suggestion(suggestion) => {
                self.emit(Event::PromptSuggested { suggestion: suggestion.into_string() });
            }
            Incoming::Mirror { path, entries } => {
                self.emit(Event::TranscriptWritten { path: path.into_string(), entries: RawJson::copied(entries) });
            }
            Incoming::Request(request) => self.handle_control_request(request, now),
            Incoming::Cancel { request_id } => {
                if let Some(ask) = self.asks.take_by_cli_id(&request_id) {
                    self.emit(ask.resolved_event(AskResolution::Withdrawn));
                }
            }
            Incoming::Response(response) => self.handle_control_response(&response),
            Incoming::Prompt { uuid, update } => self.prompt_reported(&uuid, update, now),
            Incoming::Ignored => {}
            Incoming::Unknown(frame) => self.emit(Event::Unknown { frame: RawJson::copied(frame) }),
        }
    }

    /// Handles a `user` frame: retracted messages, tool results, and content that the CLI added to the context.
    fn handle_user_frame(&mut self, frame: UserFrame) {
        let parent = frame.parent;
        if let Some(message) = frame.retracted {
            self.emit(Event::MessageRetracted { message });
        }
        for result in frame.tool_results {
            self.emit(Event::ToolReturned {
                tool_use: result.tool_use,
                parent: parent.clone(),
                is_error: result.is_error,
                content: result.content,
                result: frame.result.clone(),
            });
        }
        if let Some(injected) = frame.injected {
            let (synthetic, repeated) = (injected.synthetic, injected.repeated);
            self.emit(Event::ContextInjected { parent, synthetic, repeated, content: injected.content });
        }
    }

    fn turn_finished(&mut self, mut frame: ResultFrame, now: Instant) {
        if self.phase == Phase::Starting && !self.cli_turn_running {
            // No turn has started: some versions report this way that they will not start.
            self.start_errors.extend(frame.outcome.errors);
            return;
        }
        if self.was_ended_for_tool_server() {
            return;
        }
        // Older versions do not report that a turn was interrupted, only that it failed.
        let was_interrupted = std::mem::take(&mut self.interrupt_sent);
        (self.init_received, self.cli_turn_expected) = (false, false);
        self.watchdog.turn_ended();
        if was_interrupted && frame.outcome.ending == TurnEnding::Failed(TurnFailure::Execution) {
            frame.outcome.ending = TurnEnding::Interrupted;
        }
        self.results_name_prompts |= !frame.prompt_uuids.is_empty();
        let cause = match self.prompts.in_flight() {
            Some(prompt) if self.is_result_of(&frame) => {
                self.prompts.take_in_flight();
                TurnCause::Prompt(prompt)
            }
            Some(_) | None => TurnCause::Cli,
        };
        // An interrupt during the CLI's turn is also for the prompt in the CLI's queue: it stays pending for the
        // prompt.
        self.interrupt_sent = was_interrupted && cause == TurnCause::Cli && self.prompts.in_flight().is_some();
        // A message that the CLI did not finish before its result will not continue.
        self.messages.turn_finished(cause, &frame, |event| self.outputs.push_back(Output::Event(event)));
        if frame.began_by_cli || cause == TurnCause::Cli || self.cli_state.is_none() {
            self.cli_turn_running = false;
        }
        frame.outcome.cost_usd = self.turn_cost_usd(frame.outcome.total_cost_usd);
        self.emit(Event::TurnFinished { cause, outcome: Box::new(frame.outcome) });
        self.limit_unseen_prompt(now);
        self.hand_over_prompt();
        if self.cli_state.is_none() {
            // Older versions do not report when they are idle: they are idle after every result.
            self.went_idle();
        }
        self.continue_closing_after_turn(now);
    }

    /// Returns whether we ended the CLI because another MCP server has the name of our tool server. What the CLI then
    /// reports about the turn (interrupted, cancelled, lost) is misleading and is not emitted; `CliExited` has the
    /// reason.
    pub(super) fn was_ended_for_tool_server(&self) -> bool {
        self.exit_reason == ExitReason::ServerNameConflict
    }

    /// Returns the cost of a turn, from the CLI's running total. The total falls when the conversation is cleared.
    fn turn_cost_usd(&mut self, total_usd: f64) -> Option<f64> {
        let before = self.cost_so_far_usd.replace(total_usd)?;
        Some(if total_usd < before { total_usd } else { total_usd - before })
    }

    /// Returns whether a result belongs to the prompt that the CLI holds:
    /// - A result that names prompts belongs to those, even if the CLI started the turn itself: the CLI may merge a
    ///   prompt that arrives meanwhile into its turn.
    /// - A result that names none does not belong to it if the CLI started the turn itself.
    /// - Any other result that names none belongs to it. But if this CLI has named prompts before, only once the prompt
    ///   has started.
    fn is_result_of(&self, frame: &ResultFrame) -> bool {
        let Some(prompt) = self.prompts.in_flight() else { return false };
        if frame.prompt_uuids.is_empty() {
            let may_be_unnamed = self.prompt_started || !self.results_name_prompts;
            return may_be_unnamed && !frame.began_by_cli && !self.cli_turn_running;
        }
        let entry = self.prompts.entry(prompt);
        frame.prompt_uuids.iter().any(|uuid| uuid == entry.as_str())
    }

    /// Handles a system message: some of them change the machine's state, the others become events.
    fn system(&mut self, frame: SystemFrame<'_>, now: Instant) {
        let event = match frame {
            SystemFrame::Init(session) => return self.handle_init(session, now),
            SystemFrame::State(state) => return self.state_changed(state, now),
            SystemFrame::Status { status, permission_mode, raw } => Event::StatusChanged {
                status: status.map(Text::into_string),
                permission_mode: permission_mode.map(Text::into_string),
                raw: RawJson::copied(raw),
            },
            SystemFrame::ApiRetry { attempt, max_retries, delay_ms, status, error } => {
                Event::ApiRetryScheduled { attempt, max_retries, delay_ms, status, error }
            }
            SystemFrame::Task { id, update, raw } => {
                self.emit(Event::TaskChanged { task: id.into_string(), update, raw: RawJson::copied(raw) });
                if update == TaskUpdate::Ended && self.cli_state.is_none() && !self.init_received {
                    // Versions that do not report their state report this when they start a turn about the task.
                    self.cli_turn_began();
                }
                return;
            }
            SystemFrame::Tasks(tasks) => Event::TasksListed { tasks: RawJson::copied(tasks) },
            SystemFrame::Hook { id, name, event, update, raw } => {
                Event::HookChanged { hook_run: id.into_string(), name, event, update, raw: RawJson::copied(raw) }
            }
            SystemFrame::PermissionDenied { tool, tool_use, message, raw } => Event::PermissionDenied {
                tool: tool.into_string(),
                tool_use: tool_use.map(|id| ToolUseId(id.into_string())),
                message,
                raw: RawJson::copied(raw),
            },
            SystemFrame::ThinkingTokens(tokens) => Event::ThinkingCounted { tokens },
            SystemFrame::Compacted(raw) => Event::Compacted { raw: RawJson::copied(raw) },
            SystemFrame::Title(title) => Event::TitleChanged { title: title.into_string() },
            SystemFrame::Commands(commands) => Event::CommandsListed { commands: RawJson::copied(commands) },
            SystemFrame::Notice { about, text, raw } => {
                self.messages.note_shown(if about == NoticeKind::Blocked { Shown::Text } else { Shown::Work });
                Event::NoticeReported { about, text, raw: RawJson::copied(raw) }
            }
        };
        self.emit(event);
    }

    fn state_changed(&mut self, state: CliState, now: Instant) {
        let was_idle = self.cli_state.replace(state) == Some(CliState::Idle);
        match state {
            CliState::Idle => {
                (self.cli_turn_running, self.cli_turn_expected, self.init_received) = (false, false, false);
                if self.prompts.in_flight().is_none() {
                    // A turn that the CLI started itself may have ended without a result.
                    self.watchdog.turn_ended();
                }
                if self.prompt_started {
                    self.prompt_lost();
                }
                // A prompt may wait for a turn that the CLI started itself and that had no result.
                self.hand_over_prompt();
                self.went_idle();
                self.continue_closing_after_turn(now);
            }
            CliState::Running | CliState::RequiresAction => {
                if !self.cli_reports_prompts {
                    self.prompt_started = self.prompts.in_flight().is_some();
                }
                self.cli_turn_expected |= was_idle && self.prompts.in_flight().is_none();
                self.transition(Trigger::TurnBegan);
                if was_idle && self.prompts.in_flight().is_some() && !self.prompt_started {
                    // The CLI may have read the interrupt too early, and a hook may delay the turn's `init` frame.
                    self.interrupt_again(now);
                }
            }
        }
    }

    /// Handles the `init` frame, which describes the session. The CLI sends it at the start of every turn.
    fn handle_init(&mut self, session: Box<SessionInfo>, now: Instant) {
        self.tool_server_is_taken = mcp::is_tool_server_taken(&session.mcp_servers());
        if self.tool_server_is_taken && !self.config.initialize.tools.is_empty() {
            // End it before the model is called: the other server could receive calls of our tools.
            return self.end_for(Trigger::CloseBegan, ExitReason::ServerNameConflict, now);
        }
        let is_cli_turn = self.cli_turn_running || self.prompts.in_flight().is_none() || self.prompt_queued_in_cli;
        let cli_turn_expected = std::mem::take(&mut self.cli_turn_expected);
        self.init_received = true;
        if !is_cli_turn {
            self.unseen_deadline = None;
        }
        if !is_cli_turn || cli_turn_expected {
            // A pending interrupt is for this turn: the turn is the prompt's, or was expected when the interrupt was
            // sent.
            self.interrupt_again(now);
        } else if self.interrupt_sent {
            // The interrupt was sent for the prompt, which is in the CLI's queue behind this turn.
            self.cancel_queued_prompt(now);
        }
        if self.session.as_ref() != Some(&session.session_id) {
            self.session = Some(session.session_id.clone());
            self.emit(Event::SessionOpened { session });
        }
        if is_cli_turn {
            self.cli_turn_began();
        }
    }

    /// Begins a turn that the CLI started itself.
    pub(super) fn cli_turn_began(&mut self) {
        if !self.cli_turn_running {
            self.cli_turn_running = true;
            self.transition(Trigger::TurnBegan);
            self.emit(Event::TurnStarted { cause: TurnCause::Cli });
        }
    }

    /// Becomes idle if the CLI holds no prompt. If it holds one, its `idle` state may be about the turn before.
    pub(super) fn went_idle(&mut self) {
        if self.prompts.in_flight().is_none() && self.transition(Trigger::WentIdle).is_some() {
            (self.cli_turn_running, self.cli_turn_expected) = (false, false);
            self.interrupt_sent = false;
            self.watchdog.turn_ended();
            self.emit(Event::BecameIdle);
        }
    }

    /// Continues closing when the turn that was interrupted for it has ended.
    pub(super) fn continue_closing_after_turn(&mut self, now: Instant) {
        let waits_for_turn = self.closing.as_ref().is_some_and(|closing| closing.step == ClosingStep::Interrupted);
        if waits_for_turn && self.prompts.in_flight().is_none() {
            self.escalate(now);
        }
    }

    fn handle_control_response(&mut self, response: &Response<'_>) {
        let body = match &response.body {
            Ok(body) => Ok(body.map_or_else(|| RawJson::from("null"), RawJson::copied)),
            Err(refusal) => {
                Err(RequestFailure::Refused { message: refusal.message.clone(), code: refusal.code.clone() })
            }
        };
        self.resolve_request(&response.request_id, body);
    }

    /// Handles the CLI's answer to one of our requests, or the fact that none will come. An answer to an unknown
    /// request is ignored.
    pub(super) fn resolve_request(&mut self, request_id: &str, body: Result<RawJson, RequestFailure>) {
        let request = outgoing::request_of_name(request_id);
        let Some((request, (kind, _))) = request.and_then(|id| Some((id, self.requests.remove(&id)?))) else { return };
        self.watchdog.request_answered(request);
        let reply = match (kind, body) {
            (RequestKind::Initialize, body) => return self.initialized(body),
            (RequestKind::CancelPrompt(prompt), Ok(answer)) => return self.handle_cancel_reply(prompt, &answer),
            (RequestKind::WatariInterrupt | RequestKind::CancelPrompt(_) | RequestKind::Probe, _) => return,
            (_, Err(failed)) => RequestReply::Failed(failed),
            (RequestKind::Interrupt { of, cancelled }, Ok(answer)) => {
                let is_idle = self.cli_state == Some(CliState::Idle) && !self.prompt_started;
                if is_idle && of == self.prompts.in_flight() && !self.is_queued(of, &answer) {
                    // The CLI has read the prompt before the interrupt, and neither started nor queued it.
                    self.prompt_lost();
                    self.went_idle();
                }
                RequestReply::Interrupted(self.interrupt_receipt(cancelled))
            }
            (RequestKind::Other, Ok(fields)) => RequestReply::Done(fields),
        };
        self.emit(Event::RequestAnswered { request, reply });
    }

    /// Handles the answer to the `initialize` request. A CLI that refuses it would run without the requested settings
    /// (hooks, a schema, a system prompt), so the session is ended with the refusal as the reason.
    fn initialized(&mut self, answer: Result<RawJson, RequestFailure>) {
        match answer {
            Ok(raw) => {
                if self.transition(Trigger::Initialized).is_some() {
                    self.emit(Event::Ready { cli: CliInfo { version: read_version(&raw), raw } });
                    if self.cli_turn_running || self.cli_turn_expected {
                        // A resumed session may have started a turn before it answered.
                        self.transition(Trigger::TurnBegan);
                    }
                    self.hand_over_prompt();
                }
            }
            Err(refusal) => {
                self.end_for(Trigger::CloseBegan, ExitReason::StartRefused(refusal), self.now);
            }
        }
    }
}
