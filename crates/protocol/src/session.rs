//! The session machine: lines of the CLI and commands of clients in, events and lines to write out.
//!
//! It does no I/O and asks no clock. Every `handle_*` is to be followed by draining [`Machine::poll_output`];
//! outputs are in one queue, because their order is a promise.

mod asks;
mod closing;
mod commands;
mod frames;
mod messages;
mod prompts;
mod state;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

pub use closing::Stop;
pub use state::{Phase, STEPS, Trigger};

use crate::command::{Accepted, Command, Refused};
use crate::event::{AskEnding, DropReason, Event, Exit, ExitReason, RequestFailed, TurnCause};
use crate::id::{Counter, PromptId, RequestId, SessionId};
use crate::initialize::Initialize;
use crate::wire;
use crate::wire::outgoing::{self, Interrupts};
use asks::Asks;
use closing::{Closing, Rung};
use messages::Messages;
use prompts::Prompts;

/// What a session is started with.
#[derive(Debug, Clone)]
pub struct Config {
    /// What the CLI is told first.
    pub initialize: Initialize,
    /// After how long an unanswered ask is a no; none means never.
    pub answer_within: Option<Duration>,
    /// After how long a CLI that does not answer is given up.
    pub start_within: Duration,
    /// Chance, as an argument: it makes the ids of prompts unlike those of other sessions.
    pub uuid_seed: u128,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            initialize: Initialize::default(),
            answer_within: None,
            start_within: Duration::from_secs(60),
            uuid_seed: 0,
        }
    }
}

/// What the driver is to do next, in this order.
#[derive(Debug, Clone)]
pub enum Output {
    /// Write this line to the CLI.
    Write(Vec<u8>),
    /// Tell the listeners.
    Event(Event),
    /// Take a step towards the CLI's end.
    Stop(Stop),
}

/// One session with the CLI.
#[derive(Debug)]
pub struct Machine {
    config: Config,
    phase: Phase,
    session: Option<SessionId>,
    start_deadline: Option<Instant>,
    /// True once the CLI has said what it is doing: then its word decides when the session is idle.
    cli_reports_state: bool,
    /// True while a turn runs that no prompt asked for.
    runs_by_itself: bool,
    /// True when the running turn was told to end.
    interrupt_sent: bool,
    /// What the CLI complained of before it was ready.
    start_errors: Vec<String>,
    closing: Option<Closing>,
    exit_reason: ExitReason,
    request_ids: Counter,
    requests: BTreeMap<RequestId, RequestKind>,
    prompts: Prompts,
    asks: Asks,
    messages: Messages,
    outputs: VecDeque<Output>,
}

/// What a request of ours was for.
#[derive(Debug, PartialEq, Eq)]
enum RequestKind {
    Initialize,
    Interrupt {
        /// The prompts that were dropped with it.
        cancelled: Vec<PromptId>,
    },
    /// The interrupt of the closing ladder: nobody waits for its answer.
    ClosingInterrupt,
    Other,
}

impl Machine {
    /// A session whose CLI was just started. The first output is the line that opens the conversation.
    pub fn start(config: Config, now: Instant) -> Machine {
        let mut machine = Machine {
            phase: Phase::Starting,
            session: None,
            start_deadline: now.checked_add(config.start_within),
            cli_reports_state: false,
            runs_by_itself: false,
            interrupt_sent: false,
            start_errors: Vec::new(),
            closing: None,
            exit_reason: ExitReason::ByItself,
            request_ids: Counter::default(),
            requests: BTreeMap::new(),
            prompts: Prompts::new(config.uuid_seed),
            asks: Asks::default(),
            messages: Messages::default(),
            outputs: VecDeque::new(),
            config,
        };
        let id = machine.expect_answer(RequestKind::Initialize);
        let line = outgoing::initialize(id, &machine.config.initialize);
        machine.write(line);
        machine
    }

    /// The CLI wrote a line.
    pub fn handle_line(&mut self, line: &[u8], now: Instant) {
        let line = line.trim_ascii();
        if line.is_empty() || self.phase == Phase::Ended {
            return;
        }
        let text = String::from_utf8_lossy(line);
        let mut repaired = String::new();
        self.handle_frame(wire::decode(&text, &mut repaired), &text, now);
    }

    /// The CLI wrote a line that is longer than the limit; it was not kept.
    pub fn handle_overlong_line(&mut self, beginning: &[u8], bytes: u64) {
        let beginning = String::from_utf8_lossy(beginning).into_owned();
        self.tell(Event::NoiseSkipped { beginning, bytes });
    }

