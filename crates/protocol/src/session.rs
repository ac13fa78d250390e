//! The state machine of one process of the CLI. Its inputs are lines of the CLI and commands of clients; its outputs are
//! events and lines for the CLI.
//!
//! It does no I/O and reads no clock. The driver calls [`Machine::note_output`] for every read of the CLI's output, the
//! `credit_*` methods and `reset_silence` for time that does not count against the CLI, and [`Machine::handle_timeout`] at the
//! time that [`Machine::poll_timeout`] returns. After every `handle_*` call, it drains [`Machine::poll_output`].
//! Events and lines are in one queue, because their order matters: a line is written only when the events before it
//! are stored. (Lines that stop something are the exception: [`Output::WriteNow`].)

mod asks;
mod closing;
mod commands;
mod config;
mod control_requests;
mod frames;
mod hand_over;
mod liveness;
mod messages;
mod prompts;
mod state;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

pub use closing::Stop;
pub(crate) use commands::check_model;
pub use config::Config;
pub use liveness::WatchdogLimits;
pub use prompts::prompt_entry_prefix;
pub use state::{Phase, TRANSITIONS, Trigger};

use crate::bypass;
use crate::command::{Accepted, Command};
use crate::event::{AskResolution, DropReason, Event, Exit, ExitReason, LeftProcess, RequestFailure, RequestReply};
use crate::id::{Counter, PromptId, RequestId, SessionId};
use crate::refusal::Refusal;
use crate::wire::control::DefaultAnswer;
use crate::wire::system::CliState;
use crate::wire::{self, Overlong, answers, outgoing};
use asks::Asks;
use closing::{Closing, ClosingStep};
use liveness::Watchdog;
use messages::Messages;
use prompts::Prompts;

/// How the CLI's process ended, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProcessEnd {
    /// The exit code.
    pub code: Option<i32>,
    /// The signal that terminated it.
    pub signal: Option<i32>,
    /// How many processes of the session could not be terminated.
    pub left: u32,
    /// Those of them that are known.
    pub left_processes: Vec<LeftProcess>,
}

/// What the driver must do next. Outputs are carried out in order.
#[derive(Debug, Clone)]
pub enum Output {
    /// Write this line to the CLI once every event before it is stored.
    Write(Vec<u8>),
    /// Write this line to the CLI immediately: it stops something and must not wait for the disk.
    WriteNow(Vec<u8>),
    /// Emit this event.
    Event(Event),
    /// Take this step to end the CLI.
    Stop(Stop),
}

/// How long the CLI may take to answer a request.
const REQUEST_ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// How much of an unparsed line is reported.
const UNPARSED_LINE_CHARACTERS_MAX: usize = 200;

/// The state of one process of the CLI.
#[derive(Debug)]
pub struct Machine {
    config: Config,
    /// The time of the last input.
    now: Instant,
    phase: Phase,
    /// The CLI's id of the conversation, once the CLI has reported it.
    session: Option<SessionId>,
    start_deadline: Option<Instant>,
    /// The state that the CLI last reported. Once it has reported one, its reports decide when the session is idle.
    cli_state: Option<CliState>,
    /// True when the CLI has started to work on the prompt in flight.
    prompt_started: bool,
    /// True if this CLI reports the progress of prompts by their ids, as newer versions do. Otherwise its `running`
    /// state counts as the start of the prompt.
    cli_reports_prompts: bool,
    /// True if this CLI names the prompts that a result answers (newer versions).
    results_name_prompts: bool,
    /// True after the CLI has reported that the prompt is in its queue, until it reports that it started it.
    prompt_queued_in_cli: bool,
    /// The time at which the prompt in flight is given up as lost. Set when the first turn that the CLI started itself ends
    /// while the CLI has not shown that it has the prompt; cleared when it shows it. (2.1.42 may merge the prompt into that
    /// turn, and does not report it.)
    unseen_deadline: Option<Instant>,
    /// True after the CLI went from `idle` to `running` without a prompt, until the `init` frame of that turn arrives.
    cli_turn_expected: bool,
    /// True while the CLI runs a turn that no prompt started: from its `init` frame, or the report that causes it,
    /// until its result.
    cli_turn_running: bool,
    /// True from the `init` frame of any turn until its result.
    init_received: bool,
    /// True from an interrupt until the turn that it is for has ended.
    interrupt_sent: bool,
    /// True when another MCP server has the name of the server of our tools.
    tool_server_is_taken: bool,
    /// The errors that the CLI reported before it was ready.
    start_errors: Vec<String>,
    /// The CLI's total cost after the last turn, once it is known.
    cost_so_far_usd: Option<f64>,
    closing: Option<Closing>,
    watchdog: Watchdog,
    exit_reason: ExitReason,
    request_ids: Counter,
    requests: BTreeMap<RequestId, (RequestKind, Option<Instant>)>,
    prompts: Prompts,
    asks: Asks,
    messages: Messages,
    outputs: VecDeque<Output>,
}

