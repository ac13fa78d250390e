//! Reads a log from a sequence number on.

use std::io::{self, BufRead, BufReader, Read, Take};
use std::path::PathBuf;
use std::sync::Arc;

use watari_sdk::Position;

use super::restore::marked_through;
use super::search::{FirstLine, Search};
use super::storage::Storage;
use super::stored::{LONG_LINE_BYTES, StoredLine};
use super::{BEFORE_POSITION, FORMAT};

/// How many bytes are read in one call.
const CHUNK_BYTES: usize = 64 * 1024;

/// The maximum length of a line that marks lost events.
const MARK_BYTES_MAX: u64 = 256;

/// How much of a line is read to find its position.
pub(super) const HEAD_BYTES: usize = 64;

/// The maximum length of a stored line: prompts and lines of the CLI are much shorter. Watari did not write a longer
/// one.
pub(super) const LINE_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused.
    #[error("cannot read the log {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The file is shorter than what was stored: another program cut it off.
    #[error("the log {} was cut off while it was read: connect again", .path.display())]
    CutOff {
        /// The file.
        path: PathBuf,
    },
    /// A line has no position: another program wrote to the file.
    #[error("the log {} is damaged: the line at byte {at} has no position", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the line begins.
        at: u64,
    },
    /// A line is longer than any stored line: another program wrote to the file.
    #[error("the log {} is damaged: the line at byte {at} has more than {LINE_BYTES_MAX} bytes", .path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// Where the line begins.
        at: u64,
    },
}

impl ReadError {
    pub(super) fn of(storage: &Storage, source: io::Error) -> ReadError {
        let path = storage.path().to_owned();
        let is_short = source.kind() == io::ErrorKind::UnexpectedEof;
        if is_short { ReadError::CutOff { path } } else { ReadError::Io { path, source } }
    }
}

/// Lines of a log, in order. They are read through the log's own descriptor, so that it does not matter what happens to
/// the file's name.
#[derive(Debug)]
pub struct LogReader {
    /// Set while the start of the first line is not found yet.
    search: Option<Search>,
    file: Take<BufReader<Cursor>>,
    /// What was read of the line; of a line that is too long only the head.
    line: Vec<u8>,
    /// How many bytes of the line were read, including the newline.
    read_bytes: u64,
    /// The maximum length of a line.
    line_bytes_max: usize,
    /// Whether the line was read to its end, so that another one follows.
    is_over: bool,
    /// The start of the next line.
    at: u64,
    /// The last sequence number that has an event or a mark; none before the first line.
    through: Option<u64>,
}

/// The result of one reading step.
#[derive(Debug)]
pub(crate) enum NextLine<'a> {
    /// A line, without the newline.
    Line(&'a [u8]),
    /// A line that is too long to be read in one step.
    Long(StoredLine),
    /// The budget is used up; call again.
    Unfinished,
    /// There are no more lines.
    End,
}

/// How far a line was read.
#[derive(Debug, PartialEq, Eq)]
enum Progress {
    Whole,
    /// To its end, but only the head was stored.
    Head,
    Unfinished,
    /// The file ended before the line did.
    BrokenOff,
    End,
}

/// Reads a file from an offset on.
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

impl LogReader {
    /// The lines after a sequence number, up to an offset at which a line ends. `next_within` finds the first one.
    pub(crate) fn after_seq(storage: &Arc<Storage>, after: u64, end: u64) -> LogReader {
        LogReader { search: Some(Search::new(after, end)), ..LogReader::between(storage, end, end) }
    }

    /// Like [`LogReader::after_seq`], but finds the first line before it returns.
    pub(crate) fn open(storage: &Arc<Storage>, after: u64, end: u64) -> Result<LogReader, ReadError> {
        let (mut lines, mut budget) = (LogReader::after_seq(storage, after, end), usize::MAX);
        while !lines.find(&mut budget)? {
            budget = usize::MAX;
        }
        Ok(lines)
    }

