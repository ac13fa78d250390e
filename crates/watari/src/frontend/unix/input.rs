//! The input of a client: split into lines, bounded over all clients, with long lines parsed in another thread.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use watari_sdk::{LineSplitter, RawLine, threads};

use super::client_stream::ClientStream;
use super::fingerprint;
use crate::dialect::speaker::{ClientMessage, LineParser, ProtocolError, Speaker};

/// How many bytes one read of a client returns at most.
pub(super) const CHUNK_BYTES: usize = 16 * 1024;

/// A line longer than this is parsed by another thread, so that the other clients do not wait for it.
const LONG_LINE_BYTES: usize = 1024 * 1024;

/// How many long lines a host parses at a time. The others wait, each with its client.
const LONG_LINES_AT_ONCE: usize = 2;

/// How many bytes the host buffers for lines that are unfinished or wait to be parsed, over all clients. A line that
/// would exceed it is skipped, and its client receives an error at the end of the line.
const HELD_BYTES_MAX: usize = 128 * 1024 * 1024;

/// How many bytes each client may buffer in addition, so that short lines are never skipped.
const FREE_BYTES: usize = 64 * 1024;

/// An unfinished line longer than `FREE_BYTES` that does not grow for this long is skipped, too: it would take the
/// budget of other clients.
const STALLED_AFTER: Duration = Duration::from_secs(30);

/// A parsed line with its fingerprint; none if the line is blank.
pub(super) type ParsedLine = Option<Result<(ClientMessage, u64), ProtocolError>>;

/// The budget for lines that the clients of a host share.
#[derive(Debug, Clone)]
pub(super) struct LineBudget {
    held: Arc<AtomicUsize>,
    long_line_permits: Arc<Semaphore>,
}

impl LineBudget {
    pub(super) fn new() -> LineBudget {
        LineBudget { held: Arc::default(), long_line_permits: Arc::new(Semaphore::new(LONG_LINES_AT_ONCE)) }
    }

    /// The permits to parse or encode a long line, for both directions.
    pub(super) fn long_line_permits(&self) -> Arc<Semaphore> {
        Arc::clone(&self.long_line_permits)
    }
}

/// The bytes of the budget that one client holds. They are released when it disconnects.
struct Held {
    budget: LineBudget,
    bytes: usize,
}

