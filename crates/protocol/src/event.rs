//! What happened: the events every client sees, whatever the dialect. Past tense, ours.

mod ask;
mod block;
mod notice;
mod outcome;
mod session;
mod weight;

pub use ask::{Allowed, AskKind, AskResolution, AskSummary, AskTag, FormAsk, HookAsk, PermissionAsk, ToolCallAsk};
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
    /// The CLI has started and answered; prompts can run.
    Ready {
        /// What the CLI said of itself.
        cli: CliInfo,
    },
    /// The CLI named the conversation, for the first time or because its id changed.
    SessionOpened {
        /// The conversation as the CLI describes it.
        session: Box<SessionInfo>,
    },
    /// A prompt was taken; it waits for its turn.
    PromptAccepted {
        /// The prompt.
        prompt: PromptId,
        /// The id it has in the stored conversation.
        entry: EntryId,
        /// What it says: a text, or blocks in the API's shape.
        content: RawJson,
    },
    /// A prompt was handed to the CLI, or the CLI woke up by itself.
    TurnStarted {
        /// What it runs for.
        cause: TurnCause,
    },
    /// An assistant message began to stream.
    MessageStarted {
        /// The message.
        message: MessageId,
        /// The model that writes it.
        model: String,
    },
    /// A piece of a streaming message began.
    BlockStarted {
        /// The block.
        block: BlockId,
        /// The message it belongs to.
        message: MessageId,
        /// Its place in the message.
        index: u64,
        /// What it is.
        kind: BlockKind,
        /// The block as it began, in the API's shape.
        content: RawJson,
    },
    /// A streaming block got longer.
    BlockDelta {
        /// The block.
        block: BlockId,
        /// How many characters (Unicode scalar values) the block had before.
        at: u64,
        /// What was added.
        delta: Delta,
    },
    /// A block is complete.
    BlockFinished {
        /// The block.
        block: BlockId,
        /// The message it belongs to.
        message: MessageId,
        /// Set when a subagent wrote it: the tool use that started the subagent.
        parent: Option<ToolUseId>,
        /// False when no `BlockStarted` came before.
        streamed: bool,
        /// Where it comes from.
        source: Box<BlockSource>,
        /// What it says.
        content: Block,
    },
    /// A streamed block was abandoned: what it said does not count.
    BlockDiscarded {
        /// The block.
        block: BlockId,
    },
    /// A streamed message is complete.
    MessageFinished {
        /// The message.
        message: MessageId,
        /// Its complete blocks, in order; none when the message was abandoned.
        blocks: Vec<BlockId>,
        /// Why the model stopped.
        stop_reason: Option<String>,
    },
    /// A message was refused by the API after the fact: what it said does not count.
    MessageRetracted {
        /// The message.
        message: MessageId,
    },
    /// A tool gave its result to the model.
    ToolReturned {
        /// The use of the tool.
        tool_use: ToolUseId,
        /// Set when a subagent used it.
        parent: Option<ToolUseId>,
        /// True when the tool failed or was refused.
        is_error: bool,
        /// What the model was told, in the API's shape.
        content: RawJson,
        /// The tool's own result, in the tool's shape, when it gave one.
        result: Option<RawJson>,
    },
    /// The model was told something that is neither a prompt nor a tool's result: that it was interrupted, what
    /// a hook thinks, what a command printed.
    ContextInjected {
        /// Set when it was a subagent.
        parent: Option<ToolUseId>,
        /// True when the CLI wrote it.
        synthetic: bool,
        /// True when it only repeats what is known.
        replayed: bool,
        /// What it was told, in the API's shape.
        content: RawJson,
    },
    /// A tool is still running.
    ToolProgressed {
        /// The use of the tool.
        tool_use: ToolUseId,
        /// The tool's name.
        tool: String,
        /// How long it has been running.
        elapsed_seconds: f64,
    },
    /// The CLI asks something and waits.
    AskOpened {
        /// Name it in the answer.
        ask: AskId,
        /// What is asked.
        #[serde(flatten)]
        kind: AskKind,
    },
    /// A question is closed; no answer to it counts any more.
    AskResolved {
        /// The question.
        ask: AskId,
        /// What it was about.
        #[serde(flatten)]
        summary: AskSummary,
        /// How it ended.
        resolution: AskResolution,
        /// Whose answer it was, when several could give one.
        by: Option<String>,
        /// What the answer allowed beyond what was asked.
        #[serde(flatten)]
        allowed: Allowed,
    },
    /// A turn ended.
    TurnFinished {
        /// What it ran for.
        cause: TurnCause,
        /// How it ended and what it cost.
        outcome: Box<TurnOutcome>,
    },
    /// A prompt will not run, or was running when the CLI went away.
    PromptDropped {
        /// The prompt.
        prompt: PromptId,
        /// Why.
        reason: DropReason,
    },
    /// Nothing runs and no prompt waits.
    BecameIdle,
    /// The CLI reported what it is doing, or that a setting changed.
    StatusChanged {
        /// The CLI's word, such as `requesting` or `compacting`; none when it is over.
        status: Option<String>,
        /// Set when the permission mode changed.
        permission_mode: Option<String>,
        /// The whole report: how a compaction went, say.
        detail: RawJson,
    },
    /// A call to the API failed and will be tried again.
    ApiRetried {
        /// Which try it was, from 1.
        attempt: u64,
        /// After how many it gives up.
        max_retries: u64,
        /// The wait before the next one.
        delay_ms: f64,
        /// The HTTP status, when there was an answer.
        status: Option<u64>,
        /// The CLI's word for what went wrong.
        error: Option<String>,
    },
    /// Background work of the session started, went on or ended.
    TaskChanged {
        /// The CLI's id of the task.
        task: String,
        /// What is new.
        update: TaskUpdate,
        /// The whole report.
        detail: RawJson,
    },
    /// All background work there is, which replaces what was listed before.
    TasksListed {
        /// The tasks, in the CLI's shape.
        tasks: RawJson,
    },
    /// A hook that is a command started, went on or ended.
    HookChanged {
        /// The CLI's id of this run of the hook.
        hook: String,
        /// The hook's name.
        name: String,
        /// What it was called for.
        event: String,
        /// What is new.
        update: HookUpdate,
        /// The whole report.
        detail: RawJson,
    },
    /// The CLI refused a tool by itself, because nobody was there to ask.
    PermissionDenied {
        /// The tool's name.
        tool: String,
        /// The use of it.
        tool_use: Option<ToolUseId>,
        /// What the model was told.
        message: String,
        /// The whole report.
        detail: RawJson,
    },
    /// The model has thought this much so far.
    ThinkingCounted {
        /// An estimate.
        tokens: u64,
    },
    /// What was said so far was replaced by a summary.
    Compacted {
        /// The whole report.
        detail: RawJson,
    },
    /// The conversation was cleared; the next turn has another session id.
    ConversationCleared {
        /// The whole report.
        detail: RawJson,
    },
    /// The conversation has a new title.
    TitleChanged {
        /// The title.
        title: String,
    },
    /// All slash commands there are, which replaces what was listed before.
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
        /// The file.
        path: String,
        /// The entries, as they are stored.
        entries: RawJson,
    },
    /// The CLI tells something that only a person can make use of.
    Noticed {
        /// What it is about.
        about: NoticeKind,
        /// What it says, if it says it in words.
        text: Option<String>,
        /// The whole notice.
        detail: RawJson,
    },
    /// A client asked the CLI for something: to change a setting, a tool, a server, or to tell something. While the CLI is
    /// down, the host takes settings and tools for the process that it starts next.
    RequestSent {
        /// The request.
        request: RequestId,
        /// What it asks for, as the CLI is told: its `subtype` and its fields. Secrets (environments, headers, logins) are left out, and their names are not.
        body: RawJson,
        /// Who asked, where several can.
        by: Option<String>,
    },
    /// The CLI answered a request of ours, or the host did while the CLI was down.
    RequestAnswered {
        /// The request.
        request: RequestId,
        /// Its answer.
        reply: RequestReply,
    },
    /// A message of the CLI that this version does not know, kept whole.
    Unknown {
        /// The message.
        frame: RawJson,
    },
    /// A line of the CLI that is not a message: noise, or longer than the limit.
    UnparsedLineSkipped {
        /// The beginning of the line.
        beginning: String,
        /// Its whole length.
        bytes: u64,
    },
    /// The CLI stalled: during a turn it wrote nothing for long, and then did not answer a probe. The turn goes on if the CLI
    /// recovers; an interrupt ends it, and the CLI with it if it still does not react.
    CliStalled {
        /// For how many seconds it has written nothing.
        silent_seconds: u64,
    },
    /// A CLI that was stalled wrote something again.
    CliRecovered {
        /// For how many seconds it had written nothing.
        silent_seconds: u64,
    },
    /// Another program has resumed the conversation beside this session: it wrote to the transcript. Turns of either are
    /// lost to the other; end one of them.
    ResumedElsewhere {
        /// The conversation.
        session_id: SessionId,
        /// How that program started its CLI, in the CLI's word: `cli` is one on a terminal, `watari` another Watari.
        entrypoint: String,
    },
    /// Events were dropped while the session was being closed, because nobody read them.
    EventsDropped {
        /// How many.
        count: u64,
    },
    /// The CLI has gone. This is the last event.
    Ended {
        /// How it went.
        exit: Exit,
    },
}

/// Which report of a hook it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum HookUpdate {
    /// It started.
    Started,
    /// It wrote something.
    Progressed,
    /// It ended.
    Ended,
}

/// Which report of a background task it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TaskUpdate {
    /// It started.
    Started,
    /// It goes on.
    Progressed,
    /// Its record changed.
    Updated,
    /// It ended, and the model may be woken by it.
    Ended,
}

/// Why a prompt has no outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// It was still waiting when it was interrupted or cancelled.
    Cancelled,
    /// It was waiting or running when the session ended.
    SessionEnded,
    /// The CLI had it, has nothing more to do, and gave no result that could be read.
    Lost,
}
