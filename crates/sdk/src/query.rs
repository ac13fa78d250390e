//! A single prompt and its answer.

use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::mpsc::OwnedPermit;
use tokio::sync::oneshot;
use watari_protocol::{Answer, AskId, Command, Event, InterruptReceipt, Prompt};

use crate::client::{Client, CommandError, ConnectError, RequestError};
use crate::commands::Envelope;
use crate::options::Options;
use crate::sink::{ClientTicket, Events, WaitsFor};

/// Starts a session, sends one prompt, and returns a stream of events: call [`Query::next`] until it returns `None`.
///
/// The session closes when it becomes idle for the first time. Background tasks that still run are then terminated; use
/// a [`Client`] if you need them. Dropping the [`Query`] terminates the session.
pub async fn query(prompt: impl Into<Prompt>, options: Options) -> Result<Query, ConnectError> {
    let (client, events) = Client::connect(options).await?;
    let close = client.reserve();
    match client.send(prompt).await {
        // If the CLI has exited in the meantime, the events report how.
        Ok(_) | Err(CommandError::Ended) => Ok(Query { client, events, close }),
        Err(CommandError::Refused(refused)) => {
            client.close().await;
            Err(ConnectError::Prompt(refused))
        }
    }
}

/// The events of one prompt, and its session.
#[derive(Debug)]
pub struct Query {
    client: Client,
    events: Events,
    /// A place in the command queue, reserved at the start, so that closing never waits for one.
    close: Option<OwnedPermit<Envelope<ClientTicket>>>,
}

impl Query {
    /// Returns the next event, or `None` when the session has closed and no process of it is left.
    /// Cancel-safe: it can be dropped in `tokio::select!` without losing an event.
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|context| self.poll(context)).await
    }

    /// Answers an ask. Permissions, questions, plans, hooks and tool calls are asked only if the options request them.
    /// A form is asked unless the options have [`crate::PermissionPrompts::DenyAlsoElicitations`]. It can come from any MCP
    /// server, also from one in the user's settings. If the program cannot show forms, answer it with
    /// [`Answer::Decline`]; otherwise the model waits for ten minutes, or with [`crate::PermissionPrompts::Ask`] for its
    /// `answer_timeout`.
    pub async fn answer(&self, ask: AskId, answer: Answer) -> Result<(), CommandError> {
        self.client.answer(ask, answer).await
    }

    /// Interrupts the turn, which ends the query. [`Query::next`] borrows the query, so this cannot be called while a
    /// call of `next` is pending. Wait for `next` and for your own signal in one `tokio::select!`, and call `interrupt`
    /// in the signal's arm, where `next` has been dropped: `_ = stop => { query.interrupt().await?; }`. Then call
    /// `next` until it returns `None`. It fails with `TimedOut` if more than 2 MiB of events are unread; to read events
    /// meanwhile, use a [`Client`].
    pub async fn interrupt(&self) -> Result<InterruptReceipt, RequestError> {
        self.client.interrupt().await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let event = std::task::ready!(self.events.poll(context));
        if let Some(Event::BecameIdle) = event
            && let Some(place) = self.close.take()
        {
            let (answer, _ignored) = oneshot::channel();
            let ticket = ClientTicket { waits_for: WaitsFor::Acceptance, answer };
            place.send(Envelope { command: Command::Close, ticket });
        }
        Poll::Ready(event)
    }
}

impl futures_core::Stream for Query {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll(context)
    }
}
