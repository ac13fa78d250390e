//! Encodes lines of the session's log for a client of the socket dialect.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use watari_hub::{Attachment, Position, SessionState};
use watari_sdk::{AskId, AskTag, replace_lone_surrogates};

use super::asks::{AskRef, Asks, dialect_name, form_of};
use super::messages::{CallEnd, Decision, ErrorKind, ServerMessage, TextKind, write, write_error};
use super::turns::{describe_end, describe_left, encode_stop_notice, encode_turn_end, write_done};
use crate::dialect::cli_trouble::{self, resumed_elsewhere};
use crate::dialect::native::ParsedEvent;
use crate::dialect::shaped::{Content, Object};

/// The state between two events.
#[derive(Debug, Default)]
pub(crate) struct Encoder {
    session_id: String,
    /// Whether the client wants the positions of events.
    has_positions: bool,
    /// Events up to this position are repeated, without a position.
    known: Position,
    /// How many characters of each open block the client has.
    blocks: BTreeMap<u64, (TextKind, u64)>,
    pub(super) asks: Asks,
    /// Whether the CLI became ready since its last exit.
    is_up: bool,
    /// Prompts that were dropped because the CLI exited. The exit will report the reason.
    dropped_by_exit: Vec<u64>,
}

/// The events that the dialect does not encode. A test asserts that every other event is encoded.
pub(super) const UNTOLD: &[&str] = &[
    "prompt_accepted",
    "turn_started",
    "message_started",
    "block_started",
    "message_finished",
    "message_retracted",
    "context_injected",
    "tool_progressed",
    "became_idle",
    "status_changed",
    "api_retry_scheduled",
    "task_changed",
    "tasks_listed",
    "hook_changed",
    "permission_denied",
    "thinking_counted",
    "compacted",
    "conversation_cleared",
    "title_changed",
    "commands_listed",
    "prompt_suggested",
    "transcript_written",
    "request_sent",
    "request_answered",
    "unknown",
    "unparsed_line_skipped",
    "unparsed_lines_omitted",
    "cli_recovered",
    "storage_recovered",
];

impl Encoder {
    pub(super) fn new(attached: &Attachment, has_positions: bool) -> Encoder {
        Encoder {
            session_id: attached.session_id.clone(),
            has_positions,
            known: attached.client_position,
            is_up: was_up(attached),
            ..Encoder::default()
        }
    }

