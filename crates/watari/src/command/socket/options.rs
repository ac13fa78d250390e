//! What the command line says, as what a session is started with.

use std::path::PathBuf;
use std::time::Duration;

use watari_sdk::{
    Environment, McpServers, Options, PermissionMode, PermissionPrompts, SettingSource, Supervisor, TOOL_SERVER,
    read_mcp_servers, read_mcp_servers_file,
};

use super::{Socket, untrusted};

/// What a session is started with. It is the CLI as its user knows it: with its own system prompt and settings.
pub(super) fn session(given: &mut Socket, cwd: PathBuf) -> Result<Options, String> {
    if given.permission_mode == Some(PermissionMode::BypassPermissions) && !given.allow_bypass {
        return Err(
            "--permission-mode bypassPermissions runs everything without a question, so it needs --allow-bypass \
                    too; only in a sandbox"
                .to_owned(),
        );
    }
    let limit = Some(Duration::from_secs(given.permission_timeout.into())).filter(|limit| !limit.is_zero());
    let sources = vec![SettingSource::User, SettingSource::Project, SettingSource::Local];
    Ok(Options {
        claude: given.claude.take(),
        cwd: Some(cwd),
        supervisor: Supervisor::ThisProgram,
        model: given.model.take(),
        permission_mode: given.permission_mode,
        allow_bypass: given.allow_bypass,
        permission_prompts: PermissionPrompts::Ask { answer_within: limit },
        timeout_message: Some("Approval request timed out".to_owned()),
        mcp_servers: given.mcp_config.take().map_or(Ok(McpServers::None), |config| mcp_servers(&config))?,
        strict_mcp_config: given.untrusted,
        without_git: given.untrusted,
        settings: given.untrusted.then(untrusted::settings),
        environment: if given.untrusted { untrusted::environment() } else { Environment::default() },
        setting_sources: Some(if given.untrusted { Vec::new() } else { sources }),
        liveness: given.stalls.liveness(),
        offers_tools: true,
        forward_subagent_text: true,
        ..Options::default()
    })
}

/// Servers from a file, or as they stand on the command line. Either is read once, now: every CLI of this session gets the same.
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
            "--mcp-config: no server may be called {TOOL_SERVER:?}: that is the name of the server of the clients' tools; \
             choose another"
        ));
    }
    Ok(McpServers::Inline(servers))
}
