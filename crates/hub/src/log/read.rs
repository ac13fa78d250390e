//! Reading a log from a number on.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Take};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use watari_sdk::files::EVENTS;

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
    /// A line has no position: somebody else wrote into it.
    #[error("the log {} is damaged: the line at byte {at} has no position", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the line begins.
        at: u64,
    },
}

/// Lines of a log, one after the other.
#[derive(Debug)]
pub struct Lines {
    path: PathBuf,
    file: Take<BufReader<File>>,
    line: Vec<u8>,
}

impl Lines {
    /// The lines behind a number, up to a place in the file at which a line ends.
    pub(crate) fn open(path: &Path, after: u64, end: u64) -> Result<Lines, ReadError> {
        let io = |source| ReadError::Io { path: path.to_owned(), source };
        let mut file = EVENTS.open_existing(path).map_err(io)?;
        let start = match first_after(&file, after, end).map_err(io)? {
            Place::Line(start) => start,
            Place::Damaged(at) => return Err(ReadError::Damaged { path: path.to_owned(), at }),
        };
        file.seek(SeekFrom::Start(start)).map_err(io)?;
        let file = BufReader::with_capacity(CHUNK_BYTES, file).take(end - start);
        Ok(Lines { path: path.to_owned(), file, line: Vec::new() })
    }

    /// The next line, without its line end.
    #[expect(clippy::should_implement_trait, reason = "a line is borrowed from the reader")]
    pub fn next(&mut self) -> Result<Option<&[u8]>, ReadError> {
        self.line.clear();
        match self.file.read_until(b'\n', &mut self.line) {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(self.line.trim_ascii_end())),
            Err(source) => Err(ReadError::Io { path: self.path.clone(), source }),
        }
    }
}

enum Place {
    Line(u64),
    Damaged(u64),
}

/// Where the first line behind a number begins, or the end. By halving, because numbers only grow.
fn first_after(file: &File, after: u64, end: u64) -> io::Result<Place> {
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
fn line_from(file: &File, place: u64, end: u64) -> io::Result<u64> {
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

fn position_at(file: &File, start: u64) -> io::Result<Option<Position>> {
    let mut head = [0; HEAD_BYTES];
    let count = file.read_at(&mut head, start)?;
    Ok(position_of(&head[..count]))
}

/// A line of which it is known where it is.
pub(crate) fn read_line_at(path: &Path, start: u64, bytes: usize) -> Result<Vec<u8>, ReadError> {
    let mut line = vec![0; bytes];
    let read = EVENTS.open_existing(path).and_then(|file| file.read_exact_at(&mut line, start));
    read.map(|()| line).map_err(|source| ReadError::Io { path: path.to_owned(), source })
}

/// The position with which a line begins.
pub(crate) fn position_of(line: &[u8]) -> Option<Position> {
    let rest = line.strip_prefix(BEFORE_POSITION.as_bytes())?;
    let position = rest.get(..memchr::memchr(b'"', rest)?)?;
    std::str::from_utf8(position).ok()?.parse().ok()
}

/// As much of the first line as there should be.
pub(super) fn beginning(file: &File) -> io::Result<Vec<u8>> {
    let mut beginning = vec![0; FORMAT.len()];
    let mut filled = 0;
    while filled < beginning.len() {
        match file.read_at(&mut beginning[filled..], filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    beginning.truncate(filled);
    Ok(beginning)
}