    /// Appends the lines for an event.
    pub(super) fn encode(&mut self, line: &[u8], out: &mut Vec<u8>) {
        // A malformed line was written by another program and is ignored.
        let Some(line) = ParsedEvent::read(line) else { return };
        let is_new = |seq: &&str| seq.parse::<Position>().is_ok_and(|place| place.seq > self.known.seq);
        let seq = line.seq.filter(|_| self.has_positions).filter(is_new);
        match line.r#type {
            "block_delta" => self.encode_delta(&line, out),
            "block_finished" => self.encode_block(&line, seq, out),
            "block_discarded" => {
                let discarded = line.block.and_then(|block| self.blocks.remove(&block));
                if let Some((of, characters @ 1..)) = discarded {
                    write(&ServerMessage::TextReset { of, characters }, seq, out);
                }
            }
            "tool_returned" => encode_tool_result(&line, seq, out),
            "ask_opened" => self.encode_ask(&line, seq, out),
            "ask_resolved" => self.encode_resolution(&line, seq, out),
            "turn_finished" => encode_turn_end(&line, seq, out),
            "prompt_dropped" => self.encode_dropped_prompt(&line, seq, out),
            "ready" => self.is_up = true,
            "cli_exited" => self.encode_exit(&line, seq, out),
            "session_opened" | "host_started" => self.encode_session_id(&line, seq, out),
            "caught_up" if self.has_positions => write(&ServerMessage::CaughtUp, None, out),
            "start_failed" => write_error(ErrorKind::Session, line.message.as_deref().unwrap_or_default(), seq, out),
            "log_restored" => write_error(ErrorKind::Storage, line.message.as_deref().unwrap_or_default(), seq, out),
            "notice_reported" => encode_stop_notice(&line, seq, out),
            "events_lost" => {
                let message = "events are lost here: another program removed them from the log";
                write_error(ErrorKind::Storage, message, seq, out);
            }
            "storage_failed" => write_error(ErrorKind::Storage, line.message.as_deref().unwrap_or_default(), seq, out),
            "context_lost" => {
                let message = "context lost: Claude Code does not have this conversation, so it starts a new one";
                write_error(ErrorKind::Session, message, seq, out);
            }
            "host_stopping" => {
                let reason = line.reason.as_deref().unwrap_or_default();
                write_error(ErrorKind::Session, &format!("the session ends: {reason}"), seq, out);
            }
            "cli_stalled" => {
                let silent_seconds = line.silent_seconds.unwrap_or(0);
                let message =
                    cli_trouble::stalled(silent_seconds, "send abort: it ends the turn, and Claude Code if necessary");
                write_error(ErrorKind::Session, &message, seq, out);
            }
            "resumed_elsewhere" => {
                let entrypoint = line.entrypoint.as_deref().unwrap_or_default();
                write_error(ErrorKind::Session, &resumed_elsewhere(entrypoint), seq, out);
            }
            "events_dropped" => {
                let message =
                    format!("{} events were dropped, because they could not be stored", line.count.unwrap_or(0));
                write_error(ErrorKind::Storage, &message, seq, out);
            }
            // A newer host may have more events.
            _ => {}
        }
    }

    /// Sends the part of a block that the client does not have.
    fn encode_delta(&mut self, line: &ParsedEvent<'_>, out: &mut Vec<u8>) {
        let (Some(block), Some(at), Some(delta)) = (line.block, line.at, &line.delta) else { return };
        let kind = match delta.r#type {
            "text" => TextKind::Text,
            "thinking" => TextKind::Thinking,
            _ => return,
        };
        let (_, has) = self.blocks.entry(block).or_insert((kind, 0));
        // After a gap, the rest follows with the complete block.
        let Some(known) = has.checked_sub(at) else { return };
        let update = without_beginning(&delta.text, known);
        *has += update.chars().count() as u64;
        write_delta(kind, update, None, out);
    }

    fn encode_block(&mut self, line: &ParsedEvent<'_>, seq: Option<&str>, out: &mut Vec<u8>) {
        #[derive(Deserialize)]
        struct Block<'a> {
            #[serde(borrow)]
            r#type: Cow<'a, str>,
            #[serde(borrow)]
            text: Option<Cow<'a, str>>,
            #[serde(borrow)]
            thinking: Option<Cow<'a, str>>,
            #[serde(borrow)]
            id: Option<Cow<'a, str>>,
            #[serde(borrow)]
            name: Option<Cow<'a, str>>,
            #[serde(borrow)]
            input: Option<&'a RawValue>,
        }
        let has = line.block.and_then(|block| self.blocks.remove(&block)).map_or(0, |(_, has)| has);
        let content = line.content.map(|content| Cow::Borrowed(content.get())).unwrap_or_default();
        let content = replace_lone_surrogates(&content);
        let Ok(block) = serde_json::from_str::<Block<'_>>(&content) else { return };
        let parent = line.parent.as_deref();
        match (&*block.r#type, parent) {
            ("text", None) => {
                write_delta(TextKind::Text, without_beginning(&block.text.unwrap_or_default(), has), seq, out);
            }
            ("thinking", None) => {
                write_delta(TextKind::Thinking, without_beginning(&block.thinking.unwrap_or_default(), has), seq, out);
            }
            ("text", Some(parent_request_id)) => {
                let text = &block.text.unwrap_or_default();
                write(&ServerMessage::SubagentText { parent_request_id, text }, seq, out);
            }
            ("tool_use", parent_request_id) => {
                let (Some(request_id), Some(tool)) = (&block.id, &block.name) else { return };
                let input = block.input.and_then(Object::of).unwrap_or(Object::empty());
                write(&ServerMessage::ToolUse { request_id, tool, input, parent_request_id }, seq, out);
            }
            _ => {}
        }
    }

    fn encode_ask(&mut self, line: &ParsedEvent<'_>, seq: Option<&str>, out: &mut Vec<u8>) {
        let (Some(ask), Some(kind)) = (line.ask.map(AskId), line.ask_kind()) else { return };
        let tool = line.tool.as_deref().unwrap_or_default();
        // An ask whose input is not an object was stored by an older host, which has ended with its asks.
        let input = line.input.and_then(Object::of).unwrap_or(Object::empty());
        let tool_use = line.tool_use.as_deref();
        match dialect_name(ask, kind, tool_use, line.repeated.unwrap_or(false)) {
            Some((request_id, open)) => {
                let (form, tool_use_id) = (form_of(line), tool_use.filter(|id| *id != request_id));
                let (tool, input) = match open {
                    AskRef::Tool(_) => (tool, input),
                    AskRef::Form(_) => ("Form", Object::of(form.as_ref()).unwrap_or(Object::empty())),
                };
                write(&ServerMessage::ApprovalRequest { request_id: &request_id, tool_use_id, tool, input }, seq, out);
                self.asks.open(request_id, open);
            }
            None if kind == AskTag::ToolCall => {
                write(&ServerMessage::ToolCall { call_id: &format!("call_{ask}"), name: tool, input }, seq, out);
            }
            // No client of this dialect has hooks.
            None => {}
        }
    }

    fn encode_resolution(&mut self, line: &ParsedEvent<'_>, seq: Option<&str>, out: &mut Vec<u8>) {
        let (Some(ask), Some(kind)) = (line.ask.map(AskId), line.ask_kind()) else { return };
        let repeated = line.repeated.unwrap_or(false);
        let Some((request_id, open)) = dialect_name(ask, kind, line.tool_use.as_deref(), repeated) else {
            if kind == AskTag::ToolCall {
                encode_call_closed(ask, line, seq, out);
            }
            return;
        };
        let decision = match line.resolution {
            Some("allowed" | "answered") => Decision::Approved,
            Some("denied") => Decision::Denied,
            Some("expired") => Decision::Expired,
            _ => Decision::Cancelled,
        };
        let resolved = ServerMessage::ApprovalResolved {
            request_id: &request_id,
            decision,
            by: line.by.as_deref(),
            edited: line.edited.unwrap_or(false),
            input: line.input.and_then(Object::of),
            permissions: line.permissions.map(Object::list),
        };
        write(&resolved, seq, out);
        self.asks.close(request_id, open);
    }

    /// A prompt will not be answered. If the CLI exited, its exit reports that.
    fn encode_dropped_prompt(&mut self, line: &ParsedEvent<'_>, seq: Option<&str>, out: &mut Vec<u8>) {
        let message = match line.reason.as_deref() {
            Some("cli_exited") => {
                self.dropped_by_exit.extend(line.prompt);
                return;
            }
            Some("cancelled") => "a queued message was cancelled",
            _ => "the CLI gave no result for a message; it may have run: check before you send it again",
        };
        write_error(ErrorKind::Turn, message, None, out);
        write_done(None, line.prompt, seq, out);
    }

    fn encode_exit(&mut self, line: &ParsedEvent<'_>, seq: Option<&str>, out: &mut Vec<u8>) {
        let (was_up, mut dropped) = (std::mem::take(&mut self.is_up), std::mem::take(&mut self.dropped_by_exit));
        // In the order of their arrival: waiting prompts are dropped before the running one.
        dropped.sort_unstable();
        self.blocks.clear();
        let reason = match line.exit.and_then(describe_end) {
            // The exit was requested, and the dropped prompts get no answer.
            None if !dropped.is_empty() => Some("the session ended before this message was answered".to_owned()),
            // The CLI never became ready; the host reports the reason.
            Some(_) if !was_up && dropped.is_empty() => None,
            reason => reason,
        };
        if let Some(left) = line.exit.and_then(describe_left) {
            write_error(ErrorKind::Session, &left, seq.filter(|_| reason.is_none()), out);
        }
        let Some(reason) = reason else { return };
        // One error per prompt, so that it precedes the `done` of the prompt.
        let prompts: Vec<Option<u64>> =
            if dropped.is_empty() { vec![None] } else { dropped.into_iter().map(Some).collect() };
        let last = prompts.len() - 1;
        for (place, prompt) in prompts.into_iter().enumerate() {
            write_error(ErrorKind::Session, &reason, None, out);
            write_done(None, prompt, seq.filter(|_| place == last), out);
        }
    }

    fn encode_session_id(&mut self, line: &ParsedEvent<'_>, seq: Option<&str>, out: &mut Vec<u8>) {
        #[derive(Deserialize)]
        struct Session {
            session_id: String,
        }
        let described = line.session.and_then(|session| serde_json::from_str::<Session>(session.get()).ok());
        let session_id = match (described, line.session_id.as_deref()) {
            (Some(Session { session_id }), _) => session_id,
            (None, Some(session_id)) => session_id.to_owned(),
            (None, None) => return,
        };
        if session_id != self.session_id {
            write(&ServerMessage::Init { session_id: &session_id }, seq, out);
            self.session_id = session_id;
        }
    }
}

