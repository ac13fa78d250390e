//! Following a session: what there was, from the file, and what happens from then on, without a seam.
//!
//! It is done in slices. All clients of a host are served by one thread, so what one call does is bounded in bytes, and a
//! line that is too long for a slice is not read here: its place is handed to the client's connection.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;

use watari_sdk::{AskId, AskSummary};

use crate::key::Key;
use crate::log::storage::Storage;
use crate::log::{LONG_LINE_BYTES, Lines, Log, ReadError, Step, StoredLine, ephemeral_line, position_of};
use crate::position::Position;
use crate::published::{HostEvent, Published};
use crate::publisher::{HostState, Piece};
use crate::ring::{Entry, Reader, Taken};
use crate::snapshot::StoredEvent;

/// From where somebody wants to follow a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// From now on, with what still holds: open asks, open blocks, prompts that wait.
    Now,
    /// With everything behind a position.
    After(Position),
    /// With everything behind a position, and then the asks that were opened before it and are still open: for a client
    /// that keeps nothing but its position.
    AfterWithAsks(Position),
    /// With everything behind a position that this client has reached with an earlier follower, which fell behind. What is
    /// lost behind it is marked in the stream.
    Lagged(Position),
    /// With everything, because the position that is known is of another session.
    OtherSession,
}

/// Somebody was let in.
#[derive(Debug)]
pub struct Attachment {
    /// Watari's own name of the session.
    pub key: Key,
    /// The CLI's id of the conversation.
    pub session_id: String,
    /// How far it is.
    pub state: HostState,
    /// The last numbered event before what comes live.
    pub last: Position,
    /// Up to here numbered events are not news: what of them is told is told again, because it still holds.
    pub known: Position,
    /// True when the position that was asked for is not one of this log: everything is told from the beginning.
    pub is_gap: bool,
    /// The asks that are open, and those that were closed last.
    pub asks: Vec<(AskId, AskSummary)>,
    /// Why events cannot be stored at the moment, if they cannot.
    pub trouble: Option<String>,
    /// The lines to come.
    pub subscription: Subscription,
}

/// What a follower tells before what happens from now on.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// All events behind this number.
    pub(crate) after: Option<u64>,
    /// Then these events from before, because they still hold.
    pub(crate) again: VecDeque<StoredEvent>,
    /// Then the text so far of blocks that grow.
    pub(crate) open_text: VecDeque<(u64, Arc<Piece>)>,
}

/// The lines of a session, each once and in order.
#[derive(Debug)]
pub struct Subscription {
    storage: Arc<Storage>,
    /// Up to where the file is read.
    end: u64,
    /// The last numbered event when it was let in.
    attached_at: Position,
    replay: Option<Lines>,
    again: VecDeque<StoredEvent>,
    /// The search for the first of `again`, if its place is not known.
    search: Option<Lines>,
    open_text: VecDeque<(u64, Arc<Piece>)>,
    is_caught_up: bool,
    /// What was taken from the ring and not told yet.
    taken: VecDeque<Entry>,
    reader: Reader,
    /// The last numbered event that was told.
    last: Option<Position>,
}

/// What following brought.
#[derive(Debug)]
pub enum Delivery {
    /// A slice was told, which may be of no line at all.
    Delivered {
        /// What that cost, in bytes that were read.
        cost_bytes: usize,
    },
    /// The next line is too long to be told here. Read it and tell it, in another thread, before following on.
    Long(StoredLine),
    /// It fell too far behind, and has to be let in again, behind the last that it was told.
    Lagged,
    /// The host has ended.
    Ended,
}

/// How much is read and told in one go.
const SLICE_BYTES: usize = 64 * 1024;

/// What a line costs beside its bytes: to tell a hundred short ones is as much work as a long one.
const LINE_COST_BYTES: usize = 256;

impl Subscription {
    pub(crate) fn new(log: &Log, backlog: Backlog, reader: Reader) -> Subscription {
        let Backlog { after, again, open_text } = backlog;
        let (storage, end) = (Arc::clone(log.storage()), log.bytes());
        let replay = after.map(|after| Lines::behind(&storage, after, end));
        let (search, is_caught_up, taken, last) = (None, false, VecDeque::new(), None);
        let attached_at = log.last();
        Subscription { storage, end, attached_at, replay, again, search, open_text, is_caught_up, taken, reader, last }
    }

    /// Tells the next lines, without their line ends; waits if there are none. What it does in one go is bounded: let others
    /// have their turn between two calls. Dropping it half-way loses nothing: it waits only before it takes something.
    pub async fn next(&mut self, mut deliver: impl FnMut(&[u8])) -> Result<Delivery, ReadError> {
        let mut budget = SLICE_BYTES;
        if let Some(long) = self.tell_backlog(&mut budget, &mut deliver)? {
            return Ok(Delivery::Long(long));
        }
        if budget < SLICE_BYTES {
            return Ok(Delivery::Delivered { cost_bytes: SLICE_BYTES - budget });
        }
        if self.taken.is_empty() {
            let Subscription { reader, taken, .. } = self;
            match poll_fn(|context| reader.poll_take(context, taken)).await {
                Taken::Some => {}
                Taken::Lagged => return Ok(Delivery::Lagged),
                Taken::Ended => return Ok(Delivery::Ended),
            }
        }
        self.tell_taken(&mut deliver)
    }

