//! Events: what happened in a session, independent of the dialect. Their names are in the past tense.

mod ask;
mod block;
mod notice;
mod outcome;
mod session;
mod weight;

pub use ask::{AskKind, AskResolution, AskSummary, AskTag, FormAsk, Grant, HookAsk, PermissionAsk, ToolCallAsk};
pub use block::{Block, BlockKind, BlockSource, Delta, Writer};
pub use notice::NoticeKind;
pub use outcome::{
    Exit, ExitReason, Failure, InterruptReceipt, RequestFailure, RequestReply, TurnCause, TurnEnding, TurnOutcome,
    Unanswered, Usage,
};
pub use session::{CliInfo, SessionInfo};

use serde::Serialize;

use crate::id::{AskId, BlockId, EntryId, MessageId, PromptId, RequestId, SessionId, ToolUseId};
use crate::json::RawJson;

/// Something that happened in a session.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// The CLI has started and answered the opening request; prompts can run.
    Ready {
        /// What the CLI reports about itself.
        cli: CliInfo,
    },
    /// The CLI reported the conversation's id: for the first time, or because the id changed.
    SessionOpened {
        /// The conversation as the CLI describes it.
        session: Box<SessionInfo>,
    },
    /// A prompt was accepted and waits for its turn.
    PromptAccepted {
        /// The prompt.
        prompt: PromptId,
        /// The prompt's id in the stored conversation.
        entry: EntryId,
        /// The prompt's content: text, or blocks in the API's shape.
        content: RawJson,
    },
    /// A turn started: a prompt was sent to the CLI, or the CLI started a turn on its own.
    TurnStarted {
        /// What started the turn.
        cause: TurnCause,
    },
    /// An assistant message started to stream.
    MessageStarted {
        /// The message.
        message: MessageId,
        /// The model that writes it.
        model: String,
    },
    /// A block of a streaming message started.
    BlockStarted {
        /// The block.
        block: BlockId,
        /// The message it belongs to.
        message: MessageId,
        /// The block's index in the message.
        index: u64,
        /// The kind of block.
        kind: BlockKind,
        /// The block as it started, in the API's shape.
        content: RawJson,
    },
    /// Content was added to a streaming block.
    BlockDelta {
        /// The block.
        block: BlockId,
        /// The block's length before this delta, in characters (Unicode scalar values).
        at: u64,
        /// The added content.
        delta: Delta,
    },
    /// A block is complete.
    BlockFinished {
        /// The block.
        block: BlockId,
        /// The message it belongs to.
        message: MessageId,
        /// Set when a subagent wrote the block: the tool use that started the subagent.
        parent: Option<ToolUseId>,
        /// False when there was no `block_started` for it.
        streamed: bool,
        /// Where the block comes from.
        source: Box<BlockSource>,
        /// The complete block.
        content: Block,
    },
    /// A streaming block was abandoned: discard its content.
    BlockDiscarded {
        /// The block.
        block: BlockId,
    },
    /// A streamed message is complete.
    MessageFinished {
        /// The message.
        message: MessageId,
        /// The message's complete blocks, in order; empty when the message was abandoned.
        blocks: Vec<BlockId>,
        /// Why the model stopped.
        stop_reason: Option<String>,
    },
    /// The API refused a message after the fact: discard its content.
    MessageRetracted {
        /// The message.
        message: MessageId,
    },
    /// A tool returned its result to the model.
    ToolReturned {
        /// The tool use.
        tool_use: ToolUseId,
        /// Set when a subagent used the tool: the tool use that started the subagent.
        parent: Option<ToolUseId>,
        /// True when the tool failed or was denied.
        is_error: bool,
        /// The result that the model receives, in the API's shape.
        content: RawJson,
        /// The tool's own result, in the tool's shape, if it returned one.
        result: Option<RawJson>,
    },
    /// The CLI added something to the model's context that is neither a prompt nor a tool result: a note about an
    /// interrupt, the output of a hook or of a command.
    ContextInjected {
        /// Set when it was added to a subagent's context: the tool use that started the subagent.
        parent: Option<ToolUseId>,
        /// True when the CLI wrote it.
        synthetic: bool,
        /// True when it only repeats earlier content.
        replayed: bool,
        /// The added content, in the API's shape.
        content: RawJson,
    },
    /// A tool is still running.
    ToolProgressed {
        /// The tool use.
        tool_use: ToolUseId,
        /// The tool's name.
        tool: String,
        /// How long the tool has been running.
        elapsed_seconds: f64,
    },
    /// The CLI asks something and waits for the answer.
    AskOpened {
        /// The ask's id, to be named in the answer.
        ask: AskId,
        /// What is asked.
        #[serde(flatten)]
        kind: AskKind,
    },
    /// An ask was resolved; any further answer is refused.
    AskResolved {
        /// The ask.
        ask: AskId,
        /// What the ask was about.
        #[serde(flatten)]
        summary: AskSummary,
        /// How the ask was resolved.
        resolution: AskResolution,
        /// The client that answered, if several clients could.
        by: Option<String>,
        /// What the answer allowed beyond what was asked.
        #[serde(flatten)]
        grant: Grant,
    },
    /// A turn ended.
    TurnFinished {
        /// What started the turn.
        cause: TurnCause,
        /// How the turn ended and what it cost.
        outcome: Box<TurnOutcome>,
    },
    /// A prompt will not run, or was running when the CLI exited.
    PromptDropped {
        /// The prompt.
        prompt: PromptId,
        /// Why the prompt was dropped.
        reason: DropReason,
    },
    /// The session became idle: no turn is running and no prompt is waiting.
    BecameIdle,
    /// The CLI reported what it is doing, or a changed setting.
    StatusChanged {
        /// The CLI's status, such as `requesting` or `compacting`; none when that is over.
        status: Option<String>,
        /// The new permission mode, if it changed.
        permission_mode: Option<String>,
        /// The complete report; for example, the outcome of a compaction.
        detail: RawJson,
    },
    /// An API call failed and will be retried.
    ApiRetryScheduled {
        /// The number of the attempt, from 1.
        attempt: u64,
        /// The number of retries after which the CLI gives up.
        max_retries: u64,
        /// The delay before the next attempt.
        delay_ms: f64,
        /// The HTTP status, if there was a response.
        status: Option<u64>,
        /// The CLI's name for the error.
        error: Option<String>,
    },
    /// A background task of the session started, progressed or ended.
    TaskChanged {
        /// The CLI's id of the task.
        task: String,
        /// What changed.
        update: TaskUpdate,
        /// The complete report.
        detail: RawJson,
    },
    /// The complete list of background tasks; it replaces the previous list.
    TasksListed {
        /// The tasks, in the CLI's shape.
        tasks: RawJson,
    },
    /// A command hook started, progressed or ended.
    HookChanged {
        /// The CLI's id of this run of the hook.
        hook: String,
        /// The hook's name.
        name: String,
        /// The hook event that triggered it.
        event: String,
        /// What changed.
        update: HookUpdate,
        /// The complete report.
        detail: RawJson,
    },
    /// The CLI denied a tool use on its own, because it could not ask anyone.
    PermissionDenied {
        /// The tool's name.
        tool: String,
        /// The tool use.
        tool_use: Option<ToolUseId>,
        /// The message that the model receives.
        message: String,
        /// The complete report.
        detail: RawJson,
    },
    /// The CLI reported how much the model has thought so far.
    ThinkingCounted {
        /// The estimated number of tokens.
        tokens: u64,
    },
    /// The conversation so far was replaced by a summary.
    Compacted {
        /// The complete report.
        detail: RawJson,
    },
    /// The conversation was cleared; the next turn has a new session id.
    ConversationCleared {
        /// The complete report.
        detail: RawJson,
    },
    /// The conversation has a new title.
    TitleChanged {
        /// The title.
        title: String,
    },
    /// The complete list of slash commands; it replaces the previous list.
    CommandsListed {
        /// The commands, in the CLI's shape.
        commands: RawJson,
    },
    /// The CLI suggests a next prompt.
    PromptSuggested {
        /// The suggestion.
        suggestion: String,
    },
    /// The CLI stored entries of the conversation.
    TranscriptWritten {
        /// The transcript file.
        path: String,
        /// The entries, as stored.
        entries: RawJson,
    },
    /// The CLI reported something that is of use only to a person.
    NoticeReported {
        /// What the notice is about.
        about: NoticeKind,
        /// The text of the notice, if it has one.
        text: Option<String>,
        /// The complete notice.
        detail: RawJson,
    },
    /// A client sent a request to the CLI: to change a setting, a tool or a server, or to return information. While the
    /// CLI is down, the host accepts settings and tools and applies them to the process that it starts next.
    RequestSent {
        /// The request.
        request: RequestId,
        /// The request as the CLI receives it: its `subtype` and its fields. Secrets (environments, headers, logins)
        /// are omitted; their names are not.
        body: RawJson,
        /// The client that sent the request, if several clients can.
        by: Option<String>,
    },
    /// A request was answered: by the CLI, or by the host while the CLI is down.
    RequestAnswered {
        /// The request.
        request: RequestId,
        /// The reply.
        reply: RequestReply,
    },
    /// The CLI sent a message that this version does not know; it is passed on unchanged.
    Unknown {
        /// The message.
        frame: RawJson,
    },
    /// The CLI wrote a line that is not a message, or that is longer than the limit.
    UnparsedLineSkipped {
        /// The start of the line.
        beginning: String,
        /// The length of the whole line.
        bytes: u64,
    },
    /// The CLI stalled: during a turn it wrote nothing for a long time, and then did not answer a probe. If the CLI
    /// recovers, the turn continues. An interrupt ends the turn; a CLI that does not react to it is terminated.
    CliStalled {
        /// For how many seconds the CLI has written nothing.
        silent_seconds: u64,
    },
    /// A stalled CLI wrote something again.
    CliRecovered {
        /// For how many seconds the CLI had written nothing.
        silent_seconds: u64,
    },
    /// Another program has resumed this session's conversation: it wrote to the transcript. Neither of the two sees the
    /// other's turns; end one of them.
    ResumedElsewhere {
        /// The conversation.
        session_id: SessionId,
        /// How that program started its CLI, by the CLI's name for it: `cli` on a terminal, `watari` by another Watari.
        entrypoint: String,
    },
    /// Events were dropped while the session was closing, because the program did not read them.
    EventsDropped {
        /// How many events were dropped.
        count: u64,
    },
    /// The CLI has exited. This is the last event.
    CliExited {
        /// How it exited.
        exit: Exit,
    },
}

/// What a `hook_changed` event reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HookUpdate {
    /// The hook started.
    Started,
    /// The hook wrote output.
    Progressed,
    /// The hook ended.
    Ended,
}

/// What a `task_changed` event reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskUpdate {
    /// The task started.
    Started,
    /// The task progressed.
    Progressed,
    /// The task's record changed.
    Updated,
    /// The task ended; the CLI may start a turn because of it.
    Ended,
}

/// Why a prompt has no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// It was interrupted or cancelled while it was waiting.
    Cancelled,
    /// The session ended while it was waiting or running.
    CliExited,
    /// The CLI received it and became idle without a readable result.
    Lost,
}
