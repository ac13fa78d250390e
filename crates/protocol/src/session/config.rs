//! What a session is started with.

use std::time::Duration;

use super::liveness::Liveness;
use crate::asked::AskedToolUses;
use crate::initialize::Initialize;

/// What a session is started with.
#[derive(Debug, Clone)]
pub struct Config {
    /// What the CLI is told first.
    pub initialize: Initialize,
    /// After how long an unanswered ask is a no; none means never.
    pub answer_within: Option<Duration>,
    /// What the model is told of a permission for which nobody answered in time.
    pub timeout_message: String,
    /// Ids of prompts, asks, blocks and requests go on behind this number: in one log no id stands for two things.
    pub ids_after: u64,
    /// The tool uses that the session was asked about by its earlier processes.
    pub asked_tool_uses: AskedToolUses,
    /// After how long a CLI that does not answer is given up.
    pub start_within: Duration,
    /// How long the CLI may take to react while a turn runs.
    pub liveness: Liveness,
    /// Whether a client may have everything run without a question.
    pub allow_bypass: bool,
    /// What the conversation has cost before, in US dollars: nothing for a new one, none when it is not known.
    pub cost_so_far_usd: Option<f64>,
    /// Chance, as an argument: it makes the ids of prompts unlike those of other sessions.
    pub uuid_seed: u128,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            initialize: Initialize::default(),
            answer_within: None,
            timeout_message: "Permission request timed out".to_owned(),
            ids_after: 0,
            asked_tool_uses: AskedToolUses::default(),
            start_within: Duration::from_secs(60),
            liveness: Liveness::default(),
            allow_bypass: false,
            cost_so_far_usd: Some(0.0),
            uuid_seed: 0,
        }
    }
}
