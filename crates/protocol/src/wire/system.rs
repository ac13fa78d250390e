//! System messages: the session itself, its state, its background work.

use serde_json::value::RawValue;

use super::{Frame, Loose, Text};
use crate::event::{SessionInfo, TaskNews};
use crate::id::SessionId;
use crate::json::Raw;

/// A message about the session itself.
#[derive(Debug)]
pub(crate) enum SystemFrame<'a> {
    /// Comes with every turn.
    Init(Box<SessionInfo>),
    State(CliState),
    Status {
        status: Option<Text<'a>>,
        permission_mode: Option<Text<'a>>,
    },
    ApiRetry {
        attempt: u64,
        max_retries: u64,
        delay_ms: f64,
        status: Option<u64>,
    },
    Task {
        id: Text<'a>,
        news: TaskNews,
        detail: &'a RawValue,
    },
}

/// What the CLI says it is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CliState {
    Idle,
    Running,
    /// It waits for an answer.
    RequiresAction,
}

pub(super) fn read<'a>(frame: &Frame<'a>, line: &'a str) -> Option<SystemFrame<'a>> {
    match frame.subtype.as_deref()? {
        "init" => read_init(line),
        "session_state_changed" => read_state(line),
        "status" => read_status(line),
        "api_retry" => read_retry(line),
        "task_started" => read_task(line, TaskNews::Started),
        "task_progress" => read_task(line, TaskNews::Progressed),
        "task_updated" => read_task(line, TaskNews::Updated),
        "task_notification" => read_task(line, TaskNews::Ended),
        _ => None,
    }
}

fn read_init(line: &str) -> Option<SystemFrame<'_>> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        session_id: Text<'a>,
        #[serde(default)]
        model: Loose<String>,
        #[serde(default)]
        cwd: Loose<String>,
        #[serde(default, rename = "permissionMode")]
        permission_mode: Loose<String>,
        #[serde(default)]
        claude_code_version: Loose<String>,
        #[serde(default)]
        tools: Loose<Vec<String>>,
    }
    let members: Members<'_> = serde_json::from_str(line).ok()?;
    let detail = serde_json::from_str::<&RawValue>(line).ok()?;
    Some(SystemFrame::Init(Box::new(SessionInfo {
        session_id: SessionId::parse(&members.session_id).ok()?,
        model: members.model.or_default(),
        cwd: members.cwd.or_default(),
        permission_mode: members.permission_mode.or_default(),
        tools: members.tools.or_default(),
        version: members.claude_code_version.or_default(),
        detail: Raw::copied(detail),
    })))
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
    Some(SystemFrame::Status { status: members.status, permission_mode: members.permission_mode })
}

fn read_retry(line: &str) -> Option<SystemFrame<'_>> {
    #[derive(serde::Deserialize)]
    struct Members {
        attempt: u64,
        max_retries: u64,
        retry_delay_ms: f64,
        #[serde(default)]
        error_status: Option<u64>,
    }
    let members: Members = serde_json::from_str(line).ok()?;
    Some(SystemFrame::ApiRetry {
        attempt: members.attempt,
        max_retries: members.max_retries,
        delay_ms: members.retry_delay_ms,
        status: members.error_status,
    })
}

fn read_task(line: &str, news: TaskNews) -> Option<SystemFrame<'_>> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        task_id: Text<'a>,
    }
    let members: Members<'_> = serde_json::from_str(line).ok()?;
    Some(SystemFrame::Task { id: members.task_id, news, detail: serde_json::from_str(line).ok()? })
}
