//! A running session: handles the client's messages and the session's events.

use std::future::Future;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::Instant;
use watari_sdk::{
    Answer, AskId, AskKind, Client, CommandError, Event, Events, Exit, ExitReason, Prompt, RefusalCode, Request,
    RequestError, RequestFailure, TOOL_SERVER_TAKEN_MESSAGE, TurnCause,
};

use super::wait::poll_once;
use crate::dialect::bridge::{self, Encoder, Incoming};
use crate::dialect::cli_trouble;
use crate::dialect::speaker::ProtocolError;
use crate::frontend::outbox::Outbox;

/// A running session and its state.
pub(super) struct Running {
    pub(super) client: Arc<Client>,
    pub(super) events: Events,
    pub(super) encoder: Encoder,
    open_asks: Vec<AskId>,
    /// The number of prompts without an outcome.
    pub(super) open_prompts: usize,
    pub(super) is_idle: bool,
    /// Whether the CLI's last list of background tasks has entries. (The CLI may report `idle` while they run.)
    pub(super) has_tasks: bool,
    /// Whether the CLI is reported as stalled.
    pub(super) is_stalled: bool,
    pub(super) ending: Ending,
    /// The deadline of background work.
    pub(super) background_deadline: Option<Instant>,
}

/// Whether and how the session is ending.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    No,
    /// The client has closed its input; its prompts still run.
    Draining,
    /// The session is closed gracefully.
    Closing,
    /// The client has aborted or disconnected: only the result of the turn is still sent.
    Aborting,
}

/// What remains to be done after an event.
pub(super) enum AfterEvent {
    /// Nothing.
    Done,
    /// Answer an ask that the client cannot answer.
    ToAnswer(AskId, Answer),
    /// Interrupt the turn, because there is no client that could do it.
    ToInterrupt,
    /// The event was the last.
    Ended(Box<Exit>),
}

/// The result of a request to the CLI.
pub(super) enum Answered {
    Succeeded,
    Failed(ProtocolError),
    ModelChanged(Option<String>),
}

/// How many requests may wait for the CLI: fewer than the session's queue holds, so that each is queued immediately.
const REQUESTS_MAX: usize = 32;

/// The error for a `start` with an empty prompt.
pub(super) const EMPTY_PROMPT: &str = "prompt is empty: nothing was started";

/// The error for a second `start`.
pub(super) const STARTED: &str = "the session is already started; send user_message";

