//! Converts the command line into the options of a session.

use std::path::PathBuf;
use std::time::Duration;

use watari_sdk::{
    Environment, McpServers, Options, PermissionMode, PermissionPrompts, SettingSource, Supervisor, TOOL_SERVER,
    read_mcp_servers, read_mcp_servers_file,
};

use super::{Socket, untrusted};

/// The options of the session. The CLI runs as its user knows it: with its own system prompt and settings.
pub(super) fn session(arguments: &mut Socket, cwd: PathBuf) -> Result<Options, String> {
    if arguments.permission_mode == Some(PermissionMode::BypassPermissions) && !arguments.allow_bypass {
        return Err(
            "--permission-mode bypassPermissions runs everything without asking, so it needs --allow-bypass too; use \
                    it only in a sandbox"
                .to_owned(),
        );
    }
    let limit = Some(Duration::from_secs(arguments.permission_timeout.into())).filter(|limit| !limit.is_zero());
    let sources = vec![SettingSource::User, SettingSource::Project, SettingSource::Local];
    Ok(Options {
        claude: arguments.claude.take(),
        cwd: Some(cwd),
        supervisor: Supervisor::ThisProgram,
        model: arguments.model.take(),
        permission_mode: arguments.permission_mode,
        allow_bypass: arguments.allow_bypass,
        permission_prompts: PermissionPrompts::Ask { answer_timeout: limit },
        timeout_message: Some("Approval request timed out".to_owned()),
        mcp_servers: arguments.mcp_config.take().map_or(Ok(McpServers::None), |config| mcp_servers(&config))?,
        strict_mcp_config: arguments.untrusted,
        without_git: arguments.untrusted,
        settings: arguments.untrusted.then(untrusted::settings),
        environment: if arguments.untrusted { untrusted::environment() } else { Environment::default() },
        setting_sources: Some(if arguments.untrusted { Vec::new() } else { sources }),
        watchdog: arguments.stalls.watchdog(),
        tools_can_be_added: true,
        forward_subagent_text: true,
        ..Options::default()
    })
}

/// Reads MCP servers from a file or from the command line, once: every process of this session gets the same servers.
fn mcp_servers(config: &str) -> Result<McpServers, String> {
    let problem = |why: String| {
        format!(
            "--mcp-config: {why}; give a file, or JSON such as {{\"mcpServers\": {{\"name\": {{\"command\": \"…\"}}}}}}"
        )
    };
    let servers = if config.trim_start().starts_with('{') {
        read_mcp_servers(config).map_err(|error| problem(error.to_string()))?
    } else {
        let path = std::path::absolute(config).map_err(|error| problem(format!("{config}: {error}")))?;
        read_mcp_servers_file(&path).map_err(|error| problem(format!("{}: {error}", path.display())))?
    };
    if servers.contains_key(TOOL_SERVER) {
        return Err(format!(
            "--mcp-config: the server name {TOOL_SERVER:?} is reserved for the clients' tools; choose another name"
        ));
    }
    Ok(McpServers::Inline(servers))
}
