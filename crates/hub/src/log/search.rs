//! Finds the first line after a sequence number, in steps that each read little: a line on the way may be long.

use std::io;

use super::FORMAT;
use super::read::position_at;
use super::storage::Storage;

/// How many bytes are read first to find a newline: most lines are short.
const FIRST_CHUNK_BYTES: usize = 4096;

/// How many bytes are read after that.
const CHUNK_BYTES: usize = 16 * 1024;

/// The start of the first line after a sequence number.
#[derive(Debug)]
pub(super) enum FirstLine {
    Line(u64),
    /// The line at this offset has no position.
    Damaged(u64),
}

/// A binary search, because sequence numbers only grow. No byte is read twice in search of a newline.
#[derive(Debug)]
pub(super) struct Search {
    after: u64,
    end: u64,
    /// No line that begins before this offset is after the sequence number.
    low: u64,
    /// No line begins between this offset and `found`.
    high: u64,
    /// A line after the sequence number begins here, or this is the end.
    found: u64,
    /// If the scan from the middle is not finished: it found no newline up to this offset.
    scanned: Option<u64>,
}

impl Search {
    pub(super) fn new(after: u64, end: u64) -> Search {
        Search { after, end, low: FORMAT.len() as u64, high: end, found: end, scanned: None }
    }

    /// The sequence number after which it searches.
    pub(super) fn after(&self) -> u64 {
        self.after
    }

    /// The end of the searched lines.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Continues until the line is found, or until the budget is used up: then returns none.
    pub(super) fn step(&mut self, file: &Storage, budget: &mut usize) -> io::Result<Option<FirstLine>> {
        while self.low < self.high {
            if *budget == 0 {
                return Ok(None);
            }
            let middle = self.low + (self.high - self.low) / 2;
            let Some(start) = self.scan_from(middle, file, budget)? else { continue };
            let Some(position) = position_at(file, start)? else { return Ok(Some(FirstLine::Damaged(start))) };
            if position.seq > self.after {
                (self.found, self.high) = (start, middle);
            } else {
                self.low = start + 1;
            }
        }
        Ok(Some(FirstLine::Line(self.found)))
    }

    /// Reads one chunk to find a line that begins between the middle and `high`. If there is none, `high` becomes the
    /// middle.
    fn scan_from(&mut self, middle: u64, file: &Storage, budget: &mut usize) -> io::Result<Option<u64>> {
        let mut chunk = [0; CHUNK_BYTES];
        // The byte before the middle is a newline if a line begins exactly there.
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
