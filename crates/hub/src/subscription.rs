//! A subscription to a session: past events from the file, and then live events, without a gap.
//!
//! It works in slices. One thread serves all clients of a host, so the work of one call is bounded in bytes. A line
//! that is too long for a slice is not read here: the client's connection learns where it is in the file, and reads it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;

use watari_sdk::native::NativeEvent;
use watari_sdk::{AskId, AskSummary, HostEvent, Key, Position, SessionState};

use crate::log::storage::Storage;
use crate::log::{LONG_LINE_BYTES, Log, LogReader, NextLine, ReadError, StoredLine, ephemeral_line, position_of};
use crate::publisher::Piece;
use crate::ring::{Entry, Reader, RingRead};
use crate::snapshot::StoredEvent;

/// Where a client's replay begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// Live events only, after those of the snapshot.
    Now,
    /// All events after a position.
    After(Position),
    /// All events after a position, and then the open asks from before it: for a client that stores only its position.
    AfterWithAsks(Position),
    /// All events after a position that this client has reached with an earlier subscription, which lagged behind.
    /// Where events after it are lost, the client receives `events_lost`.
    Lagged(Position),
    /// All events, because the client's position is of another session.
    OtherSession,
}

/// An attached client.
#[derive(Debug)]
pub struct Attachment {
    /// Watari's key of the session.
    pub key: Key,
    /// The CLI's id of the conversation.
    pub session_id: String,
    /// The state of the session.
    pub state: SessionState,
    /// The last durable event before the live events.
    pub last: Position,
    /// The client's position. A durable event at or before it that is still delivered is a repetition from the
    /// snapshot, and must not change the client's position.
    pub client_position: Position,
    /// True if the requested position is not one of this log, or events after it were lost: the replay begins with the
    /// first event.
    pub is_gap: bool,
    /// The open asks, and the latest resolved ones.
    pub asks: Vec<(AskId, AskSummary)>,
    /// Why events cannot be stored at the moment, if they cannot.
    pub storage_failure: Option<String>,
    /// The lines to deliver.
    pub subscription: Subscription,
}

/// What is delivered before live events.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// All events after this sequence number.
    pub(crate) after: Option<u64>,
    /// Then these earlier events of the snapshot.
    pub(crate) snapshot_events: VecDeque<StoredEvent>,
    /// Then the text of open blocks so far.
    pub(crate) open_text: VecDeque<(u64, Arc<Piece>)>,
}

/// The lines of a session, each once and in order.
#[derive(Debug)]
pub struct Subscription {
    storage: Arc<Storage>,
    /// The end of what is read from the file.
    end: u64,
    /// The last durable event at the time of the attach.
    attached_at: Position,
    replay: Option<LogReader>,
    snapshot_events: VecDeque<StoredEvent>,
    /// The search for the first event of `snapshot_events`, if its span is not known.
    search: Option<LogReader>,
    open_text: VecDeque<(u64, Arc<Piece>)>,
    is_caught_up: bool,
    /// Entries taken from the ring and not delivered yet.
    taken: VecDeque<Entry>,
    reader: Reader,
    /// The last durable event that was delivered.
    last: Option<Position>,
}

/// The result of one call.
#[derive(Debug)]
pub enum Delivery {
    /// A slice was delivered, possibly without a line.
    Delivered {
        /// The number of bytes read.
        cost_bytes: usize,
    },
    /// The next line is too long to be delivered here. Read and deliver it in another thread before the next call.
    Long(StoredLine),
    /// The subscription lagged behind the ring. Attach again, after the last delivered event.
    Lagged,
    /// The host has ended.
    Ended,
}

/// How many bytes are read and delivered in one call.
const SLICE_BYTES: usize = 64 * 1024;

/// The fixed cost of a line, in bytes of the budget, besides its length.
const LINE_COST_BYTES: usize = 256;

impl Subscription {
    pub(crate) fn new(log: &Log, backlog: Backlog, reader: Reader) -> Subscription {
        let Backlog { after, snapshot_events, open_text } = backlog;
        let (storage, end) = (Arc::clone(log.storage()), log.whole_bytes());
        let replay = after.map(|after| LogReader::after_seq(&storage, after, end));
        let (search, is_caught_up, taken, last) = (None, false, VecDeque::new(), None);
        let attached_at = log.last();
        Subscription {
            storage,
            end,
            attached_at,
            replay,
            snapshot_events,
            search,
            open_text,
            is_caught_up,
            taken,
            reader,
            last,
        }
    }

    /// Delivers the next lines, without their newlines; waits if there are none. The work of one call is bounded: let
    /// other clients proceed between two calls. Cancel-safe: it waits only before it takes something.
    pub async fn next(&mut self, mut deliver: impl FnMut(&[u8])) -> Result<Delivery, ReadError> {
        let mut budget = SLICE_BYTES;
        if let Some(long) = self.deliver_backlog(&mut budget, &mut deliver)? {
            return Ok(Delivery::Long(long));
        }
        if budget < SLICE_BYTES {
            return Ok(Delivery::Delivered { cost_bytes: SLICE_BYTES - budget });
        }
        if self.taken.is_empty() {
            let Subscription { reader, taken, .. } = self;
            match poll_fn(|context| reader.poll_take(context, taken)).await {
                RingRead::Taken => {}
                RingRead::Lagged => return Ok(Delivery::Lagged),
                RingRead::Ended => return Ok(Delivery::Ended),
            }
        }
        self.deliver_taken(&mut deliver)
    }

    /// How many published bytes were not delivered yet.
    pub fn behind_bytes(&self) -> u64 {
        self.reader.behind_bytes()
    }

