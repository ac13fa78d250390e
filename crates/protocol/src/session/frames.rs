//! What the machine does with a frame of the CLI. Every frame has a row in every phase, because the CLI
//! is right about what it does.

use std::time::{Duration, Instant};

use super::closing::{Rung, Stop};
use super::messages::Shown;
use super::state::{Phase, Trigger};
use super::{Machine, Output, RequestKind};
use crate::event::{
    AskEnding, AskKind, CliInfo, Event, ExitReason, Failure, NoticeKind, RequestFailed, RequestReply, SessionInfo,
    TaskNews, TurnCause, TurnEnding,
};
use crate::id::ToolUseId;
use crate::json::Raw;
use crate::wire::answers;
use crate::wire::control::{AskBody, AskRequest, Gate, Response, read_version};
use crate::wire::mcp;
use crate::wire::message::UserFrame;
use crate::wire::outgoing;
use crate::wire::result::ResultFrame;
use crate::wire::stream::StreamFrame;
use crate::wire::system::{CliState, SystemFrame};
use crate::wire::{Incoming, Text};

/// How long a tool of the program or of a client may take. The one who runs it may be gone for good, and the turn, and every
/// prompt behind it, would wait for it.
const TOOL_RETURNS_WITHIN: Duration = Duration::from_secs(10 * 60);

impl Machine {
    pub(super) fn handle_frame(&mut self, frame: Incoming<'_>, now: Instant) {
        match frame {
            Incoming::Stream(frame) => {
                if let StreamFrame::MessageStarted { .. } = frame {
                    self.interrupt_again(now);
                }
                self.messages.stream(frame, |event| self.outputs.push_back(Output::Event(event)));
            }
            Incoming::Assistant(frame) => {
                self.messages.complete(frame, |event| self.outputs.push_back(Output::Event(event)));
            }
            Incoming::User(frame) => {
                self.messages.show(Shown::Work);
                self.model_told(frame);
            }
            Incoming::Result(frame) => self.turn_finished(*frame, now),
            Incoming::System(frame) => self.system(frame, now),
            Incoming::ToolProgress(frame) => self.tell(Event::ToolProgressed {
                tool_use: frame.tool_use(),
                tool: frame.tool_name.to_string(),
                elapsed_seconds: frame.elapsed_time_seconds,
            }),
            Incoming::Cleared(detail) => {
                self.messages.show(Shown::Work);
                self.tell(Event::ConversationCleared { detail: Raw::copied(detail) });
            }
            Incoming::Suggestion(suggestion) => {
                self.tell(Event::PromptSuggested { suggestion: suggestion.into_string() });
            }
            Incoming::Mirror { path, entries } => {
                self.tell(Event::TranscriptWritten { path: path.into_string(), entries: Raw::copied(entries) });
            }
            Incoming::Request(request) => self.asked(request, now),
            Incoming::Cancel { request_id } => {
                if let Some(ask) = self.asks.take_withdrawn(&request_id) {
                    self.tell(ask.closed(AskEnding::Withdrawn));
                }
            }
            Incoming::Response(response) => self.responded(&response),
            Incoming::Prompt { uuid, news } => self.prompt_told(&uuid, news, now),
            Incoming::Nothing => {}
            Incoming::Unknown(frame) => self.tell(Event::Unknown { frame: Raw::copied(frame) }),
        }
    }

    fn model_told(&mut self, frame: UserFrame) {
        let parent = frame.parent;
        if let Some(message) = frame.refused {
            self.tell(Event::MessageRetracted { message });
        }
        for result in frame.tool_results {
            self.tell(Event::ToolReturned {
                tool_use: result.tool_use,
                parent: parent.clone(),
                is_error: result.is_error,
                content: result.content,
                result: frame.result.clone(),
            });
        }
        if let Some(remark) = frame.remark {
            let (synthetic, replayed) = (remark.synthetic, remark.replayed);
            self.tell(Event::ModelTold { parent, synthetic, replayed, content: remark.content });
        }
    }

