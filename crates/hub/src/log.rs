//! The events of a session as they are kept: one line each, in a file that only grows.
//!
//! The first line says the format; every other begins with its position, so that it can be found without reading what
//! stands in it: the file is sorted by number, and a number is looked for by halving. There is one writer, the holder of
//! the session's lock. An event is stored when `write` has returned: it survives the end of every process, not that of
//! the machine, for which `sync` is there.

mod read;
mod restore;
mod search;
pub(crate) mod storage;
mod stored;
mod tail;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use read::{Lines, ReadError};
pub(crate) use read::{Step, position_of};
pub(crate) use restore::marked_through;
pub(crate) use stored::LONG_LINE_BYTES;
pub use stored::StoredLine;

use crate::position::Position;
use storage::{Disk, Storage};

/// The first line of every log.
const FORMAT: &str = "{\"format\":\"watari-events\",\"version\":1}\n";

/// How long a log may get unless it is said otherwise.
pub const BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// How much longer it may get while the session is being closed, so that its end is stored.
const CLOSING_BYTES: u64 = 16 * 1024 * 1024;

/// How every other line begins.
const BEFORE_POSITION: &str = "{\"seq\":\"";

/// A log that is written to.
#[derive(Debug)]
pub struct Log {
    disk: Disk,
    /// Shared with readers, who read through the same descriptor.
    storage: Arc<Storage>,
    /// How long the file is, in whole lines.
    bytes: u64,
    bytes_max: u64,
    last: Position,
    /// Where the last line begins and which it is, to notice when somebody else has changed the file.
    last_line: (u64, Position),
    /// True when the file was found changed by another program: it has to be written again before anything is added.
    is_damaged: bool,
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
    /// The log is as long as it may get.
    #[error("the log {} has reached its limit of {bytes_max} bytes", .path.display())]
    Limit {
        /// The file.
        path: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// The file is gone from its place, and something else is there, which is left alone.
    #[error("another file stands in the place of the log {}: move it away", .path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// The file is gone from its place, and cannot be written again.
    #[error("the log {} is gone and cannot be written again: {why}", .path.display())]
    NotRestored {
        /// The file.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
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

impl AppendError {
    fn of(path: &Path, source: io::Error) -> AppendError {
        let path = path.to_owned();
        let is_full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded, io::ErrorKind::FileTooLarge];
        let full = is_full.contains(&source.kind());
        if full { AppendError::Full { path, source } } else { AppendError::Io { path, source } }
    }
}

impl Log {
    /// Opens a log, or makes one, and begins the epoch behind the last. What is not a whole line at its end is cut off.
    /// Only the holder of the session's lock may do this.
    pub fn open(path: &Path, epochs_before: u64) -> Result<(Log, Found), OpenError> {
        let (mut log, found) = Log::open_on(Disk::Real, path, epochs_before)?;
        if log.is_damaged {
            let failed = |error: AppendError| OpenError::Io { path: path.to_owned(), source: io::Error::other(error) };
            log.restore(&[], |_| Ok(())).map_err(failed)?;
        }
        Ok((log, found))
    }

    /// The same, where it may be that the log has to be restored first: `examine` tells.
    pub(crate) fn open_on(disk: Disk, path: &Path, epochs_before: u64) -> Result<(Log, Found), OpenError> {
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        let storage = disk.open(path).map_err(io)?;
        let bytes = storage.len().map_err(io)?;
        let beginning = read::beginning(&storage).map_err(io)?;
        let mut is_damaged = false;
        let found = if FORMAT.as_bytes().starts_with(&beginning) && beginning.len() < FORMAT.len() {
            // Nothing, or a beginning that was broken off.
            storage.set_len(0).and_then(|()| storage.append(FORMAT.as_bytes())).map_err(io)?;
            let bytes = FORMAT.len() as u64;
            tail::Tail { bytes, last: Position::default(), last_start: bytes }
        } else if beginning == FORMAT.as_bytes() {
            tail::find(&storage, bytes, FORMAT.len() as u64).map_err(io)?
        } else if restore::was_cut_off(&beginning) {
            // Somebody shortened it under a host that was killed before it noticed.
            is_damaged = true;
            tail::Tail { bytes: 0, last: Position::default(), last_start: 0 }
        } else {
            let beginning = String::from_utf8_lossy(&beginning).into_owned();
            return Err(OpenError::Unknown { path: path.to_owned(), beginning });
        };
        let cut_bytes = bytes.saturating_sub(found.bytes);
        let storage = Arc::new(storage);
        // Behind the last whole line there may be a whole one glued to a broken one.
        // (One without a line end was never stored: its write was broken off.)
        let glued_end = tail::end_of_line_before(&storage, bytes, found.bytes).map_err(io)?;
        let glued = restore::last_whole(&storage, found.bytes, glued_end).map_err(io)?;
        let last_found = found.last.max(glued.unwrap_or_default());
        is_damaged |= glued.is_some();
        if cut_bytes > 0 && !is_damaged {
            storage.set_len(found.bytes).map_err(io)?;
        }
        let epoch = epochs_before.max(last_found.epoch) + 1;
        let last = Position { epoch, seq: last_found.seq };
        let log = Log {
            disk,
            storage,
            bytes: found.bytes,
            bytes_max: BYTES_MAX,
            last,
            last_line: (found.last_start, found.last),
            is_damaged,
            is_torn: false,
            line: Vec::new(),
        };
        Ok((log, Found { last: last_found, cut_bytes: if is_damaged { 0 } else { cut_bytes } }))
    }

    /// The last event's position; in a new epoch, the last one's number.
    pub fn last(&self) -> Position {
        self.last
    }

    /// Where the last line begins, and how long it is without its line end.
    pub(crate) fn last_line_place(&self) -> (u64, usize) {
        let (start, _) = self.last_line;
        (start, usize::try_from((self.bytes - start).saturating_sub(1)).unwrap_or(usize::MAX))
    }

    /// How long the file is, in whole lines: a reader reads up to here.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Stores an event, which is the text of a JSON object, and gives back its line without the line end.
    pub fn append(&mut self, event: impl AsRef<[u8]>) -> Result<&[u8], AppendError> {
        self.append_to(event.as_ref()).map(|(line, _)| line)
    }

    /// The same, and in which file it is.
    pub(crate) fn append_to(&mut self, event: &[u8]) -> Result<(&[u8], &Arc<Storage>), AppendError> {
        let next = Position { seq: self.last.seq + 1, ..self.last };
        self.line.clear();
        // Writing to memory does not fail.
        let _written = write!(self.line, "{BEFORE_POSITION}{next}\"");
        line_with(event, &mut self.line);
        if let Err(source) = self.write_line() {
            return Err(AppendError::of(self.storage.path(), source));
        }
        self.last_line = (self.bytes, next);
        self.bytes += self.line.len() as u64;
        self.last = next;
        Ok((&self.line[..self.line.len() - 1], &self.storage))
    }

    /// Writes the line, or leaves the file as it was; if it cannot be left so now, then before the next line.
    fn write_line(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.storage.set_len(self.bytes)?;
            self.is_torn = false;
        }
        self.storage.append(&self.line).inspect_err(|_| {
            self.is_torn = self.storage.set_len(self.bytes).is_err();
        })
    }

    /// How long it may get.
    pub(crate) fn limit(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Whether it may get longer.
    pub(crate) fn check_limit(&self, is_closing: bool) -> Result<(), AppendError> {
        let bytes_max = self.bytes_max;
        if self.bytes < bytes_max.saturating_add(if is_closing { CLOSING_BYTES } else { 0 }) {
            return Ok(());
        }
        Err(AppendError::Limit { path: self.storage.path().to_owned(), bytes_max })
    }

    /// No number up to this one is given again.
    pub(crate) fn go_on_behind(&mut self, seq: u64) {
        self.last.seq = self.last.seq.max(seq);
    }

    /// Somebody found that the file is not whole.
    pub(crate) fn note_damage(&mut self) {
        self.is_damaged = true;
    }

    /// Its file, to be read, or to be made to last by another thread.
    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// The lines after a position, up to the last one of now.
    pub fn after(&self, position: Position) -> Result<Lines, ReadError> {
        Lines::open(&self.storage, position.seq, self.bytes)
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
pub fn ephemeral_line(after: Position, event: impl AsRef<[u8]>) -> Vec<u8> {
    let mut line = format!("{{\"after\":\"{after}\"").into_bytes();
    line_with(event.as_ref(), &mut line);
    line.pop();
    line
}
