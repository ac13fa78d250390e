//! The event log of a session: one line per event, in a file that only grows.
//!
//! The first line names the format. Every other line begins with its position, so that it can be found without parsing:
//! the file is sorted by sequence number, and an event is found by binary search. There is one writer, the holder of
//! the session's lock. An event counts as stored when `write` has returned: it then survives the end of every process.
//! To survive a crash of the machine it needs `sync`.

mod read;
mod restore;
mod search;
pub(crate) mod storage;
mod stored;
mod tail;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use watari_sdk::Position;
use watari_sdk::native::EventPlace;

pub use read::{LogReader, ReadError};
pub(crate) use read::{NextLine, position_of};
pub(crate) use restore::marked_through;
pub(crate) use stored::LONG_LINE_BYTES;
pub use stored::StoredLine;

use storage::{Disk, Storage};

/// The first line of every log.
const FORMAT: &str = "{\"format\":\"watari-events\",\"version\":1}\n";

/// The default limit of a log's size.
pub const BYTES_MAX: u64 = 4 * 1024 * 1024 * 1024;

/// How much larger it may become while the session closes, so that the end is stored.
const CLOSING_BYTES: u64 = 16 * 1024 * 1024;

/// The beginning of every other line.
const BEFORE_POSITION: &str = "{\"seq\":\"";

/// A log, open for writing.
#[derive(Debug)]
pub struct Log {
    disk: Disk,
    /// Shared with readers, which read through the same descriptor.
    storage: Arc<Storage>,
    /// The size of the file, in whole lines.
    bytes: u64,
    bytes_max: u64,
    last: Position,
    /// The start and the position of the last line, to detect changes by another program.
    last_line: (u64, Position),
    /// True when another program has changed the file: it must be restored before anything is appended.
    is_damaged: bool,
    /// True when part of a failed write may follow the whole lines.
    is_torn: bool,
    /// The line that is being built; reused for its memory.
    line: Vec<u8>,
}

/// The end of a log, as it was found when the log was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundEnd {
    /// The last event; the position before the first one if there is none.
    pub last: Position,
    /// How many bytes of an incomplete line were cut off: a write that the machine or the disk interrupted.
    pub cut_bytes: u64,
}

/// Why a log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The system refused.
    #[error("cannot open the log {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It is not a log, or a log of a newer version.
    #[error("{} is not a log of this version of Watari; it begins with {beginning:?}", .path.display())]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Its beginning.
        beginning: String,
    },
}

