//! Refusals: why a command was refused, in words that say what to do.

use crate::bypass;
use crate::event::AskResolution;
use crate::id::AskId;
use crate::initialize::{AMBIGUOUS_TOOL_NAME, TOOL_SERVER, TOOL_SERVER_TAKEN};
use crate::session::Phase;

/// Why a command was refused. A refused command changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The session's phase does not permit the command.
    #[error("cannot {command} while the session is {phase}")]
    WrongPhase {
        /// The command, as a verb.
        command: &'static str,
        /// The session's phase.
        phase: Phase,
    },
    /// Another client answered first.
    #[error("ask {ask} is already resolved: {by} {}", resolution.describe())]
    AskAnswered {
        /// The ask.
        ask: AskId,
        /// The client that answered.
        by: String,
        /// How the ask was resolved.
        resolution: AskResolution,
    },
    /// The session's log cannot be written at the moment, so the session starts nothing new.
    #[error("the session's log cannot be written, so the session accepts no new work: {why}")]
    LogUnavailable {
        /// The cause, and what to do.
        why: String,
    },
    /// The ask never existed, or was resolved before.
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
    /// The prompt's blocks do not have the API's shape.
    #[error("the prompt's blocks must be a JSON array of objects with a type, and text blocks must have a text")]
    MalformedBlocks,
    /// A block of the prompt is of a type that a user cannot write, such as a tool result or the model's thinking.
    #[error("content[{place}].type is {given:?}: a prompt may contain blocks of type text, image and document")]
    BlockTypeNotAllowed {
        /// The block's index, from 0.
        place: usize,
        /// The block's type.
        given: String,
    },
    /// The prompt is longer than the CLI can read.
    #[error("the prompt has {bytes} bytes, and the CLI accepts about 200 million: put the content into a file")]
    PromptTooLong {
        /// The prompt's length.
        bytes: usize,
    },
    /// The ask does not accept this kind of answer.
    #[error("ask {ask} is {kind} and does not accept this answer: answer it with {takes}")]
    WrongAnswer {
        /// The ask.
        ask: AskId,
        /// The kind of ask.
        kind: &'static str,
        /// The answers that it accepts.
        takes: &'static str,
    },
    /// The edited input is not a JSON object.
    #[error("the edited tool input must be a JSON object")]
    BadInput,
    /// The session was started without tools of this program.
    #[error("this session was started without tools of its own: offer them when you start it")]
    NoTools,
    /// The permission mode in which everything runs without asking, in a session that was not started for it.
    #[error(
        "bypassPermissions runs everything without asking, so it must be allowed when the session is started: start it \
         with --allow-bypass"
    )]
    BypassNotAllowed,
    /// A request that runs a tool or a program without asking, in a session that was not started for it.
    #[error(
        "{subtype} runs without asking, so it must be allowed when the session is started: {}",
        bypass::remedy(*asks)
    )]
    RunsUnasked {
        /// The CLI's name for the request.
        subtype: &'static str,
        /// The field of the request that makes the CLI ask first, if there is one.
        asks: Option<&'static str>,
    },
    /// A tool's name that a tool of another MCP server could have too.
    #[error("the name of the tool {name:?} {AMBIGUOUS_TOOL_NAME}")]
    AmbiguousToolName {
        /// The name.
        name: String,
    },
    /// An MCP server has the name of the server of this session's own tools.
    #[error("the name {TOOL_SERVER:?} is reserved for the server of this session's own tools: choose another")]
    ReservedServerName,
    /// Another MCP server of the CLI has the name of the server of the session's own tools.
    #[error("{}", TOOL_SERVER_TAKEN)]
    ServerNameConflict,
    /// A raw request that would remove the session's own tools. A command that preserves them exists for it.
    #[error(
        "a raw request of this name could remove this session's own tools: use set_mcp_servers or toggle_mcp instead"
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
    /// The tool result is not a list.
    #[error("the tool result must be a list of blocks in MCP's shape")]
    BadToolResult,
}
