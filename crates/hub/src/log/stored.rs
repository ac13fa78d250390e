//! A stored line that was not read yet: its place and its head.

use std::sync::Arc;

use watari_sdk::Position;

use super::read::{HEAD_BYTES, ReadError, is_whole_text, position_of};
use super::storage::Storage;

/// A longer line is read and checked by its consumer, in another thread, and not by the host's task.
pub(crate) const LONG_LINE_BYTES: usize = 256 * 1024;

/// A stored line that was not read yet.
#[derive(Debug)]
pub struct StoredLine {
    storage: Arc<Storage>,
    start: u64,
    bytes: usize,
    head: Vec<u8>,
    position: Position,
}

impl StoredLine {
    /// The line that begins at an offset, with its length without the newline.
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

    /// The beginning of the line: its position and its type.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// The line's position.
    pub fn position(&self) -> Position {
        self.position
    }

    /// The line's length, without the newline.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Reads the line, without the newline, and checks that it is unchanged. This may take long: call it in a thread of
    /// its own.
    pub fn read(&self) -> Result<Vec<u8>, ReadError> {
        let mut line = vec![0; self.bytes];
        self.storage.read_exact_at(&mut line, self.start).map_err(|source| ReadError::of(&self.storage, source))?;
        if position_of(&line) == Some(self.position) && is_whole_text(&line) {
            return Ok(line);
        }
        Err(ReadError::Damaged { path: self.storage.path().to_owned(), at: self.start })
    }
}
