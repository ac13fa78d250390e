//! The options of a session: every setting of the CLI, typed.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use watari_protocol::{AskedToolUses, EntryId, Hook, Liveness, PermissionMode, RawJson, SessionId, SystemPrompt, Tool};

use crate::supervisor::Supervisor;

/// The options of a session. The default is the CLI as a user starts it, except that requests for permission
/// are denied.
#[derive(Debug, Clone, Default)]
pub struct Options {
    // The process.
    /// The path of the CLI; `None` searches for it.
    pub claude: Option<PathBuf>,
    /// The working directory; `None` means this program's own.
    pub cwd: Option<PathBuf>,
    /// The environment of the CLI.
    pub environment: Environment,
    /// The process that terminates the CLI's process tree with the session.
    pub supervisor: Supervisor,
    /// A lock (`flock`) that the supervisor holds too. It is released only when no process of the session is left,
    /// even if this program is killed.
    pub lock: Option<Arc<File>>,
    /// How long the CLI may take to become ready before it is terminated; `None` means a minute.
    pub start_within: Option<Duration>,
    /// How long the CLI may take to react during a turn, and what happens after that.
    pub liveness: Liveness,
    /// The file that the CLI writes its debug log to.
    pub debug_file: Option<PathBuf>,
    /// Further flags of the CLI that this type does not cover.
    pub extra_arguments: Vec<ExtraArgument>,

    // The conversation.
    /// Which conversation to start or resume.
    pub start_from: StartFrom,
    /// Do not store the conversation; it cannot be resumed.
    pub no_persistence: bool,
    /// Make the CLI report the entries that it stores.
    pub mirror_transcript: bool,
    /// Back up files before they are changed, so that they can be restored.
    pub checkpoints: bool,
    /// The title of a new conversation.
    pub title: Option<String>,

    // The model.
    /// The model; `None` means the CLI's default.
    pub model: Option<String>,
    /// The model to use when the first is overloaded.
    pub fallback_model: Option<String>,
    /// How much the model thinks.
    pub thinking: Option<Thinking>,
    /// How much of the model's thinking is shown.
    pub thinking_display: Option<ThinkingDisplay>,
    /// The model's effort.
    pub effort: Option<Effort>,
    /// Beta features of the API.
    pub betas: Vec<String>,
    /// The maximum number of steps per prompt: 1 or more.
    pub max_turns: Option<u32>,
    /// The maximum cost of the session, in US dollars.
    pub max_budget_usd: Option<f64>,
    /// The maximum number of tokens per task.
    pub task_budget: Option<u64>,
    /// The JSON Schema of the answer.
    pub output_schema: Option<RawJson>,

    // Prompt and agents.
    /// The system prompt.
    pub system_prompt: SystemPrompt,
    /// The agent that runs the conversation.
    pub agent: Option<String>,
    /// Agents that it can call, by name, in the CLI's format.
    pub agents: BTreeMap<String, RawJson>,

    // Tools and permissions.
    /// The available tools; `None` means the CLI's default.
    pub tools: Option<Tools>,
    /// Rules for tools that run without asking, such as `Read` or `Bash(ls:*)`.
    pub allowed_tools: Vec<String>,
    /// Rules for tools that are denied.
    pub disallowed_tools: Vec<String>,
    /// The permission mode; `None` means the mode from the settings.
    pub permission_mode: Option<PermissionMode>,
    /// Allow the mode `bypassPermissions`, which asks for nothing. Use it only in a sandbox. Without this option, and
    /// unless `permission_mode` is that mode, the CLI is configured to refuse the mode wherever it is set.
    pub allow_bypass: bool,
    /// Who decides about permissions that no rule decides.
    pub permission_prompts: PermissionPrompts,
    /// The message that the model gets when a permission request expires; `None` means the default message.
    pub timeout_message: Option<String>,
    /// Hooks that this program runs: each call arrives as an ask of kind `Hook`. Their ids count from 1.
    pub hooks: Vec<Hook>,
    /// Tools that this program runs: each call arrives as an ask of kind `ToolCall`. The model sees a tool as
    /// `mcp__client__` followed by its name; allow it by that name, or its calls need permission. A name must not begin
    /// with `_` or contain `__`.
    pub program_tools: Vec<Tool>,
    /// Allow this program to add tools later, with [`watari_protocol::Request::SetTools`].
    pub tools_can_be_added: bool,
    /// Directories to work in besides the working directory.
    pub additional_directories: Vec<PathBuf>,

    // Surroundings.
    /// MCP servers.
    pub mcp_servers: McpServers,
    /// Use only the MCP servers of [`Options::mcp_servers`].
    pub strict_mcp_config: bool,
    /// Prevent the CLI, and the processes it starts, from running git by its name. For a directory that is not trusted:
    /// the CLI runs git by itself, and git runs programs that the repository's configuration names.
    pub without_git: bool,
    /// Plugins to load.
    pub plugins: Vec<Plugin>,
    /// Settings that take precedence over the settings files.
    pub settings: Option<Settings>,
    /// Settings that nothing can override.
    pub managed_settings: Option<RawJson>,
    /// The settings files to read; `None` means all. The files in the working directory can run code.
    pub setting_sources: Option<Vec<SettingSource>>,
    /// The root of the project's configuration, if it is not the working directory.
    pub project_config_root: Option<PathBuf>,

