//! What a client wants: commands. Imperative, ours.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value};

use crate::answer::Answer;
use crate::bypass;
use crate::event::AskResolution;
use crate::id::{AskId, EntryId, PromptId, RequestId};
use crate::initialize::{TOOL_NAME_SHARED, TOOL_SERVER, TOOL_SERVER_TAKEN, Tool};
use crate::json::RawJson;
use crate::session::Phase;

/// Something a client wants of a session.
#[derive(Debug, Clone)]
pub enum Command {
    /// Ask the model something. It waits until the prompts before it have had their turns.
    Prompt(Prompt),
    /// End the running turn; the session lives on.
    Interrupt {
        /// Also drop the prompts that wait.
        cancel_queued: bool,
    },
    /// Answer an ask.
    Answer {
        /// The ask.
        ask: AskId,
        /// What to say.
        answer: Answer,
        /// Who says it, when several could.
        by: Option<String>,
    },
    /// Ask the CLI for something.
    Request {
        /// What.
        request: Request,
        /// Who wants it, where several can.
        by: Option<String>,
    },
    /// End the session in good order: interrupt, let the CLI finish, and make sure that it is gone.
    Close,
    /// End the session now.
    Abort,
}

/// A prompt: text, or blocks in the API's shape (text, images, documents).
#[derive(Debug, Clone)]
pub struct Prompt {
    /// What to say.
    pub content: PromptContent,
}

/// What a prompt says.
#[derive(Debug, Clone)]
pub enum PromptContent {
    /// Plain text.
    Text(String),
    /// A JSON array of content blocks.
    Blocks(RawJson),
}

/// The types of blocks that a prompt may have. Others would pass for what the model or a tool has said.
pub const PROMPT_BLOCKS: [&str; 3] = ["text", "image", "document"];

impl Prompt {
    /// Whether it asks nothing.
    pub fn is_empty(&self) -> bool {
        match &self.content {
            PromptContent::Text(text) => text.is_empty(),
            PromptContent::Blocks(_) => false,
        }
    }

    /// A prompt of blocks in the API's shape: a JSON array of texts, images and documents.
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

    /// How long it is.
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

/// Something the CLI is asked for, which it answers.
#[derive(Debug, Clone)]
pub enum Request {
    /// Change the model, from the next call to the API on; none means the CLI's own choice. Any name is taken:
    /// the CLI finds out when it uses it.
    SetModel(Option<String>),
    /// Change how permissions are decided.
    SetPermissionMode(PermissionMode),
    /// Change how much the model may think, in tokens; none means the CLI's own choice.
    SetThinking(Option<u32>),
    /// Have these tools of this program instead of those there were, if the session was set up to have any. (Version 2.1.42
    /// of the CLI does not look again; newer ones do at once.)
    SetTools(Vec<Tool>),
    /// Which MCP servers there are, and how they are.
    McpStatus,
    /// Use these MCP servers, by name, in the CLI's shape, instead of those that were added before.
    SetMcpServers(BTreeMap<String, RawJson>),
    /// Connect to an MCP server again.
    ReconnectMcp {
        /// Its name.
        server: String,
    },
    /// Use an MCP server, or do not.
    ToggleMcp {
        /// Its name.
        server: String,
        /// Whether to use it.
        enabled: bool,
    },
    /// What fills the model's context.
    ContextUsage,
    /// Bring files back to what they were before a prompt.
    Rewind {
        /// The prompt.
        entry: EntryId,
        /// Only say what would change.
        dry_run: bool,
    },
    /// End a background task.
    StopTask {
        /// The CLI's id of it.
        task: String,
    },
    /// Read a file as the CLI may.
    ReadFile {
        /// Its path.
        path: String,
        /// How much of it.
        max_bytes: Option<u64>,
    },
    /// Give the conversation a title.
    Rename {
        /// The title.
        title: String,
    },
    /// Send what the session was opened with again: its hooks are registered anew.
    Reinitialize,
    /// Anything else the CLI knows, by its own name and fields.
    Other {
        /// The CLI's name of the request.
        subtype: String,
        /// Its fields.
        fields: Map<String, Value>,
    },
}

/// How the CLI decides what may run without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionMode {
    /// Ask for what no rule allows.
    Default,
    /// Edits of files in the working directory need no question.
    AcceptEdits,
    /// Look and plan, change nothing.
    Plan,
    /// Refuse what no rule allows, without asking.
    DontAsk,
    /// Let a classifier decide.
    Auto,
    /// Run everything. Only in a sandbox.
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

    /// The CLI's word for it.
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
#[error("{given:?} is not a permission mode: use one of default, acceptEdits, plan, dontAsk, auto, bypassPermissions")]
pub struct UnknownPermissionMode {
    given: String,
}

impl std::str::FromStr for PermissionMode {
    type Err = UnknownPermissionMode;

    fn from_str(text: &str) -> Result<PermissionMode, UnknownPermissionMode> {
        PermissionMode::ALL
            .into_iter()
            .find(|mode| mode.as_str() == text)
            .ok_or_else(|| UnknownPermissionMode { given: text.to_owned() })
    }
}

/// What became of a command that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepted {
    /// The prompt has this id; its turn will end with it.
    Prompt(PromptId),
    /// The CLI was asked; its answer comes as `RequestAnswered` with this id.
    Request(RequestId),
    /// Nothing more will be said of it.
    Done,
}

