//! Where the events of a session go.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use watari_protocol::{Command, Event, Refusal};

/// How many bytes may wait for a reader before the CLI's output is not read. (The CLI then buffers it.) Commands
/// and the limits of requests and asks continue.
const WAITING_BYTES_MAX: usize = 2 * 1024 * 1024;

/// How many bytes may wait while the session is closing, when the CLI is read to its end. Events that do not fit are
/// dropped, and their number is reported before the last event.
const LAST_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How many events an empty queue may have room for: those of one read of the CLI.
const EMPTY_EVENTS_MAX: usize = 4096;

/// Receives the events of a session. The driver calls it; `emit` never waits.
pub trait Sink: Send {
    /// Receives an event.
    fn emit(&mut self, event: Event);

    /// Ready when there is room for more events; while it is not, the CLI's output is not read.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Notes that the session is closing: from now on `poll_room` is always ready; events above a limit are dropped and
    /// counted.
    fn begin_closing(&mut self);

    /// Does background work. Ready after it has changed what `poll_room` or `is_storage_blocked` returns, so that the
    /// driver asks them again.
    fn poll_work(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Checks the storage, may repair it, and returns whether every event is stored. Called before a command is
    /// handled.
    fn verify_storage(&mut self) -> bool {
        true
    }

    /// Whether an event still waits to be stored. Called after every event, so it must be cheap. While it does, the
    /// lines that the event causes are not written to the CLI, and commands are not acknowledged.
    fn is_storage_blocked(&self) -> bool {
        false
    }

    /// Returns why a command must be refused at the moment.
    fn refusal_of(&self, _command: &Command) -> Option<Refusal> {
        None
    }
}

impl<S: Sink> Sink for &mut S {
    fn emit(&mut self, event: Event) {
        S::emit(self, event);
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        S::poll_room(self, context)
    }

    fn begin_closing(&mut self) {
        S::begin_closing(self);
    }

    fn poll_work(&mut self, context: &mut Context<'_>) -> Poll<()> {
        S::poll_work(self, context)
    }

    fn verify_storage(&mut self) -> bool {
        S::verify_storage(self)
    }

    fn is_storage_blocked(&self) -> bool {
        S::is_storage_blocked(self)
    }

    fn refusal_of(&self, command: &Command) -> Option<Refusal> {
        S::refusal_of(self, command)
    }
}

/// Creates a queue of events between a session and the program, bounded by bytes.
pub(crate) fn event_queue() -> (EventQueue, Events) {
    let shared = Arc::new(Mutex::new(Queue::default()));
    (EventQueue { shared: Arc::clone(&shared) }, Events { shared })
}

/// The session's end of the queue.
#[derive(Debug)]
pub(crate) struct EventQueue {
    shared: Arc<Mutex<Queue>>,
}

/// The events of a session, in order. The stream ends with the session.
///
/// Keep reading: when more than 2 MiB wait, Watari no longer reads the CLI's output, so that the CLI's answers to
/// requests do not arrive either. See [`crate::Client`]. (Closing still works.) Dropping this discards the events; the
/// session continues.
#[derive(Debug)]
pub struct Events {
    shared: Arc<Mutex<Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<(Event, usize)>,
    bytes: usize,
    is_closed: bool,
    is_closing: bool,
    dropped: u64,
    has_no_reader: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Queue {
    fn push(&mut self, event: Event) {
        let bytes = event.weight_bytes();
        self.bytes += bytes;
        self.events.push_back((event, bytes));
    }
}

impl Sink for EventQueue {
    fn emit(&mut self, event: Event) {
        let mut queue = lock(&self.shared);
        if queue.has_no_reader {
            return;
        }
        let is_last = matches!(event, Event::CliExited { .. });
        if queue.is_closing && queue.bytes >= LAST_BYTES_MAX && !is_last {
            queue.dropped += 1;
            return;
        }
        if is_last && queue.dropped > 0 {
            let count = queue.dropped;
            queue.push(Event::EventsDropped { count });
        }
        queue.push(event);
        let reader = queue.reader.take();
        drop(queue);
        wake(reader);
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut queue = lock(&self.shared);
        if queue.bytes < WAITING_BYTES_MAX || queue.is_closing {
            return Poll::Ready(());
        }
        queue.writer = Some(context.waker().clone());
        Poll::Pending
    }

    fn begin_closing(&mut self) {
        lock(&self.shared).is_closing = true;
    }
}

impl Drop for EventQueue {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared);
        queue.is_closed = true;
        let reader = queue.reader.take();
        drop(queue);
        wake(reader);
    }
}

impl Events {
    /// Returns the next event, or `None` when the session has ended. Cancel-safe: it can be dropped in `tokio::select!`
    /// without losing an event.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut queue = lock(&self.shared);
        match queue.events.pop_front() {
            Some((event, bytes)) => {
                queue.bytes -= bytes;
                if queue.events.is_empty() && queue.events.capacity() > EMPTY_EVENTS_MAX {
                    // The queue grew because the reader was slow; release the memory.
                    queue.events = VecDeque::new();
                }
                let writer = if queue.bytes < WAITING_BYTES_MAX { queue.writer.take() } else { None };
                drop(queue);
                wake(writer);
                Poll::Ready(Some(event))
            }
            None if queue.is_closed => Poll::Ready(None),
            None => {
                queue.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl futures_core::Stream for Events {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll(context)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let mut queue = lock(&self.shared);
        queue.has_no_reader = true;
        queue.events = VecDeque::new();
        queue.bytes = 0;
        let writer = queue.writer.take();
        drop(queue);
        wake(writer);
    }
}

/// Locks the queue. It is consistent even if a thread panicked while it held the lock: nothing here panics between two
/// related changes.
fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes a task. Call it without the lock: a waker may run the other side immediately.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
