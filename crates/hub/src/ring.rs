//! The latest lines of a session, for all subscriptions: a queue with one writer and many readers.
//!
//! It is bounded by bytes and never waits for a reader: a reader that is too slow finds that its next line was dropped,
//! and reads it from the file.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use crate::log::position_of;
use crate::log::storage::Storage;

/// How many bytes of lines the ring holds. Older lines are dropped.
const HELD_BYTES_MAX: usize = 1024 * 1024;

/// The maximum length of a line in the ring; of a longer one, the ring holds only its offset in the file.
const LINE_BYTES_MAX: usize = 64 * 1024;

/// What a line costs besides its bytes.
const ENTRY_BYTES: usize = 64;

/// How many bytes a reader takes in one call.
const TAKEN_BYTES_MAX: usize = 64 * 1024;

/// A line, or where it is in the file.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    Line(Arc<[u8]>),
    /// In this file, at this offset.
    Stored {
        storage: Arc<Storage>,
        start: u64,
        bytes: usize,
    },
}

/// The writing end.
#[derive(Debug)]
pub(crate) struct Ring {
    shared: Arc<Mutex<Shared>>,
}

/// A reading end.
#[derive(Debug)]
pub(crate) struct Reader {
    shared: Arc<Mutex<Shared>>,
    id: u64,
    /// The index of the next entry.
    next: u64,
    /// How many bytes were published before it.
    bytes_before: u64,
}

/// What a reader got.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RingRead {
    Taken,
    /// The next line was dropped.
    Lagged,
    /// No more lines follow.
    Ended,
}

#[derive(Debug, Default)]
struct Shared {
    entries: VecDeque<(Entry, usize)>,
    /// The index of the first entry.
    first: u64,
    held_bytes: usize,
    /// How many bytes were published in total.
    published_bytes: u64,
    is_closed: bool,
    readers: u64,
    waiting: BTreeMap<u64, Waker>,
}

impl Ring {
    pub(crate) fn new() -> Ring {
        Ring { shared: Arc::default() }
    }

    /// Adds a line; `stored` is its file and its offset there, if it is stored.
    pub(crate) fn push(&mut self, line: &[u8], stored: Option<(&Arc<Storage>, u64)>) {
        let mut shared = lock(&self.shared);
        let (entry, bytes) = match stored {
            Some((storage, start)) if line.len() > LINE_BYTES_MAX => {
                (Entry::Stored { storage: Arc::clone(storage), start, bytes: line.len() }, ENTRY_BYTES)
            }
            Some(_) | None => (Entry::Line(Arc::from(line)), ENTRY_BYTES + line.len()),
        };
        shared.entries.push_back((entry, line.len()));
        shared.held_bytes += bytes;
        shared.published_bytes += line.len() as u64;
        while shared.held_bytes > HELD_BYTES_MAX && shared.entries.len() > 1 {
            shared.drop_oldest();
        }
        let waiting = std::mem::take(&mut shared.waiting);
        drop(shared);
        waiting.into_values().for_each(Waker::wake);
    }

    /// The lines of durable events that the ring holds, in order.
    pub(crate) fn durable_lines(&self) -> Vec<Arc<[u8]>> {
        let shared = lock(&self.shared);
        let lines = shared.entries.iter().filter_map(|(entry, _)| match entry {
            Entry::Line(line) => position_of(line).map(|_| Arc::clone(line)),
            Entry::Stored { .. } => None,
        });
        lines.collect()
    }

    /// A reader of what is published from now on.
    pub(crate) fn reader(&self) -> Reader {
        let mut shared = lock(&self.shared);
        shared.readers += 1;
        let next = shared.first + shared.entries.len() as u64;
        Reader { shared: Arc::clone(&self.shared), id: shared.readers, next, bytes_before: shared.published_bytes }
    }
}

