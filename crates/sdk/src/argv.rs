//! The CLI's flags and environment variables; they are named nowhere else.
//!
//! A flag and its value are one argument (`--flag=value`), so that a value is never parsed as a flag. Arguments contain
//! nothing secret and nothing long, because every user of the machine can read them and their length is limited. Such
//! values are passed in private files or over stdin. (The one exception is `--managed-settings`.)

mod check;
mod documents;
mod names;
mod place;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use watari_protocol::{AMBIGUOUS_TOOL_NAME_MESSAGE, HOOK_EVENTS, Initialize, RawJson, TOOL_SERVER};

pub use check::bypass_permission;
pub(crate) use check::{allows_bypass, check};
pub(crate) use documents::ConfigFiles;
pub use documents::{McpServersError, read_mcp_servers, read_mcp_servers_file};
pub use place::CONFIG_DIR_VARIABLE;
pub(crate) use place::{TranscriptDir, composed, transcript_place};

use crate::files::PrivateFolder;
use crate::options::{ExtraArgument, Options, PermissionPrompts, StartFrom, Thinking, ToolSet};
use names::{display_name, effort_name, source_name};

/// An option that is invalid.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum OptionError {
    /// A name that cannot be the name of a flag.
    #[error("{name:?} is not the name of a flag: use letters, digits and dashes, without the leading dashes")]
    FlagName {
        /// The name.
        name: String,
    },
    /// A flag that Watari sets itself.
    #[error("the flag --{name} is reserved: Watari sets it to communicate with the CLI")]
    OwnFlag {
        /// The flag.
        name: String,
    },
    /// A value with a zero byte.
    #[error("the value of the CLI's flag --{flag} contains a zero byte")]
    ZeroByte {
        /// The flag.
        flag: String,
    },
    /// A name in a list that contains a comma.
    #[error("{value:?} contains a comma, which separates the names in the CLI's flag --{flag}")]
    Comma {
        /// The flag.
        flag: &'static str,
        /// The name.
        value: String,
    },
    /// A hook for an unknown event. The CLI would accept it silently, and never call it.
    #[error("{event:?} is not an event of hooks: use one of {}", HOOK_EVENTS.join(", "))]
    HookEvent {
        /// The event.
        event: String,
    },
    /// A variable that cannot be set.
    #[error(
        "the environment variable {name:?} cannot be set: a name must not be empty or contain `=`, and neither name nor value may contain a zero byte"
    )]
    Variable {
        /// Its name.
        name: String,
    },
    /// A budget that is not a positive number.
    #[error("the budget of {given} US dollars is invalid: it must be more than 0")]
    Budget {
        /// The budget.
        given: f64,
    },
    /// A limit of 0 turns, which the CLI takes for no limit.
    #[error("max_turns cannot be 0, which the CLI takes for no limit: use 1 or more, or omit it")]
    Turns,
    /// A tool whose name is ambiguous: a tool of another server could have it too.
    #[error("the name of the tool {name:?} {AMBIGUOUS_TOOL_NAME_MESSAGE}")]
    ToolName {
        /// The name.
        name: String,
    },
    /// An MCP server with the name that is reserved for the program's own tools.
    #[error("rename the MCP server {TOOL_SERVER:?}: Watari uses that name for the server of the program's own tools")]
    ReservedServerName,
    /// An option that enables `bypassPermissions`, in a session without [`Options::allow_bypass`] (`--allow-bypass` of
    /// `watari`).
    #[error(
        "{option}: bypassPermissions runs everything without asking, so it must be allowed when the session is started: \
         start it with --allow-bypass (in Rust, Options::allow_bypass)"
    )]
    Bypass {
        /// The option.
        option: &'static str,
    },
    /// MCP servers or settings that cannot be used.
    #[error("{what} cannot be used: {problem}")]
    Document {
        /// Which of them.
        what: &'static str,
        /// Their file, and what is wrong.
        problem: String,
    },
    /// The CLI cannot be prevented from running git.
    #[error("cannot prevent Claude Code from running git: {source}")]
    WithoutGit {
        /// Why not.
        source: io::Error,
    },
    /// A private file could not be written.
    #[error("cannot write a private file for the CLI: {source}")]
    PrivateFile {
        /// The path and the system's error.
        source: io::Error,
    },
}

/// Flags that Watari needs to communicate with the CLI; they cannot be changed.
const OWN_FLAGS: [&str; 6] =
    ["output-format", "input-format", "verbose", "print", "include-partial-messages", "await-initialize"];

/// The arguments with which the CLI prints its version, and whether it is logged in. A CLI that is too old may not know
/// the second, and takes it for a prompt.
pub(crate) const VERSION_ARGUMENTS: &[&str] = &["--version"];
pub(crate) const LOGIN_ARGUMENTS: &[&str] = &["auth", "status"];

