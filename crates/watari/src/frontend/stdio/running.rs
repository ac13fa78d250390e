//! A session while it runs: what the client wants of it, and what it tells.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::Instant;
use watari_sdk::{
    Answer, AskId, AskKind, Client, CommandError, Event, Events, Exit, Prompt, Request, RequestError, TurnCause,
};

use super::outbox::Outbox;
use crate::dialect::bridge::{Encoder, Incoming};

/// A session that runs, and what is known of it.
pub(super) struct Running {
    pub(super) client: Arc<Client>,
    pub(super) events: Events,
    pub(super) encoder: Encoder,
    open_asks: Vec<AskId>,
    /// Prompts that have no outcome yet.
    pub(super) open_prompts: usize,
    pub(super) is_idle: bool,
    pub(super) ending: Ending,
    /// Until when background work may go on.
    pub(super) give_up_at: Option<Instant>,
}

/// Whether the session is being ended, and how.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    No,
    /// The client has closed its end: what it has asked for is still done.
    Draining,
    /// In good order, at once.
    Closing,
    /// Because the client wants it or is gone: nothing more is told but the result of the turn.
    Aborting,
}

/// What a second `start` is told.
pub(super) const STARTED: &str = "the session was started already; send user_message";

impl Running {
    pub(super) fn new(client: Client, events: Events, encoder: Encoder) -> Running {
        Running {
            client: Arc::new(client),
            events,
            encoder,
            open_asks: Vec::new(),
            open_prompts: 0,
            is_idle: true,
            ending: Ending::No,
            give_up_at: None,
        }
    }

    /// Nobody answers any more, and what was asked for is done to its end.
    pub(super) async fn drain(&mut self) {
        if self.ending != Ending::No {
            return;
        }
        self.ending = Ending::Draining;
        for ask in std::mem::take(&mut self.open_asks) {
            // One that was closed in the meantime needs no answer.
            let _refused = self.client.respond(ask, nobody()).await;
        }
    }

    /// Does what the client wants; gives back what is wrong with it.
    pub(super) async fn take_message(
        &mut self,
        incoming: Incoming,
        requests: &mut JoinSet<Option<String>>,
    ) -> Option<String> {
        let client = Arc::clone(&self.client);
        match incoming {
            Incoming::Start { .. } => return Some(STARTED.to_owned()),
            Incoming::UserMessage(prompt) => return self.send(prompt).await,
            Incoming::PermissionResponse { ask, answer } => {
                let answered = client.respond(ask, answer).await;
                return answered.err().map(|error| format!("requestId req_{ask}: {error}"));
            }
            // The CLI may take its time to answer these, and nobody waits for it here.
            Incoming::Interrupt { cancel_queued } => {
                requests.spawn(async move {
                    let receipt = if cancel_queued { client.interrupt_all().await } else { client.interrupt().await };
                    receipt.err().and_then(|error| unless_idle(&error))
                });
            }
            Incoming::SetModel(model) => {
                requests.spawn(async move { problem("set_model", client.request(Request::SetModel(model)).await) });
            }
            Incoming::SetPermissionMode(mode) => {
                requests.spawn(async move {
                    problem("set_permission_mode", client.request(Request::SetPermissionMode(mode)).await)
                });
            }
            Incoming::Abort => {}
        }
        None
    }

    pub(super) async fn send(&mut self, prompt: Prompt) -> Option<String> {
        match self.client.send(prompt).await {
            Ok(_) => {
                self.open_prompts += 1;
                self.is_idle = false;
                None
            }
            // The last event says how it ended.
            Err(CommandError::Ended) => None,
            Err(CommandError::Refused(refused)) => Some(refused.to_string()),
        }
    }

    /// Takes note of an event and tells it; gives back how the CLI ended, if it is the last.
    pub(super) async fn take_event(&mut self, event: Event, outbox: &mut Outbox) -> Option<Exit> {
        if let Event::Ended { exit } = event {
            return Some(exit);
        }
        self.note(&event);
        self.answer_for_the_client(&event).await;
        let is_told = match self.ending {
            Ending::No | Ending::Draining | Ending::Closing => true,
            Ending::Aborting => matches!(event, Event::TurnFinished { .. }),
        };
        if is_told {
            self.encoder.tell(event, outbox.lines());
        }
        None
    }

    fn note(&mut self, event: &Event) {
        if let Event::BecameIdle = event {
            self.is_idle = true;
        }
        if let Event::TurnStarted { .. } = event {
            self.is_idle = false;
        }
        if let Event::TurnFinished { cause: TurnCause::Prompt(_), .. } | Event::PromptDropped { .. } = event {
            self.open_prompts = self.open_prompts.saturating_sub(1);
        }
        if let Event::AskClosed { ask, .. } = event {
            self.open_asks.retain(|open| open != ask);
        }
    }

    /// Answers what the client cannot: a form, for which the dialect has no word, and anything when it has gone.
    async fn answer_for_the_client(&mut self, event: &Event) {
        let Event::AskOpened { ask, kind } = event else { return };
        let answer = match (kind, self.ending) {
            (AskKind::Form(_), _) => Answer::Dismiss,
            (_, Ending::Draining) => nobody(),
            (_, Ending::No | Ending::Closing | Ending::Aborting) => return self.open_asks.push(*ask),
        };
        // One that was closed in the meantime needs no answer.
        let _refused = self.client.respond(*ask, answer).await;
    }
}

fn nobody() -> Answer {
    Answer::deny("The client has gone, so nobody can answer")
}

fn problem<T>(what: &str, answered: Result<T, RequestError>) -> Option<String> {
    answered.err().map(|error| format!("{what}: {error}"))
}

/// An interrupt of nothing has no effect, and that is no error.
fn unless_idle(error: &RequestError) -> Option<String> {
    match error {
        RequestError::Command(_) => None,
        RequestError::Failed(failed) => Some(format!("interrupt: {failed}")),
    }
}

/// How a CLI went that should not have.
pub(super) fn gone(exit: &Exit) -> String {
    let how = match (exit.code, exit.signal) {
        (Some(code), _) => format!("with exit code {code}"),
        (None, Some(signal)) => format!("by signal {signal}"),
        (None, None) => "in a way that is not known".to_owned(),
    };
    let said = if exit.stderr.is_empty() { String::new() } else { format!("; it said: {}", exit.stderr) };
    format!("Claude Code ended by itself, {how}{said}")
}