impl Held {
    /// Sets the number of bytes that the client holds; false, without a change, if that exceeds the budget.
    fn hold(&mut self, bytes: usize) -> bool {
        let bytes = bytes.saturating_sub(FREE_BYTES);
        let others = self.budget.held.load(Ordering::Relaxed).saturating_sub(self.bytes);
        if bytes > self.bytes && others + bytes > HELD_BYTES_MAX {
            return false;
        }
        // One thread serves all clients of a host, so the load and the store cannot race.
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

/// Why a line is skipped although it is not too long.
#[derive(Debug, Clone, Copy)]
enum Skipped {
    NoRoom,
    Stalled,
}

/// The input of one client.
pub(super) struct Input {
    lines: LineSplitter,
    held: Held,
    /// The long line that is being parsed: at most one, and later lines wait for it.
    parsing: JoinSet<ParsedLine>,
    /// When the unfinished line last grew, if it is long.
    grew_at: Option<Instant>,
    skipped: Option<Skipped>,
    has_ended: bool,
}

impl Input {
    pub(super) fn new(budget: LineBudget) -> Input {
        Input {
            lines: LineSplitter::new(),
            held: Held { budget, bytes: 0 },
            parsing: JoinSet::new(),
            grew_at: None,
            skipped: None,
            has_ended: false,
        }
    }

    /// Whether to read more: not while a line is being parsed, and not after the end.
    pub(super) fn wants_more(&self) -> bool {
        !self.has_ended && !self.is_parsing()
    }

    pub(super) fn is_parsing(&self) -> bool {
        !self.parsing.is_empty()
    }

    /// Reads at most a chunk, and returns the number of bytes. The caller takes the lines next.
    pub(super) fn read(&mut self, stream: &ClientStream) -> io::Result<usize> {
        let count = stream.try_read(self.lines.space_of(CHUNK_BYTES))?;
        if count == 0 {
            self.has_ended = true;
            self.lines.end();
        }
        Ok(count)
    }

    /// Reads the remaining input of a client that has disconnected; false if there is nothing more.
    pub(super) fn read_rest(&mut self, stream: &ClientStream) -> bool {
        if self.has_ended {
            return false;
        }
        // An error means that there is nothing at the moment, and so nothing more.
        self.has_ended = !matches!(stream.read_rest(self.lines.space_of(CHUNK_BYTES)), Ok(1..));
        if self.has_ended {
            self.lines.end();
        }
        true
    }

    /// The next line, parsed. None if there is no complete line, or if the next line is long: another thread parses it,
    /// and `parsed` returns it.
    pub(super) fn next(&mut self, speaker: &mut dyn Speaker) -> Option<ParsedLine> {
        if self.is_parsing() {
            return None;
        }
        if let Some(line) = self.lines.take_longer_than(LONG_LINE_BYTES) {
            self.parse_in_thread(line, speaker.detached_parser());
            return None;
        }
        match self.lines.next() {
            Some(RawLine::Whole(line)) => Some(parse(line, |text| speaker.read(text))),
            Some(RawLine::TooLong { bytes, .. }) => {
                Some(Some(Err(ProtocolError::new(too_long(bytes, self.skipped.take())))))
            }
            None => {
                self.account_for_unfinished();
                None
            }
        }
    }

    /// Waits for the line that is being parsed; forever if there is none. Cancel-safe: dropping the future loses
    /// nothing.
    pub(super) async fn parsed(&mut self) -> ParsedLine {
        match self.parsing.join_next().await {
            Some(Ok(parsed)) => parsed,
            // Only a panic while parsing leads here; the client learns that its line had no effect.
            Some(Err(_)) => Some(Err(ProtocolError::new("the line could not be parsed; this is a bug in watari"))),
            None => std::future::pending().await,
        }
    }

    /// When the unfinished line is skipped.
    pub(super) fn stalled_at(&self) -> Option<Instant> {
        self.grew_at.map(|grew_at| grew_at + STALLED_AFTER)
    }

    /// Skips the unfinished line, because no byte of it arrived for too long.
    pub(super) fn skip_stalled(&mut self) {
        self.skip(Skipped::Stalled);
    }

    fn parse_in_thread(&mut self, line: Vec<u8>, read: LineParser) {
        // It was held before as an unfinished line, so there is room for it.
        let _held = self.held.hold(line.len());
        self.grew_at = None;
        let long_line_permits = Arc::clone(&self.held.budget.long_line_permits);
        self.parsing.spawn(async move {
            // The semaphore is never closed.
            let permit = long_line_permits.acquire_owned().await;
            // The thread holds the permit, because it cannot be stopped when the client disconnects.
            let parsed = threads::run(move || {
                let _permit = permit;
                parse(&line, read)
            });
            let parsed = parsed.await;
            parsed.unwrap_or_else(|| {
                Some(Err(ProtocolError::new("the line could not be parsed; this is a bug in watari")))
            })
        });
    }

    /// Accounts for the bytes that are left after all complete lines were taken: an unfinished line.
    fn account_for_unfinished(&mut self) {
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
        // Holding nothing always succeeds.
        let _held = self.held.hold(0);
    }
}

fn parse(line: &[u8], read: impl FnOnce(&str) -> Result<ClientMessage, ProtocolError>) -> ParsedLine {
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
            "a line of {bytes} bytes was skipped: the unfinished lines of all clients would exceed {mebibytes} MiB; \
             send it again later"
        ),
        Some(Skipped::Stalled) => format!(
            "a line of {bytes} bytes was skipped: no byte of it arrived for {} seconds; send the whole line again",
            STALLED_AFTER.as_secs()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::native::Native;

    /// Feeds bytes of a client to its input, and returns the errors that it receives.
    fn errors(input: &mut Input, bytes: &[u8]) -> Vec<String> {
        input.lines.space_of(CHUNK_BYTES).extend_from_slice(bytes);
        let mut native = Native::default();
        let taken = std::iter::from_fn(|| input.next(&mut native));
        taken.flatten().filter_map(|received| received.err().map(|problem| problem.message)).collect()
    }

    fn nothing() -> Vec<String> {
        Vec::new()
    }

    #[test]
    fn an_unfinished_line_that_stalls_is_skipped_and_reported_at_its_end() {
        let mut input = Input::new(LineBudget::new());
        assert_eq!(errors(&mut input, &[b'x'; FREE_BYTES]), nothing());
        assert_eq!(input.stalled_at(), None);
        assert_eq!(errors(&mut input, b"x"), nothing());
        assert!(input.stalled_at().is_some());
        input.skip_stalled();
        assert_eq!((input.stalled_at(), input.lines.untaken_bytes(), input.held.bytes), (None, 0, 0));
        let received = errors(&mut input, b"rest\n{}\n");
        let skipped =
            "a line of 65541 bytes was skipped: no byte of it arrived for 30 seconds; send the whole line again";
        assert_eq!(received, [skipped, "type is missing; it must be a string"]);
    }

    #[test]
    fn the_budget_of_a_client_is_released_when_it_disconnects_and_short_lines_always_fit() {
        let budget = LineBudget::new();
        let mut first = Input::new(budget.clone());
        let mut second = Input::new(budget.clone());
        assert!(first.held.hold(HELD_BYTES_MAX + FREE_BYTES));
        assert!(!second.held.hold(FREE_BYTES + 1));
        // The client receives an error at the end of a line that exceeds the budget; shorter lines are taken as usual.
        assert_eq!(errors(&mut second, &[b'x'; FREE_BYTES + 1]), nothing());
        let received = errors(&mut second, b"\n{}\n");
        assert!(received[0].contains("65537 bytes was skipped: the unfinished lines of all clients"), "{received:?}");
        assert_eq!(received[1], "type is missing; it must be a string");
        drop(first);
        assert_eq!(budget.held.load(Ordering::Relaxed), 0);
        assert!(second.held.hold(FREE_BYTES + 1));
    }
}