/// Returns the arguments for a session's CLI. Values that must not be arguments are written into `folder`.
pub(crate) fn arguments(
    options: &Options,
    documents: &ConfigFiles,
    folder: &mut PrivateFolder,
) -> Result<Vec<OsString>, OptionError> {
    let mut flags = Flags::default();
    flags.set("output-format", "stream-json");
    flags.switch("verbose", true);
    flags.set("input-format", "stream-json");
    flags.switch("include-partial-messages", true);
    session(options, &mut flags);
    model(options, &mut flags)?;
    permissions(options, &mut flags)?;
    configuration(options, documents, &mut flags, folder)?;
    flags.switch("include-hook-events", options.include_hook_events);
    flags.switch("replay-user-messages", options.echo_prompts);
    if let Some(path) = &options.debug_file {
        flags.set("debug-file", path);
    }
    for extra in &options.extra_arguments {
        flags.extra(extra)?;
    }
    flags.finish()
}

/// Returns the options that are passed over stdin, not on the command line.
pub(crate) fn initialize(options: &Options) -> Initialize {
    Initialize {
        system_prompt: options.system_prompt.clone(),
        json_schema: options.output_schema.clone(),
        agents: options.agents.clone(),
        hooks: options.hooks.clone(),
        tools: options.program_tools.clone(),
        tools_can_be_added: options.tools_can_be_added,
        forward_subagent_text: options.forward_subagent_text,
        title: options.title.clone(),
        prompt_suggestions: options.prompt_suggestions,
        more: options.extra_initialize_fields.clone(),
    }
}

/// Returns the variables that Watari sets for the CLI; they override the caller's. The first marks Watari's entries in
/// a conversation, and the third makes the CLI report when it is idle.
pub(crate) fn own_environment(options: &Options) -> BTreeMap<&'static str, &'static str> {
    let mut variables = BTreeMap::from([
        ("CLAUDE_CODE_ENTRYPOINT", "watari"),
        ("CLAUDE_AGENT_SDK_VERSION", env!("CARGO_PKG_VERSION")),
        ("CLAUDE_CODE_SDK_READS_SESSION_STATE", "1"),
    ]);
    if options.checkpoints {
        variables.insert("CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING", "true");
    }
    variables
}

/// Variables of this program that the CLI must not inherit: with them it assumes that it runs inside itself, in a
/// debugger, or as the child of a Node program that waits for its messages on a descriptor.
pub(crate) const MISLEADING_VARIABLES: [&str; 4] = ["CLAUDECODE", "NODE_OPTIONS", "DEBUG", "NODE_CHANNEL_FD"];

fn session(options: &Options, flags: &mut Flags) {
    match &options.start_from {
        StartFrom::New => {}
        StartFrom::NewWithId(id) => flags.set("session-id", id.as_str()),
        StartFrom::Resume(id) => flags.set("resume", id.as_str()),
        StartFrom::Fork { from, into } => {
            flags.set("resume", from.as_str());
            flags.switch("fork-session", true);
            if let Some(into) = into {
                flags.set("session-id", into.as_str());
            }
        }
        StartFrom::ResumeAt { conversation, entry, dropped_turn } => {
            flags.set("resume", conversation.as_str());
            flags.set("resume-session-at", entry.as_str());
            flags.set_some("resume-drops-turn", dropped_turn.as_ref().map(|turn| turn.as_str()));
        }
        // Not reached: `open` has already replaced it, so that the id is known before the CLI is started.
        StartFrom::Continue => flags.switch("continue", true),
    }
    // A resumed session may continue immediately with a deferred tool, and its hooks must be registered by then:
    // without this flag the CLI sometimes runs the tool by the rules alone. (An older CLI does not know the flag, and
    // exits.)
    let is_resumed = match &options.start_from {
        StartFrom::New | StartFrom::NewWithId(_) => false,
        StartFrom::Resume(_) | StartFrom::Fork { .. } | StartFrom::ResumeAt { .. } | StartFrom::Continue => true,
    };
    flags.switch("await-initialize", is_resumed && !options.hooks.is_empty());
    flags.switch("no-session-persistence", options.no_persistence);
    flags.switch("session-mirror", options.mirror_transcript);
}

fn model(options: &Options, flags: &mut Flags) -> Result<(), OptionError> {
    flags.set_some("model", options.model.as_deref());
    flags.set_some("fallback-model", options.fallback_model.as_deref());
    match options.thinking {
        Some(Thinking::Adaptive) => flags.set("thinking", "adaptive"),
        Some(Thinking::Disabled) => flags.set("thinking", "disabled"),
        Some(Thinking::Budget(tokens)) => flags.set("max-thinking-tokens", tokens.to_string()),
        None => {}
    }
    flags.set_some("thinking-display", options.thinking_display.map(display_name));
    flags.set_some("effort", options.effort.map(effort_name));
    // Unlike other lists this one is repeated: the CLI takes a comma as part of the name.
    for beta in &options.betas {
        flags.set("betas", beta);
    }
    flags.set_some("max-turns", options.max_turns.map(|turns| turns.to_string()));
    if let Some(budget) = options.max_budget_usd {
        if !(budget.is_finite() && budget > 0.0) {
            return Err(OptionError::Budget { given: budget });
        }
        flags.set("max-budget-usd", budget.to_string());
    }
    flags.set_some("task-budget", options.task_budget.map(|tokens| tokens.to_string()));
    flags.set_some("agent", options.agent.as_deref());
    Ok(())
}

