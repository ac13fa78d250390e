//! The options of a session: the settings of the CLI, typed.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use watari_protocol::{
    AskedToolUses, EntryId, Hook, PermissionMode, ProgramTool, RawJson, SessionId, SystemPrompt, WatchdogLimits,
};

use crate::supervisor::Supervisor;

/// The options of a session.
///
/// The default is the CLI as a user starts it, with two exceptions. A tool that needs permission is denied, and the CLI
/// refuses the mode `bypassPermissions` (see `allow_bypass`). Commands that only read, such as `ls`, need no
/// permission. For other tools, set `allowed_tools`, or decide in this program with [`PermissionPrompts::Ask`].
///
/// Some fields have JSON in the CLI's own format, which Claude Code's documentation describes. Create it with
/// `RawJson::from(serde_json::json!({…}))`, or from a text with `text.parse::<RawJson>()?`. (`RawJson::from(text)`
/// never fails: a text that is not JSON becomes a JSON string.)
#[derive(Debug, Clone, Default)]
pub struct Options {
    // The process.
    /// The path of the CLI; `None` searches for `claude` on the PATH of `environment` and in the usual directories.
    pub claude: Option<PathBuf>,
    /// The working directory; `None` means this program's own.
    pub cwd: Option<PathBuf>,
    /// The environment of the CLI.
    pub environment: Environment,
    /// The process that terminates the CLI's process tree with the session; none by default.
    pub supervisor: Supervisor,
    /// How long the CLI may take to become ready before it is terminated; `None` means a minute.
    pub start_timeout: Option<Duration>,
    /// Time limits for a CLI that does not react during a turn. By default, a silent CLI is only reported
    /// ([`crate::Event::CliStalled`]), and a CLI that does not react to an interrupt is terminated.
    pub watchdog: WatchdogLimits,
    /// The file that the CLI writes its debug log to.
    pub debug_file: Option<PathBuf>,
    /// Further flags of the CLI that this type does not cover.
    pub extra_arguments: Vec<ExtraArgument>,

    // The conversation.
    /// Which conversation to start or resume.
    pub start_from: StartFrom,
    /// Do not store the conversation; it cannot be resumed.
    pub no_persistence: bool,
    /// Make the CLI report the entries that it stores, as [`crate::Event::TranscriptWritten`].
    pub mirror_transcript: bool,
    /// Back up files before they are changed, so that [`crate::Request::Rewind`] can restore them. Store the `entry` of
    /// [`crate::Event::PromptAccepted`]: the request takes it.
    pub checkpoints: bool,
    /// The title of a new conversation.
    pub title: Option<String>,

    // The model.
    /// The model; `None` means the CLI's default.
    pub model: Option<String>,
    /// The model to use when the first is overloaded.
    pub fallback_model: Option<String>,
    /// How much the model reasons before it answers; `None` means the CLI's default.
    pub thinking: Option<Thinking>,
    /// How much of the model's reasoning is shown.
    pub thinking_display: Option<ThinkingDisplay>,
    /// How thorough the model is, in its reasoning, its tool uses and its answer; `None` means the CLI's default.
    pub effort: Option<Effort>,
    /// Beta features of the API, by their names in the header `anthropic-beta`.
    pub betas: Vec<String>,
    /// The maximum number of the model's answers per prompt: 1 or more. (The CLI calls each of them a turn; elsewhere
    /// here, a turn is everything from a prompt to its result.)
    pub max_turns: Option<u32>,
    /// The maximum cost of the session, in US dollars.
    pub max_budget_usd: Option<f64>,
    /// How many tokens the model should use for a whole task: its reasoning, tool uses and answer. It is sent to the
    /// API as `output_config.task_budget`.
    pub task_budget: Option<u64>,
    /// The JSON Schema that the answer must fit. Read the answer with [`crate::TurnOutcome::structured`].
    pub output_schema: Option<RawJson>,

    // Prompt and agents.
    /// The system prompt.
    pub system_prompt: SystemPrompt,
    /// The name of the agent that runs the conversation, from `agents` or from the CLI's settings.
    pub agent: Option<String>,
    /// Subagents that the model can call, by name, in the CLI's format: `{"description": "Reviews code", "prompt": "You
    /// are a code reviewer"}`.
    pub agents: BTreeMap<String, RawJson>,