    /// How many bytes were told by the session and not yet by this.
    pub fn behind_bytes(&self) -> u64 {
        self.reader.behind_bytes()
    }

    /// The last numbered event that was told.
    pub fn last(&self) -> Option<Position> {
        self.last
    }

    /// Tells what was taken from the ring, up to a long line.
    fn tell_taken(&mut self, deliver: &mut impl FnMut(&[u8])) -> Result<Delivery, ReadError> {
        let mut cost_bytes = 0;
        while let Some(entry) = self.taken.pop_front() {
            match entry {
                Entry::Line(line) => {
                    cost_bytes += line.len();
                    self.deliver_line(&line, deliver);
                }
                Entry::Stored { storage, start, bytes } if bytes > LONG_LINE_BYTES => {
                    return Ok(Delivery::Long(self.note_long(StoredLine::at(&storage, start, bytes)?)));
                }
                Entry::Stored { storage, start, bytes } => {
                    cost_bytes += bytes;
                    self.deliver_line(&StoredLine::at(&storage, start, bytes)?.read()?, deliver);
                }
            }
        }
        Ok(Delivery::Delivered { cost_bytes })
    }

    /// Tells some of what there was before, until the budget is spent or all is told, or up to a long line.
    fn tell_backlog(
        &mut self,
        budget: &mut usize,
        deliver: &mut impl FnMut(&[u8]),
    ) -> Result<Option<StoredLine>, ReadError> {
        if let Some(long) = self.tell_replay(budget, deliver)? {
            return Ok(Some(long));
        }
        while *budget > 0
            && let Some(event) = self.again.front().copied()
        {
            if let Some(long) = self.tell_again(event, budget, deliver)? {
                return Ok(Some(long));
            }
        }
        while *budget > 0
            && let Some((block, piece)) = self.open_text.pop_front()
        {
            self.tell_ephemeral(&Published::Event(piece.event(block)), budget, deliver);
        }
        if *budget > 0 && !self.is_caught_up {
            self.is_caught_up = true;
            self.tell_ephemeral(&Published::Host(HostEvent::CaughtUp), budget, deliver);
        }
        Ok(None)
    }

    fn tell_replay(
        &mut self,
        budget: &mut usize,
        deliver: &mut impl FnMut(&[u8]),
    ) -> Result<Option<StoredLine>, ReadError> {
        let Some(mut lines) = self.replay.take() else { return Ok(None) };
        while *budget > 0 {
            match lines.next_within(budget)? {
                Step::Line(line) => {
                    *budget = budget.saturating_sub(LINE_COST_BYTES);
                    self.deliver_line(line, deliver);
                }
                Step::Long(long) => {
                    self.replay = Some(lines);
                    return Ok(Some(self.note_long(long)));
                }
                Step::Unfinished => break,
                Step::End => return Ok(None),
            }
        }
        self.replay = Some(lines);
        Ok(None)
    }

    /// Tells an event from before, the first of those that are told again.
    fn tell_again(
        &mut self,
        event: StoredEvent,
        budget: &mut usize,
        deliver: &mut impl FnMut(&[u8]),
    ) -> Result<Option<StoredLine>, ReadError> {
        *budget = budget.saturating_sub(LINE_COST_BYTES);
        let known = event.place.and_then(|(start, bytes)| StoredLine::at(&self.storage, start, bytes).ok());
        // In a file that somebody changed, something else may stand there.
        let Some(line) = known.filter(|line| line.position().seq == event.number) else {
            return self.search_again(event.number, budget, deliver);
        };
        self.again.pop_front();
        if line.bytes() > LONG_LINE_BYTES {
            return Ok(Some(self.note_long(line)));
        }
        *budget = budget.saturating_sub(line.bytes());
        self.deliver_line(&line.read()?, deliver);
        Ok(None)
    }

    /// The same for an event whose place is not known, because the log was changed and written again.
    fn search_again(
        &mut self,
        number: u64,
        budget: &mut usize,
        deliver: &mut impl FnMut(&[u8]),
    ) -> Result<Option<StoredLine>, ReadError> {
        let search = self.search.take();
        let mut lines = search.unwrap_or_else(|| Lines::behind(&self.storage, number.saturating_sub(1), self.end));
        // What was lost is not there; the line behind it is not what is wanted.
        match lines.next_within(budget)? {
            Step::Unfinished => {
                self.search = Some(lines);
                return Ok(None);
            }
            Step::Line(line) if position_of(line).is_some_and(|found| found.seq == number) => {
                self.deliver_line(line, deliver)
            }
            Step::Long(long) if long.position().seq == number => {
                self.again.pop_front();
                return Ok(Some(self.note_long(long)));
            }
            Step::Line(_) | Step::Long(_) | Step::End => {}
        }
        self.again.pop_front();
        Ok(None)
    }

    fn tell_ephemeral(&mut self, told: &Published, budget: &mut usize, deliver: &mut impl FnMut(&[u8])) {
        let mut event = Vec::new();
        told.write(&mut event);
        let line = ephemeral_line(self.attached_at, event);
        *budget = budget.saturating_sub(line.len());
        self.deliver_line(&line, deliver);
    }

    fn deliver_line(&mut self, line: &[u8], deliver: &mut impl FnMut(&[u8])) {
        self.last = self.last.max(position_of(line));
        deliver(line);
    }

    fn note_long(&mut self, line: StoredLine) -> StoredLine {
        self.last = self.last.max(Some(line.position()));
        line
    }
}