impl Shared {
    fn drop_oldest(&mut self) {
        let Some((entry, _)) = self.entries.pop_front() else { return };
        self.first += 1;
        self.held_bytes -= ENTRY_BYTES
            + match entry {
                Entry::Line(line) => line.len(),
                Entry::Stored { .. } => 0,
            };
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut shared = lock(&self.shared);
        shared.is_closed = true;
        let waiting = std::mem::take(&mut shared.waiting);
        drop(shared);
        waiting.into_values().for_each(Waker::wake);
    }
}

impl Reader {
    /// Takes the available lines, or waits. Cancel-safe.
    pub(crate) fn poll_take(&mut self, context: &mut Context<'_>, entries: &mut VecDeque<Entry>) -> Poll<RingRead> {
        let mut shared = lock(&self.shared);
        let Some(index) = self.next.checked_sub(shared.first) else { return Poll::Ready(RingRead::Lagged) };
        let mut bytes = 0;
        for (entry, line_bytes) in shared.entries.iter().skip(usize::try_from(index).unwrap_or(usize::MAX)) {
            entries.push_back(entry.clone());
            self.next += 1;
            self.bytes_before += *line_bytes as u64;
            bytes += line_bytes;
            if bytes >= TAKEN_BYTES_MAX {
                break;
            }
        }
        if !entries.is_empty() {
            Poll::Ready(RingRead::Taken)
        } else if shared.is_closed {
            Poll::Ready(RingRead::Ended)
        } else {
            shared.waiting.insert(self.id, context.waker().clone());
            Poll::Pending
        }
    }

    /// How many published bytes this reader has not taken.
    pub(crate) fn behind_bytes(&self) -> u64 {
        lock(&self.shared).published_bytes - self.bytes_before
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        lock(&self.shared).waiting.remove(&self.id);
    }
}

/// A poisoned lock is safe to use: nothing here panics between two changes that belong together.
fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::log::storage::{Disk, memory};

    fn file() -> Arc<Storage> {
        let disk = Disk::Memory(memory::Disk::new());
        Arc::new(disk.open(Path::new("events.jsonl")).unwrap())
    }

    fn take(reader: &mut Reader) -> (Option<RingRead>, Vec<String>) {
        let mut entries = VecDeque::new();
        let taken = match reader.poll_take(&mut Context::from_waker(Waker::noop()), &mut entries) {
            Poll::Ready(taken) => Some(taken),
            Poll::Pending => None,
        };
        let shown = entries.iter().map(|entry| match entry {
            Entry::Line(line) => String::from_utf8(line.to_vec()).unwrap(),
            Entry::Stored { start, .. } => format!("stored {start}"),
        });
        (taken, shown.collect())
    }

    #[test]
    fn every_reader_gets_every_line_from_its_beginning_on() {
        let (mut ring, file) = (Ring::new(), file());
        let mut early = ring.reader();
        assert_eq!(take(&mut early), (None, vec![]));
        ring.push(b"one", Some((&file, 1)));
        let mut late = ring.reader();
        ring.push(b"two", None);
        assert_eq!(take(&mut early), (Some(RingRead::Taken), vec!["one".into(), "two".into()]));
        assert_eq!(late.behind_bytes(), 3);
        drop(ring);
        assert_eq!(take(&mut late), (Some(RingRead::Taken), vec!["two".into()]));
        assert_eq!(late.behind_bytes(), 0);
        assert_eq!(take(&mut late), (Some(RingRead::Ended), vec![]));
    }

    #[test]
    fn a_ring_is_bounded_and_a_slow_reader_learns_that_it_lags() {
        let (mut ring, file) = (Ring::new(), file());
        let mut slow = ring.reader();
        let long = vec![b'x'; LINE_BYTES_MAX + 1];
        for number in 0..100 {
            ring.push(&long, Some((&file, number)));
        }
        assert_eq!(take(&mut slow).1.first().map(String::as_str), Some("stored 0"));
        for _ in 0..100 {
            ring.push(&long[..LINE_BYTES_MAX], None);
        }
        assert_eq!(take(&mut slow), (Some(RingRead::Lagged), vec![]));
        assert!(lock(&ring.shared).held_bytes <= HELD_BYTES_MAX);
        assert!(slow.behind_bytes() > 4 * 1024 * 1024);
    }
}
