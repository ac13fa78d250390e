//! A message as server-sent events, written only as fast as the client reads.

use std::io::{self, Write};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use futures_core::Stream;
use tokio::time::Sleep;

use super::fault::{Fault, FaultPoint};
use super::message::{Delta, ErrorBody, Event, Message, SIGNATURE};
use super::script::Block;

/// From this size on, events that need not wait are sent as one piece of the body.
const PIECE_BYTES: usize = 32 * 1024;

/// The delay before a connection is cut, so that earlier output leaves first.
const CUT_AFTER: Duration = Duration::from_millis(50);

/// The body of a streamed answer.
pub(super) struct EventStream {
    transcript: Transcript,
    pause: Option<Pin<Box<Sleep>>>,
}

/// The events of one message, in order.
struct Transcript {
    message: Message,
    block: usize,
    place: Place,
    /// Whether the wait at this point is over.
    waited: bool,
    /// Whether the reply's fault has happened.
    fault_over: bool,
}

#[derive(Clone, Copy)]
enum Place {
    MessageStart,
    BlockStart,
    /// In a block; `at` counts bytes of a text or an input, and deltas of thinking.
    Deltas {
        at: usize,
    },
    MessageStop,
    Finished,
}

enum Progress {
    Written,
    Wait(Duration),
    Held,
    Cut,
    Finished,
}

impl EventStream {
    pub(super) fn new(message: Message) -> Self {
        let transcript = Transcript { message, block: 0, place: Place::MessageStart, waited: false, fault_over: false };
        Self { transcript, pause: None }
    }

    /// Whether a pause delays the next event.
    fn must_pause(&mut self, context: &mut Context<'_>) -> bool {
        let Some(pause) = &mut self.pause else {
            return false;
        };
        if pause.as_mut().poll(context).is_pending() {
            return true;
        }
        self.pause = None;
        self.transcript.waited = true;
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
                    Ok(Progress::Wait(pause)) => {
                        this.pause = Some(Box::pin(tokio::time::sleep(pause)));
                        continue;
                    }
                    // Nothing will wake this; the end of the connection drops it.
                    Ok(Progress::Held) => Poll::Pending,
                    // An error of the body closes the connection without an end of the response.
                    Ok(Progress::Cut) => Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into()))),
                    Ok(Progress::Finished) => Poll::Ready(None),
                    Err(error) => Poll::Ready(Some(Err(error))),
                }
            };
            if piece.is_empty() {
                return rest;
            }
            // What is there is sent first; the next call arrives at the same point again.
            break;
        }
        Poll::Ready(Some(Ok(piece.into())))
    }
}

impl Transcript {
    fn write_next(&mut self, out: &mut Vec<u8>) -> Result<Progress, io::Error> {
        let waited = std::mem::take(&mut self.waited);
        if let Some(fault) = self.due_fault() {
            match fault {
                Fault::Error { kind, message } => {
                    write_event(out, &Event::Error { error: ErrorBody { kind, message } })?;
                    self.place = Place::Finished;
                }
                Fault::Drop if waited => return Ok(Progress::Cut),
                Fault::Drop => return Ok(Progress::Wait(CUT_AFTER)),
                Fault::End => self.place = Place::Finished,
                Fault::Stall { duration: None } => return Ok(Progress::Held),
                Fault::Stall { duration: Some(duration) } if !waited => return Ok(Progress::Wait(*duration)),
                Fault::Stall { duration: Some(_) } => {}
                Fault::Insert(text) => out.extend_from_slice(text.as_bytes()),
            }
            self.fault_over = true;
            return Ok(Progress::Written);
        }
        if let Some(pace) = self.pace_of_next().filter(|_| !waited) {
            return Ok(Progress::Wait(pace));
        }
        self.write_event_of_place(out)
    }

    /// The fault, if this is its point.
    fn due_fault(&self) -> Option<&Fault> {
        let (fault, point) = self.message.reply.fault.as_ref().filter(|_| !self.fault_over)?;
        let blocks = &self.message.reply.blocks;
        let is_due = match (point, self.place) {
            (FaultPoint::BeforeStart, Place::MessageStart) | (FaultPoint::BeforeStop, Place::MessageStop) => true,
            (FaultPoint::AfterStart, Place::BlockStart) => self.block == 0,
            (FaultPoint::AfterBlocks, Place::BlockStart) => self.block == blocks.len(),
            (FaultPoint::InBlock, Place::Deltas { at }) => {
                self.block + 1 == blocks.len() && blocks.last().is_some_and(|block| is_half(block, at))
            }
            (
                FaultPoint::BeforeHeaders
                | FaultPoint::BeforeStart
                | FaultPoint::AfterStart
                | FaultPoint::InBlock
                | FaultPoint::AfterBlocks
                | FaultPoint::BeforeStop,
                _,
            ) => false,
        };
        is_due.then_some(fault)
    }

    /// The wait before the next event, if it is a text delta and the reply has a pace.
    fn pace_of_next(&self) -> Option<Duration> {
        let Place::Deltas { at } = self.place else {
            return None;
        };
        match self.message.reply.blocks.get(self.block)? {
            Block::Text(text) if at < text.len() => self.message.reply.pace,
            Block::Text(_) | Block::Thinking(_) | Block::ToolUse { .. } => None,
        }
    }

    fn write_event_of_place(&mut self, out: &mut Vec<u8>) -> Result<Progress, io::Error> {
        let message = &self.message;
        let index = self.block;
        self.place = match self.place {
            Place::MessageStart => {
                write_event(out, &message.start())?;
                Place::BlockStart
            }
            Place::BlockStart => match message.reply.blocks.get(index) {
                Some(block) => {
                    write_event(
                        out,
                        &Event::ContentBlockStart { index, content_block: message.empty_block(index, block) },
                    )?;
                    Place::Deltas { at: 0 }
                }
                None => {
                    write_event(out, &message.delta())?;
                    Place::MessageStop
                }
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
            Place::Finished => return Ok(Progress::Finished),
        };
        Ok(Progress::Written)
    }

    /// Writes the delta that begins at `at` and returns the start of the next one; none if the block is at its end.
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
                // Two halves, so that a reader has to join them.
                let middle = json.ceil_char_boundary(json.len().div_ceil(2));
                let end = if at < middle { middle } else { json.len() };
                write(Delta::InputJsonDelta { partial_json: &json[at..end] })?;
                Ok(Some(end))
            }
            Some(Block::Text(_) | Block::Thinking(_)) | None => Ok(None),
        }
    }
}

/// Whether at least half of a block is written; a block with nothing to write has only one point.
fn is_half(block: &Block, at: usize) -> bool {
    match block {
        Block::Text(text) => at * 2 >= text.len(),
        Block::Thinking(_) | Block::ToolUse { .. } => at > 0,
    }
}

fn write_event(out: &mut Vec<u8>, event: &Event<'_>) -> Result<(), io::Error> {
    write!(out, "event: {}\ndata: ", event.name())?;
    serde_json::to_writer(&mut *out, event)?;
    out.extend_from_slice(b"\n\n");
    Ok(())
}