/// Whether the event whose line begins with `head` is encoded. Its type follows its position.
pub(super) fn encodes(head: &[u8]) -> bool {
    let Some((_, rest)) = std::str::from_utf8(head).ok().and_then(|head| head.split_once("\"type\":\"")) else {
        return true;
    };
    !rest.split_once('"').is_some_and(|(name, _)| UNTOLD.contains(&name))
}

fn encode_call_closed(ask: AskId, line: &ParsedEvent<'_>, seq: Option<&str>, out: &mut Vec<u8>) {
    let reason = match line.resolution {
        Some("answered" | "allowed" | "denied") => CallEnd::Answered,
        Some("expired") => CallEnd::Expired,
        _ => CallEnd::Cancelled,
    };
    let closed = ServerMessage::ToolCallClosed { call_id: &format!("call_{ask}"), reason, by: line.by.as_deref() };
    write(&closed, seq, out);
}

/// Whether the CLI was up at the client's position. For a replay this is a guess: it nearly always was.
fn was_up(attached: &Attachment) -> bool {
    let is_up = matches!(attached.state, SessionState::Idle | SessionState::Running);
    if attached.client_position == attached.last { is_up } else { attached.client_position.seq > 0 }
}

/// The text without the characters that the client already has.
fn without_beginning(text: &str, characters: u64) -> &str {
    if characters == 0 {
        return text;
    }
    let place = usize::try_from(characters).ok().and_then(|characters| text.char_indices().nth(characters));
    place.map_or("", |(place, _)| &text[place..])
}

