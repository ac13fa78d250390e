//! System messages: the session, its state, its background tasks, and notices.

use serde_json::value::RawValue;

use super::{FrameHead, Lenient, Text};
use crate::event::{HookUpdate, NoticeKind, SessionInfo, TaskUpdate};
use crate::id::SessionId;
use crate::json::RawJson;

/// A system message.
#[derive(Debug)]
pub(crate) enum SystemFrame<'a> {
    /// Sent with every turn.
    Init(Box<SessionInfo>),
    State(CliState),
    Status {
        status: Option<Text<'a>>,
        permission_mode: Option<Text<'a>>,
        raw: &'a RawValue,
    },
    ApiRetry {
        attempt: u64,
        max_retries: u64,
        delay_ms: f64,
        status: Option<u64>,
        error: Option<String>,
    },
    Task {
        id: Text<'a>,
        update: TaskUpdate,
        raw: &'a RawValue,
    },
    Tasks(&'a RawValue),
    Hook {
        id: Text<'a>,
        name: String,
        event: String,
        update: HookUpdate,
        raw: &'a RawValue,
    },
    PermissionDenied {
        tool: Text<'a>,
        tool_use: Option<Text<'a>>,
        message: String,
        raw: &'a RawValue,
    },
    ThinkingTokens(u64),
    Compacted(&'a RawValue),
    Title(Text<'a>),
    Commands(&'a RawValue),
    Notice {
        about: NoticeKind,
        text: Option<String>,
        raw: &'a RawValue,
    },
}

/// The state that the CLI reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CliState {
    Idle,
    Running,
    /// The CLI waits for an answer.
    RequiresAction,
}

pub(super) fn read<'a>(frame: &FrameHead<'a>, line: &'a str) -> Option<SystemFrame<'a>> {
    match frame.subtype.as_deref()? {
        "init" => read_init(line),
        "session_state_changed" => read_state(line),
        "status" => read_status(line),
        "api_retry" => read_retry(line),
        "task_started" => read_task(line, TaskUpdate::Started),
        "task_progress" => read_task(line, TaskUpdate::Progressed),
        "task_updated" => read_task(line, TaskUpdate::Updated),
        "task_notification" => read_task(line, TaskUpdate::Ended),
        "background_tasks_changed" => read_list(line).tasks.map(SystemFrame::Tasks),
        "hook_started" => read_hook(line, HookUpdate::Started),
        "hook_progress" => read_hook(line, HookUpdate::Progressed),
        "hook_response" => read_hook(line, HookUpdate::Ended),
        "permission_denied" => read_denial(line),
        "thinking_tokens" => read_thinking(line),
        "compact_boundary" => Some(SystemFrame::Compacted(raw_line(line)?)),
        "session_title_changed" => read_list(line).title.map(SystemFrame::Title),
        "commands_changed" => read_list(line).commands.map(SystemFrame::Commands),
        "informational" => {
            read_notice(line, if stops_turn(line) { NoticeKind::Blocked } else { NoticeKind::Information })
        }
        "notification" => read_notice(line, NoticeKind::Notification),
        "model_refusal_fallback" | "model_refusal_no_fallback" => read_notice(line, NoticeKind::Refusal),
        "local_command_output" => read_notice(line, NoticeKind::CommandOutput),
        "memory_recall" => read_notice(line, NoticeKind::MemoryRecall),
        "files_persisted" => read_notice(line, NoticeKind::FilesPersisted),
        "plugin_install" => read_notice(line, NoticeKind::PluginInstall),
        "elicitation_complete" => read_notice(line, NoticeKind::ElicitationCompleted),
        "control_request_progress" => read_notice(line, NoticeKind::RequestProgress),
        "ui_invalidate" => read_notice(line, NoticeKind::ScreenStale),
        "session_writes_lost" => read_notice(line, NoticeKind::WritesLost),
        "worker_shutting_down" => read_notice(line, NoticeKind::ShuttingDown),
        _ => None,
    }
}

/// Returns whether a notice says that the CLI stops working on the prompt.
fn stops_turn(line: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Members {
        #[serde(default)]
        prevent_continuation: Lenient<bool>,
    }
    serde_json::from_str::<Members>(line).is_ok_and(|members| members.prevent_continuation.or_default())
}

/// Reads a notice of any type. Its text, if any, has one of a few keys.
pub(super) fn read_notice(line: &str, about: NoticeKind) -> Option<SystemFrame<'_>> {
    #[derive(serde::Deserialize)]
    struct Members {
        #[serde(default)]
        content: Lenient<String>,
        #[serde(default)]
        text: Lenient<String>,
        #[serde(default)]
        summary: Lenient<String>,
        #[serde(default)]
        error: Lenient<String>,
        #[serde(default)]
        reason: Lenient<String>,
    }
    let members: Members = serde_json::from_str(line).ok()?;
    let texts = [members.content, members.text, members.summary, members.error, members.reason];
    let text = texts.into_iter().find_map(Lenient::into_option);
    Some(SystemFrame::Notice { about, text, raw: raw_line(line)? })
}

fn raw_line(line: &str) -> Option<&RawValue> {
    serde_json::from_str(line).ok()
}

fn read_init(line: &str) -> Option<SystemFrame<'_>> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        session_id: Text<'a>,
        #[serde(default)]
        model: Lenient<String>,
        #[serde(default)]
        cwd: Lenient<String>,
        #[serde(default, rename = "permissionMode")]
        permission_mode: Lenient<String>,
        #[serde(default)]
        claude_code_version: Lenient<String>,
        #[serde(default)]
        tools: Lenient<Vec<String>>,
    }
    let members: Members<'_> = serde_json::from_str(line).ok()?;
    Some(SystemFrame::Init(Box::new(SessionInfo {
        session_id: SessionId::parse(&members.session_id).ok()?,
        model: members.model.or_default(),
        cwd: members.cwd.or_default(),
        permission_mode: members.permission_mode.or_default(),
        tools: members.tools.or_default(),
        version: members.claude_code_version.or_default(),
        raw: RawJson::copied(raw_line(line)?),
    })))
}

