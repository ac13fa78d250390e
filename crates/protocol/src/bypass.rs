//! The gate before the mode in which everything runs without a question: only whoever starts a session opens it.
//!
//! A mode reaches the CLI in many ways: as a setting, with the rules of an approval, with a subagent, in a request of any
//! name. They all pass here, because versions of the CLI differ in which of them they refuse.

use serde_json::Value;

use crate::answer::{Answer, HookOutput};
use crate::command::{Command, PermissionMode, Refused, Request};
use crate::json::Raw;

/// Refuses a command that would open the gate.
pub(crate) fn check(command: &Command) -> Result<(), Refused> {
    let opens = match command {
        Command::Request { request, .. } => request_opens(request),
        Command::Answer { answer, .. } => answer_opens(answer),
        Command::Prompt(_) | Command::Interrupt { .. } | Command::Close | Command::Abort => false,
    };
    if opens { Err(Refused::BypassNotAllowed) } else { Ok(()) }
}

/// Whether a value names the mode anywhere.
pub fn names_bypass(value: &Raw) -> bool {
    let (mode, text) = (PermissionMode::BypassPermissions.as_str(), value.as_str());
    // It can be spelled with escapes; without one, most values need not be read. One that cannot be read is refused.
    (text.contains(mode) || text.contains("\\u"))
        && serde_json::from_str::<Value>(text).map_or(true, |value| value_names_bypass(&value))
}

fn value_names_bypass(value: &Value) -> bool {
    match value {
        Value::String(text) => text == PermissionMode::BypassPermissions.as_str(),
        Value::Array(items) => items.iter().any(value_names_bypass),
        Value::Object(members) => members.values().any(value_names_bypass),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn request_opens(request: &Request) -> bool {
    match request {
        Request::SetPermissionMode(mode) => *mode == PermissionMode::BypassPermissions,
        Request::Other { fields, .. } => fields.values().any(value_names_bypass),
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

fn answer_opens(answer: &Answer) -> bool {
    match answer {
        Answer::Allow { permissions, .. } => permissions.as_ref().is_some_and(names_bypass),
        Answer::Hook(HookOutput::Other(output)) => names_bypass(output),
        Answer::Hook(_)
        | Answer::Deny { .. }
        | Answer::Choose(_)
        | Answer::Submit(_)
        | Answer::Decline
        | Answer::Dismiss
        | Answer::ToolResult { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_is_found_wherever_and_however_it_is_spelled() {
        for value in [
            r#"[{"type":"setMode","mode":"bypassPermissions","destination":"session"}]"#,
            r#"{"a":{"b":["\u0062ypassPermissions"]}}"#,
            r#""bypassPermissions""#,
        ] {
            assert!(names_bypass(&Raw::from(value)), "{value}");
        }
        for value in [r#"{"bypassPermissions":1}"#, r#"["a\u0062c", "not bypassPermissions"]"#, "null", "{}"] {
            assert!(!names_bypass(&Raw::from(value)), "{value}");
        }
    }
}
