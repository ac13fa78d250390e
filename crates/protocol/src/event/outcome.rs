//! Outcomes: how prompts, turns, requests and the CLI itself end.

mod left;

pub use left::{LeftProcess, WhyLeft};
use serde::{Deserialize, Serialize};

use crate::id::PromptId;
use crate::json::{RawJson, member, object};

/// What started a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum TurnCause {
    /// A prompt, by its id.
    Prompt(PromptId),
    /// The CLI itself: a background task ended, a timer fired, or a resumed conversation continued with the tool use
    /// that it had deferred ([`TurnOutcome::deferred_tool`]).
    Cli,
}

/// Why a prompt has no [`Event::TurnFinished`](super::Event::TurnFinished).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum DropReason {
    /// It was interrupted or cancelled before it ran.
    Cancelled,
    /// While the prompt was waiting or running, the CLI exited, or a client closed the session, which makes the CLI
    /// exit. (At a close, this comes before the exit.)
    CliExited,
    /// The CLI received the prompt, but will send no result for it that Watari can read: it became idle without one, ran
    /// the prompt within a turn that it started itself, or did not report it for ten minutes, or for ten seconds after an
    /// interrupt. The prompt may have run.
    Lost,
}

/// How a turn ended and what it cost.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TurnOutcome {
    /// How the turn ended.
    pub ending: TurnEnding,
    /// The CLI's name for the outcome, such as `success` or `error_max_turns`.
    pub subtype: String,
    /// The CLI's more specific reason, such as `completed` or `aborted_tools`.
    pub terminal_reason: Option<String>,
    /// The model's last text, or the text of an API error.
    pub result: Option<String>,
    /// The CLI's error messages.
    pub errors: Vec<String>,
    /// The model's structured output. None when no schema was requested, or when the model did not write any.
    pub structured_output: Option<RawJson>,
    /// The tool use that a hook deferred until the conversation is resumed, in the CLI's format.
    pub deferred_tool: Option<RawJson>,
    /// The tool uses that were denied, in the CLI's format.
    pub permission_denials: RawJson,
    /// This turn's tokens.
    pub usage: Usage,
    /// This turn's cost in US dollars. None when the cost before it is unknown: in the first turn after a resume.
    pub cost_usd: Option<f64>,
    /// The conversation's total cost so far in US dollars, including the earlier processes that it was resumed from.
    pub total_cost_usd: f64,
    /// How long the turn took, in milliseconds.
    pub duration_ms: f64,
    /// The number of the model's answers in this turn. (The CLI calls each of them a turn.)
    pub num_turns: u64,
    /// The complete result, as the CLI wrote it.
    pub raw: RawJson,
}

impl TurnOutcome {
    /// Returns this turn's usage as the CLI wrote it, with everything else it counts; an empty object when the CLI
    /// wrote no object.
    pub fn raw_usage(&self) -> RawJson {
        let usage = member(&self.raw, "usage").filter(|usage| object(usage.as_ref()).is_some());
        usage.unwrap_or_else(|| RawJson::from("{}"))
    }

    /// Parses the structured output into a type of the caller. Returns none when there is no structured output.
    pub fn structured<T: serde::de::DeserializeOwned>(&self) -> Option<Result<T, serde_json::Error>> {
        self.structured_output.as_ref().map(|output| serde_json::from_str(output.as_str()))
    }

    /// Returns why the turn did not complete, as text for a person: the result, else the CLI's errors, else the name of
    /// the outcome. (Only some failures have a result.)
    pub fn error_text(&self) -> String {
        match &self.result {
            Some(result) if !result.is_empty() => result.clone(),
            _ if !self.errors.is_empty() => self.errors.join("; "),
            _ => self.subtype.clone(),
        }
    }
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TurnEnding {
    /// The model finished.
    Completed,
    /// A client interrupted it.
    Interrupted,
    /// It failed, for the given reason.
    Failed(TurnFailure),
}

/// Why a turn failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum TurnFailure {
    /// The API returned an error or could not be reached; the text is in `result`.
    Api,
    /// The limit on the model's answers (`max_turns`) was reached.
    MaxTurns,
    /// The limit on cost was reached.
    MaxBudget,
    /// The model's output did not fit the requested schema.
    StructuredOutput,
    /// Anything else; the text is in `errors`.
    Execution,
}

