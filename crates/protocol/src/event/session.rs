//! What the CLI says of itself and of a conversation.

use serde::Serialize;

use crate::id::SessionId;
use crate::json::{RawJson, member};

/// What the CLI said of itself when it started.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CliInfo {
    /// Its version; older versions say it only with the first turn.
    pub version: Option<String>,
    /// Its whole answer: commands, models, account and more.
    pub detail: RawJson,
}

/// A conversation as the CLI describes it.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionInfo {
    /// The conversation's id: resume with it.
    pub session_id: SessionId,
    /// The model that answers.
    pub model: String,
    /// The CLI's working directory.
    pub cwd: String,
    /// How permissions are decided.
    pub permission_mode: String,
    /// The tools the model has.
    pub tools: Vec<String>,
    /// The CLI's version.
    pub version: String,
    /// The whole description.
    pub detail: RawJson,
}

impl SessionInfo {
    /// The MCP servers and how they are, as the CLI wrote them; an empty list when it wrote no list.
    pub fn mcp_servers(&self) -> RawJson {
        member(&self.detail, "mcp_servers").filter(RawJson::is_list).unwrap_or_else(|| RawJson::from("[]"))
    }
}
