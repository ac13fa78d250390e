//! Encodes events for a client of the bridge dialect.

mod delta;
mod messages;
mod text;

use crate::dialect::shaped::{Content, Object};
use delta::Deltas;
pub(super) use messages::BridgeMessage;
use messages::{CallId, ClosedReason, DeltaType, DroppedReason, Origin, RequestId, TaskStatus, write};

use watari_sdk::{
    AskId, AskKind, AskResolution, BlockId, BlockKind, Delta, DropReason, Event, LINE_BYTES_MAX, MessageId, NoticeKind,
    PermissionAsk, RawJson, SessionInfo, TaskUpdate, TurnCause, TurnEnding, TurnOutcome,
};

use crate::dialect::cli_trouble::{self, resumed_elsewhere};
use crate::dialect::speaker::ProtocolError;

/// Writes the first line.
pub(crate) fn ready(out: &mut Vec<u8>) {
    write(&BridgeMessage::Ready, out);
}

/// Writes an error that ends the session.
pub(crate) fn fatal_error(message: &str, out: &mut Vec<u8>) {
    write(&BridgeMessage::Error { message, fatal: true, code: None }, out);
}

/// Writes an error of the session, which continues.
pub(crate) fn session_error(message: &str, out: &mut Vec<u8>) {
    write(&BridgeMessage::Error { message, fatal: false, code: None }, out);
}

/// Writes an error about a message of the client.
pub(crate) fn error(error: &ProtocolError, out: &mut Vec<u8>) {
    write(&BridgeMessage::Error { message: &error.message, fatal: false, code: Some(error.code) }, out);
}

/// Writes that an interrupt dropped a message.
pub(crate) fn message_cancelled(out: &mut Vec<u8>) {
    write(&BridgeMessage::MessageDropped { reason: DroppedReason::Cancelled }, out);
}

/// How many events are buffered until the id of the session is known. The CLI reports it first; without it, the session
/// cannot be shown to the client anyway.
const BEFORE_SESSION_ID_MAX: usize = 1024;

/// The state between two events.
#[derive(Debug)]
pub(crate) struct Encoder {
    /// Whether to stream text as it is written.
    streams: bool,
    session_id: Option<String>,
    /// Events whose lines contain the session's id, from before it was known.
    before_session_id: Vec<Event>,
    streaming: Option<Streaming>,
    /// The open asks that were sent to the client.
    open_asks: Vec<SentAsk>,
    /// The deltas of the open block.
    deltas: Option<Deltas>,
    /// The offset of the first unwritten byte of the outbox, if the client is not reading at the moment.
    unwritten_offset: Option<usize>,
}

/// An ask that was sent to the client, by its kind in the dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SentAsk {
    Permission(AskId),
    Call(AskId),
}

/// The message that is being streamed.
#[derive(Debug)]
struct Streaming {
    message: MessageId,
    /// The open blocks and their indices in the message.
    indices: Vec<(BlockId, u64)>,
    /// The complete blocks.
    content: Vec<RawJson>,
}

impl Encoder {
    pub(crate) fn new(streams: bool) -> Encoder {
        let (session_id, streaming, deltas, unwritten_offset) = (None, None, None, None);
        let (before_session_id, open_asks) = (Vec::new(), Vec::new());
        Encoder { streams, session_id, before_session_id, streaming, open_asks, deltas, unwritten_offset }
    }

    /// Sets the offset of the first unwritten byte, if the client is not reading at the moment: later deltas are
    /// joined.
    pub(crate) fn set_unwritten_offset(&mut self, unwritten_offset: Option<usize>) {
        self.unwritten_offset = unwritten_offset;
    }

    /// Closes an ask that Watari answered itself. For the client this looks like an ask that the CLI withdrew.
    pub(crate) fn cancel_ask(&mut self, ask: AskId, out: &mut Vec<u8>) {
        self.encode_ask_resolved(ask, AskResolution::Withdrawn, out);
    }

    /// Reports a changed model; none is the CLI's choice.
    pub(crate) fn encode_model(&mut self, model: Option<&str>, out: &mut Vec<u8>) {
        let Some(session_id) = self.session_id.as_deref() else { return };
        let model = Some(model.unwrap_or("default"));
        write(&BridgeMessage::Status { session_id, status: None, permission_mode: None, model }, out);
    }