/// What a request to the CLI was for.
#[derive(Debug, PartialEq, Eq)]
enum RequestKind {
    Initialize,
    Interrupt {
        /// The prompt that the CLI held when the interrupt was sent.
        of: Option<PromptId>,
        /// The prompts that were dropped with the interrupt.
        cancelled: Vec<PromptId>,
    },
    /// An interrupt that no client sent: of the closing ladder, or a repeated one.
    WatariInterrupt,
    /// Removes this prompt from the CLI's queue.
    CancelPrompt(PromptId),
    /// A probe of the watchdog: no client waits for its answer.
    Probe,
    Other,
}

impl Machine {
    /// Creates the machine of a CLI that was just started. The first output is the line with the `initialize` request.
    pub fn start(config: Config, now: Instant) -> Machine {
        let mut machine = Machine {
            now,
            phase: Phase::Starting,
            session: None,
            start_deadline: now.checked_add(config.start_timeout),
            cli_state: None,
            prompt_started: false,
            cli_reports_prompts: false,
            results_name_prompts: false,
            prompt_queued_in_cli: false,
            unseen_deadline: None,
            cli_turn_expected: false,
            cli_turn_running: false,
            init_received: false,
            interrupt_sent: false,
            tool_server_is_taken: false,
            start_errors: Vec::new(),
            cost_so_far_usd: config.cost_so_far_usd,
            closing: None,
            watchdog: Watchdog::new(config.watchdog, now),
            exit_reason: ExitReason::ByItself,
            request_ids: Counter::after(config.ids_after),
            requests: BTreeMap::new(),
            prompts: Prompts::new(config.uuid_seed, Counter::after(config.ids_after)),
            asks: Asks::new(Counter::after(config.ids_after), config.asked_tool_uses.clone()),
            messages: Messages::new(Counter::after(config.ids_after)),
            outputs: VecDeque::new(),
            config,
        };
        let id = machine.expect_answer(RequestKind::Initialize, now);
        let line = outgoing::initialize(id, &machine.config.initialize);
        machine.write(line);
        machine
    }

