//! The result frame, with which the CLI ends a turn. No member of it may prevent the frame from being read, because the
//! turn has ended in any case.

use serde_json::value::RawValue;

use super::Lenient;
use crate::event::{TurnEnding, TurnFailure, TurnOutcome, Usage};
use crate::json::RawJson;

/// The result of a turn.
#[derive(Debug)]
pub(crate) struct ResultFrame {
    /// True when the CLI reports that no prompt started the turn, but, for example, the end of a background task.
    pub(crate) began_by_cli: bool,
    /// The prompts that the turn answers, by the ids that we sent; empty when the CLI does not report them.
    pub(crate) prompt_uuids: Vec<String>,
    /// True when the CLI reported a usage of zero tokens: the model was not called.
    pub(crate) without_model: bool,
    pub(crate) outcome: TurnOutcome,
}

pub(super) fn read(line: &str) -> Option<ResultFrame> {
    let members: Members<'_> = serde_json::from_str(line).ok()?;
    let raw: &RawValue = serde_json::from_str(line).ok()?;
    let subtype = members.subtype.or_default();
    let terminal_reason = members.terminal_reason.into_option();
    let usage = members.usage.map(read_usage);
    let outcome = TurnOutcome {
        ending: ending(&subtype, members.is_error.or_default(), terminal_reason.as_deref()),
        subtype,
        terminal_reason,
        result: members.result.into_option(),
        errors: members.errors.or_default(),
        structured_output: members.structured_output.map(RawJson::copied),
        deferred_tool: members.deferred_tool_use.map(RawJson::copied),
        permission_denials: members.permission_denials.map_or_else(|| RawJson::from("[]"), RawJson::copied),
        usage: usage.unwrap_or_default(),
        // The machine computes it from the total before.
        cost_usd: None,
        total_cost_usd: members.total_cost_usd.or_default(),
        duration_ms: members.duration_ms.or_default(),
        num_turns: members.num_turns.or_default(),
        raw: RawJson::copied(raw),
    };
    Some(ResultFrame {
        began_by_cli: members.origin.is_some(),
        without_model: usage == Some(Usage::default()),
        prompt_uuids: members.user_message_uuids.or_default(),
        outcome,
    })
}

#[derive(Debug, serde::Deserialize)]
struct Members<'a> {
    #[serde(default)]
    subtype: Lenient<String>,
    #[serde(default)]
    is_error: Lenient<bool>,
    #[serde(default)]
    terminal_reason: Lenient<String>,
    #[serde(default)]
    result: Lenient<String>,
    #[serde(default)]
    errors: Lenient<Vec<String>>,
    #[serde(borrow, default)]
    usage: Option<&'a RawValue>,
    #[serde(default)]
    total_cost_usd: Lenient<f64>,
    #[serde(default)]
    duration_ms: Lenient<f64>,
    #[serde(default)]
    num_turns: Lenient<u64>,
    #[serde(borrow, default)]
    structured_output: Option<&'a RawValue>,
    #[serde(borrow, default)]
    deferred_tool_use: Option<&'a RawValue>,
    #[serde(borrow, default)]
    permission_denials: Option<&'a RawValue>,
    #[serde(borrow, default)]
    origin: Option<&'a RawValue>,
    #[serde(default)]
    user_message_uuids: Lenient<Vec<String>>,
}

/// An API failure is a `success` with `is_error`; an interrupt is an error whose terminal reason says so.
fn ending(subtype: &str, is_error: bool, terminal_reason: Option<&str>) -> TurnEnding {
    if let Some("aborted_streaming" | "aborted_tools") = terminal_reason {
        return TurnEnding::Interrupted;
    }
    match subtype {
        "success" if is_error => TurnEnding::Failed(TurnFailure::Api),
        "success" => TurnEnding::Completed,
        "error_max_turns" => TurnEnding::Failed(TurnFailure::MaxTurns),
        "error_max_budget_usd" => TurnEnding::Failed(TurnFailure::MaxBudget),
        "error_max_structured_output_retries" => TurnEnding::Failed(TurnFailure::StructuredOutput),
        _ => TurnEnding::Failed(TurnFailure::Execution),
    }
}

fn read_usage(raw: &RawValue) -> Usage {
    #[derive(serde::Deserialize)]
    struct Tokens {
        #[serde(default)]
        input_tokens: Lenient<u64>,
        #[serde(default)]
        output_tokens: Lenient<u64>,
        #[serde(default)]
        cache_creation_input_tokens: Lenient<u64>,
        #[serde(default)]
        cache_read_input_tokens: Lenient<u64>,
    }
    let Ok(tokens) = serde_json::from_str::<Tokens>(raw.get()) else {
        return Usage::default();
    };
    Usage {
        input_tokens: tokens.input_tokens.or_default(),
        output_tokens: tokens.output_tokens.or_default(),
        cache_creation_input_tokens: tokens.cache_creation_input_tokens.or_default(),
        cache_read_input_tokens: tokens.cache_read_input_tokens.or_default(),
    }
}