    /// The bytes of the outbox were moved or removed, so no line can be extended.
    pub(crate) fn lines_moved(&mut self) {
        self.deltas.iter_mut().for_each(Deltas::lines_moved);
    }

    /// Appends the lines for an event.
    pub(crate) fn encode(&mut self, event: Event, out: &mut Vec<u8>) {
        if let Event::SessionOpened { session } = &event {
            write_session(session, out);
            self.session_id = Some(session.session_id.to_string());
            self.deltas = None;
            for event in std::mem::take(&mut self.before_session_id) {
                self.encode_now(event, out);
            }
        } else if self.session_id.is_some() || !carries_session_id(&event) {
            self.encode_now(event, out);
        } else if self.before_session_id.len() < BEFORE_SESSION_ID_MAX {
            self.before_session_id.push(event);
        }
    }

    fn encode_now(&mut self, event: Event, out: &mut Vec<u8>) {
        let session_id = self.session_id.as_deref().unwrap_or_default();
        match event {
            Event::BlockDelta { block, delta, .. } => {
                let Some(index) = self.index_of(block) else { return };
                if self.streams {
                    let (delta_type, text) = match &delta {
                        Delta::Text(text) => (DeltaType::Text, text),
                        Delta::Thinking(text) => (DeltaType::Thinking, text),
                        Delta::Input(text) => (DeltaType::InputJson, text),
                    };
                    let known = self.deltas.take().filter(|deltas| deltas.are_of(block, delta_type));
                    let mut deltas = known.unwrap_or_else(|| Deltas::of(block, session_id, index, delta_type));
                    deltas.write(text, self.unwritten_offset, out);
                    self.deltas = Some(deltas);
                }
            }
            Event::MessageStarted { message, .. } => {
                if self.streams {
                    write(&BridgeMessage::StreamMessageStart { session_id }, out);
                }
                self.streaming = Some(Streaming { message, indices: Vec::new(), content: Vec::new() });
            }
            Event::BlockStarted { block, index, kind, .. } => {
                if self.streams {
                    write(&start_of_block(session_id, index, &kind), out);
                }
                self.streaming.iter_mut().for_each(|streaming| streaming.indices.push((block, index)));
            }
            Event::BlockFinished { block, message, parent, content, .. } => {
                self.stop_block(block, out);
                match &mut self.streaming {
                    Some(streaming) if parent.is_none() && streaming.message == message => {
                        streaming.content.push(content.raw);
                    }
                    Some(_) | None => {
                        let parent = parent.as_ref().map(|parent| parent.0.as_str());
                        self.encode_message(parent, &[content.raw], out);
                    }
                }
            }
            Event::BlockDiscarded { block } => self.stop_block(block, out),
            Event::MessageFinished { .. } => {
                let Some(streaming) = self.streaming.take() else { return };
                if self.streams {
                    write(&BridgeMessage::StreamMessageStop { session_id }, out);
                }
                if !streaming.content.is_empty() {
                    self.encode_message(None, &streaming.content, out);
                }
            }
            Event::ToolReturned { tool_use, is_error, content, .. } => {
                // A tool that returned nothing returned an empty text, so that clients need not handle null.
                let content = Content::of(content.as_ref()).unwrap_or(Content::Other(""));
                write(&BridgeMessage::ToolResult { tool_use_id: &tool_use.0, content, is_error }, out);
            }
            Event::ToolProgressed { tool_use, tool, elapsed_seconds } => {
                let (tool_name, tool_use_id) = (&tool, &tool_use.0);
                write(&BridgeMessage::ToolProgress { session_id, tool_name, tool_use_id, elapsed_seconds }, out);
            }
            Event::AskOpened { ask, kind } => self.encode_ask(ask, &kind, out),
            Event::AskResolved { ask, resolution, .. } => self.encode_ask_resolved(ask, resolution, out),
            Event::TurnFinished { cause, outcome } => write_result(session_id, cause, &outcome, out),
            Event::StatusChanged { status, permission_mode, .. } => {
                let (status, permission_mode) = (status.as_deref(), permission_mode.as_deref());
                write(&BridgeMessage::Status { session_id, status, permission_mode, model: None }, out);
            }
            Event::TaskChanged { task, update, raw } => {
                let update = match update {
                    TaskUpdate::Started => TaskStatus::Started,
                    TaskUpdate::Progressed => TaskStatus::Progressed,
                    TaskUpdate::Updated => TaskStatus::Updated,
                    TaskUpdate::Ended => TaskStatus::Ended,
                };
                let detail = object(&raw);
                write(&BridgeMessage::Task { session_id, task_id: &task, update, detail }, out);
            }
            Event::PromptDropped { reason: DropReason::Cancelled, .. } => {
                message_cancelled(out);
            }
            Event::PromptDropped { reason: DropReason::Lost, .. } => {
                session_error(
                    "the CLI gave no result for a message; it may have run: check before you send it again",
                    out,
                );
                write(&BridgeMessage::MessageDropped { reason: DroppedReason::Lost }, out);
            }
            Event::CliStalled { silent_seconds } => {
                let message = cli_trouble::stalled(
                    silent_seconds,
                    "send interrupt: it ends the turn, and Claude Code if necessary",
                );
                session_error(&message, out);
            }
            Event::UnparsedLineSkipped { bytes, .. } if bytes > LINE_BYTES_MAX as u64 => {
                session_error(&format!("a line of {bytes} bytes of Claude Code was too long and was skipped"), out);
            }
            Event::NoticeReported { about: NoticeKind::Blocked, text: Some(why), .. } => session_error(&why, out),
            Event::ResumedElsewhere { entrypoint, .. } => session_error(&resumed_elsewhere(&entrypoint), out),
            Event::EventsDropped { count } => {
                session_error(&format!("{count} events were dropped, because the client did not read them"), out);
            }
            // Events that the dialect does not encode.
            Event::SessionOpened { .. }
            | Event::Ready { .. }
            | Event::PromptAccepted { .. }
            | Event::TurnStarted { .. }
            | Event::MessageRetracted { .. }
            | Event::ContextInjected { .. }
            | Event::PromptDropped { reason: DropReason::CliExited, .. }
            | Event::BecameIdle
            | Event::ApiRetryScheduled { .. }
            | Event::TasksListed { .. }
            | Event::HookChanged { .. }
            | Event::PermissionDenied { .. }
            | Event::ThinkingCounted { .. }
            | Event::Compacted { .. }
            | Event::ConversationCleared { .. }
            | Event::TitleChanged { .. }
            | Event::CommandsListed { .. }
            | Event::PromptSuggested { .. }
            | Event::TranscriptWritten { .. }
            | Event::NoticeReported { .. }
            | Event::RequestSent { .. }
            | Event::RequestAnswered { .. }
            | Event::Unknown { .. }
            | Event::UnparsedLineSkipped { .. }
            | Event::CliRecovered { .. }
            | Event::CliExited { .. } => {}
        }
    }