    // Events.
    /// Ids of prompts, asks, blocks and requests continue after this number, for a program that stores the events of
    /// several processes of a session together.
    pub ids_after: u64,
    /// The tool uses that earlier processes of the same session asked about; an ask that repeats one is marked.
    pub asked_tool_uses: AskedToolUses,
    /// Emit events for hooks that are commands.
    pub include_hook_events: bool,
    /// Repeat prompts in the event stream.
    pub echo_prompts: bool,
    /// Forward the text of subagents.
    pub forward_subagent_text: bool,
    /// Suggest a next prompt after a turn.
    pub prompt_suggestions: bool,
    /// Further fields of the `initialize` request, by the CLI's names.
    pub initialize: BTreeMap<String, RawJson>,
}

/// The environment of the CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Start from this program's own environment.
    pub inherit: bool,
    /// Variables to set, or with `None` to unset. Watari's own variables, such as `CLAUDE_CODE_ENTRYPOINT`, cannot be
    /// changed.
    pub set: BTreeMap<String, Option<String>>,
}

impl Default for Environment {
    fn default() -> Environment {
        Environment { inherit: true, set: BTreeMap::new() }
    }
}

impl Environment {
    /// Returns an environment of exactly these variables.
    pub fn only(variables: impl IntoIterator<Item = (String, String)>) -> Environment {
        let set = variables.into_iter().map(|(name, value)| (name, Some(value))).collect();
        Environment { inherit: false, set }
    }
}

/// A flag of the CLI that [`Options`] does not cover: `--name` or `--name=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraArgument {
    /// The flag without its dashes.
    pub name: String,
    /// Its value, if it takes one.
    pub value: Option<String>,
}

/// Which conversation a session starts or resumes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum StartFrom {
    /// A new conversation.
    #[default]
    New,
    /// A new conversation with this id.
    NewWithId(SessionId),
    /// The conversation with this id.
    Resume(SessionId),
    /// A copy of a conversation under a new id.
    Fork {
        /// The conversation to copy.
        from: SessionId,
        /// The id of the copy; `None` lets the CLI choose it.
        into: Option<SessionId>,
    },
    /// A conversation without the entries after a given one.
    ResumeAt {
        /// The conversation.
        session: SessionId,
        /// The last entry to keep.
        entry: EntryId,
        /// The dropped turn, if the CLI is to erase it.
        erase_turn: Option<EntryId>,
    },
    /// The conversation of the working directory that was written to last, or a new one if there is none. Its id is
    /// resolved before the CLI is started; see [`crate::resolve_continue`].
    Continue,
}

/// How much the model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// As much as the model finds useful.
    Adaptive,
    /// At most this many tokens.
    Budget(u32),
    /// Not at all, if the model allows it.
    Disabled,
}

/// How much of the model's thinking is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingDisplay {
    /// A summary.
    Summarized,
    /// Its high points.
    Highlights,
    /// Nothing.
    Omitted,
}

/// The model's effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Low.
    Low,
    /// Medium.
    Medium,
    /// High.
    High,
    /// Extra high.
    ExtraHigh,
    /// The maximum.
    Max,
}

/// The tools of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tools {
    /// The CLI's default set.
    Default,
    /// These and no others; an empty list means none.
    Only(Vec<String>),
}

/// Who decides about permissions that no rule decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PermissionPrompts {
    /// Nobody: a tool that no rule allows is denied.
    #[default]
    CliDefault,
    /// Nobody, whatever the settings say: a tool that would ask is denied.
    DenyAll,
    /// This program: it receives an event and answers with [`crate::Client::answer`].
    Ask {
        /// How long an ask may stay unanswered before it is denied; `None` means forever. The CLI itself has no limit.
        answer_within: Option<Duration>,
    },
    /// A tool of an MCP server, by its name.
    Tool(String),
}

/// MCP servers.
#[derive(Debug, Clone, Default)]
pub enum McpServers {
    /// None besides those of the settings.
    #[default]
    None,
    /// Servers by name, each in the CLI's format. They are passed to the CLI in a private file, because they may
    /// contain secrets.
    Inline(BTreeMap<String, RawJson>),
    /// A file. It is read and checked when the CLI is started, and the CLI gets the checked content.
    File(PathBuf),
}

/// A plugin to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// Its directory.
    pub directory: PathBuf,
    /// Do not start its MCP servers.
    pub without_mcp: bool,
}

/// Settings that take precedence over the settings files.
#[derive(Debug, Clone)]
pub enum Settings {
    /// A JSON object. It is passed to the CLI in a private file, because it may contain secrets.
    Inline(RawJson),
    /// A file. It is read and checked when the CLI is started, and the CLI gets the checked content.
    File(PathBuf),
}

/// A settings file that the CLI reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingSource {
    /// The user's settings.
    User,
    /// The project's settings, shared with others.
    Project,
    /// The project's settings of this user alone.
    Local,
}