/// Returns why a session's description arrived as [`crate::Event::Unknown`]: its id is invalid, so the session cannot
/// be used. Returns none if the frame is not a session's description.
pub fn why_session_is_unusable(frame: &RawJson) -> Option<String> {
    #[derive(serde::Deserialize)]
    struct Members {
        #[serde(default)]
        r#type: Lenient<String>,
        #[serde(default)]
        subtype: Lenient<String>,
        #[serde(default)]
        session_id: Lenient<String>,
    }
    let members: Members = frame.parse().ok()?;
    if (members.r#type.or_default().as_str(), members.subtype.or_default().as_str()) != ("system", "init") {
        return None;
    }
    SessionId::parse(&members.session_id.or_default()).err().map(|error| error.to_string())
}

fn read_state(line: &str) -> Option<SystemFrame<'_>> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        state: Text<'a>,
    }
    let members: Members<'_> = serde_json::from_str(line).ok()?;
    let state = match &*members.state {
        "idle" => CliState::Idle,
        "running" => CliState::Running,
        "requires_action" => CliState::RequiresAction,
        _ => return None,
    };
    Some(SystemFrame::State(state))
}

fn read_status(line: &str) -> Option<SystemFrame<'_>> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow, default)]
        status: Option<Text<'a>>,
        #[serde(borrow, default, rename = "permissionMode")]
        permission_mode: Option<Text<'a>>,
    }
    let members: Members<'_> = serde_json::from_str(line).ok()?;
    let (status, permission_mode) = (members.status, members.permission_mode);
    Some(SystemFrame::Status { status, permission_mode, raw: raw_line(line)? })
}

