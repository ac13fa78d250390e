//! Parses the options of `start`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use watari_sdk::{
    Effort, Environment, McpServers, Options, PermissionMode, PermissionPrompts, Plugin, RawJson, SessionId,
    SettingSource, Settings, StartFrom, SystemPrompt, Thinking,
};

use crate::dialect::members::Members;

/// After how long unanswered permission requests are denied, unless the client sets another limit.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The parsed options of `start`.
#[derive(Debug)]
pub(crate) struct StartOptions {
    pub(crate) session: Options,
    /// Whether to stream text as it is written.
    pub(crate) streams: bool,
    /// Why no session can be started with these options, although they are well-formed.
    pub(crate) unstartable: Option<String>,
    /// Errors for unknown options, which are ignored.
    pub(crate) unknown: Vec<String>,
}

/// Refuses 0, which the CLI would treat as no limit.
fn max_turns(members: &mut Members<'_>) -> Result<Option<u32>, String> {
    match members.integer("maxTurns")? {
        Some(0) => Err("options.maxTurns must be 1 or more; leave it out for no limit".to_owned()),
        limit => Ok(limit),
    }
}

/// Parses the options of a `start`; an error names the wrong option.
pub(super) fn read(members: &mut Members<'_>) -> Result<StartOptions, String> {
    let mut unstartable = None;
    let mut session = Options {
        cwd: cwd(members, &mut unstartable)?,
        start_from: conversation(members, &mut unstartable)?,
        model: members.text("model")?,
        system_prompt: system_prompt(members)?,
        permission_mode: Some(permission_mode(members)?),
        allowed_tools: members.strings("allowedTools")?,
        disallowed_tools: members.strings("disallowedTools")?,
        max_turns: max_turns(members)?,
        thinking: members.integer("maxThinkingTokens")?.map(thinking),
        max_budget_usd: members.optional("maxBudgetUsd", "a number")?,
        effort: effort(members)?,
        setting_sources: Some(setting_sources(members)?),
        environment: environment(members)?,
        additional_directories: members.strings("additionalDirectories")?.into_iter().map(PathBuf::from).collect(),
        mcp_servers: mcp_servers(members)?,
        agents: objects(members, "agents")?,
        plugins: plugins(members)?,
        settings: settings(members)?,
        output_schema: output_schema(members)?,
        forward_subagent_text: true,
        ..Options::default()
    };
    let limit: Option<u64> = members.integer("permissionTimeoutMs")?;
    let answer_timeout = match limit {
        None => Some(ANSWER_WITHIN),
        Some(0) => None,
        Some(milliseconds) => Some(Duration::from_millis(milliseconds)),
    };
    session.permission_prompts = PermissionPrompts::Ask { answer_timeout };
    let streams = members.boolean("includePartialMessages")?.unwrap_or(true);
    Ok(StartOptions { session, streams, unstartable, unknown: members.unknown() })
}

fn cwd(members: &mut Members<'_>, unstartable: &mut Option<String>) -> Result<Option<PathBuf>, String> {
    let cwd = members.text("cwd")?;
    if cwd.as_deref() == Some("") {
        *unstartable = Some("options.cwd is empty: give a folder, or leave it out for that of the process".to_owned());
    }
    Ok(cwd.map(PathBuf::from))
}

fn conversation(members: &mut Members<'_>, unstartable: &mut Option<String>) -> Result<StartFrom, String> {
    let resume = members.text("resume")?;
    let forks = members.boolean("forkSession")?.unwrap_or(false);
    let continues = members.boolean("continue")?.unwrap_or(false);
    match (resume, forks, continues) {
        (Some(_), _, true) => Err("options.resume and options.continue exclude one another".to_owned()),
        (Some(id), forks, false) => match id.parse::<SessionId>() {
            Ok(id) if forks => Ok(StartFrom::Fork { from: id, into: None }),
            Ok(id) => Ok(StartFrom::Resume(id)),
            Err(error) => {
                *unstartable = Some(format!("options.resume: {error}"));
                Ok(StartFrom::New)
            }
        },
        (None, true, _) => Err("options.forkSession needs options.resume".to_owned()),
        (None, false, true) => Ok(StartFrom::Continue),
        (None, false, false) => Ok(StartFrom::New),
    }
}

