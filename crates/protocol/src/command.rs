//! Commands: what a client wants. Their names are in the imperative.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::id::{AskId, EntryId, PromptId, RequestId};
use crate::initialize::ProgramTool;
use crate::json::RawJson;

/// Something that a client wants from a session. Most programs call the methods of the SDK's `Client` instead.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Command {
    /// Send a prompt to the model. It waits until the turns of earlier prompts have ended.
    Prompt(Prompt),
    /// End the running turn; the session continues.
    Interrupt {
        /// Also drop the waiting prompts.
        cancel_queued: bool,
    },
    /// Answer an ask.
    Answer {
        /// The ask.
        ask: AskId,
        /// The answer.
        answer: Answer,
        /// The client that answers, if several clients can.
        by: Option<String>,
    },
    /// Send a request to the CLI. Its answer is the event `RequestAnswered`.
    Request {
        /// The request.
        request: Request,
        /// The client that sends it, if several clients can.
        by: Option<String>,
    },
    /// End the session gracefully: interrupt the turn, let the CLI store its conversation, and terminate it if it does
    /// not exit in time.
    Close,
    /// End the session immediately. The CLI has half a second to store its conversation.
    Abort,
}

/// A prompt: text, or blocks in the API's format (text, images, documents).
#[derive(Debug, Clone)]
pub struct Prompt {
    /// The content.
    pub content: PromptContent,
}

/// The content of a prompt.
#[derive(Debug, Clone)]
pub enum PromptContent {
    /// Plain text.
    Text(String),
    /// A JSON array of content blocks.
    Blocks(RawJson),
}

/// The types of blocks that a prompt may contain. A block of another type would look like output of the model or of a
/// tool, so it is refused ([`crate::Refusal::BlockTypeNotAllowed`]).
pub const PROMPT_BLOCK_TYPES: [&str; 3] = ["text", "image", "document"];

impl Prompt {
    /// Returns whether the prompt is an empty text.
    pub fn is_empty(&self) -> bool {
        match &self.content {
            PromptContent::Text(text) => text.is_empty(),
            PromptContent::Blocks(_) => false,
        }
    }

    /// Creates a prompt from blocks in the API's format: a JSON array of texts, images and documents.
    ///
    /// ```
    /// use serde_json::json;
    /// use watari_protocol::Prompt;
    ///
    /// let png_as_base64 = "iVBORw0KGgo=";
    /// Prompt::blocks(json!([
    ///     {"type": "text", "text": "What is in this picture?"},
    ///     {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": png_as_base64}},
    /// ]));
    /// ```
    pub fn blocks(blocks: impl Into<RawJson>) -> Prompt {
        Prompt { content: PromptContent::Blocks(blocks.into()) }
    }
}

impl PromptContent {
    pub(crate) fn to_raw(&self) -> RawJson {
        match self {
            PromptContent::Text(text) => RawJson::of(text),
            PromptContent::Blocks(blocks) => blocks.clone(),
        }
    }

    /// Returns the length in bytes.
    pub fn bytes(&self) -> usize {
        match self {
            PromptContent::Text(text) => text.len(),
            PromptContent::Blocks(blocks) => blocks.as_str().len(),
        }
    }
}

impl<T: Into<String>> From<T> for Prompt {
    fn from(text: T) -> Prompt {
        Prompt { content: PromptContent::Text(text.into()) }
    }
}