fn permissions(options: &Options, flags: &mut Flags) -> Result<(), OptionError> {
    match &options.tools {
        Some(ToolSet::Default) => flags.set("tools", "default"),
        Some(ToolSet::Only(names)) => flags.list("tools", names)?,
        None => {}
    }
    if !options.allowed_tools.is_empty() {
        // A rule may contain a comma in its parentheses; the CLI does not split it there.
        flags.set("allowedTools", options.allowed_tools.join(","));
    }
    if !options.disallowed_tools.is_empty() {
        flags.set("disallowedTools", options.disallowed_tools.join(","));
    }
    flags.set_some("permission-mode", options.permission_mode.map(|mode| mode.as_str()));
    flags.switch("allow-dangerously-skip-permissions", options.allow_bypass);
    match &options.permission_prompts {
        PermissionPrompts::Deny => {}
        PermissionPrompts::DenyAlsoElicitations => flags.set("permission-prompts", "none"),
        PermissionPrompts::Ask { .. } => flags.set("permission-prompt-tool", "stdio"),
        PermissionPrompts::Tool(name) => flags.set("permission-prompt-tool", name),
    }
    for directory in &options.additional_directories {
        flags.set("add-dir", directory);
    }
    Ok(())
}

fn configuration(
    options: &Options,
    documents: &ConfigFiles,
    flags: &mut Flags,
    folder: &mut PrivateFolder,
) -> Result<(), OptionError> {
    if let Some(servers) = &documents.servers {
        flags.set("mcp-config", write_private(folder, "mcp.json", servers)?);
    }
    flags.switch("strict-mcp-config", options.strict_mcp_config);
    for plugin in &options.plugins {
        let flag = if plugin.without_mcp { "plugin-dir-no-mcp" } else { "plugin-dir" };
        flags.set(flag, &plugin.directory);
    }
    if let Some(settings) = &documents.settings {
        match write_private(folder, "settings.json", settings) {
            Ok(path) => flags.set("settings", path),
            // These settings contain no secret, and they keep the bypass disabled even if no private file can be
            // written.
            Err(_) if documents.settings_are_ours => flags.set("settings", settings.as_str()),
            Err(error) => return Err(error),
        }
    }
    // The one exception to "nothing secret in an argument": the CLI reads this only as JSON text.
    flags.set_some("managed-settings", options.managed_settings.as_ref().map(RawJson::as_str));
    if let Some(sources) = &options.setting_sources {
        let names: Vec<&str> = sources.iter().map(|source| source_name(*source)).collect();
        flags.set("setting-sources", names.join(","));
    }
    if let Some(root) = &options.project_config_root {
        flags.set("project-config-root", root);
    }
    Ok(())
}

fn write_private(folder: &mut PrivateFolder, name: &str, content: &RawJson) -> Result<PathBuf, OptionError> {
    folder.write(name, content.as_str()).map_err(|source| OptionError::PrivateFile { source })
}

/// The command line under construction.
#[derive(Default)]
struct Flags(Vec<OsString>);

impl Flags {
    fn switch(&mut self, name: &str, on: bool) {
        if on {
            self.0.push(format!("--{name}").into());
        }
    }

    fn set(&mut self, name: &str, value: impl AsRef<std::ffi::OsStr>) {
        let mut argument = OsString::from(format!("--{name}="));
        argument.push(value);
        self.0.push(argument);
    }

    fn set_some(&mut self, name: &str, value: Option<impl AsRef<std::ffi::OsStr>>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    fn list(&mut self, name: &'static str, values: &[String]) -> Result<(), OptionError> {
        if let Some(value) = values.iter().find(|value| value.contains(',')) {
            return Err(OptionError::Comma { flag: name, value: value.clone() });
        }
        self.set(name, values.join(","));
        Ok(())
    }

    fn extra(&mut self, extra: &ExtraArgument) -> Result<(), OptionError> {
        let name = &extra.name;
        let readable = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
        if name.is_empty() || name.starts_with('-') || !readable {
            return Err(OptionError::FlagName { name: name.clone() });
        }
        if OWN_FLAGS.contains(&name.as_str()) {
            return Err(OptionError::OwnFlag { name: name.clone() });
        }
        match &extra.value {
            Some(value) => self.set(name, value),
            None => self.switch(name, true),
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<OsString>, OptionError> {
        let zero = self.0.iter().find(|argument| argument.as_encoded_bytes().contains(&0));
        if let Some(argument) = zero {
            let text = argument.to_string_lossy();
            let flag = text.trim_start_matches('-').split('=').next().unwrap_or_default();
            return Err(OptionError::ZeroByte { flag: flag.to_owned() });
        }
        Ok(self.0)
    }
}