    /// The last durable event that was delivered.
    pub fn last(&self) -> Option<Position> {
        self.last
    }

    /// Delivers entries taken from the ring, up to a long line.
    fn deliver_taken(&mut self, deliver: &mut impl FnMut(&[u8])) -> Result<Delivery, ReadError> {
        let mut cost_bytes = 0;
        while let Some(entry) = self.taken.pop_front() {
            match entry {
                Entry::Line(line) => {
                    cost_bytes += line.len();
                    self.deliver_line(&line, deliver);
                }
                Entry::Stored { storage, start, bytes } if bytes > LONG_LINE_BYTES => {
                    return Ok(Delivery::Long(self.advance_past(StoredLine::at(&storage, start, bytes)?)));
                }
                Entry::Stored { storage, start, bytes } => {
                    cost_bytes += bytes;
                    self.deliver_line(&StoredLine::at(&storage, start, bytes)?.read()?, deliver);
                }
            }
        }
        Ok(Delivery::Delivered { cost_bytes })
    }

    /// Delivers past events, until the budget is used up or all are delivered, or up to a long line.
    fn deliver_backlog(
        &mut self,
        budget: &mut usize,
        deliver: &mut impl FnMut(&[u8]),
    ) -> Result<Option<StoredLine>, ReadError> {
        if let Some(long) = self.deliver_replay(budget, deliver)? {
            return Ok(Some(long));
        }
        while *budget > 0
            && let Some(event) = self.snapshot_events.front().copied()
        {
            if let Some(long) = self.deliver_snapshot_event(event, budget, deliver)? {
                return Ok(Some(long));
            }
        }
        while *budget > 0
            && let Some((block, piece)) = self.open_text.pop_front()
        {
            self.deliver_ephemeral(&NativeEvent::Session(piece.event(block)), budget, deliver);
        }
        if *budget > 0 && !self.is_caught_up {
            self.is_caught_up = true;
            self.deliver_ephemeral(&NativeEvent::Host(HostEvent::CaughtUp), budget, deliver);
        }
        Ok(None)
    }

    fn deliver_replay(
        &mut self,
        budget: &mut usize,
        deliver: &mut impl FnMut(&[u8]),
    ) -> Result<Option<StoredLine>, ReadError> {
        let Some(mut lines) = self.replay.take() else { return Ok(None) };
        while *budget > 0 {
            match lines.next_within(budget)? {
                NextLine::Line(line) => {
                    *budget = budget.saturating_sub(LINE_COST_BYTES);
                    self.deliver_line(line, deliver);
                }
                NextLine::Long(long) => {
                    self.replay = Some(lines);
                    return Ok(Some(self.advance_past(long)));
                }
                NextLine::Unfinished => break,
                NextLine::End => return Ok(None),
            }
        }
        self.replay = Some(lines);
        Ok(None)
    }

    /// Delivers the first event of `snapshot_events`.
    fn deliver_snapshot_event(
        &mut self,
        event: StoredEvent,
        budget: &mut usize,
        deliver: &mut impl FnMut(&[u8]),
    ) -> Result<Option<StoredLine>, ReadError> {
        *budget = budget.saturating_sub(LINE_COST_BYTES);
        let known = event.span.and_then(|(start, bytes)| StoredLine::at(&self.storage, start, bytes).ok());
        // Another program may have changed the file.
        let Some(line) = known.filter(|line| line.position().seq == event.seq) else {
            return self.find_snapshot_event(event.seq, budget, deliver);
        };
        self.snapshot_events.pop_front();
        if line.bytes() > LONG_LINE_BYTES {
            return Ok(Some(self.advance_past(line)));
        }
        *budget = budget.saturating_sub(line.bytes());
        self.deliver_line(&line.read()?, deliver);
        Ok(None)
    }

    /// Searches the log for the first event of `snapshot_events` and delivers it. Its span is not known, because the
    /// log was restored.
    fn find_snapshot_event(
        &mut self,
        seq: u64,
        budget: &mut usize,
        deliver: &mut impl FnMut(&[u8]),
    ) -> Result<Option<StoredLine>, ReadError> {
        let search = self.search.take();
        let mut lines = search.unwrap_or_else(|| LogReader::after_seq(&self.storage, seq.saturating_sub(1), self.end));
        // A lost event is not found; the line after it is not the one searched for.
        match lines.next_within(budget)? {
            NextLine::Unfinished => {
                self.search = Some(lines);
                return Ok(None);
            }
            NextLine::Line(line) if position_of(line).is_some_and(|found| found.seq == seq) => {
                self.deliver_line(line, deliver)
            }
            NextLine::Long(long) if long.position().seq == seq => {
                self.snapshot_events.pop_front();
                return Ok(Some(self.advance_past(long)));
            }
            NextLine::Line(_) | NextLine::Long(_) | NextLine::End => {}
        }
        self.snapshot_events.pop_front();
        Ok(None)
    }

    fn deliver_ephemeral(&mut self, event: &NativeEvent, budget: &mut usize, deliver: &mut impl FnMut(&[u8])) {
        let mut text = Vec::new();
        event.write(&mut text);
        let line = ephemeral_line(self.attached_at, text);
        *budget = budget.saturating_sub(line.len());
        self.deliver_line(&line, deliver);
    }

    fn deliver_line(&mut self, line: &[u8], deliver: &mut impl FnMut(&[u8])) {
        self.last = self.last.max(position_of(line));
        deliver(line);
    }

    /// Records that a long line is delivered, by the client's connection.
    fn advance_past(&mut self, line: StoredLine) -> StoredLine {
        self.last = self.last.max(Some(line.position()));
        line
    }
}