/// A request to the CLI: a question, or a change of a setting. The SDK's `Client::request` sends it and returns the
/// CLI's answer. An answer is JSON in the CLI's format; unless stated otherwise, it has no content of interest.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Request {
    /// Change the model, from the next API call on; none means the CLI's default. Any name is accepted: the CLI detects
    /// a wrong one when it uses it.
    SetModel(Option<String>),
    /// Change the permission mode.
    SetPermissionMode(PermissionMode),
    /// Change the limit on thinking, in tokens; none means the CLI's default.
    SetThinking(Option<u32>),
    /// Replace the tools that this program runs. The session must have been started with `Options::program_tools` or
    /// with `Options::tools_can_be_added`. The model has the new tools from its next request on; after the first turn,
    /// the CLI may still offer it the old ones too. (CLI 2.1.42 ignores new tools after the first turn.)
    SetTools(Vec<ProgramTool>),
    /// List the MCP servers. The answer has `mcpServers`: a list of objects with `name`, `status` and more.
    McpStatus,
    /// Replace the MCP servers that earlier requests of this kind added. They are given by name, in the CLI's format.
    /// The answer has the names of the `added` and the `removed` servers, and `errors` by name.
    SetMcpServers(BTreeMap<String, RawJson>),
    /// Reconnect to an MCP server.
    ReconnectMcp {
        /// The server's name.
        server: String,
    },
    /// Enable or disable an MCP server.
    ToggleMcp {
        /// The server's name.
        server: String,
        /// Whether to enable it.
        enabled: bool,
    },
    /// Report what fills the model's context. The answer has `totalTokens`, `maxTokens`, `categories` and more.
    ContextUsage,
    /// Restore files to their state before a prompt. Needs `Options::checkpoints`. The answer has `canRewind` and
    /// `filesChanged`.
    Rewind {
        /// The prompt's entry, from `Event::PromptAccepted`.
        entry: EntryId,
        /// Only report what would change.
        dry_run: bool,
    },
    /// End a background task.
    StopTask {
        /// The CLI's id of the task.
        task: String,
    },
    /// Read a file, if the session's permission rules allow that without asking, as for a file in the working
    /// directory. The answer has `contents` and, if it is not complete, `truncated`. CLI 2.1.42 refuses the request.
    ReadFile {
        /// The path.
        path: String,
        /// How many bytes to read at most.
        max_bytes: Option<u64>,
    },
    /// Give the conversation a title.
    Rename {
        /// The title.
        title: String,
    },
    /// Send the `initialize` request again, to get current values of what [`crate::CliInfo::raw`] had when the CLI
    /// started: commands, models, account and more. CLI 2.1.42 refuses the request.
    Reinitialize,
    /// Any other request, by the CLI's name and fields.
    Other {
        /// The CLI's name for the request.
        subtype: String,
        /// The request's fields.
        fields: Map<String, Value>,
    },
}

/// The permission mode: how the CLI decides what may run without asking. When the CLI wants to ask,
/// `Options::permission_prompts` of the SDK decides who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum PermissionMode {
    /// Ask for what no rule allows.
    Default,
    /// Edit files in the working directory without asking.
    AcceptEdits,
    /// Read and plan before anything is changed. This is no guarantee: the CLI may still allow commands that it takes
    /// for harmless.
    Plan,
    /// Deny what no rule allows, without asking.
    DontAsk,
    /// A classifier of the CLI decides what may run without asking.
    Auto,
    /// Run everything without asking. Use it only in a sandbox.
    BypassPermissions,
}

impl PermissionMode {
    /// Every mode.
    pub const ALL: [PermissionMode; 6] = [
        PermissionMode::Default,
        PermissionMode::AcceptEdits,
        PermissionMode::Plan,
        PermissionMode::DontAsk,
        PermissionMode::Auto,
        PermissionMode::BypassPermissions,
    ];

    /// Returns the CLI's name for the mode.
    pub fn as_str(self) -> &'static str {
        match self {
            PermissionMode::Default => "default",
            PermissionMode::AcceptEdits => "acceptEdits",
            PermissionMode::Plan => "plan",
            PermissionMode::DontAsk => "dontAsk",
            PermissionMode::Auto => "auto",
            PermissionMode::BypassPermissions => "bypassPermissions",
        }
    }
}

/// A permission mode that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{input:?} is not a permission mode: use one of default, acceptEdits, plan, dontAsk, auto, bypassPermissions")]
pub struct ParsePermissionModeError {
    input: String,
}

impl std::str::FromStr for PermissionMode {
    type Err = ParsePermissionModeError;

    fn from_str(text: &str) -> Result<PermissionMode, ParsePermissionModeError> {
        PermissionMode::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| ParsePermissionModeError { input: text.to_owned() })
    }
}

/// What was accepted, with the id that later events carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// The prompt was queued. Its `TurnFinished` or `PromptDropped` event carries this id.
    Prompt(PromptId),
    /// The request or the interrupt was accepted; its `RequestAnswered` event carries this id.
    Request(RequestId),
    /// The command has no id: an answer, a close, an abort, or an interrupt while the CLI starts or is not running.
    Done,
}

impl From<Request> for Command {
    fn from(request: Request) -> Command {
        Command::Request { request, by: None }
    }
}

impl Command {
    /// Names the client that sent the command, for the other clients.
    pub fn sent_by(mut self, client: String) -> Command {
        if let Command::Answer { by, .. } | Command::Request { by, .. } = &mut self {
            *by = Some(client);
        }
        self
    }

    /// Returns the command as a verb.
    pub fn verb(&self) -> &'static str {
        match self {
            Command::Prompt(_) => "prompt",
            Command::Interrupt { .. } => "interrupt",
            Command::Answer { .. } => "answer",
            Command::Request { .. } => "send a request",
            Command::Close => "close",
            Command::Abort => "abort",
        }
    }
}

impl fmt::Display for PermissionMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}
