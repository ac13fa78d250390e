//! The things that the front end waits for.

use std::future::{Future, pending};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use tokio::time::Instant;
use watari_sdk::{Event, LineSplitter};

use super::running::Answered;
use super::state::{Connected, State};
use crate::standard_streams::{Input, Output};

/// The result of one wait.
pub(super) enum StdioEvent {
    Read(std::io::Result<usize>),
    Wrote(std::io::Result<usize>),
    Connected(Box<Result<Option<Connected>, String>>),
    Event(Option<Box<Event>>),
    Answered(Answered),
    Signal,
    Time,
    LockCheck,
}

/// Waits for the next thing from the session: the end of its start, an event (only if `has_room`), or the deadline of its
/// background work.
pub(super) async fn next_from_session(state: &mut State, has_room: bool) -> StdioEvent {
    match state {
        State::Waiting | State::Over => pending().await,
        State::Starting { connecting, .. } => StdioEvent::Connected(Box::new(connecting.await)),
        State::Running(running) => {
            let background_deadline = running.background_deadline;
            tokio::select! {
                // Both may be dropped half-way: an event that was not taken stays queued, and the timer is created
                // again.
                event = running.events.next(), if has_room => StdioEvent::Event(event.map(Box::new)),
                () = sleep_until(background_deadline) => StdioEvent::Time,
            }
        }
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => pending().await,
    }
}

pub(super) async fn read_more(input: &mut Option<Input>, lines: &mut LineSplitter) -> std::io::Result<usize> {
    match input {
        Some(input) => input.read(lines.space()).await,
        None => pending().await,
    }
}

/// Writes some of the bytes. Without bytes it waits until the client disconnects; without an output it waits forever.
pub(super) async fn write_more(output: &mut Option<Output>, bytes: &[u8]) -> std::io::Result<usize> {
    match output {
        Some(output) => output.write(bytes).await,
        None => pending().await,
    }
}

/// Polls a future once, without waiting.
pub(super) fn poll_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
