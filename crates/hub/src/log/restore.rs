//! Detects that another program deleted, replaced, shortened or changed a log's file, and restores the log from what is
//! left.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use serde_json::value::RawValue;
use watari_sdk::native::{EventLine, EventPlace};
use watari_sdk::{HostEvent, Position};

use super::read::behind_position;
use super::storage::{PathTarget, Storage};
use super::{AppendError, BEFORE_POSITION, FORMAT, Log, LogReader, position_of};

/// How many bytes are written in one call.
const CHUNK_BYTES: usize = 64 * 1024;

/// How much of a line is read to find its position.
const HEAD_BYTES: usize = 64;

/// What another program did to a log's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Damage {
    Deleted,
    Replaced,
    Shortened,
    Altered,
}

impl fmt::Display for Damage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Damage::Deleted => "was deleted",
            Damage::Replaced => "was replaced by another file",
            Damage::Shortened => "was shortened",
            Damage::Altered => "was written to by another program",
        })
    }
}

/// Whether a file begins with a part of the first line, followed by an event: it was shortened, and then written to.
pub(super) fn was_cut_off(beginning: &[u8]) -> bool {
    let (format, event) = (FORMAT.as_bytes(), BEFORE_POSITION.as_bytes());
    (0..beginning.len()).any(|cut| {
        let rest = &beginning[cut..];
        format.starts_with(&beginning[..cut]) && (rest.starts_with(event) || event.starts_with(rest))
    })
}

impl Log {
    /// Checks that the file still has its name and ends with the last written line. This needs four system calls, so it
    /// is not done for every event.
    pub(crate) fn examine(&self) -> Result<Option<Damage>, AppendError> {
        let damage = match self.storage.path_target() {
            Ok(PathTarget::ThisFile { bytes }) => self.examine_content(bytes),
            Ok(PathTarget::Nothing) => Ok(Some(Damage::Deleted)),
            Ok(PathTarget::AnotherFile) => Ok(Some(Damage::Replaced)),
            Err(error) => Err(error),
        };
        damage.map_err(|source| AppendError::Io { path: self.storage.path().to_owned(), source })
    }

    fn examine_content(&self, length: u64) -> io::Result<Option<Damage>> {
        if length < self.bytes {
            return Ok(Some(Damage::Shortened));
        }
        let (start, position) = self.last_line;
        let mut head = [0; HEAD_BYTES];
        let read = if start < self.bytes { self.storage.read_up_to(&mut head, start)? } else { 0 };
        let is_last = start == self.bytes || position_of(&head[..read]) == Some(position);
        // After a failed write, a part of its line may follow.
        let ends_there = length == self.bytes || self.is_torn;
        Ok(if is_last && ends_there && !self.is_damaged { None } else { Some(Damage::Altered) })
    }

    /// Restores the log: writes it to a temporary file, which then replaces it. The new file has the whole lines of the
    /// old one, which is still open, and the lines in `rescued`, which have positions and are in order. Events in
    /// neither are replaced by a mark. Before anything takes effect, `note_lost` is called with the highest lost
    /// sequence number.
    pub(crate) fn restore(
        &mut self,
        rescued: &[Arc<[u8]>],
        note_lost: impl FnOnce(u64) -> Result<(), AppendError>,
    ) -> Result<Option<u64>, AppendError> {
        let path = self.storage.path().to_owned();
        let of = |source| AppendError::of(&path, source);
        if self.storage.path_target().map_err(of)? == PathTarget::AnotherFile {
            return Err(AppendError::Replaced { path });
        }
        let temporary = path.with_extension("jsonl~");
        let restored = self.write_restored(&temporary, rescued).map_err(of).and_then(|written| {
            written.lost_through.map_or(Ok(()), note_lost)?;
            self.disk.rename(&temporary, &path).map_err(of).map(|()| written)
        });
        let written = restored.inspect_err(|_| {
            // A partial temporary file only takes up space.
            let _absent = self.disk.remove(&temporary);
        })?;
        (self.bytes, self.last_line) = (written.bytes, written.last_line);
        (self.storage, self.is_torn, self.is_damaged) = (Arc::new(written.storage), false, false);
        Ok(written.lost_through)
    }

