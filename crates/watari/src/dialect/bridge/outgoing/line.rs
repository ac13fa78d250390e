//! The lines for the client, each with its fields.

use std::io::Write;

use serde::Serialize;
use watari_sdk::{AskId, Raw};

/// One line to the client.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum Line<'a> {
    Ready,
    SessionInit {
        session_id: &'a str,
        model: &'a str,
        claude_code_version: &'a str,
        tools: &'a [String],
        mcp_servers: Raw,
        permission_mode: &'a str,
    },
    StreamMessageStart {
        session_id: &'a str,
    },
    StreamContentStart {
        session_id: &'a str,
        index: u64,
        block_type: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        block_id: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        tool_name: Option<&'a str>,
    },
    StreamContentDelta {
        session_id: &'a str,
        index: u64,
        delta_type: &'static str,
        text: &'a str,
    },
    StreamContentStop {
        session_id: &'a str,
        index: u64,
    },
    StreamMessageStop {
        session_id: &'a str,
    },
    AssistantMessage {
        session_id: &'a str,
        parent_tool_use_id: Option<&'a str>,
        content: &'a [Raw],
    },
    PermissionRequest {
        request_id: RequestId,
        tool_name: &'a str,
        tool_input: &'a Raw,
        tool_use_id: &'a str,
    },
    PermissionClosed {
        request_id: RequestId,
        reason: &'static str,
    },
    ToolProgress {
        session_id: &'a str,
        tool_name: &'a str,
        tool_use_id: &'a str,
        elapsed_seconds: f64,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: &'a Raw,
        is_error: bool,
    },
    Task {
        session_id: &'a str,
        task_id: &'a str,
        news: &'static str,
        detail: &'a Raw,
    },
    Status {
        session_id: &'a str,
        status: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        permission_mode: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<&'a str>,
    },
    TurnResult {
        session_id: &'a str,
        subtype: &'a str,
        total_cost_usd: f64,
        num_turns: u64,
        is_error: bool,
        usage: Raw,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        errors: Option<&'a [String]>,
        origin: &'static str,
    },
    Error {
        message: &'a str,
        fatal: bool,
    },
}

/// An ask as the client names it: `req_1`, `req_2` and so on.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestId(pub(super) AskId);

impl Serialize for RequestId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("req_{}", self.0))
    }
}

/// Adds a line.
pub(super) fn write(line: &Line<'_>, out: &mut Vec<u8>) {
    // Writing to memory does not fail, and no line has a key that is no text.
    let _written = serde_json::to_writer(&mut *out, line);
    let _written = out.write_all(b"\n");
}
