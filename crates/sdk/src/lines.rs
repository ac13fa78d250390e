//! Splits a stream of bytes into lines, whatever the pieces it arrives in.
//!
//! An unfinished line stays here, so that a cancelled read loses no byte.

/// The longest line that is passed on. A longer one is counted and skipped.
pub const LINE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How much is read in one call.
const CHUNK_BYTES: usize = 256 * 1024;

/// How much of an overlong line is stored: enough to identify it and the request that waits for it.
const BEGINNING_BYTES: usize = 4096;

/// A line splitter.
#[derive(Debug)]
pub struct LineSplitter {
    buffer: Vec<u8>,
    /// The start of the first line that was not taken yet.
    start: usize,
    /// The position up to which there is no line end.
    searched: usize,
    limit: usize,
    /// How much is read in one call.
    chunk: usize,
    /// Set while an overlong line is skipped: its beginning, and how many bytes were skipped.
    skipping: Option<(Vec<u8>, u64)>,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub enum RawLine<'a> {
    /// Without its line end.
    Whole(&'a [u8]),
    /// A line that was longer than the limit.
    TooLong {
        /// Its beginning.
        beginning: Vec<u8>,
        /// Its length.
        bytes: u64,
    },
}

impl Default for LineSplitter {
    fn default() -> LineSplitter {
        LineSplitter::new()
    }
}

impl LineSplitter {
    /// Creates a splitter for lines of up to 64 MiB.
    pub fn new() -> LineSplitter {
        LineSplitter::with_limit(LINE_BYTES_MAX)
    }

    fn with_limit(limit: usize) -> LineSplitter {
        LineSplitter { buffer: Vec::new(), start: 0, searched: 0, limit, chunk: CHUNK_BYTES, skipping: None }
    }

    /// Returns the buffer to which the next bytes are appended, up to its capacity.
    pub fn space(&mut self) -> &mut Vec<u8> {
        self.space_of(CHUNK_BYTES)
    }

    /// As [`LineSplitter::space`], with room for this many bytes: for streams of which each read returns little.
    pub fn space_of(&mut self, bytes: usize) -> &mut Vec<u8> {
        self.chunk = bytes;
        self.drop_taken_lines();
        self.skip_overlong_line();
        self.buffer.reserve(bytes);
        &mut self.buffer
    }

    /// Returns the next complete line.
    #[expect(clippy::should_implement_trait, reason = "a line is borrowed from the splitter")]
    pub fn next(&mut self) -> Option<RawLine<'_>> {
        let found = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        let Some(end) = found.map(|place| self.searched + place) else {
            self.searched = self.buffer.len();
            // Now, not at the next read: a stream may be silent for hours.
            self.drop_taken_lines();
            return None;
        };
        let line = self.start..end;
        self.start = end + 1;
        self.searched = self.start;
        if let Some((beginning, skipped)) = self.skipping.take() {
            return Some(RawLine::TooLong { beginning, bytes: skipped + line.len() as u64 });
        }
        if line.len() > self.limit {
            let beginning = self.buffer[line.clone()][..BEGINNING_BYTES.min(line.len())].to_vec();
            return Some(RawLine::TooLong { beginning, bytes: line.len() as u64 });
        }
        Some(RawLine::Whole(&self.buffer[line]))
    }

    /// Returns the next line if it is complete and longer than this many bytes, in the buffer that it was read into, so
    /// that the caller owns it without a copy. The bytes after it are copied, which are few if each read returns
    /// little.
    pub fn take_longer_than(&mut self, bytes: usize) -> Option<Vec<u8>> {
        if self.skipping.is_some() || self.buffer.len() - self.start <= bytes {
            return None;
        }
        let place = memchr::memchr(b'\n', &self.buffer[self.searched..]);
        let Some(end) = place.map(|place| self.searched + place) else {
            self.searched = self.buffer.len();
            return None;
        };
        let length = end - self.start;
        if length <= bytes || length > self.limit {
            return None;
        }
        let rest = self.buffer.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        line.truncate(end);
        line.drain(..self.start);
        (self.start, self.searched) = (0, 0);
        Some(line)
    }

    /// The number of bytes of lines that were not taken yet.
    pub fn untaken_bytes(&self) -> usize {
        self.buffer.len() - self.start
    }

    /// Skips the unfinished line: it is counted to its end, and then reported as too long. Call it when every complete
    /// line was taken.
    pub fn skip_unfinished(&mut self) {
        self.drop_taken_lines();
        self.searched = self.buffer.len();
        self.skip();
        self.buffer.shrink_to(2 * self.chunk);
    }

    /// Notes the end of the stream: the remaining bytes are a last line, even without a line end.
    pub fn end(&mut self) {
        if self.start < self.buffer.len() || self.skipping.is_some() {
            self.buffer.push(b'\n');
        }
    }