/// Writes a delta. An empty delta with a position is written, too: the client must learn that it has this event, or a
/// later replay would repeat the text of the block.
fn write_delta(kind: TextKind, text: &str, seq: Option<&str>, out: &mut Vec<u8>) {
    if text.is_empty() && seq.is_none() {
        return;
    }
    match kind {
        TextKind::Text => write(&ServerMessage::TextDelta { text }, seq, out),
        TextKind::Thinking => write(&ServerMessage::ThinkingDelta { text }, seq, out),
    }
}

fn encode_tool_result(line: &ParsedEvent<'_>, seq: Option<&str>, out: &mut Vec<u8>) {
    let Some(request_id) = line.tool_use.as_deref() else { return };
    let content = line.content.and_then(Content::of);
    let output = match content {
        Some(Content::Unchanged(content)) => as_text(content.get()),
        Some(Content::Other(text)) => text.to_owned(),
        None => String::new(),
    };
    let parent_request_id = line.parent.as_deref();
    let is_error = line.is_error.unwrap_or(false);
    write(&ServerMessage::ToolResult { request_id, output: &output, is_error, content, parent_request_id }, seq, out);
}

/// The result of a tool as one text: its texts, and the types of its other blocks.
fn as_text(content: &str) -> String {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
        #[serde(borrow)]
        text: Option<Cow<'a, str>>,
    }
    let content = replace_lone_surrogates(content);
    if let Ok(text) = serde_json::from_str::<String>(&content) {
        return text;
    }
    let blocks: Vec<Block<'_>> = serde_json::from_str(&content).unwrap_or_default();
    let texts = blocks.into_iter().map(|block| match block.text {
        Some(text) if block.r#type == "text" => text.into_owned(),
        Some(_) | None => format!("[{}]", block.r#type),
    });
    texts.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
