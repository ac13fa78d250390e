//! The phases of a session as a table: a step that is not in `STEPS` does not happen.

use std::fmt;

use serde::Serialize;

use crate::command::Command;

/// Where a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The CLI was started and has not answered yet.
    Starting,
    /// Nothing runs and nothing waits.
    Idle,
    /// A turn runs, of a prompt or of the CLI's own.
    Running,
    /// The session is being ended.
    Closing,
    /// The CLI has gone.
    Ended,
}

/// What moves a session from one phase to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trigger {
    /// The CLI answered the opening request.
    Initialized,
    /// A prompt was handed to the CLI, or the CLI says that it runs.
    TurnBegan,
    /// The CLI says that it is idle, and no prompt waits.
    WentIdle,
    /// A client wants the session to end, or the CLI did not start in time.
    EndAsked,
    /// The CLI does not react, and is ended.
    Unresponsive,
    /// The CLI has gone.
    CliExited,
}

/// Every step there is.
pub const STEPS: &[(Phase, Trigger, Phase)] = &[
    (Phase::Starting, Trigger::Initialized, Phase::Idle),
    (Phase::Idle, Trigger::TurnBegan, Phase::Running),
    (Phase::Running, Trigger::WentIdle, Phase::Idle),
    (Phase::Starting, Trigger::EndAsked, Phase::Closing),
    (Phase::Idle, Trigger::EndAsked, Phase::Closing),
    (Phase::Running, Trigger::EndAsked, Phase::Closing),
    (Phase::Running, Trigger::Unresponsive, Phase::Closing),
    (Phase::Starting, Trigger::CliExited, Phase::Ended),
    (Phase::Idle, Trigger::CliExited, Phase::Ended),
    (Phase::Running, Trigger::CliExited, Phase::Ended),
    (Phase::Closing, Trigger::CliExited, Phase::Ended),
];

impl Phase {
    /// Where a trigger leads from here; none when it changes nothing.
    pub fn after(self, trigger: Trigger) -> Option<Phase> {
        STEPS.iter().find(|(from, by, _)| *from == self && *by == trigger).map(|(_, _, to)| *to)
    }

    /// Whether a command may be given here.
    pub fn permits(self, command: &Command) -> bool {
        match self {
            Phase::Starting | Phase::Idle | Phase::Running => true,
            Phase::Closing => match command {
                Command::Close | Command::Abort => true,
                Command::Prompt(_) | Command::Interrupt { .. } | Command::Answer { .. } | Command::Request { .. } => {
                    false
                }
            },
            Phase::Ended => false,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Phase::Starting => "starting",
            Phase::Idle => "idle",
            Phase::Running => "running",
            Phase::Closing => "closing",
            Phase::Ended => "ended",
        })
    }
}