    /// Ends the stream, and returns the last line, if it has no line end.
    pub fn last(&mut self) -> Option<RawLine<'_>> {
        self.end();
        self.next()
    }

    fn drop_taken_lines(&mut self) {
        self.buffer.drain(..self.start);
        self.searched -= self.start;
        self.start = 0;
        // A huge line leaves a huge buffer, which is released once the line was taken.
        if self.buffer.len() < self.chunk && self.buffer.capacity() > 8 * self.chunk {
            self.buffer.shrink_to(2 * self.chunk);
        }
    }

    /// Drops the bytes of an unfinished line over the limit; they are only counted.
    fn skip_overlong_line(&mut self) {
        if self.searched > self.limit || self.skipping.is_some() {
            self.skip();
        }
    }

    fn skip(&mut self) {
        let unfinished = self.searched;
        let beginning = self.buffer[..BEGINNING_BYTES.min(unfinished)].to_vec();
        let (_, skipped) = self.skipping.get_or_insert((beginning, 0));
        *skipped += unfinished as u64;
        self.buffer.drain(..unfinished);
        self.searched = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Feeds pieces as a pipe would, and returns the lines as text.
    fn cut(limit: usize, pieces: &[&[u8]]) -> Vec<String> {
        let mut lines = LineSplitter::with_limit(limit);
        let mut seen = Vec::new();
        for piece in pieces {
            lines.space().extend_from_slice(piece);
            while let Some(line) = lines.next() {
                seen.push(show(&line));
            }
        }
        seen.extend(lines.last().map(|line| show(&line)));
        seen
    }

    fn show(line: &RawLine<'_>) -> String {
        match line {
            RawLine::Whole(line) => format!("line {}", String::from_utf8_lossy(line)),
            RawLine::TooLong { beginning, bytes } => {
                format!("skip {bytes} {}", String::from_utf8_lossy(beginning))
            }
        }
    }

    #[test]
    fn a_last_line_needs_no_end_and_empty_lines_are_lines() {
        assert_eq!(cut(100, &[b"a\n\nb"]), ["line a", "line ", "line b"]);
        assert_eq!(cut(100, &[b"a\n"]), ["line a"]);
        assert_eq!(cut(100, &[]), Vec::<String>::new());
    }

    #[test]
    fn a_line_over_the_limit_is_counted_and_the_next_is_whole() {
        assert_eq!(cut(4, &[b"abcd\nabcde\nx\n"]), ["line abcd", "skip 5 abcde", "line x"]);
        assert_eq!(cut(4, &[b"abcde", b"fgh", b"i\nx\n"]), ["skip 9 abcde", "line x"]);
        assert_eq!(cut(4, &[b"abcde", b"fgh"]), ["skip 8 abcde"]);
    }

    #[test]
    fn a_line_that_is_too_long_does_not_stay_in_memory() {
        let mut lines = LineSplitter::with_limit(1000);
        for _ in 0..10_000 {
            lines.space().extend_from_slice(&[b'x'; 1000]);
            assert_eq!(lines.next(), None);
        }
        assert!(lines.buffer.capacity() < 4 * CHUNK_BYTES, "{}", lines.buffer.capacity());
    }

    #[test]
    fn a_long_line_is_handed_over_in_its_buffer_and_the_next_ones_stay() {
        let mut lines = LineSplitter::with_limit(100);
        lines.space_of(8).extend_from_slice(b"ab\n0123456789");
        assert_eq!(lines.take_longer_than(5), None);
        assert_eq!(lines.next(), Some(RawLine::Whole(b"ab")));
        assert_eq!(lines.take_longer_than(5), None);
        lines.space_of(8).extend_from_slice(b"ABC\nx\ny");
        assert_eq!(lines.take_longer_than(13), None);
        assert_eq!(lines.take_longer_than(5).as_deref(), Some(b"0123456789ABC".as_slice()));
        assert_eq!(lines.take_longer_than(5), None);
        assert_eq!(lines.next(), Some(RawLine::Whole(b"x")));
        lines.end();
        assert_eq!(lines.next(), Some(RawLine::Whole(b"y")));
        assert_eq!(lines.untaken_bytes(), 0);
    }

    #[test]
    fn a_line_that_is_given_up_is_counted_to_its_end_and_the_next_is_whole() {
        let mut lines = LineSplitter::with_limit(100);
        lines.space_of(8).extend_from_slice(b"a\n0123");
        assert_eq!(lines.next(), Some(RawLine::Whole(b"a")));
        assert_eq!(lines.next(), None);
        lines.skip_unfinished();
        assert_eq!(lines.untaken_bytes(), 0);
        lines.space_of(8).extend_from_slice(b"4567");
        assert_eq!((lines.take_longer_than(1), lines.next()), (None, None));
        lines.space_of(8).extend_from_slice(b"89\nb\n");
        assert_eq!(lines.take_longer_than(1), None);
        assert_eq!(lines.next(), Some(RawLine::TooLong { beginning: b"0123".to_vec(), bytes: 10 }));
        assert_eq!(lines.next(), Some(RawLine::Whole(b"b")));
    }

    #[test]
    fn a_buffer_is_given_back_when_its_line_was_taken_and_nothing_more_is_read() {
        let mut lines = LineSplitter::new();
        lines.space_of(16).extend_from_slice(&[b'x'; 10_000]);
        assert_eq!(lines.next(), None);
        lines.space_of(16).extend_from_slice(b"\n");
        assert!(lines.next().is_some());
        assert_eq!(lines.next(), None);
        assert!(lines.buffer.capacity() <= 32, "{}", lines.buffer.capacity());
    }

    proptest! {
        #[test]
        fn the_pieces_a_stream_comes_in_do_not_matter(
            bytes in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), any::<u8>()], 0..200),
            cuts in proptest::collection::vec(0usize..200, 0..20),
        ) {
            let mut places: Vec<usize> = cuts.into_iter().map(|place| place.min(bytes.len())).collect();
            places.extend([0, bytes.len()]);
            places.sort_unstable();
            let pieces: Vec<&[u8]> = places.windows(2).map(|ends| &bytes[ends[0]..ends[1]]).collect();
            prop_assert_eq!(cut(1000, &pieces), cut(1000, &[&bytes]));
        }
    }
}
