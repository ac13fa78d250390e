//! The message that is being streamed: its blocks, how long each is, and which are complete.
//!
//! The CLI streams a block, sends the whole block as an `assistant` frame before the block's own stop,
//! and stops the message. A block that was streamed but never sent whole was abandoned. A stream that breaks off has no stop on
//! 2.1.42: that another message is complete says that it is over.

use serde_json::value::RawValue;

use crate::event::{BlockKind, Delta, Event};
use crate::id::{BlockId, Counter, MessageId};
use crate::json::Raw;
use crate::wire::Text;
use crate::wire::message::{AssistantFrame, read_kind};
use crate::wire::repair::Halves;
use crate::wire::stream::{StreamDelta, StreamFrame};

#[derive(Debug)]
pub(super) struct Messages {
    blocks: Counter,
    streaming: Option<Streaming>,
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
    halves: Halves,
    is_stopped: bool,
    is_whole: bool,
}

impl Messages {
    pub(super) fn new(blocks: Counter) -> Messages {
        Messages { blocks, streaming: None }
    }

    pub(super) fn stream(&mut self, frame: StreamFrame<'_>, mut tell: impl FnMut(Event)) {
        match frame {
            StreamFrame::MessageStarted { id, model } => {
                self.finish(&mut tell);
                let message = MessageId(id.into_string());
                tell(Event::MessageStarted { message: message.clone(), model: model.into_string() });
                self.streaming = Some(Streaming { message, stop_reason: None, blocks: Vec::new() });
            }
            StreamFrame::BlockStarted { index, content } => self.start_block(index, content, tell),
            StreamFrame::BlockGrew { index, delta, has_halves } => self.grow_block(index, delta, has_halves, tell),
            StreamFrame::MessageChanged { stop_reason } => {
                if let Some(streaming) = &mut self.streaming {
                    streaming.stop_reason = stop_reason.map(|reason| reason.into_string());
                }
            }
            StreamFrame::MessageStopped => self.finish(tell),
            StreamFrame::BlockStopped { index } => {
                if let Some(block) = self.block_at(index) {
                    block.is_stopped = true;
                }
            }
            StreamFrame::Nothing => {}
        }
    }

    /// Whole blocks, of the streaming message or of one that was not streamed.
    pub(super) fn complete(&mut self, frame: AssistantFrame<'_>, mut tell: impl FnMut(Event)) {
        let is_replaced = |streaming: &Streaming| streaming.message.0 != *frame.message_id;
        if frame.parent.is_none() && self.streaming.as_ref().is_some_and(is_replaced) {
            // The CLI streams one message at a time. This one is given up before the other one's blocks are emitted, so that
            // whoever takes back its text does not take back theirs.
            self.finish(&mut tell);
        }
        if let Some(message) = frame.refused {
            tell(Event::MessageRetracted { message });
        }
        for content in frame.blocks {
            let streamed = match &frame.parent {
                Some(_) => None,
                None => self.take_streamed(&frame.message_id, &content.kind),
            };
            tell(Event::BlockFinished {
                block: streamed.unwrap_or_else(|| BlockId(self.blocks.next())),
                message: MessageId(frame.message_id.to_string()),
                parent: frame.parent.clone(),
                streamed: streamed.is_some(),
                source: Box::new(frame.source.clone()),
                content,
            });
        }
    }

    /// The streaming message is over, in good order or not.
    pub(super) fn finish(&mut self, mut tell: impl FnMut(Event)) {
        let Some(streaming) = self.streaming.take() else {
            return;
        };
        for block in streaming.blocks.iter().filter(|block| !block.is_whole) {
            tell(Event::BlockDiscarded { block: block.id });
        }
        let whole = streaming.blocks.iter().filter(|block| block.is_whole);
        tell(Event::MessageFinished {
            message: streaming.message,
            blocks: whole.map(|block| block.id).collect(),
            stop_reason: streaming.stop_reason,
        });
    }

    fn start_block(&mut self, index: u64, content: &RawValue, mut tell: impl FnMut(Event)) {
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
            halves: Halves::default(),
            is_stopped: false,
            is_whole: false,
        });
        tell(Event::BlockStarted {
            block: id,
            message: streaming.message.clone(),
            index,
            kind,
            content: Raw::copied(content),
        });
    }

    fn grow_block(&mut self, index: u64, delta: StreamDelta<'_>, has_halves: bool, mut tell: impl FnMut(Event)) {
        // What comes after a block was sent whole is in it already.
        let Some(block) = self.block_at(index).filter(|block| !block.is_whole) else { return };
        let must_join = has_halves || block.halves.is_waiting();
        let mut whole = |text: Text<'_>| if must_join { block.halves.join(&text) } else { text.into_string() };
        let delta = match delta {
            StreamDelta::Text(text) => Delta::Text(whole(text)),
            StreamDelta::Thinking(text) => Delta::Thinking(whole(text)),
            StreamDelta::Input(text) => Delta::Input(whole(text)),
        };
        if must_join && delta.text().is_empty() {
            // It was half a character, which is told with its other half.
            return;
        }
        let at = block.characters;
        block.characters += delta.text().chars().count() as u64;
        tell(Event::BlockGrew { block: block.id, at, delta });
    }

    fn block_at(&mut self, index: u64) -> Option<&mut StreamingBlock> {
        // The newest is the one that grows; looking from the end makes that the first look.
        self.streaming.as_mut()?.blocks.iter_mut().rev().find(|block| block.index == index)
    }

    /// The streamed block that a whole one completes: of its kind, and if possible the one that is still open,
    /// because the CLI sends a block whole before it stops it. For an empty block it sends nothing.
    fn take_streamed(&mut self, message: &str, kind: &BlockKind) -> Option<BlockId> {
        let streaming = self.streaming.as_mut().filter(|streaming| streaming.message.0 == message)?;
        let fits = |block: &StreamingBlock| !block.is_whole && block.kind == *kind;
        let open = streaming.blocks.iter().position(|block| fits(block) && !block.is_stopped);
        let place = open.or_else(|| streaming.blocks.iter().position(fits))?;
        streaming.blocks[place].is_whole = true;
        Some(streaming.blocks[place].id)
    }
}
