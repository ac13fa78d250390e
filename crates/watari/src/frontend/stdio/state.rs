//! How far the session of a client is.

use std::future::Future;
use std::pin::Pin;

use watari_sdk::{Client, ConnectError, Events, Prompt};

use super::running::{Ending, Running};
use crate::dialect::bridge::Encoder;

/// A CLI that is being started.
pub(super) type Connecting = Pin<Box<dyn Future<Output = Result<(Client, Events), ConnectError>> + Send>>;

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
