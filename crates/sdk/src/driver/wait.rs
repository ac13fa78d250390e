//! The futures that the driver waits for.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::Sleep;

use super::DriverEvent;
use crate::lines::LineSplitter;
use crate::sink::Sink;

/// A timer that is reset only when its deadline changes, so that deltas cost nothing here.
#[derive(Debug, Default)]
pub(super) struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    deadline: Option<Instant>,
}

impl Timer {
    /// Waits until the deadline, or forever without one. Cancel-safe: the timer stays set.
    pub(super) async fn until(&mut self, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return std::future::pending().await };
        let sleep = self.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline.into())));
        if self.deadline != Some(deadline) {
            sleep.as_mut().reset(deadline.into());
            self.deadline = Some(deadline);
        }
        sleep.await;
        self.deadline = None;
    }
}

/// How often the driver wakes up while there is a deadline, and how late it must be to count as a pause.
const TICK: Duration = Duration::from_secs(1);
const PAUSE_MIN: Duration = Duration::from_millis(500);

/// Notices when this program itself was paused, for example by SIGSTOP or with its container: a tick is late.
#[derive(Debug, Default)]
pub(super) struct Ticks {
    next: Option<Instant>,
}

impl Ticks {
    /// Returns when to wake up: at the deadline, or at the tick before it.
    pub(super) fn limit(&mut self, deadline: Option<Instant>) -> Option<Instant> {
        let Some(deadline) = deadline else {
            self.next = None;
            return None;
        };
        Some(deadline.min(*self.next.get_or_insert_with(|| Instant::now() + TICK)))
    }

    /// Returns how long this program was paused, if it was.
    pub(super) fn pause(&mut self, now: Instant) -> Option<Duration> {
        let next = self.next.filter(|next| *next <= now)?;
        self.next = Some(now + TICK);
        Some(now.saturating_duration_since(next)).filter(|late| *late > PAUSE_MIN)
    }
}

/// Whether the CLI's output can be read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Since when the sink or the backlog has no room.
    blocked_since: Option<Instant>,
    /// For how long there was no room before, as far as the machine does not know of it.
    blocked_for: Duration,
}

impl Reading {
    pub(super) fn is_blocked(&self) -> bool {
        self.blocked_since.is_some()
    }

    fn block(&mut self) {
        self.blocked_since.get_or_insert_with(Instant::now);
    }

    fn unblock(&mut self) {
        if let Some(since) = self.blocked_since.take() {
            self.blocked_for += since.elapsed();
        }
    }

    /// Returns for how long there was no room since the last call, if there was none at some time.
    pub(super) fn take_blocked(&mut self) -> Option<Duration> {
        if self.is_blocked() {
            self.unblock();
            self.block();
        }
        Some(std::mem::take(&mut self.blocked_for)).filter(|time| !time.is_zero())
    }
}

/// Waits until the pipe is readable. An error counts as readiness: the next read reports it.
pub(super) async fn readable(pipe: Option<&pipe::Receiver>) {
    match pipe {
        Some(pipe) => drop(pipe.readable().await),
        None => std::future::pending().await,
    }
}

/// Lets the sink do its background work, and reads the CLI's output once there is room for it.
pub(super) async fn read_or_work<S: Sink>(
    pipe: &mut Option<pipe::Receiver>,
    lines: &mut LineSplitter,
    sink: &mut S,
    has_exited: bool,
    reads: bool,
    reading: &mut Reading,
) -> DriverEvent<S::Ticket> {
    let room = poll_fn(|context| match sink.poll_work(context) {
        Poll::Ready(work) => Poll::Ready(Err(work)),
        Poll::Pending if reads && sink.poll_room(context).is_ready() => Poll::Ready(Ok(())),
        Poll::Pending => {
            reading.block();
            Poll::Pending
        }
    });
    if let Err(work) = room.await {
        return DriverEvent::Work(work);
    }
    reading.unblock();
    tokio::select! {
        // Both are cancel-safe: unread bytes stay in the pipe, and each step of the sink is complete.
        read = read_some(pipe, lines, has_exited) => DriverEvent::Read(read),
        work = poll_fn(|context| sink.poll_work(context)) => DriverEvent::Work(work),
    }
}

/// Reads the CLI's output. Waits while the pipe is empty, which lets the readers of events run. Once every process has
/// exited, nothing more can arrive: an empty pipe is then an error, which ends the reading.
async fn read_some(pipe: &mut Option<pipe::Receiver>, lines: &mut LineSplitter, has_exited: bool) -> io::Result<usize> {
    match pipe {
        Some(pipe) if has_exited => pipe.try_read_buf(lines.space()),
        Some(pipe) => pipe.read_buf(lines.space()).await,
        None => std::future::pending().await,
    }
}

pub(super) async fn writable(pipe: Option<&pipe::Sender>) {
    match pipe {
        Some(pipe) => drop(pipe.writable().await),
        None => std::future::pending().await,
    }
}
