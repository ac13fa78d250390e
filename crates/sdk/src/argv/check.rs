//! Options that would be refused by the CLI, passed over in silence, or open a gate.

use watari_protocol::{HOOK_EVENTS, PermissionMode, agent_names_bypass, names_bypass};

use super::BadOption;
use crate::options::Options;

/// Checks what stands neither in the arguments nor in the files for the CLI.
pub(crate) fn check(options: &Options) -> Result<(), BadOption> {
    let unknown = options.hooks.iter().find(|hook| !HOOK_EVENTS.contains(&hook.event.as_str()));
    if let Some(hook) = unknown {
        return Err(BadOption::HookEvent { event: hook.event.clone() });
    }
    if !allows_bypass(options)
        && let Some(option) = option_that_bypasses(options)
    {
        return Err(BadOption::Bypass { option });
    }
    let settable = |name: &str, value: Option<&str>| {
        !name.is_empty() && !name.contains(['=', '\0']) && !value.is_some_and(|value| value.contains('\0'))
    };
    let bad = options.environment.set.iter().find(|(name, value)| !settable(name, value.as_deref()));
    bad.map_or(Ok(()), |(name, _)| Err(BadOption::Variable { name: name.clone() }))
}

/// Whether everything may run without a question in this session, if a client wants it.
pub(crate) fn allows_bypass(options: &Options) -> bool {
    options.allow_bypass || options.permission_mode == Some(PermissionMode::BypassPermissions)
}

/// The option that would have everything, or a subagent, run without a question.
fn option_that_bypasses(options: &Options) -> Option<&'static str> {
    [
        ("agents", options.agents.values().any(agent_names_bypass)),
        ("managed settings", options.managed_settings.as_ref().is_some_and(names_bypass)),
        ("initialize", options.initialize.values().any(names_bypass)),
    ]
    .into_iter()
    .find_map(|(name, bypasses)| bypasses.then_some(name))
}
