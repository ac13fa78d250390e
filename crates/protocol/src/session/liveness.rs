//! Whether the CLI still reacts: to an interrupt, and to a probe once it has been silent for long.
//!
//! Silence counts only while a turn runs, nothing is asked of us, and somebody reads what the CLI writes. A byte costs a
//! note of the time: the deadline is looked at when it fires, and is not moved by every byte.

use std::time::{Duration, Instant};

use super::state::{Phase, Trigger};
use super::{Machine, RequestKind};
use crate::command::Request;
use crate::event::{Event, ExitReason, Unanswered};
use crate::id::RequestId;
use crate::wire::outgoing;

/// How long the CLI may take to react before it counts as unresponsive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Liveness {
    /// End the CLI when an interrupt of a running turn is neither answered nor obeyed within this time.
    pub interrupt_answered_within: Duration,
    /// End the CLI when an interrupt was answered, and the turn that ran still runs this long after it was sent.
    pub interrupt_obeyed_within: Duration,
    /// Probe the CLI when it has written nothing for this long while a turn runs.
    pub silent_for: Duration,
    /// Report the CLI as stalled when it writes nothing for this long after a probe.
    pub probe_answered_within: Duration,
    /// End a CLI that is stalled, as one that does not react to an interrupt.
    pub end_stalled: bool,
}

impl Default for Liveness {
    fn default() -> Liveness {
        Liveness {
            // The CLI was measured to answer in 25 ms and to end its turn in 45 ms, in the middle of a tool too.
            interrupt_answered_within: Duration::from_secs(5),
            interrupt_obeyed_within: Duration::from_secs(10),
            silent_for: Duration::from_secs(30),
            // The CLI answers a probe in 10 ms, also while the API does not answer.
            probe_answered_within: Duration::from_secs(10),
            end_stalled: false,
        }
    }
}

/// What is known of the CLI's reactions.
#[derive(Debug)]
pub(super) struct Watchdog {
    limits: Liveness,
    /// When the CLI last wrote something, or when its silence last had another cause.
    received_at: Instant,
    silence: Silence,
    interrupt: Option<PendingInterrupt>,
}

/// How far the watch over the CLI's silence is. It counts only while a turn runs.
#[derive(Debug, Clone, Copy)]
enum Silence {
    /// It is looked at then.
    CheckAt(Instant),
    /// The CLI was probed, and has until then to write anything.
    ProbedUntil(Instant),
    /// The CLI was reported as stalled.
    Stalled,
}

/// An interrupt of a running turn that has not ended it yet.
#[derive(Debug, Clone, Copy)]
struct PendingInterrupt {
    request: RequestId,
    awaits: Awaits,
    deadline: Instant,
    /// Whether a prompt's turn was known to run, which an interrupt ends. What waits in the CLI, it does not end.
    ends_turn: bool,
}

#[derive(Debug, Clone, Copy)]
enum Awaits {
    Answer,
    End,
}

impl Watchdog {
    pub(super) fn new(limits: Liveness, now: Instant) -> Watchdog {
        Watchdog { limits, received_at: now, silence: Silence::CheckAt(now), interrupt: None }
    }

    pub(super) fn turn_began(&mut self, now: Instant) {
        self.received_at = now;
        self.silence = Silence::CheckAt(after(now, self.limits.silent_for));
    }

    /// An earlier interrupt keeps its deadline: asking again does not give the CLI more time.
    pub(super) fn interrupted(&mut self, request: RequestId, ends_turn: bool, now: Instant) {
        let deadline = after(now, self.limits.interrupt_answered_within);
        let interrupt =
            self.interrupt.get_or_insert(PendingInterrupt { request, awaits: Awaits::Answer, deadline, ends_turn });
        interrupt.ends_turn |= ends_turn;
    }

    /// The CLI answered a request. An interrupt that it answered ends a turn that ran soon after.
    pub(super) fn answered(&mut self, request: RequestId) {
        let Some(interrupt) = self.interrupt.as_mut().filter(|interrupt| interrupt.request == request) else { return };
        if interrupt.ends_turn {
            let Liveness { interrupt_answered_within, interrupt_obeyed_within, .. } = self.limits;
            interrupt.deadline =
                after(interrupt.deadline, interrupt_obeyed_within.saturating_sub(interrupt_answered_within));
            interrupt.awaits = Awaits::End;
        } else {
            self.interrupt = None;
        }
    }

    /// The turn has ended that was to be interrupted, or there was none.
    pub(super) fn turn_ended(&mut self) {
        self.interrupt = None;
    }

    pub(super) fn is_stalled(&self) -> bool {
        matches!(self.silence, Silence::Stalled)
    }