    /// The lines between two offsets at which lines begin or end.
    pub(super) fn between(storage: &Arc<Storage>, start: u64, end: u64) -> LogReader {
        let cursor = Cursor { storage: Arc::clone(storage), at: start };
        let file = BufReader::with_capacity(CHUNK_BYTES, cursor).take(end.saturating_sub(start));
        LogReader {
            search: None,
            file,
            line: Vec::new(),
            read_bytes: 0,
            line_bytes_max: LINE_BYTES_MAX,
            is_over: true,
            at: start,
            through: None,
        }
    }

    /// Returns the next line, without the newline.
    #[expect(clippy::should_implement_trait, reason = "a line is borrowed from the reader")]
    pub fn next(&mut self) -> Result<Option<&[u8]>, ReadError> {
        let mut budget = usize::MAX;
        match self.read(&mut budget, self.line_bytes_max).map_err(|source| self.failed(source))? {
            Progress::Whole => self.take_whole().map(Some),
            // The budget is larger than any line.
            Progress::Head | Progress::Unfinished => Err(ReadError::TooLong { path: self.path(), at: self.at }),
            Progress::BrokenOff => Err(ReadError::CutOff { path: self.path() }),
            Progress::End => Ok(None),
        }
    }

    /// Returns the next line, or makes progress towards it: reads at most the budget and one chunk, and reduces the
    /// budget by what it read.
    pub(crate) fn next_within(&mut self, budget: &mut usize) -> Result<NextLine<'_>, ReadError> {
        if !self.find(budget)? {
            return Ok(NextLine::Unfinished);
        }
        match self.read(budget, LONG_LINE_BYTES).map_err(|source| self.failed(source))? {
            Progress::Whole => self.take_whole().map(NextLine::Line),
            Progress::Head => self.take_long().map(NextLine::Long),
            Progress::Unfinished => Ok(NextLine::Unfinished),
            Progress::BrokenOff => Err(ReadError::CutOff { path: self.path() }),
            Progress::End => Ok(NextLine::End),
        }
    }

    /// Returns the next line, and checks that it is JSON.
    pub(crate) fn next_whole(&mut self) -> Result<Option<&[u8]>, ReadError> {
        let at = self.at;
        if self.next()?.is_none() {
            return Ok(None);
        }
        if serde_json::from_slice::<&serde_json::value::RawValue>(&self.line).is_err() {
            return Err(ReadError::Damaged { path: self.path(), at });
        }
        Ok(Some(&self.line))
    }

    /// Returns the next line, even if it is incomplete. A line that is too long to be Watari's is empty here.
    pub(super) fn next_or_rest(&mut self) -> io::Result<Option<&[u8]>> {
        let mut budget = usize::MAX;
        Ok(match self.read(&mut budget, self.line_bytes_max)? {
            Progress::Whole => Some(self.line.trim_ascii_end()),
            Progress::Head | Progress::Unfinished => Some(&[]),
            Progress::BrokenOff => {
                self.is_over = true;
                Some(self.line.trim_ascii_end())
            }
            Progress::End => None,
        })
    }

    /// The start of the first line, if no line was read yet.
    pub(crate) fn offset(&self) -> u64 {
        self.file.get_ref().get_ref().at
    }

    /// Searches for the first line; false if the budget is used up before it is found.
    fn find(&mut self, budget: &mut usize) -> Result<bool, ReadError> {
        let Some(search) = &mut self.search else { return Ok(true) };
        let (storage, after, end) = (Arc::clone(&self.file.get_ref().get_ref().storage), search.after(), search.end());
        let start = match search.step(&storage, budget).map_err(|source| ReadError::of(&storage, source))? {
            Some(FirstLine::Line(start)) => start,
            Some(FirstLine::Damaged(at)) => return Err(ReadError::Damaged { path: self.path(), at }),
            None => return Ok(false),
        };
        // The previous line may be a mark for several sequence numbers.
        let before = line_before(&storage, start).map_err(|source| ReadError::of(&storage, source))?;
        let through = before.as_deref().and_then(last_number_of).unwrap_or(0).max(after);
        *self = LogReader { through: Some(through), ..LogReader::between(&storage, start, end) };
        Ok(true)
    }

    /// Reads to the end of the line, or until the budget is used up. Of a line longer than `whole_max` only the head is
    /// stored.
    fn read(&mut self, budget: &mut usize, whole_max: usize) -> io::Result<Progress> {
        if std::mem::take(&mut self.is_over) {
            self.line.clear();
            self.read_bytes = 0;
        }
        while *budget > 0 {
            let is_whole_so_far = self.line.len() as u64 == self.read_bytes;
            let chunk = self.file.fill_buf()?;
            if chunk.is_empty() {
                let is_end = self.read_bytes == 0 && self.file.limit() == 0;
                return Ok(if is_end { Progress::End } else { Progress::BrokenOff });
            }
            let line_end = memchr::memchr(b'\n', chunk);
            let count = line_end.map_or(chunk.len(), |line_end| line_end + 1);
            if is_whole_so_far {
                self.line.extend_from_slice(&chunk[..count]);
            }
            if is_whole_so_far && self.line.len() > whole_max {
                self.line.truncate(HEAD_BYTES);
                self.line.shrink_to_fit();
            }
            self.file.consume(count);
            self.read_bytes += count as u64;
            *budget = budget.saturating_sub(count);
            if line_end.is_some() {
                self.is_over = true;
                let is_whole_so_far = self.line.len() as u64 == self.read_bytes;
                return Ok(if is_whole_so_far { Progress::Whole } else { Progress::Head });
            }
        }
        Ok(Progress::Unfinished)
    }

    fn take_whole(&mut self) -> Result<&[u8], ReadError> {
        self.line.truncate(self.line.trim_ascii_end().len());
        // Both are evaluated, because `follows` records that the line was read.
        let (is_next, is_text) = (self.follows(), is_whole_text(&self.line));
        if !is_next || !is_text {
            return Err(ReadError::Damaged { path: self.path(), at: self.at });
        }
        self.at += self.read_bytes;
        Ok(&self.line)
    }

    /// Whether the rest is text is checked when the line is read.
    fn take_long(&mut self) -> Result<StoredLine, ReadError> {
        let (start, bytes) = (self.at, usize::try_from(self.read_bytes - 1).unwrap_or(usize::MAX));
        if bytes > self.line_bytes_max {
            return Err(ReadError::TooLong { path: self.path(), at: start });
        }
        if !self.follows() {
            return Err(ReadError::Damaged { path: self.path(), at: start });
        }
        self.at += self.read_bytes;
        StoredLine::with_head(&self.file.get_ref().get_ref().storage, start, bytes, self.line.clone())
    }

    /// Whether the line has the next sequence number. (JSON is checked when a log is opened; this check is cheap.)
    fn follows(&mut self) -> bool {
        let Some(position) = position_of(&self.line) else { return false };
        let is_next = self.through.is_none_or(|through| position.seq == through + 1);
        self.through = Some(marked_through(&self.line).unwrap_or(0).max(position.seq));
        is_next
    }

    fn path(&self) -> PathBuf {
        self.file.get_ref().get_ref().storage.path().to_owned()
    }

    fn failed(&self, source: io::Error) -> ReadError {
        ReadError::Io { path: self.path(), source }
    }
}