    /// A client wants something. A refused command changes nothing.
    pub fn handle_command(&mut self, command: Command, now: Instant) -> Result<Accepted, Refused> {
        if !self.phase.permits(&command) {
            return Err(Refused::WrongPhase { command: command.verb(), phase: self.phase });
        }
        self.carry_out(command, now)
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(ask) = self.asks.take_expired(now) {
            self.tell(Event::AskClosed { ask: ask.id, ending: AskEnding::Expired });
            self.write(outgoing::denial(&ask.request_id, "Permission request timed out", Interrupts::No));
        }
        if self.start_deadline.is_some_and(|deadline| deadline <= now) && self.phase == Phase::Starting {
            self.step(Trigger::EndAsked);
            self.exit_reason = ExitReason::StartTimedOut;
            self.stop(Stop::Abort);
            self.closing = Some(Closing::on(Rung::Killed, now));
        }
        if self.closing.as_ref().and_then(|closing| closing.deadline).is_some_and(|deadline| deadline <= now) {
            self.climb(now);
        }
    }

    /// The CLI has gone.
    pub fn handle_exit(&mut self, code: Option<i32>, signal: Option<i32>, stderr: String) {
        if self.step(Trigger::CliExited).is_none() {
            return;
        }
        self.messages.finish(|event| self.outputs.push_back(Output::Event(event)));
        self.close_asks();
        self.drop_prompts();
        for (request, kind) in std::mem::take(&mut self.requests) {
            match kind {
                RequestKind::Interrupt { .. } | RequestKind::Other => {
                    self.tell(Event::RequestAnswered { request, reply: Err(RequestFailed::SessionEnded) });
                }
                RequestKind::Initialize | RequestKind::ClosingInterrupt => {}
            }
        }
        self.closing = None;
        let errors = std::mem::take(&mut self.start_errors);
        self.tell(Event::Ended { exit: Exit { code, signal, stderr, errors, reason: self.exit_reason.clone() } });
    }

    /// What to do next. To be called until there is nothing.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Machine::handle_timeout`] is to be called at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let start = self.start_deadline.filter(|_| self.phase == Phase::Starting);
        let closing = self.closing.as_ref().and_then(|closing| closing.deadline);
        [start, closing, self.asks.next_deadline()].into_iter().flatten().min()
    }

    /// Where the session is.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The CLI's id of the conversation, once it has said it.
    pub fn session_id(&self) -> Option<&SessionId> {
        self.session.as_ref()
    }

    /// Takes a step of the table, if there is one.
    fn step(&mut self, trigger: Trigger) -> Option<Phase> {
        let next = self.phase.after(trigger)?;
        self.phase = next;
        Some(next)
    }

    /// Climbs to the next rung of the closing ladder.
    fn climb(&mut self, now: Instant) {
        let Some((rung, stop)) = self.closing.as_ref().and_then(|closing| closing.rung.next()) else {
            return;
        };
        self.stop(stop);
        self.closing = Some(Closing::on(rung, now));
    }

    /// Hands the next prompt over, if the CLI has none and may have one.
    fn hand_over_prompt(&mut self) {
        if !matches!(self.phase, Phase::Idle | Phase::Running) {
            return;
        }
        let Some((id, content)) = self.prompts.hand_over() else {
            return;
        };
        self.step(Trigger::TurnBegan);
        self.tell(Event::TurnStarted { cause: TurnCause::Prompt(id) });
        let line = outgoing::prompt(&self.prompts.uuid(id), &content);
        self.write(line);
    }

    fn close_asks(&mut self) {
        while let Some(ask) = self.asks.take_oldest() {
            self.tell(Event::AskClosed { ask: ask.id, ending: AskEnding::SessionEnded });
        }
    }

    fn drop_prompts(&mut self) {
        let with_cli = self.prompts.finish();
        let waiting = std::iter::from_fn(|| self.prompts.drop_next());
        let dropped: Vec<PromptId> = with_cli.into_iter().chain(waiting).collect();
        for prompt in dropped {
            self.tell(Event::PromptDropped { prompt, reason: DropReason::SessionEnded });
        }
    }

    fn expect_answer(&mut self, kind: RequestKind) -> RequestId {
        let id = RequestId(self.request_ids.next());
        self.requests.insert(id, kind);
        id
    }

    fn write(&mut self, line: Vec<u8>) {
        self.outputs.push_back(Output::Write(line));
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn stop(&mut self, stop: Stop) {
        self.outputs.push_back(Output::Stop(stop));
    }
}
