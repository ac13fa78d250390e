//! A session while it runs: what the client wants of it, and what it tells.

use std::future::Future;
use std::sync::Arc;

use serde_json::value::RawValue;
use tokio::task::JoinSet;
use tokio::time::Instant;
use watari_sdk::{
    Answer, AskId, AskKind, Client, CommandError, Event, Events, Exit, ExitReason, Prompt, Request, RequestError,
    RequestFailure, TOOL_SERVER_TAKEN, TurnCause,
};

use super::wait::poll_once;
use crate::dialect::bridge::{Encoder, Incoming};
use crate::dialect::liveness;
use crate::frontend::outbox::Outbox;

/// A session that runs, and what is known of it.
pub(super) struct Running {
    pub(super) client: Arc<Client>,
    pub(super) events: Events,
    pub(super) encoder: Encoder,
    open_asks: Vec<AskId>,
    /// Prompts that have no outcome yet.
    pub(super) open_prompts: usize,
    pub(super) is_idle: bool,
    /// Whether the CLI lists work in the background, which it does not count as running.
    pub(super) has_tasks: bool,
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

/// What is to be done with an event that was taken.
pub(super) enum Taken {
    /// Nothing more.
    Told,
    /// The CLI is to have an answer that the client cannot give.
    ToAnswer(AskId, Answer),
    /// The turn is to be interrupted, for there is no client that could do it.
    ToInterrupt,
    /// It was the last.
    Ended(Box<Exit>),
}

/// What became of something that the CLI was asked for.
pub(super) enum Answered {
    Well,
    Badly(String),
    ModelChanged(Option<String>),
}

/// How many requests may wait for an answer of the CLI: fewer than the session's queue has places, so that each is asked
/// at once.
const REQUESTS_MAX: usize = 32;

/// What a `start` is told that asks nothing.
pub(super) const EMPTY_PROMPT: &str = "prompt is empty: nothing was started";

/// What a second `start` is told.
pub(super) const STARTED: &str = "the session was started already; send user_message";

/// What tools are told that come after the start.
pub(super) const TOOLS_TOO_LATE: &str = "the session was started already; register_tools comes before start";

impl Running {
    pub(super) fn new(client: Client, events: Events, encoder: Encoder) -> Running {
        Running {
            client: Arc::new(client),
            events,
            encoder,
            open_asks: Vec::new(),
            open_prompts: 0,
            is_idle: true,
            has_tasks: false,
            ending: Ending::No,
            give_up_at: None,
        }
    }

    /// Nobody answers any more, and what was asked for is done to its end.
    pub(super) async fn drain(&mut self, outbox: &mut Outbox) {
        if self.ending != Ending::No {
            return;
        }
        self.ending = Ending::Draining;
        for ask in std::mem::take(&mut self.open_asks) {
            self.encoder.cancel_ask(ask, outbox.lines());
            // One that was closed in the meantime needs no answer.
            let _refused = self.client.answer(ask, nobody()).await;
        }
    }