/// The error for tools that are registered after `start`.
pub(super) const TOOLS_TOO_LATE: &str = "the session is already started; send register_tools before start";

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
            is_stalled: false,
            ending: Ending::No,
            background_deadline: None,
        }
    }

    /// Denies the open asks, because no client can answer them, and lets the prompts finish.
    pub(super) async fn drain(&mut self, outbox: &mut Outbox) {
        if self.ending != Ending::No {
            return;
        }
        self.ending = Ending::Draining;
        for ask in std::mem::take(&mut self.open_asks) {
            self.encoder.cancel_ask(ask, outbox.lines());
            // An ask that was resolved in the meantime needs no answer.
            let _refused = self.client.answer(ask, no_client()).await;
        }
    }

    /// Interrupts the turn and drops the waiting prompts, because no client is left who could do it.
    pub(super) async fn interrupt_all(&mut self, requests: &mut JoinSet<Answered>, outbox: &mut Outbox) {
        if let Some(problem) = self.handle_message(Incoming::Interrupt { cancel_queued: true }, requests).await {
            bridge::error(&problem, outbox.lines());
        }
    }

    /// Handles a message of the client; returns an error for the client.
    pub(super) async fn handle_message(
        &mut self,
        incoming: Incoming,
        requests: &mut JoinSet<Answered>,
    ) -> Option<ProtocolError> {
        let client = Arc::clone(&self.client);
        match incoming {
            Incoming::Start { .. } => Some(too_late(STARTED)),
            Incoming::RegisterTools(_) => Some(too_late(TOOLS_TOO_LATE)),
            Incoming::UserMessage(prompt) => self.send(prompt).await,
            Incoming::ToolCallResult { ask, answer } => {
                let answered = client.answer(ask, answer).await;
                answered.err().map(|error| not_answered(&format!("callId call_{ask}"), &error))
            }
            Incoming::PermissionResponse { ask, answer } => {
                let answered = client.answer(ask, answer).await;
                answered.err().map(|error| not_answered(&format!("requestId req_{ask}"), &error))
            }
            Incoming::Interrupt { cancel_queued } => enqueue_request(requests, async move {
                let receipt = if cancel_queued { client.interrupt_all().await } else { client.interrupt().await };
                receipt.err().and_then(|error| interrupt_error(&error)).map_or(Answered::Succeeded, Answered::Failed)
            }),
            Incoming::SetModel(model) => enqueue_request(requests, async move {
                match client.request(Request::SetModel(model.clone())).await {
                    Ok(_) => Answered::ModelChanged(model),
                    Err(error) => Answered::Failed(request_failed("set_model", &error)),
                }
            }),
            Incoming::SetPermissionMode(mode) => enqueue_request(requests, async move {
                match client.request(Request::SetPermissionMode(mode)).await {
                    Ok(_) => Answered::Succeeded,
                    Err(error) => Answered::Failed(request_failed("set_permission_mode", &error)),
                }
            }),
            Incoming::Abort => None,
        }
    }

    pub(super) async fn send(&mut self, prompt: Prompt) -> Option<ProtocolError> {
        match self.client.send(prompt).await {
            Ok(_) => {
                self.open_prompts += 1;
                self.is_idle = false;
                None
            }
            // The last event reports how the session ended.
            Err(CommandError::Ended) => None,
            Err(CommandError::Refused(refused)) => Some(ProtocolError::refused(refused.code(), refused.to_string())),
        }
    }

    /// Updates the state, and sends the event to the client.
    pub(super) fn handle_event(&mut self, event: Event, outbox: &mut Outbox) -> AfterEvent {
        if let Event::CliExited { exit } = event {
            return AfterEvent::Ended(exit);
        }
        self.note(&event);
        let stalls = self.ending == Ending::Draining && matches!(event, Event::CliStalled { .. });
        let unanswerable = self.answer_for_the_client(&event);
        let is_sent = match self.ending {
            Ending::No | Ending::Draining | Ending::Closing => true,
            Ending::Aborting => matches!(event, Event::TurnFinished { .. }),
        };
        if is_sent {
            self.encoder.encode(event, outbox.lines());
        }
        match unanswerable {
            None if stalls => AfterEvent::ToInterrupt,
            None => AfterEvent::Done,
            Some((ask, answer)) => {
                self.encoder.cancel_ask(ask, outbox.lines());
                AfterEvent::ToAnswer(ask, answer)
            }
        }
    }

    fn note(&mut self, event: &Event) {
        if let Event::BecameIdle = event {
            self.is_idle = true;
        }
        if let Event::CliStalled { .. } | Event::CliRecovered { .. } = event {
            self.is_stalled = matches!(event, Event::CliStalled { .. });
        }
        if let Some(has_tasks) = event.has_background_tasks() {
            self.has_tasks = has_tasks;
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

    /// The answer to an ask that the client cannot answer: a form, which the dialect does not have, or any ask after
    /// the client has closed its input.
    fn answer_for_the_client(&mut self, event: &Event) -> Option<(AskId, Answer)> {
        let Event::AskOpened { ask, kind } = event else { return None };
        match (kind, self.ending) {
            (AskKind::Elicitation(_), _) => Some((*ask, Answer::Cancel)),
            (_, Ending::Draining) => Some((*ask, no_client())),
            (_, Ending::No | Ending::Closing | Ending::Aborting) => {
                self.open_asks.push(*ask);
                None
            }
        }
    }
}

/// Sends a request to the CLI before any later message of the client, without waiting for the answer.
fn enqueue_request(
    requests: &mut JoinSet<Answered>,
    request: impl Future<Output = Answered> + Send + 'static,
) -> Option<ProtocolError> {
    if requests.len() >= REQUESTS_MAX {
        return Some(ProtocolError::refused(
            RefusalCode::Busy,
            "too many requests are waiting for the CLI; wait for their answers",
        ));
    }
    let mut request = Box::pin(request);
    // The first poll puts it into the session's queue.
    match poll_once(request.as_mut()) {
        None => {
            requests.spawn(request);
            None
        }
        Some(Answered::Failed(problem)) => Some(problem),
        // A request cannot succeed before it was sent.
        Some(Answered::Succeeded | Answered::ModelChanged(_)) => None,
    }
}

fn no_client() -> Answer {
    Answer::deny("The client disconnected and cannot answer")
}

/// The error for a message that comes too late.
pub(super) fn too_late(message: &str) -> ProtocolError {
    ProtocolError::refused(RefusalCode::WrongPhase, message)
}

/// The error for an answer that was refused.
fn not_answered(ask: &str, error: &CommandError) -> ProtocolError {
    ProtocolError::refused(command_code(error), format!("{ask}: {error}"))
}

/// The error for a request that had no effect.
fn request_failed(name: &str, error: &RequestError) -> ProtocolError {
    let code = match error {
        RequestError::NotSent(error) => command_code(error),
        RequestError::Failed(_) => RefusalCode::RequestFailed,
    };
    ProtocolError::refused(code, format!("{name}: {error}"))
}

fn command_code(error: &CommandError) -> RefusalCode {
    match error {
        CommandError::Refused(refusal) => refusal.code(),
        CommandError::Ended => RefusalCode::SessionClosed,
    }
}

/// The error of an interrupt. A refused interrupt is not reported: it is refused only when the session is ending or has
/// ended.
fn interrupt_error(error: &RequestError) -> Option<ProtocolError> {
    match error {
        RequestError::NotSent(_) => None,
        // The last event reports how the session ended.
        RequestError::Failed(RequestFailure::CliExited) => None,
        RequestError::Failed(_) => Some(request_failed("interrupt", error)),
    }
}

/// Describes an unexpected exit of the CLI.
pub(super) fn unexpected_exit(exit: &Exit) -> String {
    if let ExitReason::Unresponsive { to, seconds } = exit.reason {
        return cli_trouble::unresponsive(to, seconds);
    }
    if exit.reason == ExitReason::ServerNameConflict {
        return TOOL_SERVER_TAKEN_MESSAGE.to_owned();
    }
    let stderr = if exit.stderr.is_empty() { String::new() } else { format!("; stderr: {}", exit.stderr) };
    format!("{}{stderr}", cli_trouble::ended(exit.code, exit.signal))
}

/// The error for a session whose id is not usable.
pub(super) fn unusable(why: &str) -> String {
    format!(
        "the session was ended, because it can be neither locked nor resumed: Claude Code calls it {why}; check which \
         program runs as Claude Code, and update it with `claude update`"
    )
}
