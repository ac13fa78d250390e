//! Streams messages: start, deltas, whole block, end.

use std::time::{Duration, Instant};

use super::template::{Counted, DeltaLine, HOLE};
use super::{Ending, Player};
use crate::fake_claude::fields::Fields;
use crate::fake_claude::frames::SIGNATURE;
use crate::fake_claude::script::{Block, Deltas};

/// A started message.
#[derive(Debug, Default)]
pub(super) struct Message {
    blocks: u64,
    has_tool: bool,
}

/// A chunk of filler bytes.
static FILLING: [u8; 64 * 1024] = [b'x'; 64 * 1024];

impl Player {
    pub(super) fn begin_message(&mut self) -> Result<(), Ending> {
        self.memory.message = Some(Message::default());
        let frame = self.frames.begin_message();
        self.send(frame)
    }

    pub(super) fn end_message(&mut self) -> Result<(), Ending> {
        match self.memory.message.take() {
            Some(Message { has_tool: true, .. }) => self.send_end(Some("tool_use")),
            Some(Message { has_tool: false, .. }) => self.send_end(Some("end_turn")),
            // An interrupt has ended the message already.
            None => Ok(()),
        }
    }

    /// Ends a message early.
    pub(super) fn abandon_message(&mut self) -> Result<(), Ending> {
        match self.memory.message.take() {
            Some(_) => self.send_end(None),
            None => Ok(()),
        }
    }

    fn send_end(&mut self, stop_reason: Option<&str>) -> Result<(), Ending> {
        self.frames.end_message(stop_reason).into_iter().try_for_each(|frame| self.send(frame))
    }

    pub(super) fn block(&mut self, block: &Block) -> Result<(), Ending> {
        let block = match block {
            Block::Text(text) => Block::Text(self.filled(text)),
            Block::Thinking(text) => Block::Thinking(self.filled(text)),
            Block::Tool { id, name, input } => {
                Block::Tool { id: id.clone(), name: name.clone(), input: self.filled_json(input) }
            }
        };
        self.in_message(&block, |player, index| {
            for delta in pieces(&block) {
                let frame = player.frames.delta(index, delta);
                player.send(frame)?;
            }
            let frame = player.frames.assistant(&block);
            player.send(frame)
        })?;
        if let Block::Text(text) = block {
            self.memory.turn.last_text = text;
        }
        Ok(())
    }

    /// Streams the content of a block between its start and its stop, in a message of its own if none is open.
    fn in_message(
        &mut self,
        block: &Block,
        stream: impl FnOnce(&mut Player, u64) -> Result<(), Ending>,
    ) -> Result<(), Ending> {
        let is_alone = self.memory.message.is_none();
        if is_alone {
            self.begin_message()?;
        }
        let message = self.memory.message.get_or_insert_default();
        let index = message.blocks;
        message.blocks += 1;
        message.has_tool |= matches!(block, Block::Tool { .. });
        let start = self.frames.begin_block(index, block);
        self.send(start)?;
        stream(self, index)?;
        let stop = self.frames.end_block(index);
        self.send(stop)?;
        if is_alone { self.end_message() } else { Ok(()) }
    }

    pub(super) fn deltas(&mut self, deltas: Deltas) -> Result<(), Ending> {
        let block = Block::Text(String::new());
        self.memory.turn.last_text.clear();
        self.in_message(&block, |player, index| {
            let times = player.stream_deltas(deltas, index)?;
            player.send_whole(deltas, &times)
        })
    }

    /// Streams the deltas, and returns their text if it is not simply counted.
    fn stream_deltas(&mut self, deltas: Deltas, index: u64) -> Result<Vec<u8>, Ending> {
        let uuid = self.frames.next_uuid();
        let delta = Fields::default().text("type", "text_delta").text("text", HOLE);
        let frame = self.frames.delta(index, delta).to_string();
        let mut line = DeltaLine::new(&frame, &uuid, deltas.bytes);
        let started = Instant::now();
        let mut times = Vec::new();
        let mut sent = 0;
        while sent < deltas.count {
            let due = deltas.per_second.map_or(deltas.count, |rate| due(started.elapsed(), rate).min(deltas.count));
            while sent < due {
                if deltas.timed {
                    times.extend_from_slice(line.say_the_time());
                }
                self.say(line.bytes())?;
                line.count_up();
                sent += 1;
                if self.output.was_full() {
                    self.receive_available()?;
                }
            }
            if let Some(rate) = deltas.per_second.filter(|_| sent < deltas.count) {
                self.listen_until(started + time_of(sent, rate))?;
            }
        }
        // The template has used one id, and every delta has one.
        self.frames.count_uuids(deltas.count.saturating_sub(1));
        Ok(times)
    }

    /// Writes the whole text of many deltas, which may be too long for memory.
    fn send_whole(&mut self, deltas: Deltas, times: &[u8]) -> Result<(), Ending> {
        let frame = self.frames.assistant(&Block::Text(HOLE.to_owned())).to_string();
        let (head, tail) = frame.split_once(HOLE).unwrap_or_default();
        self.say(head.as_bytes())?;
        self.say(times)?;
        let mut text = Counted::new(deltas.bytes);
        for _ in 0..if deltas.timed { 0 } else { deltas.count } {
            self.say(text.bytes())?;
            text.count_up();
        }
        self.say(tail.as_bytes())?;
        self.say(b"\n")
    }

    /// Writes one assistant line of that length, or the shortest possible.
    pub(super) fn long_line(&mut self, bytes: u64) -> Result<(), Ending> {
        let frame = self.frames.assistant(&Block::Text(HOLE.to_owned())).to_string();
        let (head, tail) = frame.split_once(HOLE).unwrap_or_default();
        self.say(head.as_bytes())?;
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX).saturating_sub(head.len() + tail.len() + 1);
        while let Some(filling) = FILLING.get(..left.min(FILLING.len())).filter(|filling| !filling.is_empty()) {
            self.say(filling)?;
            left -= filling.len();
        }
        self.say(tail.as_bytes())?;
        self.say(b"\n")
    }
}

/// The deltas of a block: one per word.
fn pieces(block: &Block) -> Vec<Fields> {
    let words = |text: &str, kind: &str, name: &str| -> Vec<Fields> {
        let words = text.split_inclusive(char::is_whitespace);
        words.map(|word| Fields::default().text("type", kind).text(name, word)).collect()
    };
    match block {
        Block::Text(text) => words(text, "text_delta", "text"),
        Block::Thinking(text) => {
            let mut pieces = words(text, "thinking_delta", "thinking");
            pieces.push(Fields::default().text("type", "signature_delta").text("signature", SIGNATURE));
            pieces
        }
        Block::Tool { input, .. } => words(input, "input_json_delta", "partial_json"),
    }
}

/// How many deltas are due by then: the first immediately.
fn due(elapsed: Duration, per_second: u64) -> u64 {
    let due = elapsed.as_nanos() * u128::from(per_second) / 1_000_000_000;
    u64::try_from(due).unwrap_or(u64::MAX).saturating_add(1)
}

/// When the delta with this number is due.
fn time_of(number: u64, per_second: u64) -> Duration {
    let nanoseconds = (u128::from(number) * 1_000_000_000).div_ceil(u128::from(per_second));
    Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
}
