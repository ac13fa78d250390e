//! Following a session: what there was, from the file, and what happens from then on, without a seam.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;

use watari_sdk::{AskAbout, AskId};

use crate::key::Key;
use crate::log::storage::Storage;
use crate::log::{Lines, ReadError, position_of, read_line_at};
use crate::position::Position;
use crate::publisher::HostState;
use crate::ring::{Entry, Reader, Taken};

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
    Behind(Position),
    /// With everything, because the position that is known is of another session.
    Elsewhere,
}

/// Somebody was let in.
#[derive(Debug)]
pub struct Attached {
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
    pub asks: Vec<(AskId, AskAbout)>,
    /// Why events cannot be stored at the moment, if they cannot.
    pub trouble: Option<String>,
    /// The lines to come.
    pub follower: Follower,
}

/// With what a follower begins.
#[derive(Debug)]
pub(crate) enum Beginning {
    /// With these events.
    Standing(VecDeque<u64>),
    /// With all behind this number.
    After(u64),
}

/// The lines of a session, each once and in order.
#[derive(Debug)]
pub struct Follower {
    storage: Arc<Storage>,
    /// Up to where the file is read.
    end: u64,
    beginning: Option<Beginning>,
    lines: Option<Lines>,
    /// Events from before that are told again.
    again: VecDeque<u64>,
    /// The text so far of blocks that grow, and that this was all.
    grown: VecDeque<Vec<u8>>,
    reader: Reader,
    /// The last numbered event that was told.
    last: Option<Position>,
}

/// What following brought.
#[derive(Debug)]
pub enum Followed {
    /// Lines were told.
    Told,
    /// It fell too far behind, and has to be let in again, behind the last that it was told.
    Behind,
    /// The host has ended.
    Ended,
}

/// How much is told at once when it is read from the file.
const TOLD_BYTES: usize = 64 * 1024;

impl Follower {
    pub(crate) fn new(
        storage: Arc<Storage>,
        end: u64,
        beginning: Beginning,
        again: VecDeque<u64>,
        grown: VecDeque<Vec<u8>>,
        reader: Reader,
    ) -> Follower {
        let (lines, last, beginning) = (None, None, Some(beginning));
        Follower { storage, end, beginning, lines, again, grown, reader, last }
    }

    /// Tells the next lines, without their line ends; waits if there are none. Dropping it half-way loses nothing: it
    /// waits only before it takes something.
    pub async fn next(&mut self, mut tell: impl FnMut(&[u8])) -> Result<Followed, ReadError> {
        if self.tell_from_file(&mut tell)? {
            return Ok(Followed::Told);
        }
        let mut entries = Vec::new();
        let taken = poll_fn(|context| self.reader.poll_take(context, &mut entries)).await;
        for entry in entries {
            match entry {
                Entry::Line(line) => self.tell_line(&line, &mut tell),
                Entry::Stored { storage, start, bytes } => {
                    let line = read_line_at(&storage, start, bytes)?;
                    self.tell_line(&line, &mut tell);
                }
            }
        }
        Ok(match taken {
            Taken::Some => Followed::Told,
            Taken::Behind => Followed::Behind,
            Taken::Ended => Followed::Ended,
        })
    }

    /// How many bytes were told by the session and not yet by this.
    pub fn behind_bytes(&self) -> u64 {
        self.reader.behind_bytes()
    }

    /// The last numbered event that was told.
    pub fn last(&self) -> Option<Position> {
        self.last
    }

    /// Tells some of what is in the file; false if all of that was told.
    fn tell_from_file(&mut self, tell: &mut impl FnMut(&[u8])) -> Result<bool, ReadError> {
        match &mut self.beginning {
            Some(Beginning::Standing(numbers)) => {
                let number = numbers.pop_front();
                match number {
                    Some(number) => self.tell_stored(number, tell)?,
                    None => self.beginning = None,
                }
                return Ok(true);
            }
            Some(Beginning::After(number)) => {
                self.lines = Some(Lines::open(&self.storage, *number, self.end)?);
                self.beginning = None;
            }
            None => {}
        }
        if let Some(mut lines) = self.lines.take() {
            let mut bytes = 0;
            while bytes < TOLD_BYTES {
                let Some(line) = lines.next()? else { return Ok(true) };
                bytes += line.len();
                self.tell_line(line, tell);
            }
            self.lines = Some(lines);
            return Ok(true);
        }
        if let Some(number) = self.again.pop_front() {
            self.tell_stored(number, tell)?;
            return Ok(true);
        }
        match self.grown.pop_front() {
            Some(line) => {
                self.tell_line(&line, tell);
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn tell_line(&mut self, line: &[u8], tell: &mut impl FnMut(&[u8])) {
        self.last = self.last.max(position_of(line));
        tell(line);
    }

    fn tell_stored(&mut self, number: u64, tell: &mut impl FnMut(&[u8])) -> Result<(), ReadError> {
        let mut lines = Lines::open(&self.storage, number.saturating_sub(1), self.end)?;
        // What was lost is not there; the line behind it is not what is wanted.
        if let Some(line) = lines.next()?.filter(|line| position_of(line).is_some_and(|found| found.seq == number)) {
            self.tell_line(line, tell);
        }
        Ok(())
    }
}
