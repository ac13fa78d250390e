//! Notices: what the CLI tells that no program acts on.

use serde::Serialize;

/// What a notice is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoticeKind {
    /// A remark.
    Information,
    /// The CLI does nothing for the prompt, or goes no further with it: a hook blocked it.
    Stopped,
    /// Something the CLI's own screen would show for a while.
    Notification,
    /// The model refused, and whether another took over.
    Refusal,
    /// What a slash command printed.
    CommandOutput,
    /// The login.
    Authentication,
    /// How much of the allowance is used.
    RateLimit,
    /// What several tools did, in a sentence.
    ToolSummary,
    /// The goal that is pursued.
    Goal,
    /// Memories that were brought up.
    MemoryRecall,
    /// Files that were stored.
    FilesPersisted,
    /// A plugin that was installed.
    PluginInstall,
    /// A form that was filled in elsewhere.
    FormCompleted,
    /// A request of ours that takes its time.
    RequestProgress,
    /// Something the CLI's own screen would draw again.
    ScreenStale,
    /// Parts of the conversation could not be stored.
    WritesLost,
    /// The CLI is about to end.
    ShuttingDown,
}