/// Whether a line looks whole without parsing it.
pub(super) fn is_whole_text(line: &[u8]) -> bool {
    // JSON allows white space between tokens; a crash of the machine leaves zeros.
    let is_foreign = |byte: u8| byte < b' ' && byte != b'\t' && byte != b'\r';
    // No early exit, so that the compiler can check many bytes per instruction.
    let has_foreign = line.iter().fold(false, |found, byte| found | is_foreign(*byte));
    std::str::from_utf8(line).is_ok() && !has_foreign && line.ends_with(b"}")
}

pub(super) fn position_at(file: &Storage, start: u64) -> io::Result<Option<Position>> {
    let mut head = [0; HEAD_BYTES];
    let count = file.read_at(&mut head, start)?;
    Ok(position_of(&head[..count]))
}

/// The highest sequence number that a line covers.
fn last_number_of(line: &[u8]) -> Option<u64> {
    Some(marked_through(line).unwrap_or(0).max(position_of(line)?.seq))
}

/// The line that ends at an offset; none for the first line, and for a line that is too long to be a mark.
fn line_before(file: &Storage, start: u64) -> io::Result<Option<Vec<u8>>> {
    let from = start.saturating_sub(MARK_BYTES_MAX).max(FORMAT.len() as u64);
    let mut bytes = vec![0; usize::try_from(start.saturating_sub(from)).unwrap_or(0)];
    let read = file.read_up_to(&mut bytes, from)?;
    bytes.truncate(read);
    let line = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let line = &line[memchr::memrchr(b'\n', line).map_or(0, |end| end + 1)..];
    Ok((!line.is_empty()).then(|| line.to_vec()))
}