/// Why an event was not stored. The log is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The disk is full. This may pass.
    #[error("no space left for the log {}: {source}", .path.display())]
    Full {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The log has reached its limit.
    #[error("the log {} has reached its limit of {bytes_max} bytes", .path.display())]
    Limit {
        /// The file.
        path: PathBuf,
        /// The limit.
        bytes_max: u64,
    },
    /// Another file has the log's name. It is not touched.
    #[error("another file has replaced the log {}: move it away", .path.display())]
    Replaced {
        /// The file.
        path: PathBuf,
    },
    /// The file is missing or damaged, and cannot be restored.
    #[error("the log {} is missing or damaged and cannot be restored: {why}", .path.display())]
    NotRestored {
        /// The file.
        path: PathBuf,
        /// The reason, and what to do.
        why: String,
    },
    /// Another program removed a lock of the session, and it cannot be restored.
    #[error("another program removed a lock of this session, which cannot be restored: {why}")]
    NotLocked {
        /// The reason, and what to do.
        why: String,
    },
    /// Another error, which does not pass by itself.
    #[error("cannot write to the log {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
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
    /// Opens or creates a log, and begins a new epoch. An incomplete line at its end is cut off. Only the holder of the
    /// session's lock may call this.
    pub fn open(path: &Path, epochs_before: u64) -> Result<(Log, FoundEnd), OpenError> {
        let (mut log, found) = Log::open_on(Disk::Real, path, epochs_before)?;
        if log.is_damaged {
            let failed = |error: AppendError| OpenError::Io { path: path.to_owned(), source: io::Error::other(error) };
            log.restore(&[], |_| Ok(())).map_err(failed)?;
        }
        Ok((log, found))
    }

    /// Like [`Log::open`], but does not restore a damaged log: the caller learns of the damage from `examine`.
    pub(crate) fn open_on(disk: Disk, path: &Path, epochs_before: u64) -> Result<(Log, FoundEnd), OpenError> {
        let io = |source| OpenError::Io { path: path.to_owned(), source };
        let storage = disk.open(path).map_err(io)?;
        let bytes = storage.len().map_err(io)?;
        let beginning = read::beginning(&storage).map_err(io)?;
        let mut is_damaged = false;
        let found = if FORMAT.as_bytes().starts_with(&beginning) && beginning.len() < FORMAT.len() {
            // The file is empty, or its first line is incomplete.
            storage.set_len(0).and_then(|()| storage.append(FORMAT.as_bytes())).map_err(io)?;
            let bytes = FORMAT.len() as u64;
            tail::IntactPart { bytes, last: Position::default(), last_start: bytes }
        } else if beginning == FORMAT.as_bytes() {
            tail::find(&storage, bytes, FORMAT.len() as u64).map_err(io)?
        } else if restore::was_cut_off(&beginning) {
            // Another program shortened it while a host wrote, and that host was killed before it noticed.
            is_damaged = true;
            tail::IntactPart { bytes: 0, last: Position::default(), last_start: 0 }
        } else {
            let beginning = String::from_utf8_lossy(&beginning).into_owned();
            return Err(OpenError::Unknown { path: path.to_owned(), beginning });
        };
        let cut_bytes = bytes.saturating_sub(found.bytes);
        let storage = Arc::new(storage);
        // The file may end in an incomplete line and, without a newline between them, a complete one: another program
        // shortened the file while a host appended to it. Then the log is damaged. An incomplete line alone is only an
        // interrupted write.
        let joined_end = tail::end_of_line_before(&storage, bytes, found.bytes).map_err(io)?;
        let joined = restore::last_whole(&storage, found.bytes, joined_end).map_err(io)?;
        let last_found = found.last.max(joined.unwrap_or_default());
        is_damaged |= joined.is_some();
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
        Ok((log, FoundEnd { last: last_found, cut_bytes: if is_damaged { 0 } else { cut_bytes } }))
    }

    /// The current epoch and the sequence number of the last event. Right after opening, that event is of an earlier
    /// epoch, so no event has exactly this position.
    pub fn last(&self) -> Position {
        self.last
    }

    /// The start of the last line, and its length without the newline.
    pub(crate) fn last_line_span(&self) -> (u64, usize) {
        let (start, _) = self.last_line;
        (start, usize::try_from((self.bytes - start).saturating_sub(1)).unwrap_or(usize::MAX))
    }

    /// The size of the file in whole lines: readers read up to here.
    pub fn whole_bytes(&self) -> u64 {
        self.bytes
    }

    /// Stores an event, which is a JSON object as text without a newline, and returns its line without the newline.
    pub fn append(&mut self, event: impl AsRef<[u8]>) -> Result<&[u8], AppendError> {
        self.append_to(event.as_ref()).map(|(line, _)| line)
    }

    /// Like [`Log::append`], but returns the file as well.
    pub(crate) fn append_to(&mut self, event: &[u8]) -> Result<(&[u8], &Arc<Storage>), AppendError> {
        let next = Position { seq: self.last.seq + 1, ..self.last };
        self.line.clear();
        EventPlace::At(next).write_line(event, &mut self.line);
        self.line.push(b'\n');
        if let Err(source) = self.write_line() {
            return Err(AppendError::of(self.storage.path(), source));
        }
        self.last_line = (self.bytes, next);
        self.bytes += self.line.len() as u64;
        self.last = next;
        Ok((&self.line[..self.line.len() - 1], &self.storage))
    }

    /// Writes the line, or leaves the file unchanged. If the rest of a failed write cannot be removed now, the next
    /// call does.
    fn write_line(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.storage.set_len(self.bytes)?;
            self.is_torn = false;
        }
        self.storage.append(&self.line).inspect_err(|_| {
            self.is_torn = self.storage.set_len(self.bytes).is_err();
        })
    }

    /// Sets the maximum size.
    pub(crate) fn set_limit(&mut self, bytes_max: u64) {
        self.bytes_max = bytes_max;
    }

    /// Checks that the log may grow.
    pub(crate) fn check_limit(&self, is_closing: bool) -> Result<(), AppendError> {
        let bytes_max = self.bytes_max;
        if self.bytes < bytes_max.saturating_add(if is_closing { CLOSING_BYTES } else { 0 }) {
            return Ok(());
        }
        Err(AppendError::Limit { path: self.storage.path().to_owned(), bytes_max })
    }

    /// Continues the numbering after this sequence number.
    pub(crate) fn continue_after(&mut self, seq: u64) {
        self.last.seq = self.last.seq.max(seq);
    }

    /// Records that a reader found damage in the file.
    pub(crate) fn note_damage(&mut self) {
        self.is_damaged = true;
    }

    /// The file, to read it, or to sync it in another thread.
    pub(crate) fn storage(&self) -> &Arc<Storage> {
        &self.storage
    }

    /// The lines after a position, up to the current last one.
    pub fn after(&self, position: Position) -> Result<LogReader, ReadError> {
        LogReader::open(&self.storage, position.seq, self.bytes)
    }
}

/// Returns the line of an ephemeral event, which names the durable event before it.
pub fn ephemeral_line(after: Position, event: impl AsRef<[u8]>) -> Vec<u8> {
    let mut line = Vec::new();
    EventPlace::After(after).write_line(event.as_ref(), &mut line);
    line
}