fn system_prompt(members: &mut Members<'_>) -> Result<SystemPrompt, String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Value {
        Text(String),
        Preset { preset: String, append: Option<String> },
    }
    match members.optional("systemPrompt", "a string, or an object with a preset")? {
        None => Ok(SystemPrompt::Empty),
        Some(Value::Text(text)) => Ok(SystemPrompt::Custom(text)),
        Some(Value::Preset { preset, append }) if preset == "claude_code" => {
            Ok(append.map_or(SystemPrompt::ClaudeCode, SystemPrompt::Append))
        }
        Some(Value::Preset { .. }) => Err("options.systemPrompt.preset must be claude_code".to_owned()),
    }
}

fn permission_mode(members: &mut Members<'_>) -> Result<PermissionMode, String> {
    match members.text("permissionMode")? {
        None => Ok(PermissionMode::Default),
        Some(mode) => mode.parse().map_err(|error| format!("options.permissionMode: {error}")),
    }
}

fn thinking(tokens: u32) -> Thinking {
    if tokens == 0 { Thinking::Disabled } else { Thinking::Budget(tokens) }
}

fn effort(members: &mut Members<'_>) -> Result<Option<Effort>, String> {
    let known = [
        ("low", Effort::Low),
        ("medium", Effort::Medium),
        ("high", Effort::High),
        ("xhigh", Effort::ExtraHigh),
        ("max", Effort::Max),
    ];
    let Some(name) = members.text("effort")? else { return Ok(None) };
    match known.into_iter().find(|(known, _)| *known == name) {
        Some((_, effort)) => Ok(Some(effort)),
        None => Err("options.effort must be one of low, medium, high, xhigh, max".to_owned()),
    }
}

fn setting_sources(members: &mut Members<'_>) -> Result<Vec<SettingSource>, String> {
    let all = [("user", SettingSource::User), ("project", SettingSource::Project), ("local", SettingSource::Local)];
    let Some(names): Option<Vec<String>> = members.optional("settingSources", "a list of strings")? else {
        return Ok(all.map(|(_, source)| source).to_vec());
    };
    let find = |name: &String| all.iter().find(|(known, _)| known == name).map(|(_, source)| *source);
    let sources: Option<Vec<SettingSource>> = names.iter().map(find).collect();
    sources.ok_or_else(|| "options.settingSources must be a list of user, project, local".to_owned())
}

fn environment(members: &mut Members<'_>) -> Result<Environment, String> {
    let set: Option<BTreeMap<String, Option<String>>> = members.optional("env", "an object of strings")?;
    Ok(Environment { inherit: true, set: set.unwrap_or_default() })
}

fn mcp_servers(members: &mut Members<'_>) -> Result<McpServers, String> {
    let servers = objects(members, "mcpServers")?;
    Ok(if servers.is_empty() { McpServers::None } else { McpServers::Inline(servers) })
}

fn plugins(members: &mut Members<'_>) -> Result<Vec<Plugin>, String> {
    #[derive(Deserialize)]
    struct Element {
        path: PathBuf,
    }
    let elements: Option<Vec<Element>> = members.optional("plugins", "a list of objects with a path")?;
    let plugin = |element: Element| Plugin { directory: element.path, without_mcp: false };
    Ok(elements.unwrap_or_default().into_iter().map(plugin).collect())
}

fn settings(members: &mut Members<'_>) -> Result<Option<Settings>, String> {
    let what = "a path or an object";
    match members.optional::<&RawValue>("settings", what)? {
        None => Ok(None),
        Some(value) if value.get().starts_with('"') => Ok(Some(Settings::File(members.required("settings", what)?))),
        Some(value) if value.get().starts_with('{') => Ok(members.raw_object("settings")?.map(Settings::Inline)),
        Some(_) => Err("options.settings must be a path or an object".to_owned()),
    }
}

fn output_schema(members: &mut Members<'_>) -> Result<Option<RawJson>, String> {
    let what = "an object with type json_schema and a schema";
    let must_be = || format!("options.outputFormat must be {what}");
    let Some(mut format) = members.object("outputFormat", "options.outputFormat.", what)? else { return Ok(None) };
    if format.text("type")?.as_deref() != Some("json_schema") {
        return Err(must_be());
    }
    format.raw_object("schema")?.map(Some).ok_or_else(must_be)
}

/// Objects by their names.
fn objects(members: &mut Members<'_>, name: &'static str) -> Result<BTreeMap<String, RawJson>, String> {
    Ok(members.raw_objects(name, "an object of objects")?.unwrap_or_default())
}
