//! Refuses options that the CLI would reject or silently ignore, and options that would enable `bypassPermissions`.

use watari_protocol::{BypassPermission, HOOK_EVENTS, PermissionMode, agent_names_bypass, names_bypass};

use super::OptionError;
use crate::options::Options;

/// Checks the options that are checked neither with the arguments nor with the files for the CLI.
pub(crate) fn check(options: &Options) -> Result<(), OptionError> {
    let unknown = options.hooks.iter().find(|hook| !HOOK_EVENTS.contains(&hook.event.as_str()));
    if let Some(hook) = unknown {
        return Err(OptionError::HookEvent { event: hook.event.clone() });
    }
    if !allows_bypass(options)
        && let Some(option) = option_that_bypasses(options)
    {
        return Err(OptionError::Bypass { option });
    }
    if options.max_turns == Some(0) {
        return Err(OptionError::Turns);
    }
    if let Some(tool) = options.program_tools.iter().find(|tool| !tool.has_unambiguous_name()) {
        return Err(OptionError::ToolName { name: tool.name.clone() });
    }
    let settable = |name: &str, value: Option<&str>| {
        !name.is_empty() && !name.contains(['=', '\0']) && !value.is_some_and(|value| value.contains('\0'))
    };
    let bad = options.environment.set.iter().find(|(name, value)| !settable(name, value.as_deref()));
    bad.map_or(Ok(()), |(name, _)| Err(OptionError::Variable { name: name.clone() }))
}

/// Whether clients of this session may enable `bypassPermissions`.
pub(crate) fn allows_bypass(options: &Options) -> bool {
    options.allow_bypass || options.permission_mode == Some(PermissionMode::BypassPermissions)
}

/// Whether clients may enable `bypassPermissions`, for a host that accepts requests while no CLI runs.
pub fn bypass_permission(options: &Options) -> BypassPermission {
    if allows_bypass(options) { BypassPermission::Granted } else { BypassPermission::NotGranted }
}

/// Returns the option that would enable `bypassPermissions`, for the session or for a subagent.
fn option_that_bypasses(options: &Options) -> Option<&'static str> {
    [
        ("agents", options.agents.values().any(agent_names_bypass)),
        ("managed settings", options.managed_settings.as_ref().is_some_and(names_bypass)),
        ("extra_initialize_fields", options.extra_initialize_fields.values().any(names_bypass)),
    ]
    .into_iter()
    .find_map(|(name, bypasses)| bypasses.then_some(name))
}

#[cfg(test)]
mod tests {
    use watari_protocol::{ProgramTool, RawJson};

    use super::*;

    #[test]
    fn a_limit_of_no_turns_is_refused_because_the_cli_takes_it_for_none() {
        let limited = |turns| check(&Options { max_turns: Some(turns), ..Options::default() });
        assert!(limited(1).is_ok());
        insta::assert_snapshot!(limited(0).unwrap_err(), @"max_turns cannot be 0, which the CLI takes for no limit: use 1 or more, or omit it");
    }

    #[test]
    fn a_tool_whose_name_a_tool_of_another_server_could_have_is_refused() {
        let named = |name: &str| {
            let tool = ProgramTool { name: name.into(), description: String::new(), input_schema: RawJson::from("{}") };
            check(&Options { program_tools: vec![tool], ..Options::default() })
        };
        for name in ["add", "add_all_", "a-_b"] {
            assert!(named(name).is_ok(), "{name}");
        }
        for name in ["x__tool", "_x", "__x", "x__"] {
            assert!(named(name).unwrap_err().to_string().contains(name), "{name}");
        }
    }
}
