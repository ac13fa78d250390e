//! A line of a log that is not read yet: where it is, and what it begins with.

use std::sync::Arc;

use super::read::{HEAD_BYTES, ReadError, is_whole_text, position_of};
use super::storage::Storage;
use crate::position::Position;

/// A line longer than this is read and checked by whoever wants it, in another thread, and not by the host's task.
pub(crate) const LONG_LINE_BYTES: usize = 256 * 1024;

/// A line that was stored and is not read yet.
#[derive(Debug)]
pub struct StoredLine {
    storage: Arc<Storage>,
    start: u64,
    bytes: usize,
    head: Vec<u8>,
    position: Position,
}

impl StoredLine {
    /// The line of so many bytes, without its line end, that begins at a place.
    pub(crate) fn at(storage: &Arc<Storage>, start: u64, bytes: usize) -> Result<StoredLine, ReadError> {
        let mut head = vec![0; HEAD_BYTES.min(bytes)];
        storage.read_exact_at(&mut head, start).map_err(|source| ReadError::of(storage, source))?;
        StoredLine::with_head(storage, start, bytes, head)
    }

    pub(super) fn with_head(
        storage: &Arc<Storage>,
        start: u64,
        bytes: usize,
        head: Vec<u8>,
    ) -> Result<StoredLine, ReadError> {
        match position_of(&head) {
            Some(position) => Ok(StoredLine { storage: Arc::clone(storage), start, bytes, head, position }),
            None => Err(ReadError::Damaged { path: storage.path().to_owned(), at: start }),
        }
    }

    /// What it begins with: its position and its type.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Its position.
    pub fn position(&self) -> Position {
        self.position
    }

    /// How long it is, without its line end.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads the line, without its line end, and checks that it is still what was stored. This takes as long as the line
    /// is: call it where nobody else waits.
    pub fn read(&self) -> Result<Vec<u8>, ReadError> {
        let mut line = vec![0; self.bytes];
        self.storage.read_exact_at(&mut line, self.start).map_err(|source| ReadError::of(&self.storage, source))?;
        if position_of(&line) == Some(self.position) && is_whole_text(&line) {
            return Ok(line);
        }
        Err(ReadError::Damaged { path: self.storage.path().to_owned(), at: self.start })
    }
}
