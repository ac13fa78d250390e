//! The events of a session as they are kept: one line each, in a file that only grows.
//!
//! The first line says the format; every other begins with its position, so that it can be found without reading what
//! stands in it: the file is sorted by number, and a number is looked for by halving. There is one writer, the holder of
//! the session's lock. An event is stored when `write` has returned: it survives the end of every process, not that of
//! the machine, for which `sync` is there.

mod read;
mod tail;

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub use read::{Lines, ReadError};
pub(crate) use read::{position_of, read_line_at};

use watari_sdk::files::EVENTS;

use crate::position::Position;

/// The first line of every log.
const FORMAT: &str = "{\"format\":\"watari-events\",\"version\":1}\n";

/// How every other line begins.
const BEFORE_POSITION: &str = "{\"seq\":\"";

/// A log that is written to.
#[derive(Debug)]
pub struct Log {
    path: PathBuf,
    file: File,
    /// How long the file is, in whole lines.
    bytes: u64,
    last: Position,
    /// True when a part of a line that was not stored may stand behind them.
    is_torn: bool,
    /// The line that is being made; kept, because its memory is used again.
    line: Vec<u8>,
}

/// What was found when a log was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The last event that is there; the position before everything if there is none.
    pub last: Position,
    /// How much was cut off because it was not a whole line: a write that the machine or the disk broke off.
    pub cut_bytes: u64,
}

/// Why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system says no.
    #[error("cannot open the log {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not a log, or one of a newer version.
    #[error("{} is not a log of this version of Watari; it begins with {beginning:?}", .path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// How it begins.
        beginning: String,
    },
}

/// Why an event was not stored. The log is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// There is no room; later there may be.
    #[error("there is no room left for the log {}: {source}", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// The system's word for it.
        source: io::Error,
    },
    /// Something else, which does not go away by itself.
    #[error("cannot write to the log {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl Log {
    /// Opens a log, or makes one, and begins the epoch behind the last. What is not a whole line at its end is cut off.
    /// Only the holder of the session's lock may do this.
    pub fn open(path: &Path, epochs_before: u64) -> Result<(Log, Found), OpenError> {
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        let options = EVENTS.open(path);
        let mut file = options.map_err(io)?;
        let bytes = file.metadata().map_err(io)?.len();
        let beginning = read::beginning(&file).map_err(io)?;
        let found = if FORMAT.as_bytes().starts_with(&beginning) && beginning.len() < FORMAT.len() {
            // Nothing, or a beginning that was broken off.
            file.set_len(0).and_then(|()| file.write_all(FORMAT.as_bytes())).map_err(io)?;
            tail::Tail { bytes: FORMAT.len() as u64, last: Position::default() }
        } else if beginning == FORMAT.as_bytes() {
            tail::find(&file, bytes, FORMAT.len() as u64).map_err(io)?
        } else {
            let beginning = String::from_utf8_lossy(&beginning).into_owned();
            return Err(OpenError::Unknown { path: path.to_owned(), beginning });
        };
        let cut_bytes = bytes.saturating_sub(found.bytes);
        if cut_bytes > 0 {
            file.set_len(found.bytes).map_err(io)?;
        }
        let epoch = epochs_before.max(found.last.epoch) + 1;
        let last = Position { epoch, seq: found.last.seq };
        let log = Log { path: path.to_owned(), file, bytes: found.bytes, last, is_torn: false, line: Vec::new() };
        Ok((log, Found { last: found.last, cut_bytes }))
    }

    /// The last event's position; in a new epoch, the last one's number.
    pub fn last(&self) -> Position {
        self.last
    }

    /// How long the file is, in whole lines: a reader reads up to here.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Stores an event, which is the text of a JSON object, and gives back its line without the line end.
    pub fn append(&mut self, event: impl AsRef<[u8]>) -> Result<&[u8], AppendError> {
        let next = Position { seq: self.last.seq + 1, ..self.last };
        self.line.clear();
        // Writing to memory does not fail.
        let _written = write!(self.line, "{BEFORE_POSITION}{next}\"");
        line_with(event.as_ref(), &mut self.line);
        if let Err(source) = self.write_line() {
            let path = self.path.clone();
            let is_full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge];
            let full = is_full.contains(&source.kind());
            return Err(if full { AppendError::Full { path, source } } else { AppendError::Io { path, source } });
        }
        self.bytes += self.line.len() as u64;
        self.last = next;
        Ok(&self.line[..self.line.len() - 1])
    }

    /// Writes the line, or leaves the file as it was; if it cannot be left so now, then before the next line.
    fn write_line(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.bytes)?;
            self.is_torn = false;
        }
        self.file.write_all(&self.line).inspect_err(|_| {
            self.is_torn = self.file.set_len(self.bytes).is_err();
        })
    }

    /// Its file, to be made to last by another thread.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The lines after a position, up to the last one of now.
    pub fn after(&self, position: Position) -> Result<Lines, ReadError> {
        Lines::open(&self.path, position.seq, self.bytes)
    }
}

/// Adds the members of an object to a line that was begun, and ends it. An event has no line end in it.
fn line_with(event: &[u8], line: &mut Vec<u8>) {
    let members = event.strip_prefix(b"{").unwrap_or(b"}");
    if !members.starts_with(b"}") {
        line.push(b',');
    }
    line.extend_from_slice(members);
    line.push(b'\n');
}

/// The line of an event that is not stored: it says after which it came.
pub fn fleeting(after: Position, event: impl AsRef<[u8]>) -> Vec<u8> {
    let mut line = format!("{{\"after\":\"{after}\"").into_bytes();
    line_with(event.as_ref(), &mut line);
    line.pop();
    line
}