    // Tools and permissions.
    /// The available tools; `None` means the CLI's default.
    pub tools: Option<ToolSet>,
    /// Rules for tools that run without asking, such as `Read` or `Bash(ls:*)`.
    pub allowed_tools: Vec<String>,
    /// Rules for tools that are denied.
    pub disallowed_tools: Vec<String>,
    /// The permission mode; `None` means the mode from the settings.
    pub permission_mode: Option<PermissionMode>,
    /// Allow everything to run without asking: a change to the mode `bypassPermissions`, and requests that run a tool or a
    /// program themselves. Use it only in a sandbox. If this is
    /// false and `permission_mode` is not that mode, Watari configures the CLI to refuse the mode, even if a settings
    /// file or a request sets it.
    pub allow_bypass: bool,
    /// What happens when a tool needs permission and no rule decides.
    pub permission_prompts: PermissionPrompts,
    /// The message that the model gets when a permission request expires; `None` means the default message.
    pub timeout_message: Option<String>,
    /// Hooks that this program runs. Each call arrives as [`crate::AskKind::Hook`], whose field `hook` is 1
    /// for the first hook of this list, 2 for the second, and so on. Answer it with [`crate::Answer::Hook`].
    pub hooks: Vec<Hook>,
    /// Tools that this program runs. Each call arrives as [`crate::AskKind::ToolCall`]; answer it within ten
    /// minutes with [`crate::Answer::ToolResult`]. The model sees the tool NAME as `mcp__client__NAME`: add
    /// that to `allowed_tools`, or each call needs permission. NAME must not begin with `_` or contain `__`.
    pub program_tools: Vec<ProgramTool>,
    /// Allow this program to add tools later, with [`crate::Request::SetTools`], even if `program_tools` is
    /// empty.
    pub tools_can_be_added: bool,
    /// Directories to work in besides the working directory.
    pub additional_directories: Vec<PathBuf>,

    // Configuration.
    /// MCP servers, besides those of the CLI's settings.
    pub mcp_servers: McpServers,
    /// Use only the MCP servers of `mcp_servers`, and none of the settings.
    pub strict_mcp_config: bool,
    /// Make the command `git` fail for the CLI and the processes it starts. (An absolute path of git still works.) For
    /// a directory that is not trusted: the CLI runs git by itself, and git runs programs that the repository's
    /// configuration names.
    pub without_git: bool,
    /// Plugins to load.
    pub plugins: Vec<Plugin>,
    /// Settings that take precedence over the settings files. (Of those, local settings take precedence over the
    /// project's, and these over the user's.)
    pub settings: Option<Settings>,
    /// Settings that take precedence over all others, also over `settings`. Put no secret into them: they are an
    /// argument of the CLI, which every user of the machine can read.
    pub managed_settings: Option<RawJson>,
    /// The settings files to read; `None` means all. Those in the working directory can run code: for a directory that
    /// you do not trust, use `Some(vec![SettingSource::User])`.
    pub setting_sources: Option<Vec<SettingSource>>,
    /// The directory whose project settings and `.mcp.json` are read, if it is not the working directory.
    pub project_config_root: Option<PathBuf>,

    // Events.
    /// Emit [`crate::Event::HookChanged`] for hooks that are shell commands in the CLI's settings.
    pub include_hook_events: bool,
    /// Make the CLI send each prompt back, as [`crate::Event::ContextInjected`] with `repeated`.
    pub echo_prompts: bool,
    /// Also emit the text and the reasoning of subagents, as [`crate::Event::BlockFinished`] with `parent`.
    pub forward_subagent_text: bool,
    /// Make the CLI suggest a next prompt after a turn, as [`crate::Event::PromptSuggested`].
    pub prompt_suggestions: bool,
    /// Further fields of the `initialize` request, which sets up the session, by the CLI's names.
    pub extra_initialize_fields: BTreeMap<String, RawJson>,

    // For hosts, whose sessions continue with a new CLI process when the CLI has exited.
    /// For hosts: an open file on which this program already holds a lock (`flock`). The supervisor gets it too, so the
    /// lock lasts until no process of the session is left, even if this program is killed. Not used without a
    /// supervisor.
    pub lock: Option<Arc<File>>,
    /// For hosts: ids of prompts, asks, blocks and requests continue after this number.
    pub ids_after: u64,
    /// For hosts: the tool uses that earlier processes asked about. An ask that repeats one is marked with
    /// [`crate::PermissionAsk::repeated`].
    pub asked_tool_uses: AskedToolUses,
}

