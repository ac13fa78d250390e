//! The host of a session: one task that runs the CLI, restarts it when needed, and carries out the clients' commands.

mod down;
mod stopping;

use tokio::sync::{mpsc, oneshot, watch};
use watari_sdk::{
    Command, CommandQueue, ConnectError, Envelope, HostEvent, Key, Options, Refusal, SessionId, SessionState,
    StartError, StartFrom, command_queue, open,
};

use crate::log::AppendError;
use crate::publisher::{Publisher, PublisherRequest};
use crate::record::RecordError;
use crate::session_files::{Conversation, SessionFiles};
use crate::subscription::{Attachment, Since};
use crate::ticket::{CommandOutcome, Ticket};

pub use stopping::Stopper;
pub(crate) use stopping::{StopStep, StopWatch};

/// How many requests may wait for the publisher. Above that, clients wait.
const PUBLISHER_REQUESTS_MAX: usize = 64;

/// A session that is hosted by this process.
pub struct Host {
    publisher: Publisher,
    commands: CommandQueue<Ticket>,
    /// Without it the queue would end when every handle is dropped.
    _sender: mpsc::Sender<Envelope<Ticket>>,
    options: Options,
    conversation: Conversation,
}

/// Gives clients access to a hosted session.
#[derive(Debug, Clone)]
pub struct Handle {
    publisher_requests: mpsc::Sender<PublisherRequest>,
    commands: mpsc::Sender<Envelope<Ticket>>,
    state: watch::Receiver<SessionState>,
    background: watch::Receiver<bool>,
    storage_failure: watch::Receiver<Option<String>>,
    key: Key,
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
    let (sender, commands) = command_queue();
    let (state_sender, state) = watch::channel(SessionState::Starting);
    let stopper = Stopper::new();
    let key = files.key().clone();
    let mut publisher = Publisher::new(files, requests, state_sender, StopWatch::new(stopper.clone()));
    publisher.close_left_open();
    publisher.flush()?;
    publisher.files.record_running()?;
    let (background, storage_failure) = (publisher.background(), publisher.storage_failure());
    let host = Host { publisher, commands, _sender: sender.clone(), options, conversation };
    Ok((host, Handle { publisher_requests, commands: sender, state, background, storage_failure, key }, stopper))
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

    /// Sends a command to the session, behind earlier ones. Its outcome goes where the ticket says.
    pub async fn submit(&self, command: Command, ticket: Ticket) {
        // If the host has ended, the ticket is dropped, which tells its sender.
        let _ended = self.commands.send(Envelope { command, ticket }).await;
    }

    /// Watari's key of the session.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The state of the session, and its changes.
    pub fn state(&self) -> watch::Receiver<SessionState> {
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
        if let Some(reason) = self.publisher.stop_reason() {
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
    async fn restart_process(&mut self, first: Envelope<Ticket>) -> ProcessOutcome {
        let id = self.publisher.files.record.session_id.clone().unwrap_or_default();
        let Ok(id) = SessionId::parse(&id) else { return ProcessOutcome::Stopped };
        self.commands.put_first(first);
        let outcome = self.resume_process(id, true).await;
        if let ProcessOutcome::Failed(error) = &outcome {
            let why = error.to_string();
            self.publisher.process_start_failed();
            self.publisher.publish(HostEvent::StartFailed { message: why.clone() });
            if let Some(prompt) = self.commands.take_waiting_prompt() {
                self.complete(prompt.ticket, Err(Refusal::StartFailed { why }));
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
        let session = match open(options, &mut self.publisher).await {
            Ok(session) => session,
            Err(error) => return ProcessOutcome::Failed(StartError::into(error)),
        };
        let ended = session.run(&mut self.commands).await;
        tracing::info!(was_ready = ended.is_ok(), "Claude Code exited");
        match ended {
            _ if self.publisher.stop_reason().is_some() => ProcessOutcome::Stopped,
            Ok(()) => ProcessOutcome::Exited,
            Err(failure) => ProcessOutcome::Failed(failure),
        }
    }

    fn complete(&mut self, ticket: Ticket, outcome: CommandOutcome) {
        self.publisher.complete_command(ticket, outcome);
        self.publisher.acknowledge_commands();
    }
}