    fn turn_finished(&mut self, mut frame: ResultFrame, now: Instant) {
        if self.phase == Phase::Starting && !self.runs_by_itself {
            // No turn was begun: this is how some versions say that they will not start.
            self.start_errors.extend(frame.outcome.errors);
            return;
        }
        if self.end_says_why() {
            return;
        }
        // Older versions do not say that a turn was interrupted, only that it failed.
        let was_interrupted = std::mem::take(&mut self.interrupt_sent);
        (self.turn_shows, self.woke_up) = (false, false);
        self.watchdog.turn_ended();
        if was_interrupted && frame.outcome.ending == TurnEnding::Failed(Failure::Execution) {
            frame.outcome.ending = TurnEnding::Interrupted;
        }
        let cause = match self.prompts.with_cli() {
            Some(prompt) if self.is_result_of(&frame) => {
                self.prompts.finish();
                TurnCause::Prompt(prompt)
            }
            Some(_) | None => TurnCause::Cli,
        };
        // The interrupt was of all that was said to run: of the prompt behind the CLI's own turn too.
        self.interrupt_sent = was_interrupted && cause == TurnCause::Cli && self.prompts.with_cli().is_some();
        // A message that the CLI did not stop before its result will not go on.
        self.messages.turn_finished(cause, &frame, |event| self.outputs.push_back(Output::Event(event)));
        if frame.has_origin || cause == TurnCause::Cli || self.cli_state.is_none() {
            self.runs_by_itself = false;
        }
        frame.outcome.cost_usd = self.cost_since_before(frame.outcome.total_cost_usd);
        self.tell(Event::TurnFinished { cause, outcome: Box::new(frame.outcome) });
        self.hand_over_prompt();
        if self.cli_state.is_none() {
            // Older versions do not say when they are idle: they are after every result.
            self.went_idle();
        }
        self.interrupted_for_closing(now);
    }

    /// Whether the CLI was ended before it asked the model. It then calls the turn interrupted or its prompt cancelled or lost,
    /// but the end of the session says why.
    pub(super) fn end_says_why(&self) -> bool {
        self.exit_reason == ExitReason::ToolServerTaken
    }

    /// What a turn cost, from the CLI's running total. The total falls when the conversation is cleared.
    fn cost_since_before(&mut self, total_usd: f64) -> Option<f64> {
        let before = self.cost_so_far_usd.replace(total_usd)?;
        Some(if total_usd < before { total_usd } else { total_usd - before })
    }

    /// A result that names prompts is theirs: a prompt that came while the CLI ran by itself is answered by that
    /// turn. One that names none is the prompt's unless it says where else it came from.
    fn is_result_of(&self, frame: &ResultFrame) -> bool {
        let Some(prompt) = self.prompts.with_cli() else { return false };
        if frame.prompt_uuids.is_empty() {
            return !frame.has_origin && !self.runs_by_itself;
        }
        let entry = self.prompts.entry(prompt);
        frame.prompt_uuids.iter().any(|uuid| uuid == entry.as_str())
    }

    /// What the CLI says of the session: some of it steers the machine, the rest is passed on.
    fn system(&mut self, frame: SystemFrame<'_>, now: Instant) {
        let event = match frame {
            SystemFrame::Init(session) => return self.turn_announced(session, now),
            SystemFrame::State(state) => return self.state_changed(state, now),
            SystemFrame::Status { status, permission_mode, detail } => Event::StatusChanged {
                status: status.map(Text::into_string),
                permission_mode: permission_mode.map(Text::into_string),
                detail: Raw::copied(detail),
            },
            SystemFrame::ApiRetry { attempt, max_retries, delay_ms, status, error } => {
                Event::ApiRetried { attempt, max_retries, delay_ms, status, error }
            }
            SystemFrame::Task { id, news, detail } => {
                self.tell(Event::TaskChanged { task: id.into_string(), news, detail: Raw::copied(detail) });
                if news == TaskNews::Ended && self.cli_state.is_none() && !self.turn_shows {
                    // Versions that do not say what they are doing say this when they begin a turn about it.
                    self.own_turn_began();
                }
                return;
            }
            SystemFrame::Tasks(tasks) => Event::TasksListed { tasks: Raw::copied(tasks) },
            SystemFrame::Hook { id, name, event, news, detail } => {
                Event::HookChanged { hook: id.into_string(), name, event, news, detail: Raw::copied(detail) }
            }
            SystemFrame::PermissionRefused { tool, tool_use, message, detail } => Event::PermissionRefused {
                tool: tool.into_string(),
                tool_use: tool_use.map(|id| ToolUseId(id.into_string())),
                message,
                detail: Raw::copied(detail),
            },
            SystemFrame::ThinkingTokens(tokens) => Event::ThinkingCounted { tokens },
            SystemFrame::Compacted(detail) => Event::Compacted { detail: Raw::copied(detail) },
            SystemFrame::Title(title) => Event::TitleChanged { title: title.into_string() },
            SystemFrame::Commands(commands) => Event::CommandsListed { commands: Raw::copied(commands) },
            SystemFrame::Notice { about, text, detail } => {
                self.messages.show(if about == NoticeKind::Stopped { Shown::Text } else { Shown::Work });
                Event::Noticed { about, text, detail: Raw::copied(detail) }
            }
        };
        self.tell(event);
    }

