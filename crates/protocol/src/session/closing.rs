//! The closing ladder: ever stronger steps to end the CLI, each with a time limit.

use std::time::{Duration, Instant};

/// What the driver must do to end the CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Close its stdin: an idle CLI then exits.
    CloseStdin,
    /// Send it SIGTERM.
    Terminate,
    /// Kill it and everything it started.
    Kill,
    /// End it immediately: SIGINT, a short grace period in which it can store its conversation, then kill everything.
    Abort,
}

/// The last step of the ladder that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClosingStep {
    /// The turn was interrupted; the machine waits for its result.
    Interrupted,
    /// The CLI's stdin was closed; the machine waits for its exit.
    StdinClosed,
    /// The CLI received SIGTERM; the machine waits for its exit.
    Terminated,
    /// The CLI was aborted or killed: the ladder has no further step. (A second abort kills a CLI that was aborted.)
    AbortedOrKilled,
}

impl ClosingStep {
    /// Returns how long to wait before the next step.
    fn time_limit(self) -> Option<Duration> {
        match self {
            ClosingStep::Interrupted => Some(Duration::from_secs(3)),
            ClosingStep::StdinClosed => Some(Duration::from_secs(2)),
            ClosingStep::Terminated => Some(Duration::from_secs(5)),
            ClosingStep::AbortedOrKilled => None,
        }
    }

    /// Returns the next step of the ladder, and what the driver must do for it.
    pub(super) fn next(self) -> Option<(ClosingStep, Stop)> {
        match self {
            ClosingStep::Interrupted => Some((ClosingStep::StdinClosed, Stop::CloseStdin)),
            ClosingStep::StdinClosed => Some((ClosingStep::Terminated, Stop::Terminate)),
            ClosingStep::Terminated => Some((ClosingStep::AbortedOrKilled, Stop::Kill)),
            ClosingStep::AbortedOrKilled => None,
        }
    }
}

/// The state of a session that is closing.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) step: ClosingStep,
    pub(super) deadline: Option<Instant>,
}

impl Closing {
    pub(super) fn at_step(step: ClosingStep, now: Instant) -> Closing {
        Closing { step, deadline: step.time_limit().and_then(|limit| now.checked_add(limit)) }
    }
}
