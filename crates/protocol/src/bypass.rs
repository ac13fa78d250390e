//! Checks that no client makes the CLI run something without asking, unless the program that started the session
//! allowed it.
//!
//! There are two ways to run something without asking. One is a request that runs a tool or a program itself
//! ([`RUNS`]). The other is the permission mode in which everything runs.
//!
//! A mode can reach the CLI in many ways: as a setting, in the permission updates of an answer, with a subagent, in a
//! request of any name. All of them are checked here, because versions of the CLI differ in which of them they refuse.
//! Values that are known to be text, a name or a tool's input may contain the mode's name; any other value that contains
//! it is refused.

use serde_json::Value;

use crate::answer::{Answer, HookOutput};
use crate::command::{Command, PermissionMode, Request};
use crate::json::RawJson;
use crate::refusal::Refusal;

/// Refuses a command that would make the CLI run something without asking.
pub(crate) fn check(command: &Command) -> Result<(), Refusal> {
    let bypasses = match command {
        Command::Request { request, .. } => return check_request(request),
        Command::Answer { answer, .. } => answer_bypasses(answer),
        Command::Prompt(_) | Command::Interrupt { .. } | Command::Close | Command::Abort => false,
    };
    if bypasses { Err(Refusal::BypassNotAllowed) } else { Ok(()) }
}

/// Refuses a request that would make the CLI run something without asking.
pub(crate) fn check_request(request: &Request) -> Result<(), Refusal> {
    runs_unasked(request)?;
    if request_bypasses(request) { Err(Refusal::BypassNotAllowed) } else { Ok(()) }
}

/// Requests that make the CLI run a tool or a program, each with the field that makes the CLI ask first, if there is
/// one. Without it, 2.1.325 runs the tool of an `mcp_call` without asking, in every permission mode.
const RUNS: &[(&str, Option<&str>)] = &[("mcp_call", Some("check_permissions")), ("start_shell_task", None)];

fn runs_unasked(request: &Request) -> Result<(), Refusal> {
    let Request::Other { subtype, fields } = request else { return Ok(()) };
    let Some((subtype, ask_first_field)) = RUNS.iter().find(|(name, _)| name == subtype) else { return Ok(()) };
    if ask_first_field.is_some_and(|field| fields.get(field) == Some(&Value::Bool(true))) {
        return Ok(());
    }
    Err(Refusal::RunsUnasked { subtype, ask_first_field: *ask_first_field })
}

/// Describes what to do so that a request that runs something is accepted.
pub(crate) fn remedy(ask_first_field: Option<&str>) -> String {
    match ask_first_field {
        Some(field) => format!(
            "send it with {field:?}: true, so that Claude Code asks first, or start the session with --allow-bypass (in Rust, Options::allow_bypass)"
        ),
        None => "start it with --allow-bypass (in Rust, Options::allow_bypass)".to_owned(),
    }
}

/// Returns whether a value names the mode anywhere. For settings, and for values of an unknown shape.
pub fn names_bypass(value: &RawJson) -> bool {
    names_bypass_outside(value, &[])
}

/// Returns whether the definition of a subagent names the mode, other than in the texts that the model reads.
pub fn agent_names_bypass(agent: &RawJson) -> bool {
    names_bypass_outside(agent, &["description", "prompt", "initialPrompt"])
}

/// Returns whether a value names the mode anywhere except in members with these names.
fn names_bypass_outside(value: &RawJson, texts: &[&str]) -> bool {
    let (mode, text) = (PermissionMode::BypassPermissions.as_str(), value.as_str());
    // The name can be written with escapes. A value without the name and without escapes need not be parsed; a value
    // that cannot be parsed is refused.
    (text.contains(mode) || text.contains(DISABLE_BYPASS) || text.contains("\\u"))
        && serde_json::from_str::<Value>(text).map_or(true, |value| value_names_bypass(&value, texts))
}

