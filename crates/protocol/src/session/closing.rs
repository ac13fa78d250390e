//! The way out: a ladder of ever firmer steps, each with a time limit.

use std::time::{Duration, Instant};

/// What the driver does to end the CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Close its stdin: an idle CLI ends by itself.
    CloseStdin,
    /// Send it SIGTERM.
    Terminate,
    /// Kill it and everything it started.
    Kill,
    /// End it at once: SIGINT, a short grace in which it can save its conversation, then kill everything.
    Abort,
}

/// How far the ladder was climbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rung {
    /// The turn was interrupted; its result is awaited.
    Interrupted,
    /// Its stdin is closed; its exit is awaited.
    StdinClosed,
    /// It was sent SIGTERM; its exit is awaited.
    Terminated,
    /// It was killed; there is nothing firmer.
    Killed,
}

impl Rung {
    /// How long to wait on a rung before the next.
    fn patience(self) -> Option<Duration> {
        match self {
            Rung::Interrupted => Some(Duration::from_secs(3)),
            Rung::StdinClosed => Some(Duration::from_secs(2)),
            Rung::Terminated => Some(Duration::from_secs(5)),
            Rung::Killed => None,
        }
    }

    /// The next rung, and what is done to get there.
    pub(super) fn next(self) -> Option<(Rung, Stop)> {
        match self {
            Rung::Interrupted => Some((Rung::StdinClosed, Stop::CloseStdin)),
            Rung::StdinClosed => Some((Rung::Terminated, Stop::Terminate)),
            Rung::Terminated => Some((Rung::Killed, Stop::Kill)),
            Rung::Killed => None,
        }
    }
}

/// A session on its way out.
#[derive(Debug)]
pub(super) struct Closing {
    pub(super) rung: Rung,
    pub(super) deadline: Option<Instant>,
}

impl Closing {
    pub(super) fn on(rung: Rung, now: Instant) -> Closing {
        Closing { rung, deadline: rung.patience().and_then(|patience| now.checked_add(patience)) }
    }
}