    /// Handles a line that the CLI wrote.
    pub fn handle_line(&mut self, line: &[u8], now: Instant) {
        let line = line.trim_ascii();
        if line.is_empty() || self.phase == Phase::Ended {
            return;
        }
        self.note_output(now);
        // Validate first: that is much faster than searching for bytes to replace.
        let text = match std::str::from_utf8(line) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(line),
        };
        let mut repaired = String::new();
        match wire::decode(&text, &mut repaired) {
            Some(frame) => self.handle_frame(frame, now),
            None => self.skip_unparsed(&text, line.len() as u64),
        }
    }

    /// Handles a line that is longer than the limit, of which only the start was read.
    pub fn handle_overlong_line(&mut self, beginning: &[u8], bytes: u64) {
        if self.phase == Phase::Ended {
            return;
        }
        let beginning = String::from_utf8_lossy(beginning).into_owned();
        match wire::overlong(&beginning) {
            Overlong::Ask { request_id, default_answer } => {
                self.write(answers::by_default(&request_id, &default_answer, "The request was too long to be read"));
            }
            Overlong::Reply { request_id } => {
                self.resolve_request(&request_id, Err(RequestFailure::TooLong));
            }
            Overlong::Other => {}
        }
        self.skip_unparsed(&beginning, bytes);
    }

    /// Handles a command of a client. A refused command changes nothing.
    pub fn handle_command(&mut self, command: Command, now: Instant) -> Result<Accepted, Refusal> {
        self.now = now;
        if !self.phase.permits(&command) {
            return Err(Refusal::WrongPhase { command: command.verb(), phase: self.phase });
        }
        if !self.config.allow_bypass {
            bypass::check(&command)?;
        }
        self.carry_out(command, now)
    }

    /// Handles deadlines that have passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        while let Some(ask) = self.asks.take_expired(now) {
            self.emit(ask.resolved_event(AskResolution::Expired));
            let default_answer = DefaultAnswer::of(&ask.kind);
            let reason = match default_answer {
                DefaultAnswer::Permission => self.config.timeout_message.as_str(),
                DefaultAnswer::Hook { .. } | DefaultAnswer::Elicitation | DefaultAnswer::ToolCall { .. } => {
                    "No client answered in time"
                }
            };
            self.write(answers::by_default(&ask.cli_request_id, &default_answer, reason));
        }
        self.time_out_requests(now);
        self.check_unseen_prompt(now);
        self.check_liveness(now);
        if self.start_deadline.is_some_and(|deadline| deadline <= now) && self.phase == Phase::Starting {
            self.transition(Trigger::CloseBegan);
            self.exit_reason = ExitReason::StartTimedOut;
            self.stop(Stop::Abort);
            self.closing = Some(Closing::at_step(ClosingStep::AbortedOrKilled, now));
        }
        if self.closing.as_ref().and_then(|closing| closing.deadline).is_some_and(|deadline| deadline <= now) {
            self.escalate(now);
        }
    }

    /// Handles the exit of the CLI.
    pub fn handle_exit(&mut self, end: ProcessEnd, stderr: String) {
        if self.transition(Trigger::CliExited).is_none() {
            return;
        }
        self.messages.end_streaming(|event| self.outputs.push_back(Output::Event(event)));
        self.close_asks();
        self.drop_prompts();
        for (request, (kind, _)) in std::mem::take(&mut self.requests) {
            match kind {
                RequestKind::Interrupt { .. } | RequestKind::Other => {
                    let reply = RequestReply::Failed(RequestFailure::CliExited);
                    self.emit(Event::RequestAnswered { request, reply });
                }
                RequestKind::Initialize
                | RequestKind::WatariInterrupt
                | RequestKind::CancelPrompt(_)
                | RequestKind::Probe => {}
            }
        }
        self.closing = None;
        let errors = std::mem::take(&mut self.start_errors);
        let ProcessEnd { code, signal, left, left_processes } = end;
        let reason = self.exit_reason.clone();
        let exit = Exit { code, signal, left, left_processes, stderr, errors, reason };
        self.emit(Event::CliExited { exit: Box::new(exit) });
    }

    /// Returns the next output. Call it until it returns none.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Returns when [`Machine::handle_timeout`] must be called at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let start = self.start_deadline.filter(|_| self.phase == Phase::Starting);
        let closing = self.closing.as_ref().and_then(|closing| closing.deadline);
        let requests = self.requests.values().filter_map(|(_, limit)| *limit).min();
        let deadlines =
            [start, closing, requests, self.unseen_deadline(), self.asks.next_deadline(), self.liveness_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Returns the phase of the process.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the CLI's id of the conversation, once the CLI has reported it.
    pub fn session_id(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    /// Takes the transition of the phase table for this trigger, if there is one.
    fn transition(&mut self, trigger: Trigger) -> Option<Phase> {
        let next = self.phase.after(trigger)?;
        if next == Phase::Running {
            self.watchdog.restart_silence_timer(self.now);
        }
        self.phase = next;
        Some(next)
    }

    /// Takes the next step of the closing ladder.
    fn escalate(&mut self, now: Instant) {
        let Some((step, stop)) = self.closing.as_ref().and_then(|closing| closing.step.next()) else {
            return;
        };
        self.stop(stop);
        self.closing = Some(Closing::at_step(step, now));
    }

    fn close_asks(&mut self) {
        while let Some(ask) = self.asks.take_oldest() {
            self.emit(ask.resolved_event(AskResolution::CliExited));
        }
    }

    fn drop_prompts(&mut self) {
        let in_flight = self.prompts.take_in_flight();
        let waiting = std::iter::from_fn(|| self.prompts.drop_next());
        let dropped: Vec<PromptId> = in_flight.into_iter().chain(waiting).collect();
        for prompt in dropped {
            self.emit(Event::PromptDropped { prompt, reason: DropReason::CliExited });
        }
    }

    fn expect_answer(&mut self, kind: RequestKind, now: Instant) -> RequestId {
        let id = RequestId(self.request_ids.next());
        let limit = match kind {
            RequestKind::Interrupt { .. } | RequestKind::CancelPrompt(_) | RequestKind::Probe | RequestKind::Other => {
                now.checked_add(REQUEST_ANSWERED_WITHIN)
            }
            // The start and the closing ladder have their own time limits.
            RequestKind::Initialize | RequestKind::WatariInterrupt => None,
        };
        self.requests.insert(id, (kind, limit));
        id
    }

    fn time_out_requests(&mut self, now: Instant) {
        let late = |(_, limit): &(RequestKind, Option<Instant>)| limit.is_some_and(|limit| limit <= now);
        while let Some(request) = self.requests.iter().find(|(_, pending)| late(pending)).map(|(id, _)| *id) {
            if let Some((RequestKind::Probe | RequestKind::CancelPrompt(_), _)) = self.requests.remove(&request) {
                // No client waits for its answer.
                continue;
            }
            let reply = RequestReply::Failed(RequestFailure::TimedOut);
            self.emit(Event::RequestAnswered { request, reply });
        }
    }

    /// Reports a line that is not a message.
    fn skip_unparsed(&mut self, text: &str, bytes: u64) {
        self.emit(Event::UnparsedLineSkipped {
            beginning: text.chars().take(UNPARSED_LINE_CHARACTERS_MAX).collect(),
            bytes,
        });
    }

    fn write(&mut self, line: Vec<u8>) {
        self.outputs.push_back(Output::Write(line));
    }

    fn write_now(&mut self, line: Vec<u8>) {
        self.outputs.push_back(Output::WriteNow(line));
    }

    fn emit(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn stop(&mut self, stop: Stop) {
        self.outputs.push_back(Output::Stop(stop));
    }
}
