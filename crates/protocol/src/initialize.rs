//! What a session is set up with over stdin rather than on the command line: long or private things.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::id::HookId;
use crate::json::RawJson;

/// The settings that open a conversation with the CLI.
#[derive(Debug, Clone, Default)]
pub struct Initialize {
    /// Who the model is told to be.
    pub system_prompt: SystemPrompt,
    /// A JSON Schema the final answer must fit.
    pub json_schema: Option<RawJson>,
    /// Subagents by name, in the CLI's shape.
    pub agents: BTreeMap<String, RawJson>,
    /// Hooks that this program runs. The first has the id 1, and so on.
    pub hooks: Vec<Hook>,
    /// Tools that this program runs.
    pub tools: Vec<Tool>,
    /// Say that there are such tools also when there are none yet: they can come with [`crate::Request::SetTools`].
    pub offers_tools: bool,
    /// Also pass on what subagents say.
    pub forward_subagent_text: bool,
    /// Any further field, by the CLI's own name.
    pub more: BTreeMap<String, RawJson>,
}

impl Initialize {
    /// Whether the CLI knows a server of tools of this program's.
    pub(crate) fn has_tools(&self) -> bool {
        self.offers_tools || !self.tools.is_empty()
    }

    /// A hook by its id; none if the program has registered no such hook.
    pub(crate) fn hook(&self, id: HookId) -> Option<&Hook> {
        let place = usize::try_from(id.0).ok()?.checked_sub(1)?;
        self.hooks.get(place)
    }
}

/// A hook that this program runs: it is asked with an ask of kind `Hook`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// What it is called for, by the CLI's name, such as `PreToolUse`.
    pub event: String,
    /// For which tools, as a pattern of the CLI's; none means all.
    pub matcher: Option<String>,
    /// After how long no answer counts as the safe one.
    pub answer_within: Duration,
}

/// A tool that this program runs: it is asked with an ask of kind `ToolCall`. For the model it is
/// `mcp__client__` and its name; it sees it from the start, and whether it may be used is asked as of any other.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What the model is told of it.
    pub description: String,
    /// What it is run with, as a JSON Schema of an object.
    pub input_schema: RawJson,
}

impl Tool {
    /// Whether no tool of another server can have the same name for the model. The CLI puts `__` between the name of a server
    /// and the name of its tool, so `x__add` of our server is `add` of a server called `client__x` too, and `_x` is `x` of
    /// `client_`. (2.1.42 then calls the other server, and asks for neither.)
    pub fn has_own_name(&self) -> bool {
        !self.name.starts_with('_') && !self.name.contains("__")
    }
}

/// Why the name of a tool is refused.
pub const TOOL_NAME_SHARED: &str = "may not begin with \"_\" or have \"__\" in it: a tool of another MCP server could have the \
                                    same name for the model, and get its calls";

/// The name under which the CLI knows the tools of this program, as those of a server.
pub const TOOL_SERVER: &str = "client";

/// Why tools of the program and its clients cannot be offered.
pub const TOOL_SERVER_TAKEN: &str = "another MCP server is called \"client\", as that of this session's own tools is, so \
                                     calls of them could reach it: give that server another name (in .mcp.json or in the \
                                     settings)";

/// What a hook can be called for.
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
    /// A hook for every tool, with a minute to answer.
    pub fn on(event: impl Into<String>) -> Hook {
        Hook { event: event.into(), matcher: None, answer_within: Duration::from_secs(60) }
    }
}

/// Who the model is told to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SystemPrompt {
    /// Claude Code's own prompt.
    #[default]
    ClaudeCode,
    /// Claude Code's own prompt and this after it.
    Append(String),
    /// No prompt at all.
    Empty,
    /// This and nothing else.
    Only(String),
}
