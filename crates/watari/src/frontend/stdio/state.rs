//! How far the session of a client is.

use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use tokio::sync::oneshot;
use watari_sdk::{Client, Events, Options, Prompt};

use super::lock::ConversationLock;
use super::running::{Ending, Running};
use crate::dialect::bridge::Encoder;

/// How long an abort waits for a lock that is being taken, so that its file is removed. Only the lock of another session that
/// ends takes longer, and there is nothing of this session yet.
const LOCK_WITHIN: Duration = Duration::from_millis(500);

/// A CLI that is being started; none when the start was given up and nothing of it is left.
pub(super) type Connecting = Pin<Box<dyn Future<Output = Result<Option<Connected>, String>> + Send>>;

/// A CLI that was started, and the lock of its conversation.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) events: Events,
    pub(super) lock: ConversationLock,
}

/// Locks the conversation, and only then starts the CLI, until the sender of `given_up` is dropped. An error is the reason for
/// the client.
pub(super) async fn connect(
    mut options: Options,
    mut given_up: oneshot::Receiver<Infallible>,
) -> Result<Option<Connected>, String> {
    let lock = {
        let mut taking = pin!(ConversationLock::take_before(&mut options));
        tokio::select! {
            biased;
            // May be dropped half-way: it is asked again below.
            _ = &mut given_up => {
                // Dropped, whatever became of it.
                let _lock = tokio::time::timeout(LOCK_WITHIN, taking).await;
                return Ok(None);
            }
            // Is not dropped here.
            lock = &mut taking => lock?,
        }
    };
    let give_up = async { drop(given_up.await) };
    let connected = Client::connect_unless(options, give_up).await.map_err(|error| error.to_string())?;
    Ok(connected.map(|(client, events)| Connected { client, events, lock }))
}

/// How far the session is.
pub(super) enum State {
    /// For `start`.
    Waiting,
    /// The CLI is being started; what the client has said since waits.
    Starting {
        connecting: Connecting,
        /// Dropped to give the start up. What is being started is then ended, and waited for.
        give_up: Option<oneshot::Sender<Infallible>>,
        prompts: Vec<Prompt>,
        encoder: Box<Encoder>,
    },
    Running(Box<Running>),
    /// Nothing of a session is left, or never was.
    Over,
}

impl State {
    /// Whether nothing is told any more, so that there is always room for it.
    pub(super) fn is_aborting(&self) -> bool {
        match self {
            State::Starting { give_up, .. } => give_up.is_none(),
            State::Running(running) => running.ending == Ending::Aborting,
            State::Waiting | State::Over => false,
        }
    }
}
