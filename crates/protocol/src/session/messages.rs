//! The streaming message: its blocks, their lengths, and which of them are complete.
//!
//! The CLI streams a block, sends the complete block as an `assistant` frame before the block's stop, and stops the
//! message. A block that was streamed but never sent complete was abandoned. On 2.1.42, a stream that breaks off has no
//! stop; the next complete message shows that it is over.

use serde_json::json;
use serde_json::value::RawValue;

use crate::event::{Author, Block, BlockKind, BlockSource, Delta, Event, NoticeKind, TurnCause, TurnEnding};
use crate::id::{BlockId, Counter, MessageId};
use crate::json::RawJson;
use crate::wire::Text;
use crate::wire::message::{AssistantFrame, read_kind};
use crate::wire::repair::SurrogateJoiner;
use crate::wire::result::ResultFrame;
use crate::wire::stream::{StreamDelta, StreamFrame};

#[derive(Debug)]
pub(super) struct Messages {
    blocks: Counter,
    streaming: Option<Streaming>,
    /// What clients can see of the turn so far.
    shown: Shown,
}

/// How much clients can see of a turn, from less to more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shown {
    Nothing,
    /// Some work, such as a tool or a slash command.
    Work,
    /// Text for the user, or the reason why there is none.
    Text,
}

#[derive(Debug)]
struct Streaming {
    message: MessageId,
    stop_reason: Option<String>,
    blocks: Vec<StreamingBlock>,
}

#[derive(Debug)]
struct StreamingBlock {
    id: BlockId,
    index: u64,
    kind: BlockKind,
    characters: u64,
    joiner: SurrogateJoiner,
    is_stopped: bool,
    is_complete: bool,
}

/// The notice for a prompt for which the CLI did nothing and gave no reason.
const NOTHING_DONE: &str = "Claude Code did nothing for this message and gave no reason: a hook in its settings may \
                            have blocked it";

impl Messages {
    pub(super) fn new(blocks: Counter) -> Messages {
        Messages { blocks, streaming: None, shown: Shown::Nothing }
    }

    pub(super) fn handle_stream_frame(&mut self, frame: StreamFrame<'_>, mut emit: impl FnMut(Event)) {
        match frame {
            StreamFrame::MessageStarted { id, model } => {
                self.end_streaming(&mut emit);
                self.note_shown(Shown::Work);
                let message = MessageId(id.into_string());
                emit(Event::MessageStarted { message: message.clone(), model: model.into_string() });
                self.streaming = Some(Streaming { message, stop_reason: None, blocks: Vec::new() });
            }
            StreamFrame::BlockStarted { index, content } => self.start_block(index, content, emit),
            StreamFrame::BlockDelta { index, delta, has_lone_surrogate } => {
                self.append_delta(index, delta, has_lone_surrogate, emit)
            }
            StreamFrame::MessageChanged { stop_reason } => {
                if let Some(streaming) = &mut self.streaming {
                    streaming.stop_reason = stop_reason.map(|reason| reason.into_string());
                }
            }
            StreamFrame::MessageStopped => self.end_streaming(emit),
            StreamFrame::BlockStopped { index } => {
                if let Some(block) = self.block_at(index) {
                    block.is_stopped = true;
                }
            }
            StreamFrame::Ignored => {}
        }
    }

    /// Records that clients can see this much of the turn.
    pub(super) fn note_shown(&mut self, shown: Shown) {
        self.shown = self.shown.max(shown);
    }

    /// Ends a turn. If the turn completed without a call of the model and clients have seen no text, the text of the
    /// result is emitted as a block: 2.1.42 reports an unknown slash command only there. For a prompt that a hook
    /// blocked, 2.1.42 reports nothing at all; a notice is emitted instead.
    pub(super) fn turn_finished(&mut self, cause: TurnCause, frame: &ResultFrame, mut emit: impl FnMut(Event)) {
        self.end_streaming(&mut emit);
        let shown = std::mem::replace(&mut self.shown, Shown::Nothing);
        if !frame.without_model || frame.outcome.ending != TurnEnding::Completed {
            return;
        }
        let result = frame.outcome.result.as_deref().filter(|result| !result.is_empty());
        match (shown, result) {
            (Shown::Nothing | Shown::Work, Some(text)) => {
                let block = BlockId(self.blocks.next());
                emit(Event::BlockFinished {
                    block,
                    message: MessageId(format!("result_{block}")),
                    parent: None,
                    streamed: false,
                    source: Box::new(BlockSource { author: Author::Command, ..BlockSource::default() }),
                    content: Block { kind: BlockKind::Text, raw: RawJson::of(&json!({"type": "text", "text": text})) },
                });
            }
            (Shown::Nothing, None) if cause != TurnCause::Cli => emit(Event::NoticeReported {
                about: NoticeKind::Blocked,
                text: Some(NOTHING_DONE.to_owned()),
                raw: frame.outcome.raw.clone(),
            }),
            (Shown::Nothing | Shown::Work, None) | (Shown::Text, _) => {}
        }
    }

