//! What a session is started with: everything the CLI can be told, in our words.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use watari_protocol::{AskedToolUses, EntryId, Hook, Liveness, PermissionMode, RawJson, SessionId, SystemPrompt, Tool};

use crate::supervisor::Supervisor;

/// What a session is started with. The default is the CLI as a user would start it, with nobody to ask
/// for permission.
#[derive(Debug, Clone, Default)]
pub struct Options {
    // The process.
    /// The CLI to run; none means to look for it.
    pub claude: Option<PathBuf>,
    /// The directory to work in; none means this program's own.
    pub cwd: Option<PathBuf>,
    /// The environment of the CLI.
    pub environment: Environment,
    /// Who sees to it that nothing is left behind.
    pub supervisor: Supervisor,
    /// A lock (`flock`) that the keeper holds too, so that it is free only when nothing of the session is left, also when
    /// this program is killed.
    pub lock: Option<Arc<File>>,
    /// After how long a CLI that does not answer is given up; none means a minute.
    pub start_within: Option<Duration>,
    /// How long the CLI may take to react while a turn runs, and what then.
    pub liveness: Liveness,
    /// Write the CLI's debug log to this file.
    pub debug_file: Option<PathBuf>,
    /// Further flags of the CLI, for what this type does not know.
    pub extra_arguments: Vec<ExtraArgument>,

    // The conversation.
    /// Which conversation to hold.
    pub session: Session,
    /// Do not store the conversation: it cannot be resumed.
    pub no_persistence: bool,
    /// Have the CLI report what it stores.
    pub mirror: bool,
    /// Keep copies of files before they are changed, so that they can be brought back.
    pub checkpoints: bool,
    /// A title for a new conversation.
    pub title: Option<String>,

    // The model.
    /// The model; none means the CLI's own choice.
    pub model: Option<String>,
    /// The model to use when the first is overloaded.
    pub fallback_model: Option<String>,
    /// How the model thinks.
    pub thinking: Option<Thinking>,
    /// What is shown of its thinking.
    pub thinking_display: Option<ThinkingDisplay>,
    /// How hard the model tries.
    pub effort: Option<Effort>,
    /// Beta features of the API.
    pub betas: Vec<String>,
    /// How many steps a prompt may take: 1 or more.
    pub max_turns: Option<u32>,
    /// How much the session may cost, in US dollars.
    pub max_budget_usd: Option<f64>,
    /// How many tokens a task may take.
    pub task_budget: Option<u64>,
    /// A JSON Schema that the answer must fit.
    pub output_schema: Option<RawJson>,

    // Who the model is.
    /// What the model is told to be.
    pub system_prompt: SystemPrompt,
    /// The agent that holds the conversation.
    pub agent: Option<String>,
    /// Agents that it can call, by name, in the CLI's shape.
    pub agents: BTreeMap<String, RawJson>,

    // What it may do.
    /// The tools it has; none means the CLI's own choice.
    pub tools: Option<Tools>,
    /// Rules for what may run without asking, such as `Read` or `Bash(ls:*)`.
    pub allowed_tools: Vec<String>,
    /// Rules for what may not run.
    pub disallowed_tools: Vec<String>,
    /// How permissions are decided; none means what the settings say.
    pub permission_mode: Option<PermissionMode>,
    /// Allow the mode that asks for nothing. Only in a sandbox. Without it, and without that mode, the CLI is told to refuse it
    /// wherever it is set.
    pub allow_bypass: bool,
    /// Who is asked.
    pub permission_prompts: PermissionPrompts,
    /// What the model is told of a permission for which nobody answered in time; none means the usual words.
    pub timeout_message: Option<String>,
    /// Hooks that this program runs: each is asked with an ask of kind `Hook`. The first has the id 1, and so on.
    pub hooks: Vec<Hook>,
    /// Tools that this program runs: each call is asked with an ask of kind `ToolCall`. For the model a tool is
    /// `mcp__client__` and its name; allow it by that name, or be asked. No name begins with `_` or has `__` in it.
    pub program_tools: Vec<Tool>,
    /// Tools of this program may come later, with [`watari_protocol::Request::SetTools`].
    pub offers_tools: bool,
    /// Directories it may work in beside the first.
    pub additional_directories: Vec<PathBuf>,

    // What surrounds it.
    /// MCP servers.
    pub mcp_servers: McpServers,
    /// Use only the MCP servers given here.
    pub strict_mcp_config: bool,
    /// Keep the CLI, and what it starts, from running git by its name, for a directory that is not trusted: git runs programs
    /// that a repository's own configuration names, and the CLI runs git by itself.
    pub without_git: bool,
    /// Plugins to load.
    pub plugins: Vec<Plugin>,
    /// Settings, above those of the files.
    pub settings: Option<Settings>,
    /// Settings that nothing may override.
    pub managed_settings: Option<RawJson>,
    /// The settings files to read; none means all of them. Those of the working directory can run code.
    pub setting_sources: Option<Vec<SettingSource>>,
    /// Where the project's configuration is, when it is not the working directory.
    pub project_config_root: Option<PathBuf>,

