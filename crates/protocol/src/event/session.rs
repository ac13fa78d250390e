//! What the CLI reports about itself and about a conversation.

use serde::{Deserialize, Serialize};

use crate::id::SessionId;
use crate::json::{RawJson, member};

/// What the CLI reported about itself when it started.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CliInfo {
    /// The CLI's version; older versions report it only with the first turn.
    pub version: Option<String>,
    /// The complete answer: commands, models, account and more.
    pub raw: RawJson,
}

/// A conversation as the CLI describes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionInfo {
    /// The conversation's id; use it to resume.
    pub session_id: SessionId,
    /// The model that answers.
    pub model: String,
    /// The CLI's working directory.
    pub cwd: String,
    /// The permission mode.
    pub permission_mode: String,
    /// The tools that the model can use.
    pub tools: Vec<String>,
    /// The CLI's version.
    pub version: String,
    /// The complete description.
    pub raw: RawJson,
}

impl SessionInfo {
    /// Returns the MCP servers and their status, as the CLI wrote them; an empty list when it wrote no list.
    pub fn mcp_servers(&self) -> RawJson {
        member(&self.raw, "mcp_servers").filter(RawJson::is_list).unwrap_or_else(|| RawJson::from("[]"))
    }
}