    /// Handles an `assistant` frame: complete blocks, of the streaming message or of a message that was not streamed.
    pub(super) fn handle_assistant_frame(&mut self, frame: AssistantFrame<'_>, mut emit: impl FnMut(Event)) {
        let is_replaced = |streaming: &Streaming| streaming.message.0 != *frame.message_id;
        if frame.parent.is_none() && self.streaming.as_ref().is_some_and(is_replaced) {
            // The CLI streams one message at a time. The streaming message is discarded before the blocks of the other
            // are emitted, so that a client that removes its text does not remove theirs.
            self.end_streaming(&mut emit);
        }
        if let Some(message) = frame.retracted {
            emit(Event::MessageRetracted { message });
        }
        for content in frame.blocks {
            let is_text = frame.parent.is_none() && content.kind == BlockKind::Text;
            self.note_shown(if is_text { Shown::Text } else { Shown::Work });
            let streamed = match &frame.parent {
                Some(_) => None,
                None => self.take_streamed(&frame.message_id, &content.kind),
            };
            emit(Event::BlockFinished {
                block: streamed.unwrap_or_else(|| BlockId(self.blocks.next())),
                message: MessageId(frame.message_id.to_string()),
                parent: frame.parent.clone(),
                streamed: streamed.is_some(),
                source: Box::new(frame.source.clone()),
                content,
            });
        }
    }

    /// Ends the streaming message and discards its incomplete blocks.
    pub(super) fn end_streaming(&mut self, mut emit: impl FnMut(Event)) {
        let Some(streaming) = self.streaming.take() else {
            return;
        };
        for block in streaming.blocks.iter().filter(|block| !block.is_complete) {
            emit(Event::BlockDiscarded { block: block.id });
        }
        let complete = streaming.blocks.iter().filter(|block| block.is_complete);
        emit(Event::MessageFinished {
            message: streaming.message,
            blocks: complete.map(|block| block.id).collect(),
            stop_reason: streaming.stop_reason,
        });
    }

    fn start_block(&mut self, index: u64, content: &RawValue, mut emit: impl FnMut(Event)) {
        let Some(streaming) = &mut self.streaming else {
            return;
        };
        let id = BlockId(self.blocks.next());
        let kind = read_kind(content);
        streaming.blocks.push(StreamingBlock {
            id,
            index,
            kind: kind.clone(),
            characters: 0,
            joiner: SurrogateJoiner::default(),
            is_stopped: false,
            is_complete: false,
        });
        emit(Event::BlockStarted {
            block: id,
            message: streaming.message.clone(),
            index,
            kind,
            content: RawJson::copied(content),
        });
    }

    fn append_delta(
        &mut self,
        index: u64,
        delta: StreamDelta<'_>,
        has_lone_surrogate: bool,
        mut emit: impl FnMut(Event),
    ) {
        // The complete block already contains deltas that arrive after it.
        let Some(block) = self.block_at(index).filter(|block| !block.is_complete) else { return };
        let must_join = has_lone_surrogate || block.joiner.is_waiting();
        let mut joined = |text: Text<'_>| if must_join { block.joiner.join(&text) } else { text.into_string() };
        let delta = match delta {
            StreamDelta::Text(text) => Delta::Text(joined(text)),
            StreamDelta::Thinking(text) => Delta::Thinking(joined(text)),
            StreamDelta::Input(text) => Delta::Input(joined(text)),
        };
        if must_join && delta.text().is_empty() {
            // The delta was a lone surrogate, which is emitted with its partner.
            return;
        }
        let at = block.characters;
        block.characters += delta.text().chars().count() as u64;
        emit(Event::BlockDelta { block: block.id, at, delta });
    }

    fn block_at(&mut self, index: u64) -> Option<&mut StreamingBlock> {
        // Deltas are for the newest block, so search from the end.
        self.streaming.as_mut()?.blocks.iter_mut().rev().find(|block| block.index == index)
    }

    /// Finds the streamed block that a complete block completes: the first of the same kind that is not stopped, or
    /// else the first of the same kind. (The CLI sends the complete block before the stop. It sends none for an empty
    /// block, so a block that is stopped and not complete may have been empty.)
    fn take_streamed(&mut self, message: &str, kind: &BlockKind) -> Option<BlockId> {
        let streaming = self.streaming.as_mut().filter(|streaming| streaming.message.0 == message)?;
        let fits = |block: &StreamingBlock| !block.is_complete && block.kind == *kind;
        let open = streaming.blocks.iter().position(|block| fits(block) && !block.is_stopped);
        let index = open.or_else(|| streaming.blocks.iter().position(fits))?;
        streaming.blocks[index].is_complete = true;
        Some(streaming.blocks[index].id)
    }
}
