//! Finding the first line behind a number, in steps that each read little: the line that stands in the way may be long.

use std::io;

use super::FORMAT;
use super::read::position_at;
use super::storage::Storage;

/// How much is read first where a line end is looked for: most lines are short.
const FIRST_CHUNK_BYTES: usize = 4096;

/// How much is read from then on.
const CHUNK_BYTES: usize = 16 * 1024;

/// Where the first line behind a number begins.
#[derive(Debug)]
pub(super) enum Place {
    Line(u64),
    /// At this byte there is a line without a position.
    Damaged(u64),
}

/// A search by halving, because numbers only grow. No byte is read twice for a line end.
#[derive(Debug)]
pub(super) struct Search {
    after: u64,
    end: u64,
    /// No line that begins before here is behind the number.
    low: u64,
    /// No line begins between here and `found`.
    high: u64,
    /// A line behind the number begins here, or the end.
    found: u64,
    /// Up to where no line end was found behind the middle, if it was begun to look for one.
    scanned: Option<u64>,
}

impl Search {
    pub(super) fn new(after: u64, end: u64) -> Search {
        Search { after, end, low: FORMAT.len() as u64, high: end, found: end, scanned: None }
    }

    /// Behind which number it looks.
    pub(super) fn after(&self) -> u64 {
        self.after
    }

    /// Where the lines end among which it looks.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Goes on until it is found, or until the budget of bytes is spent: then there is none yet.
    pub(super) fn step(&mut self, file: &Storage, budget: &mut usize) -> io::Result<Option<Place>> {
        while self.low < self.high {
            if *budget == 0 {
                return Ok(None);
            }
            let middle = self.low + (self.high - self.low) / 2;
            let Some(start) = self.scan_from(middle, file, budget)? else { continue };
            let Some(position) = position_at(file, start)? else { return Ok(Some(Place::Damaged(start))) };
            if position.seq > self.after {
                (self.found, self.high) = (start, middle);
            } else {
                self.low = start + 1;
            }
        }
        Ok(Some(Place::Line(self.found)))
    }

    /// Reads one chunk on, for where a line begins between the middle and `high`. If there is none, `high` is the middle.
    fn scan_from(&mut self, middle: u64, file: &Storage, budget: &mut usize) -> io::Result<Option<u64>> {
        let mut chunk = [0; CHUNK_BYTES];
        // The byte before is a line end if a line begins right there.
        let (at, most) = self.scanned.take().map_or((middle - 1, FIRST_CHUNK_BYTES), |at| (at, CHUNK_BYTES));
        let left = usize::try_from((self.high - 1).saturating_sub(at)).unwrap_or(usize::MAX);
        let count = file.read_at(&mut chunk[..most.min(left)], at)?;
        *budget = budget.saturating_sub(count);
        if let Some(line_end) = memchr::memchr(b'\n', &chunk[..count]) {
            return Ok(Some(at + line_end as u64 + 1));
        }
        if count == 0 || count == left {
            self.high = middle;
        } else {
            self.scanned = Some(at + count as u64);
        }
        Ok(None)
    }
}
