//! The host of a session: one task that runs the CLI, restarts it when needed, and carries out the clients' commands.

mod before_ready;
mod carrier;
mod down;
mod stopping;

use std::pin::pin;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use watari_sdk::{Command, ConnectError, HostEvent, HostState, Key, Options, SessionId, StartError, StartFrom, open};

use crate::command_dedup::{CommandDedup, CommandOrigin, CommandOutcome};
use crate::log::AppendError;
use crate::publisher::{Publisher, PublisherRequest};
use crate::record::RecordError;
use crate::session_files::{Conversation, SessionFiles};
use crate::subscription::{Attachment, Since};
use before_ready::CommandsBeforeReady;
use carrier::{Carrier, CompletedCommand};
use stopping::{StopRequest, Stopping, abort_requested, reason_of, reason_published, stop_requested, stopper};

pub use stopping::Stopper;

/// How many commands may wait for the host. Above that, clients wait.
const COMMANDS_WAITING_MAX: usize = 64;

/// How many requests may wait for the publisher. Above that, clients wait.
const PUBLISHER_REQUESTS_MAX: usize = 64;

/// A session that is hosted by this process.
#[derive(Debug)]
pub struct Host {
    publisher: Publisher,
    publisher_requests: mpsc::Sender<PublisherRequest>,
    commands: mpsc::Receiver<Given>,
    stop: watch::Receiver<StopRequest>,
    stopper: Stopper,
    dedup: CommandDedup,
    answers: JoinSet<CompletedCommand>,
    before_ready: CommandsBeforeReady,
    options: Options,
    conversation: Conversation,
}

/// Gives clients access to a hosted session.
#[derive(Debug, Clone)]
pub struct Handle {
    publisher_requests: mpsc::Sender<PublisherRequest>,
    commands: mpsc::Sender<Given>,
    state: watch::Receiver<HostState>,
    background: watch::Receiver<bool>,
    storage_failure: watch::Receiver<Option<String>>,
    key: Key,
}

/// A command that a client has sent.
#[derive(Debug)]
pub struct Given {
    sender: CommandOrigin,
    command: Command,
    answer: oneshot::Sender<CommandOutcome>,
}

