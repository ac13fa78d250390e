//! Notices: reports of the CLI that are meant for people; no program acts on them.

use serde::Serialize;

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// Information.
    Information,
    /// The CLI does not run the prompt, or stops working on it: a hook blocked it.
    Stopped,
    /// A notification that the CLI's terminal interface would show for a while.
    Notification,
    /// The model refused; the notice says whether another model took over.
    Refusal,
    /// The output of a slash command.
    CommandOutput,
    /// The state of the login.
    Authentication,
    /// The use of the rate limit.
    RateLimit,
    /// A one-sentence summary of what several tools did.
    ToolSummary,
    /// The active goal.
    Goal,
    /// Memories that were recalled.
    MemoryRecall,
    /// Files that were stored.
    FilesPersisted,
    /// A plugin that was installed.
    PluginInstall,
    /// A form that was completed elsewhere.
    FormCompleted,
    /// The progress of a request that takes long.
    RequestProgress,
    /// A part of the CLI's terminal interface that needs to be redrawn.
    ScreenStale,
    /// Parts of the conversation could not be stored.
    WritesLost,
    /// The CLI is about to exit.
    ShuttingDown,
}