    fn next_deadline(&self) -> Option<Instant> {
        let silence = match self.silence {
            Silence::CheckAt(at) | Silence::ProbedUntil(at) => Some(at),
            Silence::Stalled => None,
        };
        let interrupt = self.interrupt.map(|interrupt| interrupt.deadline);
        [silence, interrupt].into_iter().flatten().min()
    }

    /// The CLI could not be heard until now: every limit begins anew.
    fn excuse(&mut self, now: Instant) {
        self.received_at = now;
        self.silence = match self.silence {
            Silence::CheckAt(_) => Silence::CheckAt(after(now, self.limits.silent_for)),
            Silence::ProbedUntil(_) => Silence::ProbedUntil(after(now, self.limits.probe_answered_within)),
            Silence::Stalled => Silence::Stalled,
        };
        if let Some(interrupt) = &mut self.interrupt {
            interrupt.deadline = after(now, self.limits.interrupt_answered_within);
        }
    }
}

impl Machine {
    /// The CLI wrote something, be it a part of a line. To be called for every read, before its lines are handled.
    pub fn handle_bytes(&mut self, now: Instant) {
        self.now = now;
        let silent_since = std::mem::replace(&mut self.watchdog.received_at, now);
        match self.watchdog.silence {
            // The usual case: when the deadline fires it is seen that the CLI was heard since.
            Silence::CheckAt(_) => {}
            Silence::ProbedUntil(_) => self.watchdog.turn_began(now),
            Silence::Stalled => {
                self.watchdog.turn_began(now);
                if self.phase == Phase::Running {
                    let silent_seconds = now.saturating_duration_since(silent_since).as_secs();
                    self.emit(Event::CliRecovered { silent_seconds });
                }
            }
        }
    }

    /// The CLI's silence up to now had a cause of ours: nobody read what it wrote, or it was busy reading what we wrote.
    pub fn handle_excuse(&mut self, now: Instant) {
        self.now = now;
        self.watchdog.excuse(now);
    }

    /// When it is to be looked at whether the CLI still reacts.
    pub(super) fn liveness_deadline(&self) -> Option<Instant> {
        self.watchdog.next_deadline().filter(|_| self.phase == Phase::Running)
    }

    /// Looks whether the CLI still reacts.
    pub(super) fn check_liveness(&mut self, now: Instant) {
        if self.phase != Phase::Running {
            return;
        }
        let limits = self.watchdog.limits;
        if let Some(interrupt) = self.watchdog.interrupt.filter(|interrupt| interrupt.deadline <= now) {
            let within = match interrupt.awaits {
                Awaits::Answer => limits.interrupt_answered_within,
                Awaits::End => limits.interrupt_obeyed_within,
            };
            return self.end_unresponsive(Unanswered::Interrupt, within, now);
        }
        match self.watchdog.silence {
            // The CLI waits for an answer of ours. It may: a question can be open for hours.
            Silence::CheckAt(at) if at <= now && self.asks.is_any_open() => self.watchdog.turn_began(now),
            Silence::CheckAt(at) if at <= now => {
                let silent_until = after(self.watchdog.received_at, limits.silent_for);
                if silent_until > now {
                    self.watchdog.silence = Silence::CheckAt(silent_until);
                } else {
                    self.probe(now);
                }
            }
            Silence::ProbedUntil(at) if at <= now => {
                self.watchdog.silence = Silence::Stalled;
                let silent = now.saturating_duration_since(self.watchdog.received_at);
                self.emit(Event::CliStalled { silent_seconds: silent.as_secs() });
                if limits.end_stalled {
                    self.end_unresponsive(Unanswered::Probe, silent, now);
                }
            }
            Silence::CheckAt(_) | Silence::ProbedUntil(_) | Silence::Stalled => {}
        }
    }

    /// Asks the CLI for something that it answers at once whatever it does. No client hears of it.
    fn probe(&mut self, now: Instant) {
        let id = self.expect_answer(RequestKind::Probe, now);
        self.write(outgoing::request(id, &Request::McpStatus, &self.config.initialize));
        self.watchdog.silence = Silence::ProbedUntil(after(now, self.watchdog.limits.probe_answered_within));
    }

    /// Ends a CLI that does not react. One that only does not listen can still store its conversation; one that is
    /// stopped is killed half a second later.
    fn end_unresponsive(&mut self, to: Unanswered, within: Duration, now: Instant) {
        let reason = ExitReason::Unresponsive { to, seconds: within.as_secs() };
        self.end_for(Trigger::Unresponsive, reason, now);
    }
}

/// The shortest limit there is, so that a timer always waits, and the longest. A longer one means never: no session lives
/// to see the difference.
const LIMIT_MIN: Duration = Duration::from_millis(1);
const LIMIT_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

fn after(now: Instant, limit: Duration) -> Instant {
    now + limit.clamp(LIMIT_MIN, LIMIT_MAX)
}