    fn write_restored(&self, temporary: &Path, rescued: &[Arc<[u8]>]) -> io::Result<LogRewriter> {
        let mut written = LogRewriter::begin(self.disk.create_temporary(temporary, self.storage.path())?)?;
        let mut rescued = rescued.iter().filter_map(|line| Some((position_of(line)?, line))).peekable();
        let mut lines = LogReader::between(&self.storage, 0, self.storage.len()?);
        // The last line may be incomplete.
        while let Some(line) = lines.next_or_rest()? {
            let Some((position, line)) = whole_line(line) else { continue };
            while let Some((_, rescued)) = rescued.next_if(|(earlier, _)| *earlier < position) {
                written.write_line(rescued)?;
            }
            written.write_line(line)?;
        }
        for (_, line) in rescued {
            written.write_line(line)?;
        }
        written.mark_lost_before(self.last.seq + 1)?;
        written.flush()?;
        // Without this, a crash of the machine could leave less under the name than before.
        written.storage.sync_data()?;
        Ok(written)
    }
}

/// Finds the last whole line between two offsets, even if it directly follows an incomplete one.
pub(super) fn last_whole(storage: &Arc<Storage>, start: u64, end: u64) -> io::Result<Option<Position>> {
    let mut lines = LogReader::between(storage, start, end);
    let mut last = None;
    while let Some(line) = lines.next_or_rest()? {
        last = last.max(whole_line(line).map(|(position, _)| position));
    }
    Ok(last)
}

/// Returns a whole line with its position. Where a file was shortened, an incomplete line comes before the next one.
fn whole_line(line: &[u8]) -> Option<(Position, &[u8])> {
    let starts = [0].into_iter().chain(memchr::memmem::rfind(line, BEFORE_POSITION.as_bytes()));
    starts.map(|start| &line[start..]).find_map(|line| {
        serde_json::from_slice::<&RawValue>(line).ok()?;
        Some((position_of(line)?, line))
    })
}

/// A log that is being rewritten.
struct LogRewriter {
    storage: Storage,
    buffer: Vec<u8>,
    bytes: u64,
    last_line: (u64, Position),
    /// The last sequence number that has an event or a mark.
    through: u64,
    /// The highest sequence number that was lost now.
    lost_through: Option<u64>,
}

impl LogRewriter {
    fn begin(storage: Storage) -> io::Result<LogRewriter> {
        let bytes = FORMAT.len() as u64;
        let last_line = (bytes, Position::default());
        let buffer = FORMAT.as_bytes().to_vec();
        Ok(LogRewriter { storage, buffer, bytes, last_line, through: 0, lost_through: None })
    }

    /// Writes a line, unless it is there already.
    fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let Some(position) = position_of(line).filter(|position| position.seq > self.through) else { return Ok(()) };
        self.mark_lost_before(position.seq)?;
        self.add(position, line)?;
        // Events that an earlier mark covers are not lost again.
        self.through = marked_through(line).unwrap_or(0).max(position.seq);
        Ok(())
    }

    /// Writes a mark if the sequence numbers before this one are missing.
    fn mark_lost_before(&mut self, seq: u64) -> io::Result<()> {
        let first = Position { epoch: self.last_line.1.epoch.max(1), seq: self.through + 1 };
        if first.seq >= seq {
            return Ok(());
        }
        let event = HostEvent::EventsLost { through: seq - 1 }.into();
        let mut line = Vec::new();
        EventLine { place: EventPlace::At(first), event }.write(&mut line);
        self.lost_through = Some(seq - 1);
        self.through = seq - 1;
        self.add(first, &line)
    }

    fn add(&mut self, position: Position, line: &[u8]) -> io::Result<()> {
        self.last_line = (self.bytes, position);
        self.bytes += line.len() as u64 + 1;
        self.buffer.extend_from_slice(line);
        self.buffer.push(b'\n');
        if self.buffer.len() >= CHUNK_BYTES { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.storage.append(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// The last lost sequence number, if the line is a mark.
pub(crate) fn marked_through(line: &[u8]) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Mark {
        through: u64,
    }
    let is_mark = behind_position(line)?.starts_with(b",\"type\":\"events_lost\"");
    is_mark.then(|| serde_json::from_slice::<Mark>(line).ok().map(|mark| mark.through))?
}