    fn index_of(&self, block: BlockId) -> Option<u64> {
        let indices = &self.streaming.as_ref()?.indices;
        // The newest block is the open one.
        indices.iter().rev().find(|(open, _)| *open == block).map(|(_, index)| *index)
    }

    /// Writes the end of a block once, if its start was written.
    fn stop_block(&mut self, block: BlockId, out: &mut Vec<u8>) {
        let Some(index) = self.index_of(block) else { return };
        if let Some(streaming) = &mut self.streaming {
            streaming.indices.retain(|(open, _)| *open != block);
        }
        if self.streams {
            let session_id = self.session_id.as_deref().unwrap_or_default();
            write(&BridgeMessage::StreamContentStop { session_id, index }, out);
        }
    }

    fn encode_message(&self, parent_tool_use_id: Option<&str>, content: &[RawJson], out: &mut Vec<u8>) {
        let session_id = self.session_id.as_deref().unwrap_or_default();
        let content = content.iter().filter_map(|block| Object::of(block.as_ref())).collect();
        write(&BridgeMessage::AssistantMessage { session_id, parent_tool_use_id, content }, out);
    }

    fn encode_ask(&mut self, ask: AskId, kind: &AskKind, out: &mut Vec<u8>) {
        let PermissionAsk { tool, input, tool_use, .. } = match kind {
            AskKind::Permission(asked) | AskKind::Question(asked) | AskKind::Plan(asked) => &**asked,
            AskKind::ToolCall(call) => {
                self.open_asks.push(SentAsk::Call(ask));
                let input = object(&call.input);
                write(&BridgeMessage::ToolCall { call_id: CallId(ask), name: &call.tool, input }, out);
                return;
            }
            // No hooks are registered, and the front end dismisses forms.
            AskKind::Hook(_) | AskKind::Elicitation(_) => return,
        };
        self.open_asks.push(SentAsk::Permission(ask));
        let tool_use_id = tool_use.as_ref().map(|id| id.0.as_str()).unwrap_or_default();
        let (request_id, tool_input) = (RequestId(ask), object(input));
        write(&BridgeMessage::PermissionRequest { request_id, tool_name: tool, tool_input, tool_use_id }, out);
    }

