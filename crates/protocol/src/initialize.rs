//! The settings that the CLI receives over stdin rather than on the command line, because they are long or private.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::id::HookId;
use crate::json::RawJson;
use crate::wire::mcp::TOOL_NAME_PREFIX;

/// The settings of the `initialize` request, the first line that the CLI receives.
#[derive(Debug, Clone, Default)]
pub struct Initialize {
    /// The system prompt.
    pub system_prompt: SystemPrompt,
    /// A JSON Schema that the final answer must fit.
    pub json_schema: Option<RawJson>,
    /// Subagents by name, in the CLI's format.
    pub agents: BTreeMap<String, RawJson>,
    /// Hooks that this program runs. The first has the id 1, and so on.
    pub hooks: Vec<Hook>,
    /// Tools that this program runs.
    pub tools: Vec<ProgramTool>,
    /// Announce tools of this program even if there are none yet; they can be added with [`crate::Request::SetTools`].
    pub tools_can_be_added: bool,
    /// Also forward the text of subagents.
    pub forward_subagent_text: bool,
    /// The title of a new conversation.
    pub title: Option<String>,
    /// Also suggest the next prompt after each turn.
    pub prompt_suggestions: bool,
    /// Further fields, by the CLI's names.
    pub more: BTreeMap<String, RawJson>,
}

impl Initialize {
    /// Returns whether the CLI has a server for tools of this program.
    pub(crate) fn has_tools(&self) -> bool {
        self.tools_can_be_added || !self.tools.is_empty()
    }

    /// Returns the hook with this id; none if the program registered no such hook.
    pub(crate) fn hook(&self, id: HookId) -> Option<&Hook> {
        let index = usize::try_from(id.0).ok()?.checked_sub(1)?;
        self.hooks.get(index)
    }
}

/// A hook that this program runs. The CLI calls it with an ask: [`crate::AskKind::Hook`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// The hook event, by the CLI's name, such as `PreToolUse`.
    pub event: String,
    /// The tools it applies to, as a pattern in the CLI's syntax; none means all.
    pub matcher: Option<String>,
    /// The time limit for an answer. After it, a hook of `PreToolUse` or `UserPromptSubmit` denies; any other has no
    /// opinion.
    pub answer_timeout: Duration,
}

/// A tool that this program runs. The CLI calls it with an ask: [`crate::AskKind::ToolCall`]. The model sees it from
/// the start, under its name with the prefix `mcp__client__`; its use needs permission like that of any other tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ProgramTool {
    /// The name.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of its input, which is an object.
    pub input_schema: RawJson,
}

impl ProgramTool {
    /// The maximum length of a name: the API allows 64 characters, and the CLI puts a prefix before the name.
    pub const NAME_BYTES_MAX: usize = 64 - TOOL_NAME_PREFIX.len();

    /// Returns whether no tool of another server can have the same name for the model. The CLI joins the names of a
    /// server and its tool with `__`, so `x__add` of our server is also `add` of a server called `client__x`, and `_x`
    /// is also `x` of `client_`. (2.1.42 then calls the other server, and asks for permission for neither.)
    pub fn has_unambiguous_name(&self) -> bool {
        !self.name.starts_with('_') && !self.name.contains("__")
    }
}

/// The end of the message that refuses the name of a tool.
pub const AMBIGUOUS_TOOL_NAME_MESSAGE: &str = "may not start with \"_\" or contain \"__\": a tool of another MCP server could \
                                    have the same name for the model and receive its calls";

/// The name of the MCP server under which the CLI sees the tools of this program.
pub const TOOL_SERVER: &str = "client";

/// The message that says why the tools of the program and its clients cannot be offered.
pub const TOOL_SERVER_TAKEN_MESSAGE: &str = "another MCP server is called \"client\", which is the name of the server of this \
                                     session's own tools, so it could receive their calls: give that server another \
                                     name (in .mcp.json or in the settings)";

/// The hook events.
pub const HOOK_EVENTS: [&str; 33] = [
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "Notification",
    "UserPromptSubmit",
    "UserPromptExpansion",
    "SessionStart",
    "SessionEnd",
    "Stop",
    "StopFailure",
    "SubagentStart",
    "SubagentStop",
    "PreCompact",
    "PostCompact",
    "PreModelSwitch",
    "PostModelSwitch",
    "PermissionRequest",
    "PermissionDenied",
    "Setup",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "WorktreeCreate",
    "WorktreeRemove",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "MessageDisplay",
];

impl Hook {
    /// Creates a hook for every tool, with a time limit of one minute.
    pub fn on(event: impl Into<String>) -> Hook {
        Hook { event: event.into(), matcher: None, answer_timeout: Duration::from_secs(60) }
    }
}

/// The system prompt.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum SystemPrompt {
    /// Claude Code's own prompt.
    #[default]
    ClaudeCode,
    /// Claude Code's own prompt, followed by this text.
    Append(String),
    /// No prompt.
    Empty,
    /// This text instead of Claude Code's prompt.
    Custom(String),
}
