//! Where the events of a session go.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use tokio::sync::{oneshot, watch};
use watari_protocol::{Accepted, CliInfo, Command, Event, Exit, Refusal, RequestId, RequestReply};

/// How many bytes may wait for a reader before the CLI's output is not read. (The CLI then buffers it.) Commands
/// and the limits of requests and asks continue.
const WAITING_BYTES_MAX: usize = 2 * 1024 * 1024;

/// How many bytes may wait while the session is closing, when the CLI is read to its end. Events that do not fit are
/// dropped, and their number is reported before the last event.
const LAST_BYTES_MAX: usize = 8 * 1024 * 1024;

/// How many events an empty queue may have room for: those of one read of the CLI.
const EMPTY_EVENTS_MAX: usize = 4096;

/// Receives the events of a session and the outcomes of its commands. The driver calls it; no call waits.
pub trait Sink: Send {
    /// What identifies a command and its sender.
    type Ticket: Send;

    /// Receives an event.
    fn emit(&mut self, event: Event);

    /// Ready when there is room for more events; while it is not, the CLI's output is not read.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()>;

    /// Notes that the session is closing: from now on `poll_room` is always ready; events above a limit are dropped and
    /// counted.
    fn begin_closing(&mut self);

    /// Does background work. Returns `Ready` when the result of `poll_room` or `is_storage_blocked` may have changed, so
    /// that the driver calls them again, and when the session is to end.
    fn poll_work(&mut self, _context: &mut Context<'_>) -> Poll<Work> {
        Poll::Pending
    }

    /// Whether an event still waits to be stored. Called after every event, so it must be cheap. While it does, the
    /// lines that the event causes are not written to the CLI.
    fn is_storage_blocked(&self) -> bool {
        false
    }

    /// Registers a new command. Returns its ticket, or `None` if the command was sent before and is not to be carried
    /// out again.
    fn register(&mut self, _command: &Command, ticket: Self::Ticket) -> Option<Self::Ticket> {
        Some(ticket)
    }

    /// Checks whether a registered command may be carried out now.
    fn admit(&mut self, _command: &Command) -> Result<(), Refusal> {
        Ok(())
    }

    /// Receives the outcome of a registered command. The events that the command caused follow.
    fn complete(&mut self, ticket: Self::Ticket, outcome: Result<Accepted, Refusal>);

    /// The events of all completed commands were emitted: their senders can be answered as soon as the events are
    /// stored.
    fn acknowledge(&mut self) {}
}

/// The result of a sink's background work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// The session continues.
    Done,
    /// The session is to be closed.
    Close,
    /// The session is to end immediately.
    Abort,
}

impl<S: Sink> Sink for &mut S {
    type Ticket = S::Ticket;

    fn emit(&mut self, event: Event) {
        S::emit(self, event);
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        S::poll_room(self, context)
    }

    fn begin_closing(&mut self) {
        S::begin_closing(self);
    }

    fn poll_work(&mut self, context: &mut Context<'_>) -> Poll<Work> {
        S::poll_work(self, context)
    }

    fn is_storage_blocked(&self) -> bool {
        S::is_storage_blocked(self)
    }

    fn register(&mut self, command: &Command, ticket: S::Ticket) -> Option<S::Ticket> {
        S::register(self, command, ticket)
    }

    fn admit(&mut self, command: &Command) -> Result<(), Refusal> {
        S::admit(self, command)
    }

    fn complete(&mut self, ticket: S::Ticket, outcome: Result<Accepted, Refusal>) {
        S::complete(self, ticket, outcome);
    }

    fn acknowledge(&mut self) {
        S::acknowledge(self);
    }
}

/// When the sender of a command is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitsFor {
    /// When it was accepted or refused.
    Acceptance,
    /// When the CLI has answered it, if the CLI answers such commands.
    Reply,
}

/// The result of a command.
#[derive(Debug)]
pub(crate) enum CommandReply {
    /// It was accepted; there is no further answer.
    Accepted(Accepted),
    /// The CLI answered it.
    Reply(RequestReply),
}

/// A [`crate::Client`]'s command: where its answer goes.
#[derive(Debug)]
pub(crate) struct ClientTicket {
    pub(crate) waits_for: WaitsFor,
    pub(crate) answer: oneshot::Sender<Result<CommandReply, Refusal>>,
}

/// Creates a queue of events between a session and the program, bounded by bytes.
pub(crate) fn event_queue() -> (EventQueue, Events, Milestones) {
    let shared = Arc::new(Mutex::new(Queue::default()));
    let ((ready, is_ready), (exit, exited)) = (oneshot::channel(), watch::channel(None));
    let queue = EventQueue { shared: Arc::clone(&shared), ready: Some(ready), exit, awaiting_reply: HashMap::new() };
    (queue, Events { shared }, Milestones { is_ready, exited })
}

/// The session's end of the queue.
#[derive(Debug)]
pub(crate) struct EventQueue {
    shared: Arc<Mutex<Queue>>,
    ready: Option<oneshot::Sender<CliInfo>>,
    exit: watch::Sender<Option<Exit>>,
    awaiting_reply: HashMap<RequestId, oneshot::Sender<Result<CommandReply, Refusal>>>,
}

/// What a [`crate::Client`] learns besides the events.
#[derive(Debug)]
pub(crate) struct Milestones {
    /// The CLI is ready.
    pub(crate) is_ready: oneshot::Receiver<CliInfo>,
    /// The CLI has exited.
    pub(crate) exited: watch::Receiver<Option<Exit>>,
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

impl EventQueue {
    /// Reports to the client what it waits for besides the events.
    fn note(&mut self, event: &Event) {
        // In each case, the client may have been dropped.
        if let Event::Ready { cli } = event {
            let _dropped = self.ready.take().map(|ready| ready.send(cli.clone()));
        } else if let Event::CliExited { exit } = event {
            self.exit.send_replace(Some(Exit::clone(exit)));
        } else if let Event::RequestAnswered { request, reply } = event
            && let Some(answer) = self.awaiting_reply.remove(request)
        {
            let _dropped = answer.send(Ok(CommandReply::Reply(reply.clone())));
        }
    }
}

impl Sink for EventQueue {
    type Ticket = ClientTicket;

    fn emit(&mut self, event: Event) {
        self.note(&event);
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

    fn complete(&mut self, ticket: ClientTicket, outcome: Result<Accepted, Refusal>) {
        let ClientTicket { waits_for, answer } = ticket;
        if let (Ok(Accepted::Request(request)), WaitsFor::Reply) = (&outcome, waits_for) {
            self.awaiting_reply.insert(*request, answer);
            return;
        }
        // The client may have been dropped; the command still took effect.
        let _dropped = answer.send(outcome.map(CommandReply::Accepted));
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
