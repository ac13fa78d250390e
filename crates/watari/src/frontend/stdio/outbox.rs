//! Lines that wait for the client to take them.

/// How much may wait before no more events are taken; then they wait in the session, and then in the CLI.
const WAITING_BYTES_MAX: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub(super) struct Outbox {
    bytes: Vec<u8>,
    start: usize,
}

impl Outbox {
    /// Where lines are added, at the end.
    pub(super) fn lines(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    pub(super) fn unwritten(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unwritten().is_empty()
    }

    pub(super) fn has_room(&self) -> bool {
        self.unwritten().len() < WAITING_BYTES_MAX
    }

    /// Where the client is, if it takes nothing at the moment: everything that can be written is.
    pub(super) fn behind(&self) -> Option<usize> {
        (!self.is_empty()).then_some(self.start)
    }

    /// The client took this many bytes. Tells whether what waits is now elsewhere.
    pub(super) fn written(&mut self, count: usize) -> bool {
        self.start += count;
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
            // A huge line leaves a huge buffer; it is given back once the line is gone.
            self.bytes.shrink_to(2 * WAITING_BYTES_MAX);
            return true;
        }
        let moves = self.start > WAITING_BYTES_MAX;
        if moves {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        moves
    }
}
