//! The configuration of one process of the CLI.

use std::time::Duration;

use super::liveness::WatchdogLimits;
use crate::asked::AskedToolUses;
use crate::initialize::Initialize;

/// The configuration of one process of the CLI.
#[derive(Debug, Clone)]
pub struct Config {
    /// The settings of the `initialize` request.
    pub initialize: Initialize,
    /// After how long an unanswered permission, question, plan or form gets its default answer; none means never. Hooks
    /// and tool calls have their own limits.
    pub answer_timeout: Option<Duration>,
    /// The message for the model when a permission request was not answered in time.
    pub timeout_message: String,
    /// Ids continue after this number, so that no id of a prompt, an ask or a block occurs twice in a log. (An id of a
    /// request may, because some requests have no event.)
    pub ids_after: u64,
    /// The tool uses that the session was asked about by earlier processes.
    pub asked_tool_uses: AskedToolUses,
    /// After how long a CLI that does not answer the `initialize` request is terminated.
    pub start_timeout: Duration,
    /// How long the CLI may take to react while a turn runs.
    pub watchdog: WatchdogLimits,
    /// Whether a client may make everything run without asking.
    pub allow_bypass: bool,
    /// The conversation's cost before this process, in US dollars: 0 for a new one, none when it is unknown.
    pub cost_so_far_usd: Option<f64>,
    /// A random number that makes the ids of prompts unique among processes.
    pub uuid_seed: u128,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            initialize: Initialize::default(),
            answer_timeout: None,
            timeout_message: "Permission request timed out".to_owned(),
            ids_after: 0,
            asked_tool_uses: AskedToolUses::default(),
            start_timeout: Duration::from_secs(60),
            watchdog: WatchdogLimits::default(),
            allow_bypass: false,
            cost_so_far_usd: Some(0.0),
            uuid_seed: 0,
        }
    }
}