/// The position at the beginning of a line.
pub(crate) fn position_of(line: &[u8]) -> Option<Position> {
    let rest = line.strip_prefix(BEFORE_POSITION.as_bytes())?;
    Position::read(&rest[..end_of_position(rest)?])
}

/// What follows the position at the beginning of a line.
pub(super) fn behind_position(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(BEFORE_POSITION.as_bytes())?;
    Some(&rest[end_of_position(rest)? + 1..])
}

fn end_of_position(text: &[u8]) -> Option<usize> {
    text.iter().take(HEAD_BYTES).position(|byte| *byte == b'"')
}

/// Reads as many bytes as the first line should have.
pub(super) fn beginning(file: &Storage) -> io::Result<Vec<u8>> {
    let mut beginning = vec![0; FORMAT.len()];
    let filled = file.read_up_to(&mut beginning, 0)?;
    beginning.truncate(filled);
    Ok(beginning)
}

#[cfg(test)]
mod tests {
    use super::super::storage::{Disk, memory};
    use super::*;

    /// The lines of a log with a line of so many bytes in its middle, with a maximum length of 400,000.
    fn lines_with(bytes: usize) -> LogReader {
        let disk = memory::Disk::new();
        let path = std::path::Path::new("events.jsonl");
        let line = |number: u64, text: &str| format!("{{\"seq\":\"1:{number}\",\"text\":\"{text}\"}}\n");
        disk.replace(path, [FORMAT, &line(1, ""), &line(2, &"x".repeat(bytes)), &line(3, "")].concat().as_bytes());
        let storage = Arc::new(Disk::Memory(disk).open(path).unwrap());
        let end = storage.len().unwrap();
        LogReader { line_bytes_max: 400_000, ..LogReader::open(&storage, 0, end).unwrap() }
    }

    /// Describes the lines, read at once and in steps, and returns how many bytes were held for them.
    fn shown(bytes: usize) -> (Vec<String>, Vec<String>, usize) {
        let (mut lines, mut at_once, mut held) = (lines_with(bytes), Vec::new(), 0);
        while let Some(read) = lines.next().map(|line| line.map(<[u8]>::len)).transpose() {
            at_once.push(read.as_ref().map_or_else(ToString::to_string, |length| format!("line of {length}")));
            held = held.max(lines.line.capacity());
            if read.is_err() {
                break;
            }
        }
        let (mut lines, mut in_steps) = (lines_with(bytes), Vec::new());
        loop {
            in_steps.push(match lines.next_within(&mut 10_000) {
                Ok(NextLine::Line(line)) => format!("line of {}", line.len()),
                Ok(NextLine::Long(line)) => format!("long line of {}", line.bytes()),
                Ok(NextLine::Unfinished) => continue,
                Ok(NextLine::End) => break,
                Err(error) => error.to_string(),
            });
            if in_steps.last().is_some_and(|last| last.starts_with("the log")) {
                break;
            }
        }
        (at_once, in_steps, held)
    }

    #[test]
    fn a_line_longer_than_any_of_ours_is_damage_and_is_not_held() {
        let short = ["line of 23".to_owned(), "line of 1023".to_owned(), "line of 23".to_owned()];
        assert_eq!(shown(1000).0, short);
        assert_eq!(shown(1000).1, short);
        let (at_once, in_steps, _) = shown(300_000);
        assert_eq!(at_once, ["line of 23", "line of 300023", "line of 23"]);
        assert_eq!(in_steps, ["line of 23", "long line of 300023", "line of 23"]);
        let (at_once, in_steps, held) = shown(5_000_000);
        let damaged = "the log events.jsonl is damaged: the line at byte 63 has more than 536870912 bytes";
        assert_eq!(at_once, ["line of 23", damaged]);
        assert_eq!(in_steps, at_once);
        assert!(held < 2_000_000, "{held} bytes were held");
    }
}
