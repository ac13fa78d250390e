//! Outcomes: how turns, requests and the CLI itself end.

use serde::{Deserialize, Serialize};

use crate::id::PromptId;
use crate::json::{RawJson, member, object};

/// What a turn runs for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TurnCause {
    /// A prompt of a client.
    Prompt(PromptId),
    /// The CLI itself: a background task that ended, a deferred tool, a timer.
    Cli,
}

/// How a turn ended and what it cost.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnOutcome {
    /// How it ended.
    pub ending: TurnEnding,
    /// The CLI's own word for it, such as `success` or `error_max_turns`.
    pub subtype: String,
    /// The CLI's finer word, such as `completed` or `aborted_tools`.
    pub terminal_reason: Option<String>,
    /// The last text of the model, or the text of an API error.
    pub result: Option<String>,
    /// What went wrong, in the CLI's words.
    pub errors: Vec<String>,
    /// What the model wrote to fit the schema that was asked for. None when none was, or when the model did not.
    pub structured_output: Option<RawJson>,
    /// Set when a hook kept the use of a tool for later, in the CLI's shape.
    pub deferred_tool: Option<RawJson>,
    /// Uses of tools that were refused, in the CLI's shape.
    pub permission_denials: RawJson,
    /// This turn's tokens.
    pub usage: Usage,
    /// This turn's cost in US dollars. None when it cannot be told from what came before: the first turn after a
    /// resume.
    pub cost_usd: Option<f64>,
    /// The session's cost so far, in US dollars: cumulative, also over resume.
    pub total_cost_usd: f64,
    /// How long the turn took.
    pub duration_ms: f64,
    /// The CLI's count of steps.
    pub num_turns: u64,
    /// The whole result, as the CLI wrote it.
    pub detail: RawJson,
}

impl TurnOutcome {
    /// This turn's tokens as the CLI wrote them, with whatever else it counts; an empty object when it wrote no object.
    pub fn raw_usage(&self) -> RawJson {
        let usage = member(&self.detail, "usage").filter(|usage| object(usage.as_ref()).is_some());
        usage.unwrap_or_else(|| RawJson::from("{}"))
    }

    /// Reads what the model wrote to fit a schema into a type of the caller's.
    pub fn structured<T: serde::de::DeserializeOwned>(&self) -> Option<Result<T, serde_json::Error>> {
        self.structured_output.as_ref().map(|output| serde_json::from_str(output.as_str()))
    }
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TurnEnding {
    /// The model finished.
    Completed,
    /// Somebody interrupted it.
    Interrupted,
    /// It failed, for the reason given.
    Failed(Failure),
}

/// Why a turn failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// The API refused or could not be reached; the text is in `result`.
    Api,
    /// The limit of steps was reached.
    MaxTurns,
    /// The limit of cost was reached.
    MaxBudget,
    /// The answer did not fit the schema that was asked for.
    StructuredOutput,
    /// Anything else; the text is in `errors`.
    Execution,
}

/// Tokens of one turn, as the CLI counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// Read by the model, not from the cache.
    pub input_tokens: u64,
    /// Written by the model.
    pub output_tokens: u64,
    /// Written to the cache.
    pub cache_creation_input_tokens: u64,
    /// Read from the cache.
    pub cache_read_input_tokens: u64,
}

/// The CLI's answer to a request of ours.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RequestReply {
    /// To an interrupt.
    Interrupted(InterruptReceipt),
    /// To anything else: the CLI's own fields, null when it gave none.
    Done(RawJson),
    /// It was refused, or never answered.
    Failed(RequestFailure),
}

/// What an interrupt did to prompts that were waiting.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterruptReceipt {
    /// These will still run.
    pub still_queued: Vec<PromptId>,
    /// These were dropped.
    pub cancelled: Vec<PromptId>,
}

/// A request of ours that the CLI refused or never answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RequestFailure {
    /// The CLI said no, with its own words.
    #[error("the CLI refused it: {message}")]
    Refused {
        /// What it said.
        message: String,
        /// Its code, such as `unsupported_request`.
        code: Option<String>,
    },
    /// The CLI went away first.
    #[error("the CLI went away before it answered")]
    SessionEnded,
    /// The CLI did not answer in time.
    #[error("the CLI did not answer in time; it may be busy or hung: try again, or close the session")]
    TimedOut,
    /// The answer was longer than a line may be.
    #[error("the CLI's answer was too long to be read")]
    TooLong,
}

/// How the CLI process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Exit {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// How many processes of the session the system would not let go of; nearly always none.
    pub left: u32,
    /// The end of what it wrote to stderr.
    pub stderr: String,
    /// What it complained of in its own messages before it was ready.
    pub errors: Vec<String>,
    /// Why it ended.
    pub reason: ExitReason,
}

/// Why the CLI process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExitReason {
    /// The session had been told to end.
    Asked,
    /// It did not answer in time when it was started, and was ended.
    StartTimedOut,
    /// It refused what the session was to be set up with, and was ended.
    StartRefused(RequestFailure),
    /// It did not react in time, and was ended.
    Unresponsive {
        /// What it did not react to.
        to: Unanswered,
        /// For how many seconds.
        seconds: u64,
    },
    /// Another of its MCP servers has the name of the one that serves the session's own tools, so it was ended.
    ToolServerTaken,
    /// The program that had started it was killed, and it with that.
    OwnerKilled,
    /// It ended by itself.
    #[default]
    ByItself,
}

/// What a CLI did not react to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Unanswered {
    /// An interrupt of the running turn.
    Interrupt,
    /// A probe, after it had written nothing for long.
    Probe,
}
