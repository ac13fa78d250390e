//! How far the session of a client is.

use std::future::Future;
use std::pin::Pin;

use watari_sdk::{Client, Events, Options, Prompt};

use super::lock::ConversationLock;
use super::running::{Ending, Running};
use crate::dialect::bridge::Encoder;

/// A CLI that is being started.
pub(super) type Connecting = Pin<Box<dyn Future<Output = Result<Connected, String>> + Send>>;

/// A CLI that was started, and the lock of its conversation.
pub(super) struct Connected {
    pub(super) client: Client,
    pub(super) events: Events,
    pub(super) lock: ConversationLock,
}

/// Locks the conversation, and only then starts the CLI. An error is the reason for the client.
pub(super) async fn connect(mut options: Options) -> Result<Connected, String> {
    let lock = ConversationLock::take_before(&mut options).await?;
    let (client, events) = Client::connect(options).await.map_err(|error| error.to_string())?;
    Ok(Connected { client, events, lock })
}

/// How far the session is.
pub(super) enum State {
    /// For `start`.
    Waiting,
    /// The CLI is being started; what the client has said since waits.
    Starting {
        connecting: Connecting,
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
        matches!(self, State::Running(running) if running.ending == Ending::Aborting)
    }
}