/// Why a command was refused. A refused command changed nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The session is not in a state for it.
    #[error("cannot {command} while the session is {phase}")]
    WrongPhase {
        /// What was tried.
        command: &'static str,
        /// Where the session is.
        phase: Phase,
    },
    /// Somebody was faster.
    #[error("ask {ask} is closed already: {by} {}", resolution.describe())]
    AskAnswered {
        /// The ask.
        ask: AskId,
        /// Who.
        by: String,
        /// With what.
        resolution: AskResolution,
    },
    /// What happens cannot be kept at the moment, so nothing may begin.
    #[error("the session's log cannot be written, so that nothing new can begin: {why}")]
    NotStored {
        /// What the matter is, and what to do.
        why: String,
    },
    /// There never was such an ask, or it is closed.
    #[error("ask {ask} is not open: it was answered, withdrawn, has expired or never was")]
    AskNotOpen {
        /// What was named.
        ask: AskId,
    },
    /// As many prompts wait as may.
    #[error("{waiting} prompts are waiting already: wait for a turn to end")]
    QueueFull {
        /// How many.
        waiting: usize,
    },
    /// The prompts that wait are as long as may be.
    #[error("the prompts that wait hold {bytes} bytes already: wait for a turn to end")]
    QueueTooLong {
        /// How many.
        bytes: usize,
    },
    /// As many requests are unanswered as may be.
    #[error("{unanswered} requests are unanswered already: wait for the CLI to answer")]
    TooManyRequests {
        /// How many.
        unanswered: usize,
    },
    /// The prompt cannot be sent.
    #[error("the prompt has no content: give it text or at least one block")]
    EmptyPrompt,
    /// The prompt's blocks are not what the API takes.
    #[error("the prompt's blocks must be a JSON array of objects with a type, and text blocks must have a text")]
    BadBlocks,
    /// A block of the prompt is something that a user does not say: the result of a tool, a thought of the model.
    #[error("content[{place}].type is {given:?}: a prompt may have blocks of type text, image and document")]
    BadBlock {
        /// Its place among the blocks, from 0.
        place: usize,
        /// What it is.
        given: String,
    },
    /// The prompt is longer than the CLI can read.
    #[error("the prompt is {bytes} bytes long, and the CLI takes about 200 million: put it into a file")]
    PromptTooLong {
        /// How long it is.
        bytes: usize,
    },
    /// The ask does not take this kind of answer.
    #[error("ask {ask} is {kind} and does not take this answer: answer it with {takes}")]
    WrongAnswer {
        /// The ask.
        ask: AskId,
        /// What it is.
        kind: &'static str,
        /// What it takes.
        takes: &'static str,
    },
    /// The edited input is not a JSON object.
    #[error("the edited input of a tool must be a JSON object")]
    BadInput,
    /// The session was set up without tools of this program's.
    #[error("this session has no tools of its program's: they must be offered when it is started")]
    NoTools,
    /// The mode in which everything runs without a question, in a session that was not started for it.
    #[error(
        "bypassPermissions runs everything without a question, so only whoever starts the session may allow it: start it \
         with --allow-bypass"
    )]
    BypassNotAllowed,
    /// A request that runs a tool or a program without a question, in a session that was not started for it.
    #[error("{subtype} runs without a question, so only whoever starts the session may allow it: {}", bypass::remedy(*asks))]
    RunsUnasked {
        /// The CLI's name of the request.
        subtype: &'static str,
        /// The member of the request that makes the CLI ask first, if it has one.
        asks: Option<&'static str>,
    },
    /// A tool whose name another server's tool could have too.
    #[error("the name of the tool {name:?} {TOOL_NAME_SHARED}")]
    ToolName {
        /// The name.
        name: String,
    },
    /// A server has the name of the one that serves the tools of this program and its clients.
    #[error("the name {TOOL_SERVER:?} is that of the server of this session's own tools; choose another")]
    ToolServerName,
    /// Another MCP server of the CLI's has the name of the one that serves the session's own tools.
    #[error("{}", TOOL_SERVER_TAKEN)]
    ToolServerTaken,
    /// A request that has a form of its own, in which what it would break is kept.
    #[error(
        "a request of this name could take away this session's own tools: use set_mcp_servers or toggle_mcp, which do not"
    )]
    RawMcpServers,
    /// A text that is no name of a model.
    #[error("the name of a model has 1 to 256 bytes and no control characters")]
    BadModel,
    /// The CLI does not read what it is told.
    #[error("{bytes} bytes wait for the CLI, which does not read them: interrupt it, or wait")]
    CliNotReading {
        /// How much waits.
        bytes: usize,
    },
    /// The result of a tool is not a list.
    #[error("the result of a tool must be a list of blocks in MCP's shape")]
    BadToolResult,
}

impl From<Request> for Command {
    fn from(request: Request) -> Command {
        Command::Request { request, by: None }
    }
}

impl Command {
    /// What the command does, as a verb.
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