    /// Does what the client wants; gives back what is wrong with it.
    pub(super) async fn take_message(
        &mut self,
        incoming: Incoming,
        requests: &mut JoinSet<Answered>,
    ) -> Option<String> {
        let client = Arc::clone(&self.client);
        match incoming {
            Incoming::Start { .. } => Some(STARTED.to_owned()),
            Incoming::RegisterTools(_) => Some(TOOLS_TOO_LATE.to_owned()),
            Incoming::UserMessage(prompt) => self.send(prompt).await,
            Incoming::ToolCallResult { ask, answer } => {
                let answered = client.answer(ask, answer).await;
                answered.err().map(|error| format!("callId call_{ask}: {error}"))
            }
            Incoming::PermissionResponse { ask, answer } => {
                let answered = client.answer(ask, answer).await;
                answered.err().map(|error| format!("requestId req_{ask}: {error}"))
            }
            Incoming::Interrupt { cancel_queued } => in_order(requests, async move {
                let receipt = if cancel_queued { client.interrupt_all().await } else { client.interrupt().await };
                receipt.err().and_then(|error| unless_idle(&error)).map_or(Answered::Well, Answered::Badly)
            }),
            Incoming::SetModel(model) => in_order(requests, async move {
                match client.request(Request::SetModel(model.clone())).await {
                    Ok(_) => Answered::ModelChanged(model),
                    Err(error) => Answered::Badly(format!("set_model: {error}")),
                }
            }),
            Incoming::SetPermissionMode(mode) => in_order(requests, async move {
                match client.request(Request::SetPermissionMode(mode)).await {
                    Ok(_) => Answered::Well,
                    Err(error) => Answered::Badly(format!("set_permission_mode: {error}")),
                }
            }),
            Incoming::Abort => None,
        }
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

    /// Takes note of an event and tells it.
    pub(super) fn take_event(&mut self, event: Event, outbox: &mut Outbox) -> Taken {
        if let Event::Ended { exit } = event {
            return Taken::Ended(Box::new(exit));
        }
        self.note(&event);
        let is_stuck = self.ending == Ending::Draining && matches!(event, Event::CliStalled { .. });
        let unanswerable = self.answer_for_the_client(&event);
        let is_emitted = match self.ending {
            Ending::No | Ending::Draining | Ending::Closing => true,
            Ending::Aborting => matches!(event, Event::TurnFinished { .. }),
        };
        if is_emitted {
            self.encoder.encode(event, outbox.lines());
        }
        match unanswerable {
            None if is_stuck => Taken::ToInterrupt,
            None => Taken::Told,
            Some((ask, answer)) => {
                self.encoder.cancel_ask(ask, outbox.lines());
                Taken::ToAnswer(ask, answer)
            }
        }
    }

    fn note(&mut self, event: &Event) {
        if let Event::BecameIdle = event {
            self.is_idle = true;
        }
        if let Event::TasksListed { tasks } = event {
            self.has_tasks = tasks.parse::<Vec<&RawValue>>().is_ok_and(|tasks| !tasks.is_empty());
        }
        if let Event::TurnStarted { .. } = event {
            self.is_idle = false;
        }
        if let Event::TurnFinished { cause: TurnCause::Prompt(_), .. } | Event::PromptDropped { .. } = event {
            self.open_prompts = self.open_prompts.saturating_sub(1);
        }
        if let Event::AskResolved { ask, .. } = event {
            self.open_asks.retain(|open| open != ask);
        }
    }

    /// The answer to what the client cannot answer: a form, for which the dialect has no word, and anything when it has
    /// gone.
    fn answer_for_the_client(&mut self, event: &Event) -> Option<(AskId, Answer)> {
        let Event::AskOpened { ask, kind } = event else { return None };
        match (kind, self.ending) {
            (AskKind::Form(_), _) => Some((*ask, Answer::Dismiss)),
            (_, Ending::Draining) => Some((*ask, nobody())),
            (_, Ending::No | Ending::Closing | Ending::Aborting) => {
                self.open_asks.push(*ask);
                None
            }
        }
    }
}

/// Asks the CLI for something that it may take its time to answer. It is asked before anything that the client says
/// next, and nobody waits for the answer here.
fn in_order(
    requests: &mut JoinSet<Answered>,
    request: impl Future<Output = Answered> + Send + 'static,
) -> Option<String> {
    if requests.len() >= REQUESTS_MAX {
        return Some("too many requests wait for an answer of the CLI; wait for them".to_owned());
    }
    let mut request = Box::pin(request);
    // The first step puts it into the session's queue.
    match poll_once(request.as_mut()) {
        None => {
            requests.spawn(request);
            None
        }
        Some(Answered::Badly(problem)) => Some(problem),
        // Nothing is answered before it was asked.
        Some(Answered::Well | Answered::ModelChanged(_)) => None,
    }
}

fn nobody() -> Answer {
    Answer::deny("The client has gone, so nobody can answer")
}

/// An interrupt of nothing has no effect, and that is no error.
fn unless_idle(error: &RequestError) -> Option<String> {
    match error {
        RequestError::Command(_) => None,
        // The last event says how it ended.
        RequestError::Failed(RequestFailure::SessionEnded) => None,
        RequestError::Failed(failed) => Some(format!("interrupt: {failed}")),
    }
}

/// How a CLI went that should not have.
pub(super) fn gone(exit: &Exit) -> String {
    if let ExitReason::Unresponsive { to, seconds } = exit.reason {
        return liveness::unresponsive(to, seconds);
    }
    if exit.reason == ExitReason::ToolServerTaken {
        return TOOL_SERVER_TAKEN.to_owned();
    }
    let said = if exit.stderr.is_empty() { String::new() } else { format!("; it said: {}", exit.stderr) };
    format!("{}{said}", liveness::ended(exit.code, exit.signal))
}

/// What is told of a session whose id is none.
pub(super) fn unusable(why: &str) -> String {
    format!(
        "the session was ended, because it can be neither locked nor resumed: Claude Code calls it {why}; check which \
         program runs as Claude Code, and update it with `claude update`"
    )
}
