//! Reading a log from a number on.

use std::io::{self, BufRead, BufReader, Read, Take};
use std::path::PathBuf;
use std::sync::Arc;

use super::storage::Storage;
use super::{BEFORE_POSITION, FORMAT};
use crate::position::Position;

/// How much is read at once.
const CHUNK_BYTES: usize = 64 * 1024;

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
            Place::Line(start) => Ok(Lines::between(storage, start, end)),
            Place::Damaged(at) => Err(ReadError::Damaged { path: path(), at }),
        }
    }

    /// The lines between two places at which lines begin or end.
    pub(super) fn between(storage: &Arc<Storage>, start: u64, end: u64) -> Lines {
        let cursor = Cursor { storage: Arc::clone(storage), at: start };
        Lines { file: BufReader::with_capacity(CHUNK_BYTES, cursor).take(end.saturating_sub(start)), line: Vec::new() }
    }

    /// The next line, without its line end.
    #[expect(clippy::should_implement_trait, reason = "a line is borrowed from the reader")]
    pub fn next(&mut self) -> Result<Option<&[u8]>, ReadError> {
        self.line.clear();
        let path = |lines: &Lines| lines.file.get_ref().get_ref().storage.path().to_owned();
        match self.file.read_until(b'\n', &mut self.line) {
            Ok(0) if self.file.limit() == 0 => Ok(None),
            Ok(_) if self.line.ends_with(b"\n") => Ok(Some(self.line.trim_ascii_end())),
            Ok(_) => Err(ReadError::CutOff { path: path(self) }),
            Err(source) => Err(ReadError::Io { path: path(self), source }),
        }
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
