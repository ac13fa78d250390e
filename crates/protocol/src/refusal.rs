//! Refusals: why a command was refused, in words that say what to do.

mod code;

pub use code::RefusalCode;

use crate::bypass;
use crate::event::AskResolution;
use crate::id::AskId;
use crate::initialize::{AMBIGUOUS_TOOL_NAME_MESSAGE, TOOL_SERVER, TOOL_SERVER_TAKEN_MESSAGE};
use crate::session::Phase;

/// Why a command was refused. A refused command changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Refusal {
    /// The phase of the CLI's process does not permit the command.
    #[error("cannot {command}: the process of Claude Code is {phase}")]
    WrongPhase {
        /// The command, as a verb.
        command: &'static str,
        /// The phase of the process.
        phase: Phase,
    },
    /// Another client answered first. Occurs only if several clients can answer.
    #[error("ask {ask} is already resolved: {by} {}", resolution.describe())]
    AskAnswered {
        /// The ask.
        ask: AskId,
        /// The client that answered.
        by: String,
        /// How the ask was resolved.
        resolution: AskResolution,
    },
    /// The host cannot write the session's log at the moment, or another process drives its conversation, so the session
    /// starts nothing new. Occurs only with a host.
    #[error("the session accepts no new work for now: {why}")]
    LogUnavailable {
        /// The cause, and what to do.
        why: String,
    },
    /// The ask is not open: it was resolved, or never existed.
    #[error("ask {ask} is not open: it was answered, withdrawn, expired, or never existed")]
    AskNotOpen {
        /// The ask's id.
        ask: AskId,
    },
    /// The maximum number of prompts is waiting.
    #[error("{waiting} prompts are already waiting: wait for a turn to end")]
    TooManyPrompts {
        /// The number of waiting prompts.
        waiting: usize,
    },
    /// The waiting prompts have reached their maximum total size.
    #[error("the waiting prompts already hold {bytes} bytes: wait for a turn to end")]
    PromptsTooLarge {
        /// The total size of the waiting prompts.
        bytes: usize,
    },
    /// The maximum number of requests is unanswered.
    #[error("{unanswered} requests are already unanswered: wait for the CLI to answer")]
    TooManyRequests {
        /// The number of unanswered requests.
        unanswered: usize,
    },
    /// The prompt has no content.
    #[error("the prompt has no content: give it text or at least one block")]
    EmptyPrompt,
    /// The prompt's blocks do not have the API's format.
    #[error("the prompt's blocks must be a JSON array of objects with a type, and text blocks must have a text")]
    MalformedBlocks,
    /// A block of the prompt is of a type that a user cannot write, such as a tool result or the model's thinking.
    #[error("block {index} of the prompt has the type {given:?}: use blocks of type text, image and document")]
    BlockTypeNotAllowed {
        /// The block's index, from 0.
        index: usize,
        /// The block's type.
        given: String,
    },
    /// The prompt is longer than the limit, which protects the CLI: it exits on a line that is too long.
    #[error("the prompt has {bytes} bytes, and the limit is 200 MiB: put the content into a file")]
    PromptTooLong {
        /// The prompt's length.
        bytes: usize,
    },
    /// The ask does not accept this kind of answer.
    #[error("ask {ask} does not accept this answer, because it is {kind}: answer it with {accepted}")]
    WrongAnswer {
        /// The ask.
        ask: AskId,
        /// The kind of ask.
        kind: &'static str,
        /// The answers that it accepts.
        accepted: &'static str,
    },
    /// The edited input ([`crate::Answer::Allow`]) is not a JSON object.
    #[error("the edited tool input must be a JSON object")]
    BadInput,
    /// The session was started without tools of this program.
    #[error("this session was started without tools of its own: start it with program_tools or tools_can_be_added")]
    NoTools,
    /// The command would set the mode in which everything runs without asking, in a session that was not started for
    /// it.
    #[error(
        "bypassPermissions runs everything without asking, so it must be allowed when the session is started: start it \
         with --allow-bypass (in Rust, Options::allow_bypass)"
    )]
    BypassNotAllowed,
    /// The request would run a tool or a program without asking, in a session that was not started for it.
    #[error(
        "{subtype} runs without asking, so it must be allowed when the session is started: {}",
        bypass::remedy(*ask_first_field)
    )]
    RunsUnasked {
        /// The CLI's name for the request.
        subtype: &'static str,
        /// The field of the request that makes the CLI ask first, if there is one.
        ask_first_field: Option<&'static str>,
    },
    /// A tool of another MCP server could have the same name.
    #[error("the name of the tool {name:?} {AMBIGUOUS_TOOL_NAME_MESSAGE}")]
    AmbiguousToolName {
        /// The name.
        name: String,
    },
    /// The request would replace, enable or disable the server of this session's own tools.
    #[error("the name {TOOL_SERVER:?} is reserved for the server of this session's own tools: choose another")]
    ReservedServerName,
    /// The CLI already has another MCP server with the name of the server of this session's own tools.
    #[error("{}", TOOL_SERVER_TAKEN_MESSAGE)]
    ServerNameConflict,
    /// A raw request ([`crate::Request::Other`]) that could remove the session's own tools. The requests named in the
    /// message preserve them.
    #[error(
        "a raw request of this name could remove this session's own tools: use the request set_mcp_servers or \
         toggle_mcp (in Rust: Request::SetMcpServers, Request::ToggleMcp)"
    )]
    RawMcpServers,
    /// A text that is not a model name.
    #[error("a model name has 1 to 256 bytes and no control characters")]
    BadModel,
    /// The CLI does not read its stdin.
    #[error("{bytes} bytes wait for the CLI, which does not read them: interrupt it, or wait")]
    CliNotReading {
        /// The number of waiting bytes.
        bytes: usize,
    },
    /// The content of [`crate::Answer::ToolResult`] is not a list.
    #[error("the tool result must be a list of blocks in MCP's format")]
    BadToolResult,
    /// Too many commands wait for the CLI, which is starting.
    #[error("Claude Code is starting, and {waiting} commands ({bytes} bytes) already wait for it: try again later")]
    CliStarting {
        /// How many commands.
        waiting: usize,
        /// The size of their prompts.
        bytes: usize,
    },
    /// The prompt was interrupted before the CLI could receive it.
    #[error("interrupted while Claude Code was starting: the prompt was not sent")]
    InterruptedBeforeSent,
    /// The CLI could not be started for the prompt.
    #[error("{why}")]
    StartFailed {
        /// The reason, and what to do.
        why: String,
    },
    /// An answer, but the CLI has exited.
    #[error("cannot answer: Claude Code has exited, which closed every ask and tool call")]
    AskClosedByExit,
    /// A request that only a running CLI can answer.
    #[error("cannot send a request while Claude Code is not running: send a prompt first")]
    CliNotRunning,
    /// The session has ended.
    #[error("the session has ended")]
    SessionClosed,
    /// The client's id of the command belongs to another command.
    #[error("the id {id:?} was used for another command")]
    IdReused {
        /// The id.
        id: String,
    },
    /// The client has not sent `hello`.
    #[error("send hello first, such as {{\"type\":\"hello\",\"protocol\":[1]}}: commands before it are refused")]
    HelloRequired,
    /// The client names an ask that it was never shown, or that was resolved long ago.
    #[error("{name} is not open: it was answered, cancelled, has expired or never existed")]
    UnknownName {
        /// The name and its field, such as `request_id "x"`.
        name: String,
    },
}

