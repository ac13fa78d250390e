//! Reading a log from a number on.

use std::io::{self, BufRead, BufReader, Read, Take};
use std::path::PathBuf;
use std::sync::Arc;

use super::restore::marked_through;
use super::storage::Storage;
use super::{BEFORE_POSITION, FORMAT};
use crate::position::Position;

/// How much is read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// How long a line can be that marks lost events.
const MARK_BYTES_MAX: u64 = 256;

/// How much of a line is read to find out its position.
const HEAD_BYTES: usize = 64;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system says no.
    #[error("cannot read the log {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file ends before what was stored does: somebody cut it off.
    #[error("the log {} was cut off while it was read: connect again", .path.display())]
    CutOff {
        /// The file.
        path: PathBuf,
    },
    /// A line has no position: somebody else wrote into it.
    #[error("the log {} is damaged: the line at byte {at} has no position", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the line begins.
        at: u64,
    },
}

/// Lines of a log, one after the other. They are read through the log's own descriptor: what becomes of the file's name
/// does not matter.
#[derive(Debug)]
pub struct Lines {
    file: Take<BufReader<Cursor>>,
    line: Vec<u8>,
    /// Where the line begins that is read next.
    at: u64,
    /// Up to which number there is an event, or a mark in its place; none before the first line.
    through: Option<u64>,
}

/// Reads a file from a place on.
#[derive(Debug)]
struct Cursor {
    storage: Arc<Storage>,
    at: u64,
}