/// The environment of the CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Start from this program's own environment, without the variables that mislead the CLI, such as `CLAUDECODE`.
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
    /// Returns an environment of only these variables and those that Watari sets itself; nothing is inherited.
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

/// Which conversation a session starts or resumes. Its id is [`crate::SessionInfo::session_id`]: the CLI
/// calls a conversation a session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
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
        conversation: SessionId,
        /// The last entry to keep, from [`crate::BlockSource::entry`].
        entry: EntryId,
        /// The only turn that may be dropped, as the `entry` of its [`crate::Event::PromptAccepted`]. If more turns
        /// follow `entry`, the CLI does not start. With `None`, everything after `entry` is dropped.
        dropped_turn: Option<EntryId>,
    },
    /// The latest conversation of the working directory, or a new one if there is none. Like `claude --continue`, this
    /// skips conversations of `claude -p` and of the official SDKs: resume those with [`StartFrom::Resume`]. A conversation of
    /// another existing directory is never taken, even if the CLI stores both in one folder. The id is
    /// resolved before the CLI is started; see [`crate::resolve_start_from`].
    Continue,
}

/// How much the model reasons before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Thinking {
    /// As much as the model finds useful.
    Adaptive,
    /// At most this many tokens.
    Budget(u32),
    /// Not at all, if the model allows it.
    Disabled,
}

/// How much of the model's reasoning is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum ThinkingDisplay {
    /// A summary.
    Summarized,
    /// Its high points.
    Highlights,
    /// Nothing.
    Omitted,
}

/// How thorough the model is. More effort takes more tokens and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Effort {
    /// The CLI's `low`.
    Low,
    /// The CLI's `medium`.
    Medium,
    /// The CLI's `high`.
    High,
    /// The CLI's `xhigh`.
    ExtraHigh,
    /// The CLI's `max`.
    Max,
}

/// The tools of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum ToolSet {
    /// The CLI's default set, as without this option, but passed to the CLI as `--tools=default`.
    Default,
    /// These and no others; an empty list means none.
    Only(Vec<String>),
}

/// What happens when a tool needs permission and no rule decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum PermissionPrompts {
    /// The CLI denies the tool and reports it as [`crate::Event::PermissionDenied`]. Forms of MCP servers still arrive
    /// as asks, and are dismissed after ten minutes without an answer.
    #[default]
    Deny,
    /// The CLI denies the tool, and does not ask forms either: it gets the flag `--permission-prompts=none`. CLI
    /// 2.1.325 has that flag; 2.1.42 does not have it, and exits.
    DenyAlsoElicitations,
    /// This program decides: it receives [`crate::Event::AskOpened`] and answers with [`crate::Client::answer`].
    Ask {
        /// How long a permission request, question or plan may stay unanswered before it is denied, and a form before
        /// it is dismissed; `None` means forever. (Hooks have [`Hook::answer_timeout`], and calls of tools ten minutes.)
        answer_timeout: Option<Duration>,
    },
    /// A tool of an MCP server decides, such as `mcp__server__tool`.
    Tool(String),
}

/// MCP servers, besides those of the CLI's settings.
#[derive(Debug, Clone, Default)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum McpServers {
    /// No further ones.
    #[default]
    None,
    /// Servers by name, each in the CLI's format: `{"command": "my-server", "args": []}`. They are passed to the CLI in
    /// a private file, because they may contain secrets.
    Inline(BTreeMap<String, RawJson>),
    /// A file with `{"mcpServers": {"NAME": {…}}}`. It is read and checked when the CLI is started, and the CLI gets
    /// the checked content.
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
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Settings {
    /// A JSON object. It is passed to the CLI in a private file, because it may contain secrets.
    Inline(RawJson),
    /// A file. It is read and checked when the CLI is started, and the CLI gets the checked content.
    File(PathBuf),
}

/// A settings file that the CLI reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum SettingSource {
    /// The user's settings: `~/.claude/settings.json`.
    User,
    /// The project's settings, shared with others: `.claude/settings.json`.
    Project,
    /// The project's settings of this user alone: `.claude/settings.local.json`.
    Local,
}