fn read_retry(line: &str) -> Option<SystemFrame<'_>> {
    #[derive(serde::Deserialize)]
    struct Members {
        #[serde(default)]
        attempt: Lenient<u64>,
        #[serde(default)]
        max_retries: Lenient<u64>,
        #[serde(default)]
        retry_delay_ms: Lenient<f64>,
        #[serde(default)]
        error_status: Lenient<u64>,
        #[serde(default)]
        error: Lenient<String>,
    }
    let members: Members = serde_json::from_str(line).ok()?;
    Some(SystemFrame::ApiRetry {
        attempt: members.attempt.or_default(),
        max_retries: members.max_retries.or_default(),
        delay_ms: members.retry_delay_ms.or_default(),
        status: members.error_status.into_option(),
        error: members.error.into_option(),
    })
}

fn read_task(line: &str, update: TaskUpdate) -> Option<SystemFrame<'_>> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        task_id: Text<'a>,
    }
    let members: Members<'_> = serde_json::from_str(line).ok()?;
    Some(SystemFrame::Task { id: members.task_id, update, raw: raw_line(line)? })
}

/// Returns whether a list of background tasks has entries. A list that cannot be parsed may have some.
pub(crate) fn lists_tasks(tasks: &RawJson) -> bool {
    tasks.parse::<Vec<&RawValue>>().map_or(true, |tasks| !tasks.is_empty())
}

/// Returns whether the turn waits for a task, by the report of its start.
pub(crate) fn is_in_foreground(raw: &RawJson) -> bool {
    #[derive(serde::Deserialize)]
    struct Members {
        is_backgrounded: Option<bool>,
    }
    raw.parse::<Members>().is_ok_and(|members| members.is_backgrounded == Some(false))
}

fn read_hook(line: &str, update: HookUpdate) -> Option<SystemFrame<'_>> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        hook_id: Text<'a>,
        #[serde(default)]
        hook_name: Lenient<String>,
        #[serde(default)]
        hook_event: Lenient<String>,
    }
    let members: Members<'_> = serde_json::from_str(line).ok()?;
    let (name, event) = (members.hook_name.or_default(), members.hook_event.or_default());
    Some(SystemFrame::Hook { id: members.hook_id, name, event, update, raw: raw_line(line)? })
}

fn read_denial(line: &str) -> Option<SystemFrame<'_>> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        tool_name: Text<'a>,
        #[serde(borrow, default)]
        tool_use_id: Option<Text<'a>>,
        #[serde(default)]
        message: Lenient<String>,
    }
    let members: Members<'_> = serde_json::from_str(line).ok()?;
    Some(SystemFrame::PermissionDenied {
        tool: members.tool_name,
        tool_use: members.tool_use_id,
        message: members.message.or_default(),
        raw: raw_line(line)?,
    })
}

fn read_thinking(line: &str) -> Option<SystemFrame<'_>> {
    #[derive(serde::Deserialize)]
    struct Members {
        estimated_tokens: u64,
    }
    let members: Members = serde_json::from_str(line).ok()?;
    Some(SystemFrame::ThinkingTokens(members.estimated_tokens))
}

/// The members of frames that have a single member of interest.
#[derive(Debug, Default, serde::Deserialize)]
struct SingleMember<'a> {
    #[serde(borrow, default)]
    tasks: Option<&'a RawValue>,
    #[serde(borrow, default)]
    commands: Option<&'a RawValue>,
    #[serde(borrow, default)]
    title: Option<Text<'a>>,
}

fn read_list(line: &str) -> SingleMember<'_> {
    serde_json::from_str(line).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_of_a_session_without_a_usable_id_is_told_apart_from_other_unknown_frames() {
        let why = |frame: &str| why_session_is_unusable(&RawJson::from(frame));
        for id in [r#""../x""#, r#""""#, "5", "null", "{}"] {
            let why = why(&format!(r#"{{"type":"system","subtype":"init","session_id":{id}}}"#)).unwrap();
            assert!(why.contains("is not a session id"), "{why}");
        }
        assert!(why(r#"{"type":"system","subtype":"init"}"#).is_some());
        for other in [r#"{"type":"system","subtype":"new","session_id":"x"}"#, r#"{"type":"init"}"#, "[]", "5"] {
            assert_eq!(why(other), None, "{other}");
        }
    }
}
