//! The watchdog: checks whether the CLI still reacts to an interrupt, and to a probe after a long silence.
//!
//! Silence counts only while a turn runs, no ask is open, and the CLI's output is read. Before a probe, a read only stores
//! the time and does not move the deadline: when the deadline fires, the check sees whether something was read since.

use std::time::{Duration, Instant};

use super::state::{Phase, Trigger};
use super::{Machine, RequestKind};
use crate::command::Request;
use crate::event::{Event, ExitReason, UnresponsiveTo};
use crate::id::RequestId;
use crate::wire::outgoing;

/// Time limits for a CLI that does not react during a turn. `Duration::MAX` switches a limit off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchdogLimits {
    /// Terminate the CLI when it neither answers an interrupt of a running turn nor ends the turn within this time.
    /// Default: 5 seconds.
    pub interrupt_answer_timeout: Duration,
    /// Terminate the CLI when it answered an interrupt, but the turn still runs this long after the interrupt was sent.
    /// Default: 10 seconds.
    pub interrupt_end_timeout: Duration,
    /// Probe the CLI (send it a small request) when it has written nothing for this long while a turn runs. A long tool
    /// is no problem: the CLI answers while it runs. Default: 30 seconds.
    pub probe_after: Duration,
    /// Report the CLI as stalled when it writes nothing for this long after a probe. Default: 10 seconds.
    pub probe_timeout: Duration,
    /// Also terminate a stalled CLI, like a CLI that does not react to an interrupt. Default: false.
    pub end_stalled: bool,
}

impl Default for WatchdogLimits {
    fn default() -> WatchdogLimits {
        WatchdogLimits {
            // Measured: the CLI answers in 25 ms and ends its turn in 45 ms, even while a tool runs.
            interrupt_answer_timeout: Duration::from_secs(5),
            interrupt_end_timeout: Duration::from_secs(10),
            probe_after: Duration::from_secs(30),
            // Measured: the CLI answers a probe in 10 ms, even while the API does not answer.
            probe_timeout: Duration::from_secs(10),
            end_stalled: false,
        }
    }
}

/// The state of the watchdog.
#[derive(Debug)]
pub(super) struct Watchdog {
    limits: WatchdogLimits,
    /// When the CLI last wrote something, or when its silence was last excused.
    received_at: Instant,
    silence: Silence,
    interrupt: Option<PendingInterrupt>,
}

/// The state of the check for silence. It counts only while a turn runs.
#[derive(Debug, Clone, Copy)]
enum Silence {
    /// The silence is checked at this time.
    CheckAt(Instant),
    /// The CLI was probed and must write something before this time.
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
    /// Whether the turn must end after the interrupt: true if a turn was running when the interrupt was sent,
    /// or if the prompt is unseen. An interrupt does not end a prompt that only waits in the CLI's queue.
    must_end_turn: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaits {
    Answer,
    End,
}

impl Watchdog {
    pub(super) fn new(limits: WatchdogLimits, now: Instant) -> Watchdog {
        Watchdog { limits, received_at: now, silence: Silence::CheckAt(now), interrupt: None }
    }

    /// Starts to measure the CLI's silence from now on.
    pub(super) fn restart_silence_timer(&mut self, now: Instant) {
        self.received_at = now;
        self.silence = Silence::CheckAt(after(now, self.limits.probe_after));
    }

    /// Records an interrupt. An earlier interrupt keeps its deadline: a repeated one gives the CLI no more time.
    pub(super) fn interrupted(&mut self, request: RequestId, must_end_turn: bool, now: Instant) {
        let deadline = after(now, self.limits.interrupt_answer_timeout);
        let interrupt =
            self.interrupt.get_or_insert(PendingInterrupt { request, awaits: Awaits::Answer, deadline, must_end_turn });
        interrupt.must_end_turn |= must_end_turn;
    }

    /// Records an answer. After the answer to an interrupt, the running turn must end soon.
    pub(super) fn request_answered(&mut self, request: RequestId) {
        let Some(interrupt) = self.interrupt.as_mut().filter(|interrupt| interrupt.request == request) else { return };
        if interrupt.must_end_turn {
            let WatchdogLimits { interrupt_answer_timeout, interrupt_end_timeout, .. } = self.limits;
            interrupt.deadline =
                after(interrupt.deadline, interrupt_end_timeout.saturating_sub(interrupt_answer_timeout));
            interrupt.awaits = Awaits::End;
        } else {
            self.interrupt = None;
        }
    }

    /// Records that the interrupted turn has ended, or that there was none.
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

    /// Moves every deadline.
    fn postpone(&mut self, time: Duration, now: Instant) {
        self.received_at = now.min(after(self.received_at, time));
        self.silence = match self.silence {
            Silence::CheckAt(at) => Silence::CheckAt(after(at, time)),
            Silence::ProbedUntil(at) => Silence::ProbedUntil(after(at, time)),
            Silence::Stalled => Silence::Stalled,
        };
        if let Some(interrupt) = &mut self.interrupt {
            interrupt.deadline = after(interrupt.deadline, time);
        }
    }