    // What is told.
    /// Ids of prompts, asks, blocks and requests go on behind this number: for a program that keeps the events of several
    /// lives of a conversation together.
    pub ids_after: u64,
    /// The tool uses that earlier processes of the same session were asked about: an ask that repeats one says so.
    pub asked_tool_uses: AskedToolUses,
    /// Tell of hooks that are commands.
    pub include_hook_events: bool,
    /// Repeat prompts in the stream.
    pub replay_prompts: bool,
    /// Pass on what subagents say.
    pub forward_subagent_text: bool,
    /// Suggest a next prompt after a turn.
    pub prompt_suggestions: bool,
    /// Any further field of the opening request, by the CLI's own name.
    pub initialize: BTreeMap<String, RawJson>,
}

/// The environment of the CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    /// Start from this program's own environment.
    pub inherit: bool,
    /// Then set these; none unsets. Watari's own variables, such as `CLAUDE_CODE_ENTRYPOINT`, keep their values.
    pub set: BTreeMap<String, Option<String>>,
}

impl Default for Environment {
    fn default() -> Environment {
        Environment { inherit: true, set: BTreeMap::new() }
    }
}

impl Environment {
    /// Exactly these variables and no others.
    pub fn only(variables: impl IntoIterator<Item = (String, String)>) -> Environment {
        let set = variables.into_iter().map(|(name, value)| (name, Some(value))).collect();
        Environment { inherit: false, set }
    }
}

/// A flag of the CLI that [`Options`] does not know: `--name` or `--name=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraArgument {
    /// The flag without its dashes.
    pub name: String,
    /// Its value, if it takes one.
    pub value: Option<String>,
}

/// Which conversation a session holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Session {
    /// A new one.
    #[default]
    New,
    /// A new one with this id.
    NewWithId(SessionId),
    /// The one with this id.
    Resume(SessionId),
    /// A copy of the one with this id, under a new id: this one, or one the CLI chooses.
    Fork {
        /// The conversation to copy.
        from: SessionId,
        /// The id of the copy.
        into: Option<SessionId>,
    },
    /// The one with this id, without what came after an entry of it.
    ResumeAt {
        /// The conversation.
        session: SessionId,
        /// The last entry to keep.
        entry: EntryId,
        /// The turn that is dropped by it, when the CLI is to forget that it ever was.
        drops_turn: Option<EntryId>,
    },
    /// The latest of the working directory: the one that was written to last. A new one where there is none. It is
    /// found before the CLI is started, which is then told its id; see [`crate::resolve_continue`].
    Continue,
}

/// How the model thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    /// As much as it finds useful.
    Adaptive,
    /// With at most this many tokens.
    Budget(u32),
    /// Not at all, where the model allows that.
    Disabled,
}

/// What is shown of the model's thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThinkingDisplay {
    /// A summary.
    Summarized,
    /// Its high points.
    Highlights,
    /// Nothing.
    Omitted,
}

/// How hard the model tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// Very much.
    ExtraHigh,
    /// All it can.
    Max,
}

/// The tools a session has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tools {
    /// The CLI's default set.
    Default,
    /// These and no others; an empty list means none.
    Only(Vec<String>),
}

/// Who is asked when no rule decides.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PermissionPrompts {
    /// Nobody: what no rule allows is refused.
    #[default]
    Refuse,
    /// Nobody, whatever the settings say: what would ask is refused.
    Never,
    /// This program: it sees an event and answers with [`crate::Client::answer`].
    Ask {
        /// After how long no answer is a no; none means never. The CLI itself waits for ever.
        answer_within: Option<Duration>,
    },
    /// A tool of an MCP server, by its name.
    Tool(String),
}

/// MCP servers.
#[derive(Debug, Clone, Default)]
pub enum McpServers {
    /// None beside those of the settings.
    #[default]
    None,
    /// By name, each in the CLI's shape. They may hold secrets: they reach the CLI in a private file.
    Inline(BTreeMap<String, RawJson>),
    /// In this file, which is read and checked when the CLI is started: the CLI gets what was checked.
    File(PathBuf),
}

/// A plugin to load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plugin {
    /// Its directory.
    pub directory: PathBuf,
    /// Leave its MCP servers out.
    pub without_mcp: bool,
}

/// Settings, above those of the files.
#[derive(Debug, Clone)]
pub enum Settings {
    /// A JSON object. It may hold secrets: it reaches the CLI in a private file.
    Inline(RawJson),
    /// In this file, which is read and checked when the CLI is started: the CLI gets what was checked.
    File(PathBuf),
}

/// A settings file that the CLI reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingSource {
    /// The user's own.
    User,
    /// The project's, shared.
    Project,
    /// The project's, not shared.
    Local,
}