    fn state_changed(&mut self, state: CliState, now: Instant) {
        let was_idle = self.cli_state.replace(state) == Some(CliState::Idle);
        match state {
            CliState::Idle => {
                (self.runs_by_itself, self.woke_up, self.turn_shows) = (false, false, false);
                if self.ran_since_hand_over {
                    self.prompt_lost();
                }
                // One that waited for a turn of the CLI's own, of which there was no result.
                self.hand_over_prompt();
                self.went_idle();
                self.interrupted_for_closing(now);
            }
            CliState::Running | CliState::RequiresAction => {
                if !self.cli_tells_of_prompts {
                    self.ran_since_hand_over = self.prompts.with_cli().is_some();
                }
                self.woke_up |= was_idle && self.prompts.with_cli().is_none();
                self.step(Trigger::TurnBegan);
                if was_idle && self.prompts.with_cli().is_some() && !self.ran_since_hand_over {
                    // An interrupt that the CLI read before has no effect, and a hook may delay the turn's description.
                    self.interrupt_again(now);
                }
            }
        }
    }

    /// The CLI repeats the session's description with every turn.
    fn turn_announced(&mut self, session: Box<SessionInfo>, now: Instant) {
        self.tool_server_is_taken = mcp::is_tool_server_taken(&session.mcp_servers());
        if self.tool_server_is_taken && !self.config.initialize.tools.is_empty() {
            // Before the model is asked: a call of our tools could reach the other server.
            return self.end_for(Trigger::EndAsked, ExitReason::ToolServerTaken, now);
        }
        let is_own = self.runs_by_itself || self.prompts.with_cli().is_none() || self.is_prompt_queued;
        let woke_up = std::mem::take(&mut self.woke_up);
        self.turn_shows = true;
        if !is_own || woke_up {
            self.interrupt_again(now);
        } else if self.interrupt_sent {
            // It was of the prompt, and is not of the turn before it.
            self.cancel_queued_prompt(now);
        }
        if self.session.as_ref() != Some(&session.session_id) {
            self.session = Some(session.session_id.clone());
            self.tell(Event::SessionOpened { session });
        }
        if is_own {
            self.own_turn_began();
        }
    }

    pub(super) fn own_turn_began(&mut self) {
        if !self.runs_by_itself {
            self.runs_by_itself = true;
            self.step(Trigger::TurnBegan);
            self.tell(Event::TurnStarted { cause: TurnCause::Cli });
        }
    }

    /// The CLI's word for idle may be about the turn before: it counts only when it has no prompt.
    pub(super) fn went_idle(&mut self) {
        if self.prompts.with_cli().is_none() && self.step(Trigger::WentIdle).is_some() {
            (self.runs_by_itself, self.woke_up) = (false, false);
            self.interrupt_sent = false;
            self.watchdog.turn_ended();
            self.tell(Event::BecameIdle);
        }
    }

    /// The turn that was in the way of closing is over.
    pub(super) fn interrupted_for_closing(&mut self, now: Instant) {
        let waits_for_turn = self.closing.as_ref().is_some_and(|closing| closing.rung == Rung::Interrupted);
        if waits_for_turn && self.prompts.with_cli().is_none() {
            self.climb(now);
        }
    }