fn value_names_bypass(value: &Value, texts: &[&str]) -> bool {
    match value {
        Value::String(text) => text == PermissionMode::BypassPermissions.as_str(),
        Value::Array(items) => items.iter().any(|item| value_names_bypass(item, texts)),
        Value::Object(members) => {
            let mut checked = members.iter().filter(|(name, _)| !texts.contains(&name.as_str()));
            checked.any(|(name, value)| permits_bypass(name, value) || value_names_bypass(value, texts))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns whether a member would undo the setting that makes the CLI itself refuse the mode.
fn permits_bypass(name: &str, value: &Value) -> bool {
    name == DISABLE_BYPASS && value != "disable"
}

/// The setting that, with the value `disable`, makes the CLI refuse the mode.
pub const DISABLE_BYPASS: &str = "disableBypassPermissionsMode";

/// The members of an answer's permission updates that hold what a rule applies to.
const RULE_TEXTS: &[&str] = &["rules", "directories"];

/// The members of a hook's output that are texts for people or the model, or the tool's input.
const HOOK_TEXTS: &[&str] = &[
    "reason",
    "stopReason",
    "systemMessage",
    "permissionDecisionReason",
    "additionalContext",
    "message",
    "updatedInput",
    "rules",
    "directories",
];

/// The members of known requests that are texts or names and never a mode. A request that is not listed has no such
/// members.
const REQUEST_TEXTS: &[(&str, &[&str])] = &[
    ("background_tasks", &["tool_use_id"]),
    ("file_suggestions", &["query"]),
    ("generate_session_title", &["description", "title"]),
    ("get_task_output", &["task_id"]),
    ("mcp_call", &["tool", "arguments"]),
    ("mcp_read_resource", &["serverName", "uri"]),
    ("mcp_reconnect", &["serverName"]),
    ("read_file", &["path"]),
    ("register_repo_root", &["directory"]),
    ("rename_session", &["title"]),
    ("seed_read_state", &["path"]),
    ("set_color", &["color"]),
    ("set_mcp_permission_mode_override", &["serverName"]),
    ("set_model", &["model"]),
    ("side_question", &["question"]),
    ("stop_task", &["task_id"]),
];

fn request_bypasses(request: &Request) -> bool {
    match request {
        Request::SetPermissionMode(mode) => *mode == PermissionMode::BypassPermissions,
        Request::Other { subtype, fields } => {
            let known = REQUEST_TEXTS.iter().find(|(name, _)| name == subtype);
            let texts = known.map_or(&[][..], |(_, texts)| texts);
            let mut checked = fields.iter().filter(|(name, _)| !texts.contains(&name.as_str()));
            checked.any(|(_, value)| value_names_bypass(value, &[]))
        }
        Request::SetModel(_)
        | Request::SetThinking(_)
        | Request::SetTools(_)
        | Request::McpStatus
        | Request::SetMcpServers(_)
        | Request::ReconnectMcp { .. }
        | Request::ToggleMcp { .. }
        | Request::ContextUsage
        | Request::Rewind { .. }
        | Request::StopTask { .. }
        | Request::ReadFile { .. }
        | Request::Rename { .. }
        | Request::Reinitialize => false,
    }
}

fn answer_bypasses(answer: &Answer) -> bool {
    match answer {
        Answer::Allow { permissions, .. } => {
            permissions.as_ref().is_some_and(|updates| names_bypass_outside(updates, RULE_TEXTS))
        }
        Answer::Hook(HookOutput::Other(output)) => names_bypass_outside(output, HOOK_TEXTS),
        Answer::Hook(_)
        | Answer::Deny { .. }
        | Answer::Choose(_)
        | Answer::Accept(_)
        | Answer::Decline
        | Answer::Cancel
        | Answer::ToolResult { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::id::AskId;

    #[test]
    fn the_mode_is_found_wherever_and_however_it_is_spelled() {
        for value in [
            r#"[{"type":"setMode","mode":"bypassPermissions","destination":"session"}]"#,
            r#"{"a":{"b":["\u0062ypassPermissions"]}}"#,
            r#""bypassPermissions""#,
        ] {
            assert!(names_bypass(&RawJson::from(value)), "{value}");
        }
        for value in [r#"{"bypassPermissions":1}"#, r#"["a\u0062c", "not bypassPermissions"]"#, "null", "{}"] {
            assert!(!names_bypass(&RawJson::from(value)), "{value}");
        }
    }

    fn request(subtype: &str, fields: Value) -> Command {
        let Value::Object(fields) = fields else { panic!("fields are an object") };
        Request::Other { subtype: subtype.to_owned(), fields }.into()
    }

    fn allowed(rules: &str) -> Command {
        let answer = Answer::Allow { input: None, permissions: Some(RawJson::from(rules)) };
        Command::Answer { ask: AskId(1), answer, by: None }
    }

    fn hook(output: &str) -> Command {
        Command::Answer { ask: AskId(1), answer: Answer::Hook(HookOutput::Other(RawJson::from(output))), by: None }
    }

    #[test]
    fn a_text_that_says_the_word_passes_wherever_texts_stand() {
        let word = "bypassPermissions";
        for command in [
            Command::Prompt(word.into()),
            Request::Rename { title: word.to_owned() }.into(),
            request("rename_session", json!({"title": word})),
            request("side_question", json!({"question": word})),
            request("read_file", json!({"path": word})),
            request("mcp_call", json!({"tool": word, "arguments": {"pattern": word}, "check_permissions": true})),
            allowed(
                r#"[{"type":"addRules","rules":[{"toolName":"Grep","ruleContent":"bypassPermissions"}],"behavior":"allow"}]"#,
            ),
            hook(
                r#"{"hookSpecificOutput":{"permissionDecisionReason":"bypassPermissions","updatedInput":{"pattern":"bypassPermissions"}}}"#,
            ),
        ] {
            assert_eq!(check(&command), Ok(()), "{command:?}");
        }
        assert!(!agent_names_bypass(&RawJson::from(
            r#"{"description":"bypassPermissions","prompt":"bypassPermissions"}"#
        )));
    }

    #[test]
    fn a_mode_is_refused_in_every_request_known_or_not() {
        let word = "bypassPermissions";
        for command in [
            request("set_permission_mode", json!({"mode": word})),
            request("apply_flag_settings", json!({"settings": {"permissions": {"defaultMode": word}}})),
            request(
                "apply_flag_settings",
                json!({"settings": {"permissions": {"disableBypassPermissionsMode": null}}}),
            ),
            request("rename_session", json!({"title": "a", "mode": word})),
            request("mcp_call", json!({"tool": "a", "mode": {"arguments": word}, "check_permissions": true})),
            request("of_tomorrow", json!({"title": word})),
            request("of_tomorrow", json!({"a": [{"b": word}]})),
            allowed(r#"[{"type":"setMode","mode":"bypassPermissions","destination":"session"}]"#),
            allowed(r#"[{"type":"addRules","rules":[],"mode":"bypassPermissions"}]"#),
            hook(
                r#"{"hookSpecificOutput":{"decision":{"updatedPermissions":[{"type":"setMode","mode":"bypassPermissions"}]}}}"#,
            ),
        ] {
            assert_eq!(check(&command), Err(Refusal::BypassNotAllowed), "{command:?}");
        }
        assert!(agent_names_bypass(&RawJson::from(r#"{"prompt":"a","permissionMode":"bypassPermissions"}"#)));
    }

    #[test]
    fn a_request_that_runs_something_is_refused_unless_the_cli_asks_first() {
        for (fields, is_allowed) in [
            (json!({"tool": "a"}), false),
            (json!({"tool": "a", "check_permissions": false}), false),
            (json!({"tool": "a", "check_permissions": "true"}), false),
            (json!({"tool": "a", "arguments": {"check_permissions": true}}), false),
            (json!({"tool": "a", "check_permissions": true}), true),
        ] {
            assert_eq!(check(&request("mcp_call", fields.clone())).is_ok(), is_allowed, "{fields}");
        }
        let refused = check(&request("start_shell_task", json!({"command": "sh", "check_permissions": true})));
        insta::assert_snapshot!(refused.unwrap_err(), @"start_shell_task runs without asking, so it must be allowed when the session is started: start it with --allow-bypass (in Rust, Options::allow_bypass)");
        let refused = check(&request("mcp_call", json!({"tool": "a"})));
        insta::assert_snapshot!(refused.unwrap_err(), @r#"mcp_call runs without asking, so it must be allowed when the session is started: send it with "check_permissions": true, so that Claude Code asks first, or start the session with --allow-bypass (in Rust, Options::allow_bypass)"#);
    }
}