/// Why a host failed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The CLI could not be started, so there never was a session.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The first or the last events could not be stored. The next host treats this one as killed.
    #[error("some events could not be stored: {0}")]
    LogUnavailable(#[from] AppendError),
    /// The end of the host could not be recorded.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// How a process of the CLI ended.
enum ProcessOutcome {
    /// The host is stopping.
    Stopped,
    /// The CLI exited by itself.
    Exited,
    /// The CLI did not become ready.
    Failed(ConnectError),
}

/// Creates the host of a session, and closes what a killed host left open. `options` say how to start the CLI; the host
/// chooses the conversation.
pub fn host(
    files: SessionFiles,
    conversation: Conversation,
    options: Options,
) -> Result<(Host, Handle, Stopper), HostError> {
    let (publisher_requests, requests) = mpsc::channel(PUBLISHER_REQUESTS_MAX);
    let (commands, receiver) = mpsc::channel(COMMANDS_WAITING_MAX);
    let (state_sender, state) = watch::channel(HostState::Starting);
    let (stopper, stop) = stopper();
    let key = files.key().clone();
    let mut publisher = Publisher::new(files, requests, state_sender);
    publisher.close_left_open();
    publisher.flush()?;
    publisher.files.record_running()?;
    let (background, storage_failure) = (publisher.background(), publisher.storage_failure());
    let host = Host {
        publisher,
        publisher_requests: publisher_requests.clone(),
        commands: receiver,
        stop,
        stopper: stopper.clone(),
        dedup: CommandDedup::default(),
        answers: JoinSet::new(),
        before_ready: CommandsBeforeReady::default(),
        options,
        conversation,
    };
    Ok((host, Handle { publisher_requests, commands, state, background, storage_failure, key }, stopper))
}

impl Handle {
    /// Attaches a client; none when the host has ended.
    pub async fn attach(&self, since: Since) -> Option<Attachment> {
        let (answer, attached) = oneshot::channel();
        self.publisher_requests.send(PublisherRequest::Attach { since, answer }).await.ok()?;
        attached.await.ok()
    }

    /// Restores the session's damaged log. After that, a client can attach at its last position and get the rest.
    pub async fn restore(&self) {
        let (done, is_done) = oneshot::channel();
        if self.publisher_requests.send(PublisherRequest::Restore { done }).await.is_ok() {
            // If the host has ended meanwhile, the next host finds the damage.
            let _ended = is_done.await;
        }
    }

    /// Sends a command to the session, behind earlier ones. The receiver gets its outcome, or an error if the session
    /// has ended.
    pub async fn submit(&self, sender: CommandOrigin, command: Command) -> oneshot::Receiver<CommandOutcome> {
        let (answer, answered) = oneshot::channel();
        // If the host has ended, the answer is dropped, and the receiver fails.
        let _ended = self.commands.send(Given { sender, command, answer }).await;
        answered
    }

    /// Watari's key of the session.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The state of the session, and its changes.
    pub fn state(&self) -> watch::Receiver<HostState> {
        self.state.clone()
    }

    /// Whether the session has background work, which may also run while it is idle, and when that changes.
    pub fn background(&self) -> watch::Receiver<bool> {
        self.background.clone()
    }

    /// Why events cannot be stored, while they cannot, and when that changes.
    pub fn storage_failure(&self) -> watch::Receiver<Option<String>> {
        self.storage_failure.clone()
    }
}

impl Host {
    /// Runs the session until it is stopped, or until the first start of the CLI fails.
    pub async fn run(mut self) -> Result<(), HostError> {
        let started = self.host_started();
        self.publisher.publish(started);
        let mut outcome = match self.conversation.clone() {
            Conversation::New(id) => Box::pin(self.run_process(StartFrom::NewWithId(id))).await,
            Conversation::Resumed(id) => {
                let may_start_new = self.publisher.files.had_session_here();
                Box::pin(self.resume_process(id, may_start_new)).await
            }
        };
        if let ProcessOutcome::Failed(error) = outcome {
            self.publisher.publish(HostEvent::StartFailed { message: error.to_string() });
            self.close()?;
            self.publisher.files.discard_if_new();
            return Err(error.into());
        }
        while !matches!(outcome, ProcessOutcome::Stopped) {
            let Some(first) = self.wait_for_prompt().await else { break };
            outcome = Box::pin(self.restart_process(first)).await;
        }
        if let Some(reason) = reason_of(&self.stop) {
            tracing::info!("stopping: {reason}");
        }
        self.close()
    }

    /// Records the end of the host, if all its events are stored.
    fn close(&mut self) -> Result<(), HostError> {
        self.publisher.flush()?;
        Ok(self.publisher.files.record_ended()?)
    }

    fn host_started(&self) -> HostEvent {
        let record = &self.publisher.files.record;
        HostEvent::HostStarted {
            key: record.key.clone(),
            session_id: record.session_id.clone().unwrap_or_default(),
            cwd: record.cwd.display().to_string(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }

    /// Restarts the CLI for a prompt, with the same conversation if it still exists.
    async fn restart_process(&mut self, first: Given) -> ProcessOutcome {
        let id = self.publisher.files.record.session_id.clone().unwrap_or_default();
        let Ok(id) = SessionId::parse(&id) else { return ProcessOutcome::Stopped };
        self.before_ready.put_first(first);
        let outcome = self.resume_process(id, true).await;
        if let ProcessOutcome::Failed(error) = &outcome {
            let message = error.to_string();
            self.publisher.process_start_failed();
            self.publisher.publish(HostEvent::StartFailed { message: message.clone() });
            if let Some(prompt) = self.before_ready.next_prompt() {
                self.complete(prompt, Err(message));
            }
        }
        outcome
    }

    /// Runs a process of the CLI that resumes the conversation. If the CLI has not stored it, because it was killed too
    /// early, the session may start a new one: with the same id, or with another id if remains of the old conversation
    /// make the CLI refuse it.
    async fn resume_process(&mut self, id: SessionId, may_start_new: bool) -> ProcessOutcome {
        let outcome = Box::pin(self.run_process(StartFrom::Resume(id.clone()))).await;
        match outcome {
            ProcessOutcome::Failed(ConnectError::UnknownSession { .. }) if may_start_new => {
                self.publisher.publish(HostEvent::ContextLost { session_id: id.to_string() });
                match Box::pin(self.run_process(StartFrom::NewWithId(id))).await {
                    ProcessOutcome::Failed(ConnectError::SessionIdInUse { .. }) => {
                        Box::pin(self.run_process(StartFrom::New)).await
                    }
                    outcome @ (ProcessOutcome::Failed(_) | ProcessOutcome::Exited | ProcessOutcome::Stopped) => outcome,
                }
            }
            ProcessOutcome::Failed(_) | ProcessOutcome::Exited | ProcessOutcome::Stopped => outcome,
        }
    }

    /// Runs one process of the CLI, from its start to its exit. Commands that wait are submitted when the CLI is ready.
    async fn run_process(&mut self, session: StartFrom) -> ProcessOutcome {
        self.publisher.process_starting();
        let ids_after = self.publisher.files.log.last().seq;
        let asked_tool_uses = self.publisher.files.asked_tool_uses.clone();
        let lock = self.publisher.files.share_lock();
        let mut options = Options { start_from: session, ids_after, asked_tool_uses, lock, ..self.options.clone() };
        self.publisher.settings.apply(&mut options);
        tracing::info!(?options.start_from, "starting Claude Code");
        let Host {
            publisher,
            publisher_requests,
            commands,
            stop,
            stopper,
            dedup,
            answers,
            before_ready,
            options: host_options,
            ..
        } = self;
        let (opening, running) = match open(options, &mut *publisher).await {
            Ok(opened) => opened,
            Err(error) => return ProcessOutcome::Failed(StartError::into(error)),
        };
        let orders = opening.orders();
        let tools = &mut host_options.program_tools;
        let mut carrier = Carrier { orders: Some(orders), dedup, answers, tools };
        // Created once, outside the loop: most iterations handle one delta and should be cheap.
        let mut abort_requested = pin!(abort_requested(stop.clone()));
        let (mut running, mut ready, mut stop_requested) =
            (pin!(running), pin!(opening.ready()), pin!(stop_requested(stop)));
        // Decided: the CLI is ready, or the start failed.
        let (mut start_is_decided, mut is_aborting, mut stopping, mut failure) = (false, false, None::<Stopping>, None);
        loop {
            let (is_accepting, none_waits) = (start_is_decided && failure.is_none(), before_ready.is_empty());
            tokio::select! {
                // Every branch is cancel-safe: the session and its opening continue, and commands that are not received
                // stay queued.
                () = &mut running => break,
                connected = &mut ready, if !start_is_decided => {
                    start_is_decided = true;
                    failure = connected.inspect(|_| tracing::info!("Claude Code is ready")).err();
                }
                submitted = before_ready.next(), if is_accepting => carrier.submit(submitted),
                // While earlier commands still wait, newer ones stay in the channel, so that the order is preserved.
                submitted = next(commands), if !is_accepting || none_waits => {
                    let queue = (!is_accepting).then_some(&mut *before_ready);
                    match (carrier.register_and_submit(submitted, queue), &stopping) {
                        (Some(close), None) => {
                            stopping = Some(Stopping::by_client(publisher_requests, stopper, close));
                        }
                        // The session is ending already, and an abort speeds that up.
                        (Some(close), Some(_)) => carrier.submit(close),
                        (None, _) => {}
                    }
                }
                reason = &mut stop_requested, if stopping.is_none() => {
                    stopping = Some(Stopping::begin(publisher_requests, &reason, None));
                }
                () = &mut abort_requested, if stopping.is_some() && !is_aborting => {
                    is_aborting = true;
                    carrier.abort();
                }
                // Clients learn the reason before they see any effect of the end.
                () = reason_published(&mut stopping) => {
                    carrier.end(stopping.as_mut().and_then(|stopping| stopping.closing_command.take()));
                }
                Some(answered) = carrier.answers.join_next() => carrier.complete(answered),
            }
        }
        let is_stopping = stopping.is_some();
        tracing::info!(start_is_decided, is_stopping, "Claude Code exited");
        // The CLI has exited, so every submitted command gets its outcome soon.
        while let Some(answered) = carrier.answers.join_next().await {
            carrier.complete(answered);
        }
        if !start_is_decided && !is_stopping {
            // The reason why it exited before it was ready is known only now.
            failure = ready.await.err();
        }
        if is_stopping {
            ProcessOutcome::Stopped
        } else {
            failure.map_or(ProcessOutcome::Exited, ProcessOutcome::Failed)
        }
    }

    fn complete(&mut self, submitted: Given, outcome: CommandOutcome) {
        self.dedup.complete(submitted.sender.idempotency_key.as_ref(), submitted.answer, &outcome);
    }
}

/// Returns the next command. When every handle is dropped, no command can come, and the host waits to be stopped.
async fn next(commands: &mut mpsc::Receiver<Given>) -> Given {
    match commands.recv().await {
        Some(submitted) => submitted,
        None => std::future::pending().await,
    }
}
