//! The codes of refusals on the wire.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Names the reason of a refusal in every dialect. Programs match on it: a code never changes its meaning, and the message
/// beside it is for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum RefusalCode {
    /// The command does not fit the state of the session: for example, it is closing, or it was not started yet, or it
    /// was started already. The message says what to do.
    WrongPhase,
    /// The ask is not open: it was answered, withdrawn, has expired or never existed. Discard it.
    AskNotOpen,
    /// Another client resolved the ask first. Discard it; its resolution is an event.
    AskResolved,
    /// The ask does not take an answer of this kind. The ask is still open: answer it again.
    WrongAnswer,
    /// A field of the command is not valid; the message names it. Correct it and send the command again.
    InvalidField,
    /// The command is not allowed: it needs `--allow-bypass`, or it would replace or remove the server of the session's
    /// own tools. The message says which.
    NotPermitted,
    /// The session was started without tools of its own, so none can be registered.
    NoTools,
    /// Another MCP server has the name of the session's tool server. Rename that server.
    ServerNameConflict,
    /// In `watari stdio`: another process drives the conversation. The message names it. Send the command again when that
    /// has ended. (A host uses `not_stored`.)
    ConversationInUse,
    /// Too much is waiting already. Send the command again later.
    Busy,
    /// The host accepts nothing new at the moment: it cannot store events (the disk is full) or read them, or another
    /// process has taken the conversation. Do what the message says, and send the command again.
    NotStored,
    /// The prompt was interrupted before the CLI received it. It did not run.
    Interrupted,
    /// The CLI is not running, and only a running CLI can answer this request. A prompt starts it.
    CliNotRunning,
    /// The CLI could not be started for this prompt; the message says why. It did not run.
    StartFailed,
    /// The session has ended. Resume it with a new host.
    SessionClosed,
    /// The client has used this command id for another command. Choose another id.
    IdReused,
    /// In the native dialect, the first line must be `hello`.
    HelloRequired,
    /// The line is not a message of the dialect: it is not JSON, or has an unknown type or a wrong field. The message says
    /// what is wrong.
    InvalidLine,
    /// The CLI refused the request, did not answer it in time, or exited.
    RequestFailed,
}

impl RefusalCode {
    /// Every code.
    pub const ALL: [RefusalCode; 19] = [
        RefusalCode::WrongPhase,
        RefusalCode::AskNotOpen,
        RefusalCode::AskResolved,
        RefusalCode::WrongAnswer,
        RefusalCode::InvalidField,
        RefusalCode::NotPermitted,
        RefusalCode::NoTools,
        RefusalCode::ServerNameConflict,
        RefusalCode::ConversationInUse,
        RefusalCode::Busy,
        RefusalCode::NotStored,
        RefusalCode::Interrupted,
        RefusalCode::CliNotRunning,
        RefusalCode::StartFailed,
        RefusalCode::SessionClosed,
        RefusalCode::IdReused,
        RefusalCode::HelloRequired,
        RefusalCode::InvalidLine,
        RefusalCode::RequestFailed,
    ];

    /// The code as it is spelled on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            RefusalCode::WrongPhase => "wrong_phase",
            RefusalCode::AskNotOpen => "ask_not_open",
            RefusalCode::AskResolved => "ask_resolved",
            RefusalCode::WrongAnswer => "wrong_answer",
            RefusalCode::InvalidField => "invalid_field",
            RefusalCode::NotPermitted => "not_permitted",
            RefusalCode::NoTools => "no_tools",
            RefusalCode::ServerNameConflict => "server_name_conflict",
            RefusalCode::ConversationInUse => "conversation_in_use",
            RefusalCode::Busy => "busy",
            RefusalCode::NotStored => "not_stored",
            RefusalCode::Interrupted => "interrupted",
            RefusalCode::CliNotRunning => "cli_not_running",
            RefusalCode::StartFailed => "start_failed",
            RefusalCode::SessionClosed => "session_closed",
            RefusalCode::IdReused => "id_reused",
            RefusalCode::HelloRequired => "hello_required",
            RefusalCode::InvalidLine => "invalid_line",
            RefusalCode::RequestFailed => "request_failed",
        }
    }
}

impl fmt::Display for RefusalCode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_spelled_the_same_everywhere() {
        for code in RefusalCode::ALL {
            assert_eq!(serde_json::to_string(&code).unwrap(), format!("\"{code}\""));
        }
    }
}