impl Read for Cursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.storage.read_at(buffer, self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

impl Lines {
    /// The lines behind a number, up to a place in the file at which a line ends.
    pub(crate) fn open(storage: &Arc<Storage>, after: u64, end: u64) -> Result<Lines, ReadError> {
        let path = || storage.path().to_owned();
        match first_after(storage, after, end).map_err(|source| ReadError::Io { path: path(), source })? {
            Place::Line(start) => {
                let mut lines = Lines::between(storage, start, end);
                // The line before may be a mark that stands for several numbers.
                let before = line_before(storage, start).map_err(|source| ReadError::Io { path: path(), source })?;
                let through = before.as_deref().and_then(last_number_of);
                lines.through = Some(through.unwrap_or(0).max(after));
                Ok(lines)
            }
            Place::Damaged(at) => Err(ReadError::Damaged { path: path(), at }),
        }
    }

    /// The lines between two places at which lines begin or end.
    pub(super) fn between(storage: &Arc<Storage>, start: u64, end: u64) -> Lines {
        let cursor = Cursor { storage: Arc::clone(storage), at: start };
        let file = BufReader::with_capacity(CHUNK_BYTES, cursor).take(end.saturating_sub(start));
        Lines { file, line: Vec::new(), at: start, through: None }
    }

    /// The next line, without its line end.
    #[expect(clippy::should_implement_trait, reason = "a line is borrowed from the reader")]
    pub fn next(&mut self) -> Result<Option<&[u8]>, ReadError> {
        self.line.clear();
        let path = |lines: &Lines| lines.file.get_ref().get_ref().storage.path().to_owned();
        match self.file.read_until(b'\n', &mut self.line) {
            Ok(0) if self.file.limit() == 0 => Ok(None),
            Ok(count) if self.line.ends_with(b"\n") => {
                self.line.truncate(self.line.trim_ascii_end().len());
                if !self.follows() {
                    return Err(ReadError::Damaged { path: path(self), at: self.at });
                }
                self.at += count as u64;
                Ok(Some(&self.line))
            }
            Ok(_) => Err(ReadError::CutOff { path: path(self) }),
            Err(source) => Err(ReadError::Io { path: path(self), source }),
        }
    }

    /// The next line, of which it is also checked that it is JSON.
    pub(crate) fn next_whole(&mut self) -> Result<Option<&[u8]>, ReadError> {
        let at = self.at;
        if self.next()?.is_none() {
            return Ok(None);
        }
        if serde_json::from_slice::<&serde_json::value::RawValue>(&self.line).is_err() {
            let path = self.file.get_ref().get_ref().storage.path().to_owned();
            return Err(ReadError::Damaged { path, at });
        }
        Ok(Some(&self.line))
    }

    /// Whether the line is the one that comes next. (That it is JSON is checked when a log is opened; this is cheap.)
    fn follows(&mut self) -> bool {
        let Some(position) = position_of(&self.line) else { return false };
        let is_next = self.through.is_none_or(|through| position.seq == through + 1);
        // Between the tokens of JSON there may be white space; zeros are what the end of the machine leaves.
        let is_foreign = |byte: &u8| *byte < b' ' && !b"\t\r".contains(byte);
        let is_text = std::str::from_utf8(&self.line).is_ok() && !self.line.iter().any(is_foreign);
        let is_whole = is_text && self.line.ends_with(b"}");
        self.through = last_number_of(&self.line);
        is_next && is_whole
    }

    /// Where the first line begins, as long as none was read.
    pub(crate) fn place(&self) -> u64 {
        self.file.get_ref().get_ref().at
    }

    /// The next line, also if it is broken off.
    pub(super) fn next_or_rest(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let count = self.file.read_until(b'\n', &mut self.line)?;
        Ok((count > 0).then(|| self.line.trim_ascii_end()))
    }
}

enum Place {
    Line(u64),
    Damaged(u64),
}

/// Where the first line behind a number begins, or the end. By halving, because numbers only grow.
fn first_after(file: &Storage, after: u64, end: u64) -> io::Result<Place> {
    // Every line that begins before `low` is not behind it; `found` is, if there is one, and so is none before `high`.
    let (mut low, mut high, mut found) = (FORMAT.len() as u64, end, end);
    while low < high {
        let middle = low + (high - low) / 2;
        let start = line_from(file, middle, end)?;
        if start >= high.max(found) {
            high = middle;
            continue;
        }
        let Some(position) = position_at(file, start)? else { return Ok(Place::Damaged(start)) };
        if position.seq > after {
            (found, high) = (start, middle);
        } else {
            low = start + 1;
        }
    }
    Ok(Place::Line(found))
}

/// Where the first line begins at a place or behind it.
fn line_from(file: &Storage, place: u64, end: u64) -> io::Result<u64> {
    // The byte before is a line end if a line begins right here.
    let mut at = place - 1;
    let mut chunk = [0; 4096];
    while at < end {
        let count = file.read_at(&mut chunk, at)?;
        if count == 0 {
            break;
        }
        if let Some(line_end) = memchr::memchr(b'\n', &chunk[..count]) {
            return Ok((at + line_end as u64 + 1).min(end));
        }
        at += count as u64;
    }
    Ok(end)
}

fn position_at(file: &Storage, start: u64) -> io::Result<Option<Position>> {
    let mut head = [0; HEAD_BYTES];
    let count = file.read_at(&mut head, start)?;
    Ok(position_of(&head[..count]))
}

/// The highest number that a line stands for.
fn last_number_of(line: &[u8]) -> Option<u64> {
    Some(marked_through(line).unwrap_or(0).max(position_of(line)?.seq))
}

/// The line that ends where another begins; none for the first, and for one that is too long to be a mark.
fn line_before(file: &Storage, start: u64) -> io::Result<Option<Vec<u8>>> {
    let from = start.saturating_sub(MARK_BYTES_MAX).max(FORMAT.len() as u64);
    let mut bytes = vec![0; usize::try_from(start.saturating_sub(from)).unwrap_or(0)];
    let read = file.read_up_to(&mut bytes, from)?;
    bytes.truncate(read);
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let line = &line[memchr::memrchr(b'\n', line).map_or(0, |end| end + 1)..];
    Ok((!line.is_empty()).then(|| line.to_vec()))
}

/// A line of which it is known where it is.
pub(crate) fn read_line_at(storage: &Storage, start: u64, bytes: usize) -> Result<Vec<u8>, ReadError> {
    let mut line = vec![0; bytes];
    storage.read_exact_at(&mut line, start).map(|()| line).map_err(|source| {
        let path = storage.path().to_owned();
        let is_short = source.kind() == io::ErrorKind::UnexpectedEof;
        if is_short { ReadError::CutOff { path } } else { ReadError::Io { path, source } }
    })
}

/// The position with which a line begins.
pub(crate) fn position_of(line: &[u8]) -> Option<Position> {
    let rest = line.strip_prefix(BEFORE_POSITION.as_bytes())?;
    let position = rest.get(..memchr::memchr(b'"', rest)?)?;
    std::str::from_utf8(position).ok()?.parse().ok()
}

/// As much of the first line as there should be.
pub(super) fn beginning(file: &Storage) -> io::Result<Vec<u8>> {
    let mut beginning = vec![0; FORMAT.len()];
    let filled = file.read_up_to(&mut beginning, 0)?;
    beginning.truncate(filled);
    Ok(beginning)
}
