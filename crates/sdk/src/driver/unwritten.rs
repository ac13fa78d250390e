//! The backlog of lines for the CLI.

/// The lines that are not written to the CLI yet.
#[derive(Debug, Default)]
pub(super) struct Unwritten {
    bytes: Vec<u8>,
    start: usize,
    closes: bool,
    /// The pipe is full.
    pub(super) is_stuck: bool,
}

impl Unwritten {
    pub(super) fn push(&mut self, line: Vec<u8>) {
        if self.is_empty() {
            // The usual case; a large prompt is not copied.
            *self = Unwritten { bytes: line, closes: self.closes, ..Unwritten::default() };
        } else {
            if self.start > self.bytes.len() / 2 {
                // More than half is written: moving the rest is worth the memory.
                self.bytes.drain(..self.start);
                self.start = 0;
            }
            self.bytes.extend_from_slice(&line);
        }
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// Notes that `count` bytes were written. Returns whether the CLI has made room for them by reading.
    pub(super) fn written(&mut self, count: usize) -> bool {
        self.start += count;
        let was_stuck = self.is_stuck;
        self.is_stuck = !self.is_empty();
        if self.is_empty() {
            *self = Unwritten { closes: self.closes, ..Unwritten::default() };
        }
        was_stuck
    }

    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn close_when_written(&mut self) {
        self.closes = true;
    }

    pub(super) fn is_done(&self) -> bool {
        self.closes && self.is_empty()
    }
}
