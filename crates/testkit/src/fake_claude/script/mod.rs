//! The steps of a script.

mod arguments;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use super::fields::Fields;

pub(super) use arguments::Complaint;

/// A parsed and checked script.
#[derive(Debug, PartialEq)]
pub(super) struct Script {
    steps: Vec<Step>,
}

/// Why a line of a script is invalid.
#[derive(Debug, thiserror::Error)]
#[error("{line}: {word}: {complaint}")]
pub(super) struct BadLine {
    line: usize,
    word: String,
    complaint: Complaint,
}

/// One line of a script.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Prompt,
    BeginMessage,
    EndMessage,
    Block(Block),
    Deltas(Deltas),
    ToolResult {
        id: String,
        text: String,
    },
    Ask {
        id: String,
        request: Request,
        pace: Pace,
    },
    Await {
        id: String,
    },
    Cancel {
        id: String,
    },
    Result(Outcome),
    Emit(String),
    Noise(String),
    Line {
        bytes: u64,
    },
    RawJson(Vec<u8>),
    State(String),
    Task {
        subtype: &'static str,
        id: String,
        fields: Fields,
    },
    WaitInterrupt,
    WaitLine,
    Pause(Duration),
    Deaf,
    Mute,
    Exit(u8),
    Do(Deed),
    /// Continues after the loop when all iterations are done.
    Repeat {
        times: u64,
        end: usize,
    },
    EndRepeat {
        start: usize,
    },
}

/// An action outside of stdin and stdout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Deed {
    Stderr(String),
    Stall,
    Stop,
    Kill,
    Ignore(Ignored),
    Child,
    Signal(PathBuf),
}

/// A block of an assistant message.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Block {
    Text(String),
    Thinking(String),
    Tool { id: String, name: String, input: String },
}

/// A text block of many small deltas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deltas {
    pub(super) count: u64,
    pub(super) bytes: usize,
    pub(super) per_second: Option<u64>,
    /// Whether each delta contains the time instead of its number.
    pub(super) timed: bool,
}

/// A control request of the fake CLI.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Request {
    CanUseTool { tool: String, input: String },
    Hook { callback: String, event: String, input: Fields },
    Mcp { server: String, message: String },
    Other { subtype: String, fields: Fields },
}

/// Whether a step waits for the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    Wait,
    GoOn,
}

/// How a turn ends.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    /// With the text that was last streamed.
    LastText,
    Text(String),
    Fields(Fields),
}

/// A signal that can be ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ignored {
    Term,
    Int,
}

impl Script {
    pub(super) fn parse(text: &str) -> Result<Script, BadLine> {
        words::parse(text).map(|steps| Script { steps })
    }

    pub(super) fn step(&self, index: usize) -> Option<&Step> {
        self.steps.get(index)
    }

    /// Whether an interrupt during this step is for a `wait interrupt`: there is one between here and the next prompt.
    pub(super) fn awaits_interrupt(&self, index: usize) -> bool {
        let turn = self.steps.iter().skip(index).take_while(|step| **step != Step::Prompt);
        turn.into_iter().any(|step| *step == Step::WaitInterrupt)
    }
}
