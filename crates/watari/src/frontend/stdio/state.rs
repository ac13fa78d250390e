//! The state of the client's session.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::sync::oneshot;
use watari_sdk::{Client, ConnectError, Events, Options, Prompt};

use super::lock::ConversationLock;
use super::running::{Ending, Running};
use crate::command::print_error;
use crate::dialect::bridge::Encoder;

/// How long an abort waits until a pending lock is taken, so that the file of the lock can be removed. Taking the lock
/// takes longer only while another session that is ending holds it. Then the abort stops waiting, because nothing of
/// this session exists yet.
const LOCK_WITHIN: Duration = Duration::from_millis(500);

/// The start of the CLI; `Ok(None)` when the start was cancelled and its processes have exited.
pub(super) type Connecting = Pin<Box<dyn Future<Output = Result<Option<Connected>, String>> + Send>>;

/// A started CLI, and the lock of its conversation.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) events: Events,
    pub(super) lock: ConversationLock,
}

/// Locks the conversation and then starts the CLI, unless the sender of `cancelled` is dropped. An error is the reason
/// for the client.
pub(super) async fn connect(
    mut options: Options,
    mut cancelled: oneshot::Receiver<Infallible>,
) -> Result<Option<Connected>, String> {
    let lock = {
        let mut taking = pin!(ConversationLock::take_before(&mut options));
        tokio::select! {
            biased;
            // May be dropped half-way: it is awaited again below.
            _ = &mut cancelled => {
                // Whatever the result, the lock is released.
                let _lock = tokio::time::timeout(LOCK_WITHIN, taking).await;
                return Ok(None);
            }
            // Never dropped half-way.
            lock = &mut taking => lock?,
        }
    };
    let cancel = async { drop(cancelled.await) };
    let connected = Client::connect_or_cancel(options, cancel).await.map_err(|error| {
        if let ConnectError::ProcessesLeft { exit, .. } = &error {
            // Also for people: a client that has cancelled the start gets no error.
            exit.left_text().iter().for_each(|left| print_error(left));
        }
        error.to_string()
    })?;
    Ok(connected.map(|(client, events)| Connected { client, events, lock }))
}

/// The state of the session.
pub(super) enum State {
    /// The client has not sent `start` yet.
    Waiting,
    /// The CLI is being started; later prompts are queued.
    Starting {
        connecting: Connecting,
        /// Dropping it cancels the start: the starting CLI is terminated, and its exit is awaited. None after that.
        start_guard: Option<oneshot::Sender<Infallible>>,
        prompts: Vec<Prompt>,
        encoder: Box<Encoder>,
    },
    Running(Box<Running>),
    /// The session has ended, or was never started.
    Over,
}

impl State {
    /// Whether at most the result of the turn is still sent, so that events need no room in the outbox.
    pub(super) fn is_aborting(&self) -> bool {
        match self {
            State::Starting { start_guard, .. } => start_guard.is_none(),
            State::Running(running) => running.ending == Ending::Aborting,
            State::Waiting | State::Over => false,
        }
    }
}
