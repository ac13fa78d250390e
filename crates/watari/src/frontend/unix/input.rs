//! What a client sends: cut into lines, bounded over all clients, and parsed elsewhere where that takes long.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use watari_sdk::{Lines, RawLine, threads};

use super::fingerprint;
use super::wire::Wire;
use crate::dialect::speaker::{ClientMessage, ProtocolError, Reader, Speaker};

/// How much is read of a client at once.
pub(super) const CHUNK_BYTES: usize = 16 * 1024;

/// A line longer than this is parsed by another thread, so that the other clients do not wait for it.
const LONG_LINE_BYTES: usize = 1024 * 1024;

/// How many such lines of a host are parsed at a time. The others wait, each with its client.
const LONG_LINES_AT_ONCE: usize = 2;

/// How many bytes the host holds of lines that are unfinished or wait to be parsed, over all clients. The line that would
/// exceed it is skipped, and its client is told so at its end.
const HELD_BYTES_MAX: usize = 128 * 1024 * 1024;

/// What each client may hold beside that, so that short lines are never skipped.
const FREE_BYTES: usize = 64 * 1024;

/// An unfinished line that is longer than that and does not grow for so long is skipped too: it would hold up the lines of
/// others.
const STALLED_AFTER: Duration = Duration::from_secs(30);

/// What one line means, with its fingerprint; none if it is blank.
pub(super) type Understood = Option<Result<(ClientMessage, u64), ProtocolError>>;

/// What the clients of a host share to read.
#[derive(Debug, Clone)]
pub(super) struct LineBudget {
    held: Arc<AtomicUsize>,
    parsers: Arc<Semaphore>,
}

impl LineBudget {
    pub(super) fn new() -> LineBudget {
        LineBudget { held: Arc::default(), parsers: Arc::new(Semaphore::new(LONG_LINES_AT_ONCE)) }
    }

    /// The turns of long lines, in both directions.
    pub(super) fn long_lines(&self) -> Arc<Semaphore> {
        Arc::clone(&self.parsers)
    }
}

/// The bytes that one client holds of the budget. They are given back when it goes.
struct Held {
    budget: LineBudget,
    bytes: usize,
}