    fn encode_ask_resolved(&mut self, ask: AskId, resolution: AskResolution, out: &mut Vec<u8>) {
        let matches = |open: &SentAsk| *open == SentAsk::Permission(ask) || *open == SentAsk::Call(ask);
        let Some(place) = self.open_asks.iter().position(matches) else { return };
        let open = self.open_asks.remove(place);
        let reason = match resolution {
            AskResolution::Expired => ClosedReason::Expired,
            AskResolution::Withdrawn | AskResolution::CliExited => ClosedReason::Cancelled,
            // The client itself resolved it.
            AskResolution::Allowed | AskResolution::Denied | AskResolution::Answered => return,
        };
        match open {
            SentAsk::Permission(ask) => {
                write(&BridgeMessage::PermissionClosed { request_id: RequestId(ask), reason }, out)
            }
            SentAsk::Call(ask) => write(&BridgeMessage::ToolCallClosed { call_id: CallId(ask), reason }, out),
        }
    }
}

fn carries_session_id(event: &Event) -> bool {
    !matches!(
        event,
        Event::AskOpened { .. }
            | Event::AskResolved { .. }
            | Event::ToolReturned { .. }
            | Event::PromptDropped { .. }
            | Event::CliStalled { .. }
            | Event::ResumedElsewhere { .. }
            | Event::EventsDropped { .. }
    )
}

/// A value as an object; the machine guarantees that it is one.
fn object(value: &RawJson) -> Object<'_> {
    Object::of(value.as_ref()).unwrap_or(Object::empty())
}

fn write_session(session: &SessionInfo, out: &mut Vec<u8>) {
    let mcp_servers = session.mcp_servers();
    let line = BridgeMessage::SessionInit {
        session_id: session.session_id.as_str(),
        model: &session.model,
        claude_code_version: &session.version,
        tools: &session.tools,
        mcp_servers: Object::list(mcp_servers.as_ref()),
        permission_mode: &session.permission_mode,
    };
    write(&line, out);
}

fn start_of_block<'a>(session_id: &'a str, index: u64, kind: &'a BlockKind) -> BridgeMessage<'a> {
    let (block_type, block_id, tool_name) = match kind {
        BlockKind::Text => ("text", None, None),
        BlockKind::Thinking => ("thinking", None, None),
        BlockKind::ToolUse { id, name } => ("tool_use", Some(id.0.as_str()), Some(name.as_str())),
        BlockKind::Other { name } => (name.as_str(), None, None),
    };
    BridgeMessage::StreamContentStart { session_id, index, block_type, block_id, tool_name }
}

fn write_result(session_id: &str, cause: TurnCause, outcome: &TurnOutcome, out: &mut Vec<u8>) {
    let usage = outcome.raw_usage();
    let succeeded = outcome.subtype == "success";
    let line = BridgeMessage::TurnResult {
        session_id,
        subtype: &outcome.subtype,
        total_cost_usd: outcome.total_cost_usd,
        num_turns: outcome.num_turns,
        is_error: outcome.ending != TurnEnding::Completed,
        usage: object(&usage),
        result: succeeded.then_some(outcome.result.as_deref().unwrap_or_default()),
        errors: (!succeeded).then_some(outcome.errors.as_slice()),
        structured_output: outcome.structured_output.as_ref().map(AsRef::as_ref),
        origin: match cause {
            TurnCause::Prompt(_) => Origin::Prompt,
            TurnCause::Cli => Origin::Task,
        },
    };
    write(&line, out);
}

#[cfg(test)]
mod tests;