    /// Excuses the silence up to now: every limit starts again.
    fn restart(&mut self, now: Instant) {
        self.received_at = now;
        self.silence = match self.silence {
            Silence::CheckAt(_) => Silence::CheckAt(after(now, self.limits.probe_after)),
            Silence::ProbedUntil(_) => Silence::ProbedUntil(after(now, self.limits.probe_timeout)),
            Silence::Stalled => Silence::Stalled,
        };
        if let Some(interrupt) = &mut self.interrupt {
            // Never sooner than before.
            interrupt.deadline = interrupt.deadline.max(after(now, self.limits.interrupt_answer_timeout));
        }
    }
}

impl Machine {
    /// Records that the CLI wrote something, even a part of a line. The driver calls this for every read, because a
    /// long line arrives in many reads; [`Machine::handle_line`] calls it as well.
    pub fn note_output(&mut self, now: Instant) {
        self.now = now;
        let silent_since = std::mem::replace(&mut self.watchdog.received_at, now);
        match self.watchdog.silence {
            // The usual case: when the deadline fires, the check sees that the CLI has written since.
            Silence::CheckAt(_) => {}
            Silence::ProbedUntil(_) => self.watchdog.restart_silence_timer(now),
            Silence::Stalled => {
                self.watchdog.restart_silence_timer(now);
                if self.phase == Phase::Running {
                    let silent_seconds = now.saturating_duration_since(silent_since).as_secs();
                    self.emit(Event::CliRecovered { silent_seconds });
                }
            }
        }
    }

    /// Excuses the CLI's silence up to now: it was busy reading its stdin.
    pub fn reset_silence(&mut self, now: Instant) {
        self.now = now;
        self.watchdog.restart(now);
    }

    /// Does not count this time against the CLI, because its output was not read. Requests keep their limits: otherwise a
    /// program that waits for a reply and reads no events meanwhile would wait forever.
    pub fn credit_unread_time(&mut self, time: Duration, now: Instant) {
        self.now = now;
        self.watchdog.postpone(time, now);
        postpone(self.unseen_deadline.as_mut(), time);
    }

    /// Does not count this time against the CLI, because this program itself did not run (SIGSTOP, a frozen container),
    /// and perhaps the CLI did not run either. Asks keep their deadlines: they limit clients.
    pub fn credit_pause(&mut self, time: Duration, now: Instant) {
        self.credit_unread_time(time, now);
        postpone(self.start_deadline.as_mut(), time);
        postpone(self.closing.as_mut().and_then(|closing| closing.deadline.as_mut()), time);
        for (_, limit) in self.requests.values_mut() {
            postpone(limit.as_mut(), time);
        }
    }

    /// Returns when to check whether the CLI still reacts.
    pub(super) fn liveness_deadline(&self) -> Option<Instant> {
        self.watchdog.next_deadline().filter(|_| self.phase == Phase::Running)
    }

    /// Checks whether the CLI still reacts.
    pub(super) fn check_liveness(&mut self, now: Instant) {
        self.check_interrupt(now);
        if self.phase != Phase::Running {
            return;
        }
        let limits = self.watchdog.limits;
        match self.watchdog.silence {
            // The CLI waits for an answer to an ask, which can be open for hours.
            Silence::CheckAt(at) if at <= now && self.asks.is_any_open() => self.watchdog.restart_silence_timer(now),
            Silence::CheckAt(at) if at <= now => {
                let silent_until = after(self.watchdog.received_at, limits.probe_after);
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
                    self.end_unresponsive(UnresponsiveTo::Probe, silent, now);
                }
            }
            Silence::CheckAt(_) | Silence::ProbedUntil(_) | Silence::Stalled => {}
        }
    }

    /// Checks whether a pending interrupt was answered, and has ended its turn, in time.
    fn check_interrupt(&mut self, now: Instant) {
        let expired = self.watchdog.interrupt.filter(|interrupt| interrupt.deadline <= now);
        let Some(interrupt) = expired.filter(|_| self.phase == Phase::Running) else { return };
        if interrupt.awaits == Awaits::End && self.is_prompt_unseen() {
            return self.give_up_unseen_prompt();
        }
        let WatchdogLimits { interrupt_answer_timeout, interrupt_end_timeout, .. } = self.watchdog.limits;
        let within = match interrupt.awaits {
            Awaits::Answer => interrupt_answer_timeout,
            Awaits::End => interrupt_end_timeout,
        };
        self.end_unresponsive(UnresponsiveTo::Interrupt, within, now);
    }

    /// Sends a request that the CLI answers immediately, even when it is busy. No event reports it.
    fn probe(&mut self, now: Instant) {
        let id = self.expect_answer(RequestKind::Probe, now);
        self.write(outgoing::request(id, &Request::McpStatus, &self.config.initialize));
        self.watchdog.silence = Silence::ProbedUntil(after(now, self.watchdog.limits.probe_timeout));
    }

    /// Aborts a CLI that does not react. After the SIGINT it may still store its conversation; a CLI that does not
    /// react to that either, such as a frozen one, is killed half a second later.
    fn end_unresponsive(&mut self, to: UnresponsiveTo, within: Duration, now: Instant) {
        let reason = ExitReason::Unresponsive { to, seconds: within.as_secs() };
        self.end_for(Trigger::Unresponsive, reason, now);
    }
}

/// The shortest limit, so that a timer always waits, and the longest, which in practice means never.
const LIMIT_MIN: Duration = Duration::from_millis(1);
const LIMIT_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

fn after(now: Instant, limit: Duration) -> Instant {
    now + limit.clamp(LIMIT_MIN, LIMIT_MAX)
}

fn postpone(deadline: Option<&mut Instant>, time: Duration) {
    if let Some(deadline) = deadline {
        *deadline = deadline.checked_add(time).unwrap_or(*deadline);
    }
}
