//! What the driver waits for.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::time::Sleep;

use super::{DriverEvent, Envelope};
use crate::lines::Lines;
use crate::sink::Sink;

/// A timer that is set again only when its deadline has changed: the pieces of a text come and go without a look at it.
#[derive(Debug, Default)]
pub(super) struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    deadline: Option<Instant>,
}

impl Timer {
    /// Waits until then; for ever without a deadline. May be dropped half-way: what was set stays.
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

/// Whether the CLI's output can be read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Nobody has room for more at the moment.
    pub(super) is_blocked: bool,
    /// Nobody had, at some time since that was last looked at.
    pub(super) was_blocked: bool,
}

impl Reading {
    fn block(&mut self) {
        *self = Reading { is_blocked: true, was_blocked: true };
    }
}

pub(super) async fn next_command(commands: &mut Option<mpsc::Receiver<Envelope>>) -> Option<Envelope> {
    match commands {
        Some(commands) => commands.recv().await,
        None => std::future::pending().await,
    }
}

/// An error counts as readiness: the read or write that follows meets it.
pub(super) async fn readable(pipe: Option<&pipe::Receiver>) {
    match pipe {
        Some(pipe) => drop(pipe.readable().await),
        None => std::future::pending().await,
    }
}

/// Lets the sink do what it has to do, and reads what the CLI wrote once there is room for it.
pub(super) async fn read_or_work(
    pipe: &mut Option<pipe::Receiver>,
    lines: &mut Lines,
    sink: &mut impl Sink,
    is_gone: bool,
    reads: bool,
    reading: &mut Reading,
) -> DriverEvent {
    let has_room = poll_fn(|context| match sink.poll_work(context) {
        Poll::Ready(()) => Poll::Ready(false),
        Poll::Pending if reads && sink.poll_room(context).is_ready() => Poll::Ready(true),
        Poll::Pending => {
            reading.block();
            Poll::Pending
        }
    });
    if !has_room.await {
        return DriverEvent::Work;
    }
    reading.is_blocked = false;
    tokio::select! {
        // Both may be dropped half-way: what was not read stays in the pipe, and what the sink does it does at once.
        read = read_some(pipe, lines, is_gone) => DriverEvent::Read(read),
        () = poll_fn(|context| sink.poll_work(context)) => DriverEvent::Work,
    }
}

/// Reads what the CLI wrote. A pipe that was read empty is waited for before it is read again, so
/// that whoever listens has its turn in between. When everything has ended, an empty pipe is an error and not waited for.
async fn read_some(pipe: &mut Option<pipe::Receiver>, lines: &mut Lines, is_gone: bool) -> io::Result<usize> {
    match pipe {
        Some(pipe) if is_gone => pipe.try_read_buf(lines.space()),
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
