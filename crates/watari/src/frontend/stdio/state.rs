//! The state of the client's session.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::sync::oneshot;
use watari_sdk::{Client, Events, Options, Prompt};

use super::lock::ConversationLock;
use super::running::{Ending, Running};
use crate::dialect::bridge::Encoder;

/// How long an abort waits for a lock that is being taken, so that its file is removed. Only the lock of another
/// session that is ending takes longer, and nothing of this session exists yet.
const LOCK_WITHIN: Duration = Duration::from_millis(500);

/// The start of the CLI; `Ok(None)` when the start was cancelled and its processes have exited.
pub(super) type Connecting = Pin<Box<dyn Future<Output = Result<Option<Connected>, String>> + Send>>;

/// A started CLI, and the lock of its conversation.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) events: Events,
    pub(super) lock: ConversationLock,
}

/// Locks the conversation and then starts the CLI, unless the sender of `given_up` is dropped. An error is the reason
/// for the client.
pub(super) async fn connect(
    mut options: Options,
    mut given_up: oneshot::Receiver<Infallible>,
) -> Result<Option<Connected>, String> {
    let lock = {
        let mut taking = pin!(ConversationLock::take_before(&mut options));
        tokio::select! {
            biased;
            // May be dropped half-way: it is awaited again below.
            _ = &mut given_up => {
                // Whatever the result, the lock is released.
                let _lock = tokio::time::timeout(LOCK_WITHIN, taking).await;
                return Ok(None);
            }
            // Never dropped half-way.
            lock = &mut taking => lock?,
        }
    };
    let give_up = async { drop(given_up.await) };
    let connected = Client::connect_or_cancel(options, give_up).await.map_err(|error| error.to_string())?;
    Ok(connected.map(|(client, events)| Connected { client, events, lock }))
}

/// The state of the session.
pub(super) enum State {
    /// The client has not sent `start` yet.
    Waiting,
    /// The CLI is being started; later prompts are queued.
    Starting {
        connecting: Connecting,
        /// Dropped to cancel the start. The starting CLI is then terminated, and its exit is awaited.
        give_up: Option<oneshot::Sender<Infallible>>,
        prompts: Vec<Prompt>,
        encoder: Box<Encoder>,
    },
    Running(Box<Running>),
    /// The session has ended, or was never started.
    Over,
}

impl State {
    /// Whether events are no longer sent, so that they need no room in the outbox.
    pub(super) fn is_aborting(&self) -> bool {
        match self {
            State::Starting { give_up, .. } => give_up.is_none(),
            State::Running(running) => running.ending == Ending::Aborting,
            State::Waiting | State::Over => false,
        }
    }
}
