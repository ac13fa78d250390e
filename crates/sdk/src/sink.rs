//! Where the events of a session go.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use watari_protocol::{Command, Event, Refusal};

/// How much may wait for a reader before the CLI is no longer read. (The CLI then keeps its output for itself.) Commands
/// and time limits go on.
const WAITING_BYTES_MAX: usize = 2 * 1024 * 1024;

/// How much may wait when the session is being closed, which is read to its end; what does not fit is then dropped, and how
/// much is told before the last event.
const LAST_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How many events an empty queue may have room for: those of one read of the CLI.
const EMPTY_EVENTS_MAX: usize = 4096;

/// Who is told what happens in a session. The session calls it and never waits for it.
pub trait Sink: Send {
    /// Something happened.
    fn emit(&mut self, event: Event);

    /// Ready when more may be told soon; while it is not, the CLI is not read.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// The session ends: from now on there is always room, and what does not fit is dropped and counted.
    fn hurry(&mut self);

    /// Does what it has to do beside being told; ready when something of it changed what the methods below say.
    fn poll_work(&mut self, _context: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Whether all that was told is where it should be. Called before a command is carried out, so it may look for itself.
    fn has_stored_all(&mut self) -> bool {
        true
    }

    /// Whether something that was told still waits to be where it should be. Cheap: it is asked after every event. What
    /// follows from that event is not written to the CLI before, and nobody hears that a command was accepted.
    fn waits_for_storage(&self) -> bool {
        false
    }

    /// Why a command is not to be carried out at the moment.
    fn refuses(&self, _command: &Command) -> Option<Refusal> {
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

    fn hurry(&mut self) {
        S::hurry(self);
    }

    fn poll_work(&mut self, context: &mut Context<'_>) -> Poll<()> {
        S::poll_work(self, context)
    }

    fn has_stored_all(&mut self) -> bool {
        S::has_stored_all(self)
    }

    fn waits_for_storage(&self) -> bool {
        S::waits_for_storage(self)
    }

    fn refuses(&self, command: &Command) -> Option<Refusal> {
        S::refuses(self, command)
    }
}

/// A queue of events between a session and the program, bounded by bytes.
pub(crate) fn event_queue() -> (EventQueue, Events) {
    let shared = Arc::new(Mutex::new(Queue::default()));
    (EventQueue { shared: Arc::clone(&shared) }, Events { shared })
}

/// The session's end of the queue.
#[derive(Debug)]
pub(crate) struct EventQueue {
    shared: Arc<Mutex<Queue>>,
}

/// The events of a session, in order. They end when the session has.
///
/// Keep reading: when more than 2 MiB wait, the CLI is not read any more, and so its answers to requests
/// do not arrive either. (Closing works all the same.) Dropping this loses the events and nothing else.
#[derive(Debug)]
pub struct Events {
    shared: Arc<Mutex<Queue>>,
}

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<(Event, usize)>,
    bytes: usize,
    is_closed: bool,
    hurries: bool,
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
        let is_last = matches!(event, Event::Ended { .. });
        if queue.hurries && queue.bytes >= LAST_BYTES_MAX && !is_last {
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
        if queue.bytes < WAITING_BYTES_MAX || queue.hurries {
            return Poll::Ready(());
        }
        queue.writer = Some(context.waker().clone());
        Poll::Pending
    }

    fn hurry(&mut self) {
        lock(&self.shared).hurries = true;
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
    /// The next event; none when the session has ended. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    pub(crate) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let mut queue = lock(&self.shared);
        match queue.events.pop_front() {
            Some((event, bytes)) => {
                queue.bytes -= bytes;
                if queue.events.is_empty() && queue.events.capacity() > EMPTY_EVENTS_MAX {
                    // Somebody had not read for long; what that took is given back.
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

/// The queue stays right even if a reader's thread panicked while it held it: nothing in here panics
/// between two changes that belong together.
fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

/// To be called without the lock: a waker may run the other side at once.
fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}
