//! Notices: messages of the CLI that are meant for the user.

use serde::{Deserialize, Serialize};

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum NoticeKind {
    /// Information.
    Information,
    /// The CLI does not run the prompt, or stops working on it: a hook blocked it.
    Blocked,
    /// A notification that the CLI's terminal interface would show for a while.
    Notification,
    /// The model refused; the notice says whether another model took over.
    Refusal,
    /// The output of a slash command.
    CommandOutput,
    /// The state of the login.
    Authentication,
    /// How much of the account's rate limit is used.
    RateLimit,
    /// A one-sentence summary of what several tools did.
    ToolSummary,
    /// The goal that the user set for the session with `/goal`.
    Goal,
    /// The CLI loaded notes that it had stored in earlier conversations (its memory).
    MemoryRecall,
    /// The CLI stored files.
    FilesPersisted,
    /// A plugin that was installed.
    PluginInstall,
    /// The user completed an MCP server's form outside this session, for example on a web page.
    ElicitationCompleted,
    /// The progress of a client's request that takes long.
    RequestProgress,
    /// A part of the CLI's terminal interface needs to be redrawn. Clients without a terminal can ignore it.
    ScreenStale,
    /// The CLI could not store parts of the conversation.
    WritesLost,
    /// The CLI is about to exit.
    ShuttingDown,
}
