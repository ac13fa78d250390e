//! Lines that wait for the client to take them.

/// How much may wait before no more events are taken; then they wait in the session, or in its log.
const WAITING_BYTES_MAX: usize = 1024 * 1024;

/// How many bytes of replies may wait before no more of a client's lines are read: each could be one more error line.
///
/// Events do not count. A client may write without reading for as long as its line is, and if an event that is as long
/// were waited for meanwhile, both would wait for ever.
const REPLY_BYTES_MAX: usize = 1024 * 1024;

/// How large an empty buffer may be: what one read of the CLI becomes has room in it.
const EMPTY_BYTES_MAX: usize = 512 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    start: usize,
    /// How much of what waits may be replies: never less than it is.
    reply_bytes: usize,
}

impl Outbox {
    /// Where lines are added, at the end.
    pub(crate) fn lines(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Adds lines that answer what the client has sent.
    pub(crate) fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        self.reply_bytes += self.bytes.len() - before;
    }

    /// Whether there is room for replies, so that more of the client's lines may be read.
    pub(crate) fn takes_replies(&self) -> bool {
        self.reply_bytes < REPLY_BYTES_MAX
    }

    /// Adds lines that were made elsewhere. Where nothing waits they are not copied.
    pub(crate) fn append(&mut self, lines: Vec<u8>) {
        if self.is_empty() {
            (self.bytes, self.start) = (lines, 0);
        } else {
            self.bytes.extend_from_slice(&lines);
        }
    }

    pub(crate) fn unwritten(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.unwritten().is_empty()
    }

    pub(crate) fn has_room(&self) -> bool {
        self.unwritten().len() < WAITING_BYTES_MAX
    }

    /// Where the client is, if it takes nothing at the moment: everything that can be written is.
    pub(crate) fn behind(&self) -> Option<usize> {
        (!self.is_empty()).then_some(self.start)
    }

    /// The client took this many bytes. Tells whether what waits is now elsewhere.
    pub(crate) fn written(&mut self, count: usize) -> bool {
        self.start += count;
        self.reply_bytes = self.reply_bytes.min(self.bytes.len() - self.start);
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
            // A huge line, or a client that did not read, leaves a huge buffer; it is given back once it is empty.
            if self.bytes.capacity() > EMPTY_BYTES_MAX {
                self.bytes.shrink_to(EMPTY_BYTES_MAX / 2);
            }
            return true;
        }
        // What is moved is never more than what was written meanwhile, however much waits.
        let moves = self.start > WAITING_BYTES_MAX.max(self.unwritten().len());
        if moves {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_replies_keep_a_client_from_being_read_until_it_has_taken_them() {
        let mut outbox = Outbox::default();
        outbox.lines().extend_from_slice(&vec![b'e'; 5 * REPLY_BYTES_MAX]);
        assert!(outbox.takes_replies());
        outbox.reply(|lines| lines.extend_from_slice(&vec![b'r'; REPLY_BYTES_MAX]));
        assert!(!outbox.takes_replies());
        outbox.written(5 * REPLY_BYTES_MAX);
        assert!(!outbox.takes_replies());
        outbox.written(1);
        assert!(outbox.takes_replies());
    }
}