    fn asked(&mut self, request: AskRequest<'_>, now: Instant) {
        let id = &*request.request_id;
        if self.asks.is_asked(id) {
            // Asked twice is asked once.
            return;
        }
        let is_for_tools = matches!(
            request.body,
            AskBody::OfToolServer(_) | AskBody::CallCancelled { .. } | AskBody::Known(AskKind::ToolCall(_))
        );
        if is_for_tools && !self.config.initialize.has_tools() {
            // A server of somebody else's has that name, and is none of ours.
            return self.write(answers::unsupported(id, "mcp_message"));
        }
        match request.body {
            AskBody::Known(AskKind::Hook(ask)) if self.config.initialize.hook(ask.hook).is_none() => {
                self.write(answers::safe(id, &Gate::Hook { event: ask.event }, "No hook of this name is registered"));
            }
            AskBody::Known(kind) if self.phase != Phase::Closing => {
                let gate = Gate::of(&kind);
                let deadline = self.deadline_of(&kind, now);
                match self.asks.open(id, kind, deadline) {
                    Some(opened) => self.tell(opened),
                    None => self.write(answers::safe(id, &gate, "Too many requests are open")),
                }
            }
            AskBody::Known(kind) => self.write(answers::safe(id, &Gate::of(&kind), "The session is closing")),
            AskBody::Unreadable { gate, frame } => {
                self.tell(Event::Unknown { frame });
                self.write(answers::safe(id, &gate, "The request could not be read"));
            }
            AskBody::OfToolServer(question) => {
                self.write(mcp::answer(id, &question, &self.config.initialize.tools));
            }
            AskBody::CallCancelled { call, notice } => {
                if let Some(ask) = self.asks.take_cancelled_call(&call) {
                    // The protocol wants no response to a cancelled call, and a late result is refused.
                    self.tell(ask.closed(AskEnding::Withdrawn));
                }
                self.write(mcp::answer(id, &notice, &self.config.initialize.tools));
            }
            AskBody::Unsupported { subtype, frame } => {
                self.tell(Event::Unknown { frame });
                self.write(answers::unsupported(id, &subtype));
            }
        }
    }

    /// Until when an ask must be answered.
    fn deadline_of(&self, kind: &AskKind, now: Instant) -> Option<Instant> {
        let limit = match kind {
            AskKind::Permission(_) | AskKind::Question(_) | AskKind::Plan(_) | AskKind::Form(_) => {
                self.config.answer_within
            }
            AskKind::Hook(ask) => self.config.initialize.hook(ask.hook).map(|hook| hook.answer_within),
            AskKind::ToolCall(_) => Some(TOOL_RETURNS_WITHIN),
        };
        limit.and_then(|limit| now.checked_add(limit))
    }

    fn responded(&mut self, response: &Response<'_>) {
        let body = match &response.body {
            Ok(body) => Ok(body.map_or_else(|| Raw::from("null"), Raw::copied)),
            Err(refusal) => {
                Err(RequestFailed::Refused { message: refusal.message.clone(), code: refusal.code.clone() })
            }
        };
        self.answered(&response.request_id, body);
    }

    /// A request of ours has its answer, or is known to get none. One that nobody waits for is passed over.
    pub(super) fn answered(&mut self, request_id: &str, body: Result<Raw, RequestFailed>) {
        let request = outgoing::request_of_name(request_id);
        let Some((request, (kind, _))) = request.and_then(|id| Some((id, self.requests.remove(&id)?))) else { return };
        self.watchdog.answered(request);
        let reply = match (kind, body) {
            (RequestKind::Initialize, body) => return self.initialized(body),
            (RequestKind::CancelPrompt(prompt), Ok(answer)) => return self.prompt_cancel_answered(prompt, &answer),
            (RequestKind::OwnInterrupt | RequestKind::CancelPrompt(_) | RequestKind::Probe, _) => return,
            (_, Err(failed)) => RequestReply::Failed(failed),
            (RequestKind::Interrupt { of, cancelled }, Ok(answer)) => {
                let is_idle = self.cli_state == Some(CliState::Idle) && !self.ran_since_hand_over;
                if is_idle && of == self.prompts.with_cli() && !self.is_queued(of, &answer) {
                    // It takes a prompt up before it answers an interrupt that came after it; this one it did not.
                    self.prompt_lost();
                    self.went_idle();
                }
                RequestReply::Interrupted(self.receipt(cancelled))
            }
            (RequestKind::Other, Ok(fields)) => RequestReply::Done(fields),
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
                    if self.runs_by_itself || self.woke_up {
                        // A resumed session may have gone on by itself before it answered.
                        self.step(Trigger::TurnBegan);
                    }
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
}
