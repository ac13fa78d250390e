//! The buffer of lines that are not yet written to a client.

/// How many bytes may be buffered before no more events are taken; further events wait in the session or in its log.
const WAITING_BYTES_MAX: usize = 1024 * 1024;

/// How many bytes of replies may be buffered before no more of the client's lines are read: each line could add an
/// error.
///
/// Events do not count. A client might read nothing until it has written a long line. If the host stopped reading that
/// line because a long event waits, both would wait forever.
const REPLY_BYTES_MAX: usize = 1024 * 1024;

/// The capacity that an empty buffer may keep: the lines of one read of the CLI fit into it.
const EMPTY_BYTES_MAX: usize = 512 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    start: usize,
    /// An upper bound for the unwritten bytes of replies.
    reply_bytes: usize,
}

impl Outbox {
    /// The buffer, to append lines.
    pub(crate) fn lines(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends lines that reply to the client.
    pub(crate) fn reply(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let before = self.bytes.len();
        write(&mut self.bytes);
        self.reply_bytes += self.bytes.len() - before;
    }

    /// Whether there is room for replies, so that more of the client's lines may be read.
    pub(crate) fn has_room_for_replies(&self) -> bool {
        self.reply_bytes < REPLY_BYTES_MAX
    }

    /// Appends lines from another buffer, without a copy if this one is empty.
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

    /// The offset of the first unwritten byte; none if everything is written.
    pub(crate) fn unwritten_offset(&self) -> Option<usize> {
        (!self.is_empty()).then_some(self.start)
    }

    /// Removes `count` written bytes. Returns whether the unwritten bytes were moved within the buffer.
    pub(crate) fn written(&mut self, count: usize) -> bool {
        self.start += count;
        self.reply_bytes = self.reply_bytes.min(self.bytes.len() - self.start);
        if self.start == self.bytes.len() {
            self.bytes.clear();
            self.start = 0;
            // A huge line or a slow client leaves a huge buffer, which is freed once it is empty.
            if self.bytes.capacity() > EMPTY_BYTES_MAX {
                self.bytes.shrink_to(EMPTY_BYTES_MAX / 2);
            }
            return true;
        }
        // Never moves more bytes than were written since the last move.
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
    fn only_unread_replies_stop_the_reading_of_a_client() {
        let mut outbox = Outbox::default();
        outbox.lines().extend_from_slice(&vec![b'e'; 5 * REPLY_BYTES_MAX]);
        assert!(outbox.has_room_for_replies());
        outbox.reply(|lines| lines.extend_from_slice(&vec![b'r'; REPLY_BYTES_MAX]));
        assert!(!outbox.has_room_for_replies());
        outbox.written(5 * REPLY_BYTES_MAX);
        assert!(!outbox.has_room_for_replies());
        outbox.written(1);
        assert!(outbox.has_room_for_replies());
    }
}
