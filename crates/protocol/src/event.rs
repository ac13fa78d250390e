//! Events: what happened in a session, independent of the dialect. Their names are in the past tense, except `Ready`,
//! `BlockDelta` and `Unknown`.

mod ask;
mod block;
mod ephemeral;
mod host;
mod notice;
mod outcome;
mod session;
mod update;
mod weight;

pub use ask::{AskKind, AskResolution, AskSummary, AskTag, ElicitationAsk, Grant, HookAsk, PermissionAsk, ToolCallAsk};
pub use block::{Author, Block, BlockKind, BlockSource, Delta};
pub use host::{HostEvent, SessionState};
pub use notice::NoticeKind;
pub use outcome::{
    DropReason, Exit, ExitReason, InterruptReceipt, LeftProcess, RequestFailure, RequestReply, TurnCause, TurnEnding,
    TurnFailure, TurnOutcome, UnresponsiveTo, Usage, WhyLeft,
};
pub use session::{CliInfo, SessionInfo};
pub use update::{HookUpdate, TaskUpdate};

use serde::{Deserialize, Serialize, Serializer};

use crate::id::{AskId, BlockId, EntryId, MessageId, PromptId, RequestId, SessionId, ToolUseId};
use crate::json::{RawJson, TagWriter};

/// Something that happened in a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(tag = "type", !remote))]
#[serde(remote = "Self", rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Event {
    /// The CLI has started and answered the `initialize` request, which sets up the session; prompts can run.
    Ready {
        /// What the CLI reports about itself.
        cli: CliInfo,
    },
    /// The CLI reported the conversation's id: first in the first turn (not at the start), then when the id changes.
    /// Store `session.session_id`: you need it to resume the conversation.
    SessionOpened {
        /// The conversation as the CLI describes it.
        session: Box<SessionInfo>,
    },
    /// A prompt was accepted and waits for its turn.
    PromptAccepted {
        /// The prompt.
        prompt: PromptId,
        /// The prompt's id in the stored conversation, for the request [`Request::Rewind`](crate::Request::Rewind).
        entry: EntryId,
        /// The prompt's content: text, or blocks in the API's format.
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
        /// The block at its start, in the API's format: usually without text.
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
        /// True if [`Event::BlockStarted`] and [`Event::BlockDelta`] showed it before. If false, show its content now.
        streamed: bool,
        /// Where the block comes from.
        source: Box<BlockSource>,
        /// The complete block.
        content: Block,
    },
    /// The CLI abandoned a streaming block: remove what you have shown of it.
    BlockDiscarded {
        /// The block.
        block: BlockId,
    },
    /// A streamed message ended.
    MessageFinished {
        /// The message.
        message: MessageId,
        /// The message's complete blocks, in order; empty if the CLI abandoned the message.
        blocks: Vec<BlockId>,
        /// Why the model stopped.
        stop_reason: Option<String>,
    },
    /// The API withdrew a message that was already streamed: remove what you have shown of it.
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
        /// The result that the model receives, in the API's format.
        content: RawJson,
        /// The tool's own result, in the tool's shape, if it returned one.
        result: Option<RawJson>,
    },
    /// The CLI added something to the model's context that is neither a prompt nor a tool result: a note about an
    /// interrupt, an instruction of its own, the feedback of a hook, or the output of a slash command. (In Rust, with
    /// `Options::echo_prompts`, the CLI also reports each prompt this way.)
    ContextInjected {
        /// Set when it was added to a subagent's context: the tool use that started the subagent.
        parent: Option<ToolUseId>,
        /// True if the CLI marks it as an instruction of its own or as a hook's feedback. (It does not mark a note
        /// about an interrupt.)
        synthetic: bool,
        /// True if the CLI marks it as a repetition, such as the output of a slash command or a prompt.
        repeated: bool,
        /// The added content, in the API's format.
        content: RawJson,
    },
    /// A tool is still running.
    ToolProgressed {
        /// The tool use.
        tool_use: ToolUseId,
        /// The tool's name.
        tool: String,
        /// For how many seconds the tool has been running.
        elapsed_seconds: f64,
    },
    /// The CLI asks something (an *ask*) and waits for the answer of a client.
    #[serde(skip_deserializing)]
    AskOpened {
        /// The ask's id; the answer must name it.
        ask: AskId,
        /// What is asked, and its details.
        #[serde(flatten)]
        kind: AskKind,
    },
    /// An ask was resolved; any further answer is refused.
    #[serde(skip_deserializing)]
    AskResolved {
        /// The ask.
        ask: AskId,
        /// What the ask was about.
        #[serde(flatten)]
        summary: AskSummary,
        /// How the ask was resolved.
        resolution: AskResolution,
        /// The client that answered; none if no client did, or if it was answered with `Client::answer` of the crate.
        by: Option<String>,
        /// What the answer granted beyond what was asked, such as an edited input or permission updates.
        #[serde(flatten)]
        grant: Grant,
    },
    /// A turn ended. A prompt can be sent at any time; it waits for the turns before it.
    TurnFinished {
        /// What started the turn.
        cause: TurnCause,
        /// How the turn ended and what it cost.
        outcome: Box<TurnOutcome>,
    },
    /// A prompt gets no [`Event::TurnFinished`]: it never ran, or the CLI did not report its end.
    PromptDropped {
        /// The prompt.
        prompt: PromptId,
        /// Why the prompt was dropped.
        reason: DropReason,
    },
    /// The session became idle: no turn is running and no prompt is waiting. It comes after the [`Event::TurnFinished`] or
    /// [`Event::PromptDropped`] of every prompt so far; a turn that the CLI started itself may end with this event alone.
    /// Background tasks may still run (in Rust: [`Event::has_background_tasks`]).
    BecameIdle,
    /// The CLI reported what it is doing, or a changed setting.
    StatusChanged {
        /// The CLI's status, such as `requesting` (it calls the API) or `compacting` (it replaces the conversation with
        /// a summary); none when that is over.
        status: Option<String>,
        /// The new permission mode, if it changed.
        permission_mode: Option<String>,
        /// The complete report; for example, the outcome of a compaction.
        raw: RawJson,
    },
    /// A call of the API failed, and the CLI will retry it.
    ApiRetryScheduled {
        /// Which retry comes next, from 1.
        attempt: u64,
        /// The number of retries after which the CLI gives up.
        max_retries: u64,
        /// The delay before the retry, in milliseconds.
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
        raw: RawJson,
    },
    /// The complete list of background tasks; it replaces the previous list.
    TasksListed {
        /// The tasks, in the CLI's format.
        tasks: RawJson,
    },
    /// A command hook started, progressed or ended. A command hook is a shell command in the CLI's settings; a call of
    /// a hook that the program registered is an ask of the kind [`AskKind::Hook`].
    HookChanged {
        /// The CLI's id of this run of the hook.
        hook_run: String,
        /// The hook's name.
        name: String,
        /// The hook event that triggered it, such as `PreToolUse`.
        event: String,
        /// What changed.
        update: HookUpdate,
        /// The complete report.
        raw: RawJson,
    },
    /// The CLI denied a tool use without asking, for example because the session was started without permission
    /// prompts, or because its permission mode is `dontAsk`.
    PermissionDenied {
        /// The tool's name.
        tool: String,
        /// The tool use.
        tool_use: Option<ToolUseId>,
        /// The message that the model receives.
        message: String,
        /// The complete report.
        raw: RawJson,
    },
    /// The CLI reported how much the model has thought so far.
    ThinkingCounted {
        /// The estimated number of tokens.
        tokens: u64,
    },
    /// The conversation so far was replaced by a summary.
    Compacted {
        /// The complete report.
        raw: RawJson,
    },
    /// The conversation was cleared, for example by `/clear`. [`Event::SessionOpened`] reports the new session id.
    ConversationCleared {
        /// The complete report.
        raw: RawJson,
    },
    /// The conversation has a new title.
    TitleChanged {
        /// The title.
        title: String,
    },
    /// The complete list of slash commands; it replaces the previous list.
    CommandsListed {
        /// The commands, in the CLI's format.
        commands: RawJson,
    },
    /// The CLI suggests a next prompt.
    PromptSuggested {
        /// The suggestion.
        suggestion: String,
    },
    /// The CLI stored entries of the conversation. Only a Rust program that sets `Options::mirror_transcript` receives
    /// this event.
    TranscriptWritten {
        /// The transcript file.
        path: String,
        /// The entries, as stored.
        entries: RawJson,
    },
    /// The CLI sent a notice for the user. Most are only of interest to a person. To a program, these may matter:
    /// [`NoticeKind::Blocked`], [`NoticeKind::Authentication`], [`NoticeKind::RateLimit`], [`NoticeKind::WritesLost`].
    NoticeReported {
        /// What the notice is about.
        about: NoticeKind,
        /// The text of the notice, if it has one.
        text: Option<String>,
        /// The complete notice.
        raw: RawJson,
    },
    /// A client sent a request to the CLI: to change a setting, a tool or a server, or to get information. (An
    /// interrupt has only its [`Event::RequestAnswered`].) While no CLI runs, a host accepts changes of settings and
    /// tools, and applies them to the process that it starts next.
    RequestSent {
        /// The request.
        request: RequestId,
        /// The request as the client made it: its `subtype` and its fields (of `set_tools`, only the names). The values
        /// of secrets (environment variables, headers, logins) are null; URLs of servers lack login, query and fragment.
        body: RawJson,
        /// The client that sent the request; none if the session has only one.
        by: Option<String>,
    },
    /// A request or an interrupt was answered, or failed: the CLI refused it, did not answer in time, or exited. Watari
    /// itself answers an interrupt when no turn runs, and a request while no CLI runs. (An interrupt while the CLI starts or
    /// is not running has no such event.)
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
    /// The CLI stalled: during a turn it wrote nothing for a long time, nor an answer to a request that Watari sent to
    /// see whether it still reacts. If it recovers, the turn continues. An interrupt ends the turn, or terminates a CLI
    /// that does not react to it. A stall alone terminates it only with `--end-stalled` (`WatchdogLimits::end_stalled`).
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
    /// other's turns; end one of them. (`watari stdio` and `watari socket` do not resume a conversation that one of
    /// them already drives, but they cannot stop other programs.)
    ResumedElsewhere {
        /// The conversation.
        session_id: SessionId,
        /// How that program started its CLI, by the CLI's name for it: `cli` on a terminal, `watari` by another
        /// program that uses Watari's crate.
        entrypoint: String,
    },
    /// Events were dropped while the session was closing: the program did not read them, or the host could not store
    /// them.
    EventsDropped {
        /// How many events were dropped.
        count: u64,
    },
    /// The CLI has exited: the last event of this process. If a host starts another one, [`Event::Ready`] follows.
    CliExited {
        /// How it exited.
        exit: Box<Exit>,
    },
}

/// An event is one object, with its `type` first.
impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Event::serialize(self, TagWriter::new(serializer))
    }
}
