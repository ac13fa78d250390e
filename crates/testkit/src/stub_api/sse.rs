//! A message as server-sent events, written only as fast as the client reads them.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use futures_core::Stream;
use tokio::time::Sleep;

use super::message::{Content, Delta, ErrorBody, Event, Message, SIGNATURE};
use super::script::{Block, Ending};

/// From this size on, events that need not wait go out as one piece of the body.
const PIECE_BYTES: usize = 32 * 1024;

/// How long a connection lives on before it is cut.
const CUT_AFTER: Duration = Duration::from_millis(50);

/// The body of a streamed answer.
pub(super) struct EventStream {
    transcript: Transcript,
    pause: Option<Pin<Box<Sleep>>>,
}

/// The events of one message, one after the other.
struct Transcript {
    message: Message,
    block: usize,
    place: Place,
}

#[derive(Clone, Copy)]
enum Place {
    MessageStart,
    BlockStart,
    /// In a block; `at` counts bytes of a text or an input, and deltas of thinking.
    Deltas {
        at: usize,
    },
    Held,
    Cut,
    MessageStop,
    Finished,
}

enum Progress {
    Written,
    Held,
    Finished,
}

impl EventStream {
    pub(super) fn new(message: Message) -> Self {
        Self { transcript: Transcript { message, block: 0, place: Place::MessageStart }, pause: None }
    }

    /// Whether the reply's pace keeps the next event back for now.
    fn must_pause(&mut self, context: &mut Context<'_>) -> bool {
        let Some(pace) = self.transcript.pace_of_next() else {
            return false;
        };
        let pause = self.pause.get_or_insert_with(|| Box::pin(tokio::time::sleep(pace)));
        if pause.as_mut().poll(context).is_pending() {
            return true;
        }
        self.pause = None;
        false
    }
}

impl Stream for EventStream {
    type Item = Result<Bytes, io::Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let mut piece = Vec::new();
        while piece.len() < PIECE_BYTES {
            let rest = if this.must_pause(context) {
                Poll::Pending
            } else {
                match this.transcript.write_next(&mut piece) {
                    Ok(Progress::Written) => continue,
                    // Nothing will ever wake this; the end of the connection drops it.
                    Ok(Progress::Held) => Poll::Pending,
                    Ok(Progress::Finished) => Poll::Ready(None),
                    Err(error) => Poll::Ready(Some(Err(error))),
                }
            };
            if piece.is_empty() {
                return rest;
            }
            // What is there goes out first; the next call comes to the same place again.
            break;
        }
        Poll::Ready(Some(Ok(piece.into())))
    }
}

impl Transcript {
    /// How long to wait before the next event: if it is a text delta and the reply has a pace, or before a cut.
    fn pace_of_next(&self) -> Option<Duration> {
        if let Place::Cut = self.place {
            // What was written before must have left when the connection is cut.
            return Some(CUT_AFTER);
        }
        let Place::Deltas { at } = self.place else {
            return None;
        };
        match self.message.reply.blocks.get(self.block)? {
            Block::Text(text) if at < text.len() => self.message.reply.pace,
            Block::Text(_) | Block::Thinking(_) | Block::ToolUse { .. } => None,
        }
    }

    fn write_next(&mut self, out: &mut Vec<u8>) -> Result<Progress, io::Error> {
        let message = &self.message;
        let index = self.block;
        self.place = match self.place {
            Place::MessageStart => {
                write_event(out, &message.start())?;
                Place::BlockStart
            }
            Place::BlockStart => match message.reply.blocks.get(index) {
                Some(block) => {
                    write_event(out, &Event::ContentBlockStart { index, content_block: Content::empty(block) })?;
                    Place::Deltas { at: 0 }
                }
                None => match &message.reply.ending {
                    Ending::Hold | Ending::Cut => {
                        let text = Content::Text { text: "" };
                        write_event(out, &Event::ContentBlockStart { index, content_block: text })?;
                        write_event(out, &Event::ContentBlockDelta { index, delta: Delta::TextDelta { text: "…" } })?;
                        if matches!(message.reply.ending, Ending::Hold) { Place::Held } else { Place::Cut }
                    }
                    Ending::StreamError { kind, message } => {
                        write_event(out, &Event::Error { error: ErrorBody { kind, message } })?;
                        Place::Finished
                    }
                    Ending::Stop | Ending::Status { .. } => {
                        write_event(out, &message.delta())?;
                        Place::MessageStop
                    }
                },
            },
            Place::Deltas { at } => match self.write_delta(out, at)? {
                Some(at) => Place::Deltas { at },
                None => {
                    write_event(out, &Event::ContentBlockStop { index })?;
                    self.block += 1;
                    Place::BlockStart
                }
            },
            Place::MessageStop => {
                write_event(out, &Event::MessageStop)?;
                Place::Finished
            }
            Place::Held => return Ok(Progress::Held),
            // An error of the body ends the connection without an end of the response.
            Place::Cut => return Err(io::ErrorKind::ConnectionAborted.into()),
            Place::Finished => return Ok(Progress::Finished),
        };
        Ok(Progress::Written)
    }

    /// Writes the delta that begins at `at` and says where the next one does; nothing if the block is at its end.
    fn write_delta(&self, out: &mut Vec<u8>, at: usize) -> Result<Option<usize>, io::Error> {
        let reply = &self.message.reply;
        let mut write = |delta| write_event(out, &Event::ContentBlockDelta { index: self.block, delta });
        match reply.blocks.get(self.block) {
            Some(Block::Text(text)) if at < text.len() => {
                let rest = &text[at..];
                let length = rest.char_indices().nth(reply.chunk_chars).map_or(rest.len(), |(end, _)| end);
                write(Delta::TextDelta { text: &rest[..length] })?;
                Ok(Some(at + length))
            }
            Some(Block::Thinking(thinking)) if at == 0 => {
                write(Delta::ThinkingDelta { thinking })?;
                Ok(Some(1))
            }
            Some(Block::Thinking(_)) if at == 1 => {
                write(Delta::SignatureDelta { signature: SIGNATURE })?;
                Ok(Some(2))
            }
            Some(Block::ToolUse { input, .. }) => {
                let json = input.to_string();
                if at == json.len() {
                    return Ok(None);
                }
                // Two halves, so that a reader has to put them together.
                let middle = json.ceil_char_boundary(json.len().div_ceil(2));
                let end = if at < middle { middle } else { json.len() };
                write(Delta::InputJsonDelta { partial_json: &json[at..end] })?;
                Ok(Some(end))
            }
            Some(Block::Text(_) | Block::Thinking(_)) | None => Ok(None),
        }
    }
}

fn write_event(out: &mut Vec<u8>, event: &Event<'_>) -> Result<(), io::Error> {
    write!(out, "event: {}\ndata: ", event.name())?;
    serde_json::to_writer(&mut *out, event)?;
    out.extend_from_slice(b"\n\n");
    Ok(())
}
