//! The session machine: lines of the CLI and commands of clients in, events and lines to write out.
//!
//! It does no I/O and asks no clock. Every `handle_*` is to be followed by draining [`Machine::poll_output`];
//! outputs are in one queue, because their order is a promise.

mod asks;
mod closing;
mod commands;
mod config;
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
pub use liveness::Liveness;
pub use prompts::prompt_entry_prefix;
pub use state::{Phase, STEPS, Trigger};

use crate::bypass;
use crate::command::{Accepted, Command, Refused};
use crate::event::{AskEnding, DropReason, Event, Exit, ExitReason, RequestFailed, RequestReply};
use crate::id::{Counter, PromptId, RequestId, SessionId};
use crate::wire::control::Gate;
use crate::wire::system::CliState;
use crate::wire::{self, Overlong, answers, outgoing};
use asks::Asks;
use closing::{Closing, Rung};
use liveness::Watchdog;
use messages::Messages;
use prompts::Prompts;

/// How the CLI's process ended, as far as is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessEnd {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How many processes of the session could not be ended.
    pub left: u32,
}

/// What the driver is to do next, in this order.
#[derive(Debug, Clone)]
pub enum Output {
    /// Write this line to the CLI, once every event before it is stored.
    Write(Vec<u8>),
    /// Write this line to the CLI at once: it stops something, and must not wait for a disk.
    WriteNow(Vec<u8>),
    /// Tell the listeners.
    Event(Event),
    /// Take a step towards the CLI's end.
    Stop(Stop),
}

/// How long the CLI may take to answer a request.
const REQUEST_ANSWERED_WITHIN: Duration = Duration::from_secs(60);

/// How much of a line that is not a message is told.
const NOISE_KEPT_CHARACTERS: usize = 200;

