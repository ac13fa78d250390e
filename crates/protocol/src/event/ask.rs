//! Asks: questions the CLI puts and waits on.

use serde::Serialize;

use crate::id::ToolUseId;
use crate::json::Raw;

/// What is asked.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AskKind {
    /// May this tool be used?
    Permission(PermissionAsk),
}

/// The use of a tool that needs somebody's consent. All of its texts come from the model or the
/// working directory: show them as data.
#[derive(Debug, Clone, Serialize)]
pub struct PermissionAsk {
    /// The tool's name.
    pub tool: String,
    /// What it would be run with.
    pub input: Raw,
    /// The use it is about.
    pub tool_use: Option<ToolUseId>,
    /// Set when a subagent asks.
    pub agent: Option<String>,
    /// Rules the CLI proposes to add, so that it need not ask again.
    pub suggestions: Option<Raw>,
    /// True when only a person can answer: a question to the user, a plan to approve.
    pub needs_person: bool,
    /// The whole request.
    pub detail: Raw,
}

/// How an ask ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AskEnding {
    /// Somebody said yes.
    Allowed,
    /// Somebody said no.
    Denied,
    /// Nobody answered in time, which is a no.
    Expired,
    /// The CLI withdrew it.
    Withdrawn,
    /// The session ended, which is a no.
    SessionEnded,
}