impl Held {
    /// Holds so many bytes in all from now on; false if that exceeds the budget, and then nothing has changed.
    fn hold(&mut self, bytes: usize) -> bool {
        let bytes = bytes.saturating_sub(FREE_BYTES);
        let others = self.budget.held.load(Ordering::Relaxed).saturating_sub(self.bytes);
        if bytes > self.bytes && others + bytes > HELD_BYTES_MAX {
            return false;
        }
        // All clients of a host are served by one thread, so nobody comes between.
        self.budget.held.store(others + bytes, Ordering::Relaxed);
        self.bytes = bytes;
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Why a line is skipped though it is not too long by itself.
#[derive(Debug, Clone, Copy)]
enum Skipped {
    NoRoom,
    Stalled,
}

/// The input of one client.
pub(super) struct Input {
    lines: Lines,
    held: Held,
    /// The long line that is being parsed: at most one, and no further line is taken before it.
    parsing: JoinSet<Understood>,
    /// When the unfinished line grew, if it is a long one.
    grew_at: Option<Instant>,
    skipped: Option<Skipped>,
    has_ended: bool,
}

impl Input {
    pub(super) fn new(budget: LineBudget) -> Input {
        Input {
            lines: Lines::new(),
            held: Held { budget, bytes: 0 },
            parsing: JoinSet::new(),
            grew_at: None,
            skipped: None,
            has_ended: false,
        }
    }

    /// Whether more is to be read: not while a line is being parsed, and not after the end.
    pub(super) fn wants_more(&self) -> bool {
        !self.has_ended && !self.is_parsing()
    }

    pub(super) fn is_parsing(&self) -> bool {
        !self.parsing.is_empty()
    }

    /// Reads what there is, up to a chunk, and says how much it was. The lines are to be taken next.
    pub(super) fn read(&mut self, wire: &Wire) -> io::Result<usize> {
        let count = wire.try_read(self.lines.space_of(CHUNK_BYTES))?;
        if count == 0 {
            self.has_ended = true;
            self.lines.end();
        }
        Ok(count)
    }

    /// Reads what is left of a client that is gone; false if there is nothing more.
    pub(super) fn read_rest(&mut self, wire: &Wire) -> bool {
        if self.has_ended {
            return false;
        }
        // An error means that there is nothing at the moment, and so nothing more.
        self.has_ended = !matches!(wire.read_rest(self.lines.space_of(CHUNK_BYTES)), Ok(1..));
        if self.has_ended {
            self.lines.end();
        }
        true
    }

    /// The next line, understood. None if there is no whole one, or if the next is a long one: then it is being parsed,
    /// and `parsed` has it.
    pub(super) fn next(&mut self, speaker: &mut dyn Speaker) -> Option<Understood> {
        if self.is_parsing() {
            return None;
        }
        if let Some(line) = self.lines.take_longer_than(LONG_LINE_BYTES) {
            self.parse_elsewhere(line, speaker.reader());
            return None;
        }
        match self.lines.next() {
            Some(RawLine::Whole(line)) => Some(understand(line, |text| speaker.read(text))),
            Some(RawLine::TooLong { bytes, .. }) => {
                Some(Some(Err(ProtocolError::new(too_long(bytes, self.skipped.take())))))
            }
            None => {
                self.account_for_the_rest();
                None
            }
        }
    }

    /// Waits for the line that is being parsed; for ever if there is none. Dropping the future loses nothing.
    pub(super) async fn parsed(&mut self) -> Understood {
        match self.parsing.join_next().await {
            Some(Ok(understood)) => understood,
            // Only a panic while parsing ends it so; the client learns that its line had no effect.
            Some(Err(_)) => Some(Err(ProtocolError::new("the line could not be parsed; this is a mistake in watari"))),
            None => std::future::pending().await,
        }
    }

    /// When the unfinished line is given up.
    pub(super) fn stalled_at(&self) -> Option<Instant> {
        self.grew_at.map(|grew_at| grew_at + STALLED_AFTER)
    }

    /// Gives up the unfinished line, because no byte of it came for long.
    pub(super) fn skip_stalled(&mut self) {
        self.skip(Skipped::Stalled);
    }

    fn parse_elsewhere(&mut self, line: Vec<u8>, read: Reader) {
        // It was held before as an unfinished line, so there is room for it.
        let _held = self.held.hold(line.len());
        self.grew_at = None;
        let parsers = Arc::clone(&self.held.budget.parsers);
        self.parsing.spawn(async move {
            // The semaphore is never closed.
            let turn = parsers.acquire_owned().await;
            // The thread has the turn: it cannot be stopped when the client goes.
            let parsed = threads::run(move || {
                let _turn = turn;
                understand(&line, read)
            });
            let parsed = parsed.await;
            parsed.unwrap_or_else(|| {
                Some(Err(ProtocolError::new("the line could not be parsed; this is a mistake in watari")))
            })
        });
    }

    /// Every whole line was taken: what is left is the beginning of one.
    fn account_for_the_rest(&mut self) {
        let unfinished = self.lines.untaken_bytes();
        if self.held.hold(unfinished) {
            self.grew_at = (unfinished > FREE_BYTES).then(Instant::now);
        } else {
            self.skip(Skipped::NoRoom);
        }
    }

    fn skip(&mut self, why: Skipped) {
        self.lines.skip_unfinished();
        self.skipped = Some(why);
        self.grew_at = None;
        // To hold nothing is always possible.
        let _held = self.held.hold(0);
    }
}

fn understand(line: &[u8], read: impl FnOnce(&str) -> Result<ClientMessage, ProtocolError>) -> Understood {
    match std::str::from_utf8(line.trim_ascii()) {
        Ok("") => None,
        Ok(text) => Some(read(text).map(|received| (received, fingerprint(text.as_bytes())))),
        Err(_) => Some(Err(ProtocolError::new("the line is not UTF-8"))),
    }
}

fn too_long(bytes: u64, skipped: Option<Skipped>) -> String {
    let mebibytes = HELD_BYTES_MAX / (1024 * 1024);
    match skipped {
        None => format!("a line of {bytes} bytes is too long"),
        Some(Skipped::NoRoom) => format!(
            "a line of {bytes} bytes was skipped: the unfinished lines of all clients may have {mebibytes} MiB together; \
             send it again later"
        ),
        Some(Skipped::Stalled) => format!(
            "a line of {bytes} bytes was skipped: no byte of it came for {} seconds; send it again as a whole",
            STALLED_AFTER.as_secs()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::native::Native;

    /// Gives a client bytes as if they were read, and says what it is told.
    fn told(input: &mut Input, bytes: &[u8]) -> Vec<String> {
        input.lines.space_of(CHUNK_BYTES).extend_from_slice(bytes);
        let mut native = Native::default();
        let taken = std::iter::from_fn(|| input.next(&mut native));
        taken.flatten().filter_map(|received| received.err().map(|problem| problem.message)).collect()
    }

    fn nothing() -> Vec<String> {
        Vec::new()
    }

    #[test]
    fn an_unfinished_line_that_stalls_is_given_up_and_told_at_its_end() {
        let mut input = Input::new(LineBudget::new());
        assert_eq!(told(&mut input, &[b'x'; FREE_BYTES]), nothing());
        assert_eq!(input.stalled_at(), None);
        assert_eq!(told(&mut input, b"x"), nothing());
        assert!(input.stalled_at().is_some());
        input.skip_stalled();
        assert_eq!((input.stalled_at(), input.lines.untaken_bytes(), input.held.bytes), (None, 0, 0));
        let said = told(&mut input, b"rest\n{}\n");
        let skipped = "a line of 65541 bytes was skipped: no byte of it came for 30 seconds; send it again as a whole";
        assert_eq!(said, [skipped, "type is missing; it must be a string"]);
    }

    #[test]
    fn what_a_client_holds_is_given_back_when_it_goes_and_short_lines_always_fit() {
        let budget = LineBudget::new();
        let mut first = Input::new(budget.clone());
        let mut second = Input::new(budget.clone());
        assert!(first.held.hold(HELD_BYTES_MAX + FREE_BYTES));
        assert!(!second.held.hold(FREE_BYTES + 1));
        // One that exceeds it is told so at the end of the line, and shorter ones are taken as always.
        assert_eq!(told(&mut second, &[b'x'; FREE_BYTES + 1]), nothing());
        let said = told(&mut second, b"\n{}\n");
        assert!(said[0].contains("65537 bytes was skipped: the unfinished lines of all clients"), "{said:?}");
        assert_eq!(said[1], "type is missing; it must be a string");
        drop(first);
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
        assert!(second.held.hold(FREE_BYTES + 1));
    }
}