/// One session with the CLI.
#[derive(Debug)]
pub struct Machine {
    config: Config,
    /// When something was last handled.
    now: Instant,
    phase: Phase,
    session: Option<SessionId>,
    start_deadline: Option<Instant>,
    /// What the CLI last said it is doing, if it ever did: then its word decides when the session is idle.
    cli_state: Option<CliState>,
    /// True when the CLI took up the prompt that it has.
    ran_since_hand_over: bool,
    /// True once the CLI has told of a prompt by its id. Before that, its word that it runs has to do.
    cli_tells_of_prompts: bool,
    /// True when the CLI said that it has the prompt in its queue, and not yet that it took it up.
    is_prompt_queued: bool,
    /// True while a turn runs that no prompt asked for.
    runs_by_itself: bool,
    /// True from when the CLI says that it runs, though it has no prompt, until its turn shows.
    woke_up: bool,
    /// True from when a turn shows until its result.
    turn_shows: bool,
    /// True when the running turn was told to end.
    interrupt_sent: bool,
    /// True when another server has the name of the one that serves our tools.
    tool_server_is_taken: bool,
    /// What the CLI complained of before it was ready.
    start_errors: Vec<String>,
    /// The CLI's running total of the last turn, once it is known.
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

/// What a request of ours was for.
#[derive(Debug, PartialEq, Eq)]
enum RequestKind {
    Initialize,
    Interrupt {
        /// The prompt that the CLI had when it was sent.
        of: Option<PromptId>,
        /// The prompts that were dropped with it.
        cancelled: Vec<PromptId>,
    },
    /// An interrupt that no client asked for: of the closing ladder, or one that is repeated.
    OwnInterrupt,
    /// To take this prompt out of the CLI's queue.
    CancelPrompt(PromptId),
    /// A probe of the watchdog: no client waits for its answer.
    Probe,
    Other,
}

impl Machine {
    /// A session whose CLI was just started. The first output is the line that opens the conversation.
    pub fn start(config: Config, now: Instant) -> Machine {
        let mut machine = Machine {
            now,
            phase: Phase::Starting,
            session: None,
            start_deadline: now.checked_add(config.start_within),
            cli_state: None,
            ran_since_hand_over: false,
            cli_tells_of_prompts: false,
            is_prompt_queued: false,
            runs_by_itself: false,
            woke_up: false,
            turn_shows: false,
            interrupt_sent: false,
            tool_server_is_taken: false,
            start_errors: Vec::new(),
            cost_so_far_usd: config.cost_so_far_usd,
            closing: None,
            watchdog: Watchdog::new(config.liveness, now),
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

    /// The CLI wrote a line.
    pub fn handle_line(&mut self, line: &[u8], now: Instant) {
        let line = line.trim_ascii();
        if line.is_empty() || self.phase == Phase::Ended {
            return;
        }
        self.handle_bytes(now);
        // Checked at once, because that is much faster than looking for what is to be replaced.
        let text = match std::str::from_utf8(line) {
            Ok(text) => Cow::Borrowed(text),
            Err(_) => String::from_utf8_lossy(line),
        };
        let mut repaired = String::new();
        match wire::decode(&text, &mut repaired) {
            Some(frame) => self.handle_frame(frame, now),
            None => self.noise(&text, line.len() as u64),
        }
    }

    /// The CLI wrote a line that is longer than the limit; only its beginning was kept.
    pub fn handle_overlong_line(&mut self, beginning: &[u8], bytes: u64) {
        if self.phase == Phase::Ended {
            return;
        }
        let beginning = String::from_utf8_lossy(beginning).into_owned();
        match wire::overlong(&beginning) {
            Overlong::Ask { request_id, gate } => {
                self.write(answers::safe(&request_id, &gate, "The request was too long to be read"));
            }
            Overlong::Reply { request_id } => {
                self.answered(&request_id, Err(RequestFailed::TooLong));
            }
            Overlong::Other => {}
        }
        self.noise(&beginning, bytes);
    }

    /// A client wants something. A refused command changes nothing.
    pub fn handle_command(&mut self, command: Command, now: Instant) -> Result<Accepted, Refused> {
        self.now = now;
        if !self.phase.permits(&command) {
            return Err(Refused::WrongPhase { command: command.verb(), phase: self.phase });
        }
        if !self.config.allow_bypass {
            bypass::check(&command)?;
        }
        self.carry_out(command, now)
    }

    /// Time has passed.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        while let Some(ask) = self.asks.take_expired(now) {
            self.tell(ask.closed(AskEnding::Expired));
            let gate = Gate::of(&ask.kind);
            let why = match gate {
                Gate::Permission => self.config.expired_words.as_str(),
                Gate::Hook { .. } | Gate::Form | Gate::ToolCall { .. } => "Nobody answered in time",
            };
            self.write(answers::safe(&ask.request_id, &gate, why));
        }
        self.give_up_requests(now);
        self.check_liveness(now);
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
    pub fn handle_exit(&mut self, end: ProcessEnd, stderr: String) {
        if self.step(Trigger::CliExited).is_none() {
            return;
        }
        self.messages.finish(|event| self.outputs.push_back(Output::Event(event)));
        self.close_asks();
        self.drop_prompts();
        for (request, (kind, _)) in std::mem::take(&mut self.requests) {
            match kind {
                RequestKind::Interrupt { .. } | RequestKind::Other => {
                    let reply = RequestReply::Failed(RequestFailed::SessionEnded);
                    self.tell(Event::RequestAnswered { request, reply });
                }
                RequestKind::Initialize
                | RequestKind::OwnInterrupt
                | RequestKind::CancelPrompt(_)
                | RequestKind::Probe => {}
            }
        }
        self.closing = None;
        let errors = std::mem::take(&mut self.start_errors);
        let ProcessEnd { code, signal, left } = end;
        let reason = self.exit_reason.clone();
        self.tell(Event::Ended { exit: Exit { code, signal, left, stderr, errors, reason } });
    }

    /// What to do next. To be called until there is nothing.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// When [`Machine::handle_timeout`] is to be called at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let start = self.start_deadline.filter(|_| self.phase == Phase::Starting);
        let closing = self.closing.as_ref().and_then(|closing| closing.deadline);
        let requests = self.requests.values().filter_map(|(_, limit)| *limit).min();
        [start, closing, requests, self.asks.next_deadline(), self.liveness_deadline()].into_iter().flatten().min()
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
        if next == Phase::Running {
            self.watchdog.turn_began(self.now);
        }
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

    fn close_asks(&mut self) {
        while let Some(ask) = self.asks.take_oldest() {
            self.tell(ask.closed(AskEnding::SessionEnded));
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

    fn expect_answer(&mut self, kind: RequestKind, now: Instant) -> RequestId {
        let id = RequestId(self.request_ids.next());
        let limit = match kind {
            RequestKind::Interrupt { .. } | RequestKind::CancelPrompt(_) | RequestKind::Probe | RequestKind::Other => {
                now.checked_add(REQUEST_ANSWERED_WITHIN)
            }
            // The start and the closing ladder have limits of their own.
            RequestKind::Initialize | RequestKind::OwnInterrupt => None,
        };
        self.requests.insert(id, (kind, limit));
        id
    }

    fn give_up_requests(&mut self, now: Instant) {
        let late = |(_, limit): &(RequestKind, Option<Instant>)| limit.is_some_and(|limit| limit <= now);
        while let Some(request) = self.requests.iter().find(|(_, pending)| late(pending)).map(|(id, _)| *id) {
            if let Some((RequestKind::Probe | RequestKind::CancelPrompt(_), _)) = self.requests.remove(&request) {
                // No client waits for its answer.
                continue;
            }
            let reply = RequestReply::Failed(RequestFailed::TimedOut);
            self.tell(Event::RequestAnswered { request, reply });
        }
    }

    /// The CLI wrote something that is not a message.
    fn noise(&mut self, text: &str, bytes: u64) {
        self.tell(Event::NoiseSkipped { beginning: text.chars().take(NOISE_KEPT_CHARACTERS).collect(), bytes });
    }

    fn write(&mut self, line: Vec<u8>) {
        self.outputs.push_back(Output::Write(line));
    }

    fn write_now(&mut self, line: Vec<u8>) {
        self.outputs.push_back(Output::WriteNow(line));
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    fn stop(&mut self, stop: Stop) {
        self.outputs.push_back(Output::Stop(stop));
    }
}