impl Refusal {
    /// The code that names the reason on the wire.
    pub fn code(&self) -> RefusalCode {
        match self {
            Refusal::WrongPhase { .. } => RefusalCode::WrongPhase,
            Refusal::AskAnswered { .. } => RefusalCode::AskResolved,
            Refusal::AskNotOpen { .. } | Refusal::AskClosedByExit | Refusal::UnknownName { .. } => {
                RefusalCode::AskNotOpen
            }
            Refusal::WrongAnswer { .. } => RefusalCode::WrongAnswer,
            Refusal::LogUnavailable { .. } => RefusalCode::NotStored,
            Refusal::TooManyPrompts { .. }
            | Refusal::PromptsTooLarge { .. }
            | Refusal::TooManyRequests { .. }
            | Refusal::CliNotReading { .. }
            | Refusal::CliStarting { .. } => RefusalCode::Busy,
            Refusal::EmptyPrompt
            | Refusal::MalformedBlocks
            | Refusal::BlockTypeNotAllowed { .. }
            | Refusal::PromptTooLong { .. }
            | Refusal::BadInput
            | Refusal::AmbiguousToolName { .. }
            | Refusal::BadModel
            | Refusal::BadToolResult => RefusalCode::InvalidField,
            Refusal::BypassNotAllowed
            | Refusal::RunsUnasked { .. }
            | Refusal::ReservedServerName
            | Refusal::RawMcpServers => RefusalCode::NotPermitted,
            Refusal::NoTools => RefusalCode::NoTools,
            Refusal::ServerNameConflict => RefusalCode::ServerNameConflict,
            Refusal::InterruptedBeforeSent => RefusalCode::Interrupted,
            Refusal::StartFailed { .. } => RefusalCode::StartFailed,
            Refusal::CliNotRunning => RefusalCode::CliNotRunning,
            Refusal::SessionClosed => RefusalCode::SessionClosed,
            Refusal::IdReused { .. } => RefusalCode::IdReused,
            Refusal::HelloRequired => RefusalCode::HelloRequired,
        }
    }
}