/// The tokens of one turn, as the CLI counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// Tokens that the model read, without those from the cache.
    pub input_tokens: u64,
    /// Tokens that the model wrote.
    pub output_tokens: u64,
    /// Tokens that were written to the cache.
    pub cache_creation_input_tokens: u64,
    /// Tokens that were read from the cache.
    pub cache_read_input_tokens: u64,
}

/// The reply to a request.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum RequestReply {
    /// The request was an interrupt, and it was answered.
    Interrupted(InterruptReceipt),
    /// Any other request succeeded. Holds what the CLI returned, in the CLI's format, or null.
    Done(RawJson),
    /// The CLI refused the request, never answered it, or its answer could not be read.
    Failed(RequestFailure),
}

/// What an interrupt did to the waiting prompts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct InterruptReceipt {
    /// The prompts that will still run.
    pub still_queued: Vec<PromptId>,
    /// The waiting prompts that were dropped. (The interrupted prompt is not one of them: it ends with
    /// [`Event::TurnFinished`](super::Event::TurnFinished) or [`Event::PromptDropped`](super::Event::PromptDropped).)
    pub cancelled: Vec<PromptId>,
}

/// Why a request failed, or why its answer could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum RequestFailure {
    /// The CLI refused the request.
    #[error("the CLI refused it: {message}")]
    Refused {
        /// The CLI's message.
        message: String,
        /// The CLI's error code, such as `unsupported_request`.
        code: Option<String>,
    },
    /// The CLI exited before it answered.
    #[error("the CLI exited before it answered")]
    CliExited,
    /// The CLI did not answer in time.
    #[error("the CLI did not answer in time; it may be busy or hung: try again, or close the session")]
    TimedOut,
    /// The answer was longer than the limit for a line.
    #[error("the CLI's answer was too long to be read")]
    TooLong,
}

/// How the CLI process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Exit {
    /// The exit code; none if a signal terminated it, or if the code is unknown.
    pub code: Option<i32>,
    /// The number of the signal that terminated it.
    pub signal: Option<i32>,
    /// How many processes of the session still run, because they could not be ended; nearly always 0.
    pub left: u32,
    /// The processes that still run, as far as they are known; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_processes: Vec<LeftProcess>,
    /// The last part of its stderr.
    pub stderr: String,
    /// The errors that it reported in messages before it was ready.
    pub errors: Vec<String>,
    /// Why it ended.
    pub reason: ExitReason,
}

/// Why the CLI process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum ExitReason {
    /// A client closed or aborted the session, or the host was stopped.
    Requested,
    /// It did not answer the `initialize` request in time, and was terminated.
    StartTimedOut,
    /// It refused the `initialize` request, and was terminated.
    StartRefused(RequestFailure),
    /// It did not react to an interrupt or to a probe in time, and was terminated.
    Unresponsive {
        /// What it did not react to.
        to: UnresponsiveTo,
        /// For how many seconds.
        seconds: u64,
    },
    /// The CLI has another MCP server called `client`. Watari uses that name for the program's tools, so it terminated
    /// the CLI.
    ServerNameConflict,
    /// The program that started it was killed, which terminated the CLI too.
    OwnerKilled,
    /// It exited on its own.
    #[default]
    ByItself,
}

/// What the CLI did not react to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum UnresponsiveTo {
    /// An interrupt of the running turn.
    Interrupt,
    /// A probe: a request that Watari sends after a long silence, to see whether the CLI still reacts.
    Probe,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_a_failed_turn_is_its_result_else_its_errors_else_its_subtype() {
        let text = |result: Option<&str>, errors: &[&str]| {
            let outcome = TurnOutcome {
                ending: TurnEnding::Failed(TurnFailure::Execution),
                subtype: "error_during_execution".to_owned(),
                terminal_reason: None,
                result: result.map(str::to_owned),
                errors: errors.iter().map(|&error| error.to_owned()).collect(),
                structured_output: None,
                deferred_tool: None,
                permission_denials: RawJson::from("[]"),
                usage: Usage::default(),
                cost_usd: None,
                total_cost_usd: 0.0,
                duration_ms: 0.0,
                num_turns: 0,
                raw: RawJson::from("{}"),
            };
            outcome.error_text()
        };
        assert_eq!(text(Some("API Error: 529"), &["one"]), "API Error: 529");
        assert_eq!(text(Some(""), &["one", "two"]), "one; two");
        assert_eq!(text(None, &[]), "error_during_execution");
    }
}
