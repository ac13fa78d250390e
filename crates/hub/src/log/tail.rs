//! Finds the whole lines of a log whose end is incomplete.

use std::io;

use watari_sdk::Position;

use super::read::{LINE_BYTES_MAX, position_of};
use super::storage::Storage;

/// How many bytes are read in one call.
const CHUNK_BYTES: u64 = 64 * 1024;

/// The part of a log that has only whole lines.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct IntactPart {
    pub(super) bytes: u64,
    pub(super) last: Position,
    /// The start of the last whole line; `bytes` if there is none.
    pub(super) last_start: u64,
}

/// Searches backwards for the last whole line. `floor` is the start of the first line.
pub(super) fn find(file: &Storage, bytes: u64, floor: u64) -> io::Result<IntactPart> {
    let mut end = end_of_line_before(file, bytes, floor)?;
    while end > floor {
        let start = end_of_line_before(file, end - 1, floor)?;
        if let Some(last) = whole_line(file, start, end)? {
            return Ok(IntactPart { bytes: end, last, last_start: start });
        }
        end = start;
    }
    Ok(IntactPart { bytes: floor, last: Position::default(), last_start: floor })
}

/// The offset after the last newline before an offset; the floor if there is none.
pub(super) fn end_of_line_before(file: &Storage, offset: u64, floor: u64) -> io::Result<u64> {
    let mut end = offset;
    while end > floor {
        let start = end.saturating_sub(CHUNK_BYTES).max(floor);
        let mut chunk = vec![0; usize::try_from(end - start).unwrap_or(0)];
        file.read_exact_at(&mut chunk, start)?;
        if let Some(line_end) = memchr::memrchr(b'\n', &chunk) {
            return Ok(start + line_end as u64 + 1);
        }
        end = start;
    }
    Ok(floor)
}

/// Returns the position of a line if it is whole. After a crash of the machine, it may consist of zeros.
fn whole_line(file: &Storage, start: u64, end: u64) -> io::Result<Option<Position>> {
    // A line that is too long to be Watari's is not read at all.
    let Some(bytes) = usize::try_from(end - start).ok().filter(|bytes| *bytes <= LINE_BYTES_MAX) else {
        return Ok(None);
    };
    let mut line = vec![0; bytes];
    file.read_exact_at(&mut line, start)?;
    let is_object = serde_json::from_slice::<&serde_json::value::RawValue>(&line).is_ok();
    Ok(position_of(&line).filter(|_| is_object))
}
