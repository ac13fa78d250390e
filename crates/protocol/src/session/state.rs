//! The phases of a process of the CLI as a table. A transition that is not in `TRANSITIONS` does not happen.

use std::fmt;

use serde::Serialize;

use crate::command::Command;

/// The phase of a process of the CLI.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Phase {
    /// The CLI was started and has not answered the `initialize` request yet.
    Starting,
    /// No turn is running. A prompt that waited during the start begins its turn immediately. (The event `became_idle`
    /// comes only if no prompt is waiting either.)
    Idle,
    /// A turn is running, of a prompt or of the CLI itself.
    Running,
    /// The process is being ended.
    Closing,
    /// The CLI has exited.
    Ended,
}

/// What moves a process from one phase to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Trigger {
    /// The CLI answered the `initialize` request.
    Initialized,
    /// A prompt was handed to the CLI, or the CLI reported that it is running.
    TurnBegan,
    /// The CLI is idle and holds no prompt: it reported so, or an older CLI has ended its turn.
    WentIdle,
    /// The session is to end: a client closed it, the CLI refused to start or did not start in time, or another MCP
    /// server has the name of the session's tool server.
    CloseBegan,
    /// The CLI did not react in time to an interrupt, or (only with `end_stalled`) to a probe. It is terminated.
    Unresponsive,
    /// The CLI has exited.
    CliExited,
}

/// Every transition.
pub const TRANSITIONS: &[(Phase, Trigger, Phase)] = &[
    (Phase::Starting, Trigger::Initialized, Phase::Idle),
    (Phase::Idle, Trigger::TurnBegan, Phase::Running),
    (Phase::Running, Trigger::WentIdle, Phase::Idle),
    (Phase::Starting, Trigger::CloseBegan, Phase::Closing),
    (Phase::Idle, Trigger::CloseBegan, Phase::Closing),
    (Phase::Running, Trigger::CloseBegan, Phase::Closing),
    (Phase::Running, Trigger::Unresponsive, Phase::Closing),
    (Phase::Starting, Trigger::CliExited, Phase::Ended),
    (Phase::Idle, Trigger::CliExited, Phase::Ended),
    (Phase::Running, Trigger::CliExited, Phase::Ended),
    (Phase::Closing, Trigger::CliExited, Phase::Ended),
];

impl Phase {
    /// Returns the phase after a trigger; none when the trigger changes nothing.
    pub fn after(self, trigger: Trigger) -> Option<Phase> {
        TRANSITIONS.iter().find(|(from, by, _)| *from == self && *by == trigger).map(|(_, _, to)| *to)
    }

    /// Returns whether a command is permitted in this phase.
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
