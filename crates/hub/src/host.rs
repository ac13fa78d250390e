//! The host of a session: one task that runs the CLI, again if it must, and carries out what clients want of it.

mod carrier;
mod down;
mod early;
mod stopping;

use std::pin::pin;

use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use watari_sdk::{Command, ConnectError, Options, Session, SessionId, StartError, open};

use crate::command_dedup::{CommandDedup, CommandOrigin, CommandOutcome};
use crate::key::Key;
use crate::log::AppendError;
use crate::published::HostEvent;
use crate::publisher::{HostState, Publisher, PublisherRequest};
use crate::record::RecordError;
use crate::session_files::{Conversation, SessionFiles};
use crate::subscription::{Attachment, Since};
use carrier::{Carrier, Settled};
use early::Early;
use stopping::{Stop, Stopping, hurried, published, reason_of, stopped, stopper};

pub use stopping::Stopper;

/// How many commands may wait for the host. A client waits when they are that many.
const COMMANDS_WAITING_MAX: usize = 64;

/// How many clients may wait to be let in. A further one waits.
const PUBLISHER_REQUESTS_MAX: usize = 64;

/// A session that is hosted by this process.
#[derive(Debug)]
pub struct Host {
    publisher: Publisher,
    publisher_requests: mpsc::Sender<PublisherRequest>,
    commands: mpsc::Receiver<Given>,
    stop: watch::Receiver<Stop>,
    stopper: Stopper,
    dedup: CommandDedup,
    answers: JoinSet<Settled>,
    early: Early,
    options: Options,
    conversation: Conversation,
}

/// The way to a session that is hosted.
#[derive(Debug, Clone)]
pub struct Handle {
    publisher_requests: mpsc::Sender<PublisherRequest>,
    commands: mpsc::Sender<Given>,
    state: watch::Receiver<HostState>,
    background: watch::Receiver<bool>,
    storage: watch::Receiver<Option<String>>,
    key: Key,
}

/// A command that a client gives.
#[derive(Debug)]
pub struct Given {
    sender: CommandOrigin,
    command: Command,
    answer: oneshot::Sender<CommandOutcome>,
}

/// Why a host has ended that should not have.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// There never was a session.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The first or the last events could not be stored. For whoever comes next it is as if the host was killed.
    #[error("not everything was stored: {0}")]
    NotStored(#[from] AppendError),
    /// The end could not be noted.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// How the life of a CLI ended.
enum ProcessOutcome {
    /// The host is to end.
    Stopped,
    /// The CLI went away by itself.
    Exited,
    /// It never was ready.
    Failed(ConnectError),
}

/// Makes a host for a session, which ends what the last one was killed in the middle of. `options` say how the CLI is
/// started; which conversation it holds is the host's to say.
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
    publisher.end_what_was_left_open();
    publisher.finish()?;
    publisher.files.begin()?;
    let (background, storage) = (publisher.background(), publisher.storage());
    let host = Host {
        publisher,
        publisher_requests: publisher_requests.clone(),
        commands: receiver,
        stop,
        stopper: stopper.clone(),
        dedup: CommandDedup::default(),
        answers: JoinSet::new(),
        early: Early::default(),
        options,
        conversation,
    };
    Ok((host, Handle { publisher_requests, commands, state, background, storage, key }, stopper))
}

impl Handle {
    /// Follows the session; none when it has ended.
    pub async fn attach(&self, since: Since) -> Option<Attachment> {
        let (answer, attached) = oneshot::channel();
        self.publisher_requests.send(PublisherRequest::Attach { since, answer }).await.ok()?;
        attached.await.ok()
    }

    /// Has the session's log written again, which is damaged; a client that follows from a position gets the rest then.
    pub async fn restore(&self) {
        let (done, is_done) = oneshot::channel();
        if self.publisher_requests.send(PublisherRequest::Restore { done }).await.is_ok() {
            // If the session has ended meanwhile, the next host finds the damage.
            let _ended = is_done.await;
        }
    }

    /// Gives the session a command, behind those that were given before. What becomes of it is heard later; nothing is
    /// heard when the session has ended.
    pub async fn submit(&self, sender: CommandOrigin, command: Command) -> oneshot::Receiver<CommandOutcome> {
        let (answer, answered) = oneshot::channel();
        // If there is no session any more, the answer is dropped, which says so.
        let _ended = self.commands.send(Given { sender, command, answer }).await;
        answered
    }

    /// Watari's own name of the session.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// How far the session is, and when that changes.
    pub fn state(&self) -> watch::Receiver<HostState> {
        self.state.clone()
    }

    /// Whether work of the session runs in the background, also while it is idle, and when that changes.
    pub fn background(&self) -> watch::Receiver<bool> {
        self.background.clone()
    }

    /// Why events cannot be stored, while they cannot, and when that changes.
    pub fn storage(&self) -> watch::Receiver<Option<String>> {
        self.storage.clone()
    }
}

impl Host {
    /// Runs until it is stopped, or until the CLI cannot be started for the first time.
    pub async fn run(mut self) -> Result<(), HostError> {
        let started = self.host_started();
        self.publisher.publish(started);
        let mut outcome = match self.conversation.clone() {
            Conversation::New(id) => Box::pin(self.run_process(Session::NewWithId(id))).await,
            Conversation::Resumed(id) => {
                let begins_anew = self.publisher.files.had_session_here();
                Box::pin(self.live_on(id, begins_anew)).await
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
            tracing::info!("ends: {reason}");
        }
        self.close()
    }

    /// Notes the end, if all that led to it is stored.
    fn close(&mut self) -> Result<(), HostError> {
        self.publisher.finish()?;
        Ok(self.publisher.files.close()?)
    }

    fn host_started(&self) -> HostEvent {
        let record = &self.publisher.files.record;
        HostEvent::HostStarted {
            key: record.key.clone(),
            session_id: record.session_id.clone().unwrap_or_default(),
            cwd: record.cwd.display().to_string(),
            version: env!("CARGO_PKG_VERSION"),
        }
    }

    /// The CLI went away: it is started again for a prompt, and with the same conversation, if there is one.
    async fn restart_process(&mut self, first: Given) -> ProcessOutcome {
        let id = self.publisher.files.record.session_id.clone().unwrap_or_default();
        let Ok(id) = SessionId::parse(&id) else { return ProcessOutcome::Stopped };
        self.early.put_first(first);
        let outcome = self.live_on(id, true).await;
        if let ProcessOutcome::Failed(error) = &outcome {
            let message = error.to_string();
            self.publisher.process_start_failed();
            self.publisher.publish(HostEvent::StartFailed { message: message.clone() });
            if let Some(prompt) = self.early.next_prompt() {
                self.complete(prompt, Err(message));
            }
        }
        outcome
    }

    /// A life of the CLI with the conversation so far. If the CLI has stored none, because it was killed before it could, the
    /// session may begin anew: under the same id, or under another if what is left of the conversation keeps the CLI from it.
    async fn live_on(&mut self, id: SessionId, begins_anew: bool) -> ProcessOutcome {
        let outcome = Box::pin(self.run_process(Session::Resume(id.clone()))).await;
        match outcome {
            ProcessOutcome::Failed(ConnectError::UnknownSession { .. }) if begins_anew => {
                self.publisher.publish(HostEvent::ContextLost { session_id: id.to_string() });
                match Box::pin(self.run_process(Session::NewWithId(id))).await {
                    ProcessOutcome::Failed(ConnectError::SessionIdInUse { .. }) => {
                        Box::pin(self.run_process(Session::New)).await
                    }
                    outcome @ (ProcessOutcome::Failed(_) | ProcessOutcome::Exited | ProcessOutcome::Stopped) => outcome,
                }
            }
            ProcessOutcome::Failed(_) | ProcessOutcome::Exited | ProcessOutcome::Stopped => outcome,
        }
    }

    /// One life of the CLI, from its start to its end. Commands that wait are given to it when it is ready.
    async fn run_process(&mut self, session: Session) -> ProcessOutcome {
        self.publisher.process_starting();
        let ids_after = self.publisher.files.log.last().seq;
        let asked_tool_uses = self.publisher.files.asked_tool_uses.clone();
        let lock = self.publisher.files.share_lock();
        let mut options = Options { session, ids_after, asked_tool_uses, lock, ..self.options.clone() };
        self.publisher.settings.apply(&mut options);
        tracing::info!(?options.session, "Claude Code is started");
        let Host {
            publisher,
            publisher_requests,
            commands,
            stop,
            stopper,
            dedup,
            answers,
            early,
            options: kept_options,
            ..
        } = self;
        let (opening, running) = match open(options, &mut *publisher).await {
            Ok(opened) => opened,
            Err(error) => return ProcessOutcome::Failed(StartError::into(error)),
        };
        let orders = opening.orders();
        let tools = &mut kept_options.program_tools;
        let mut carrier = Carrier { orders: Some(orders), dedup, answers, tools };
        // Kept over all turns of the loop: most are for a piece of text, and should cost little.
        let mut hurried = pin!(hurried(stop.clone()));
        let (mut running, mut ready, mut stopped) = (pin!(running), pin!(opening.ready()), pin!(stopped(stop)));
        let (mut is_ready, mut is_hurried, mut stopping, mut failure) = (false, false, None::<Stopping>, None);
        loop {
            let (carries, early_is_empty) = (is_ready && failure.is_none(), early.is_empty());
            tokio::select! {
                // All may be dropped half-way: the session and its opening go on, what is not taken stays.
                () = &mut running => break,
                connected = &mut ready, if !is_ready => {
                    is_ready = true;
                    failure = connected.inspect(|_| tracing::info!("Claude Code is ready")).err();
                }
                given = early.next(), if carries => carrier.carry(given),
                given = next(commands), if !carries || early_is_empty => {
                    let ending = carrier.take(given, (!carries).then_some(&mut *early));
                    match (ending, &stopping) {
                        (Some(ending), None) => stopping = Some(Stopping::by_client(publisher_requests, stopper, ending)),
                        // It is ending already, and an abort hastens that.
                        (Some(again), Some(_)) => carrier.carry(again),
                        (None, _) => {}
                    }
                }
                reason = &mut stopped, if stopping.is_none() => {
                    stopping = Some(Stopping::begin(publisher_requests, &reason, None));
                }
                () = &mut hurried, if stopping.is_some() && !is_hurried => {
                    is_hurried = true;
                    carrier.abort();
                }
                // Everybody knows why before anything of it is seen.
                () = published(&mut stopping) => carrier.end(stopping.as_mut().and_then(|stopping| stopping.ending.take())),
                Some(answered) = carrier.answers.join_next() => carrier.answered(answered),
            }
        }
        let is_stopping = stopping.is_some();
        tracing::info!(is_ready, is_stopping, "Claude Code has ended");
        // Nobody is left who could carry out what was given, so each has its answer soon.
        while let Some(answered) = carrier.answers.join_next().await {
            carrier.answered(answered);
        }
        if !is_ready && !is_stopping {
            // Why it ended before it was ready is found out only now.
            failure = ready.await.err();
        }
        if is_stopping {
            ProcessOutcome::Stopped
        } else {
            failure.map_or(ProcessOutcome::Exited, ProcessOutcome::Failed)
        }
    }

    fn complete(&mut self, given: Given, outcome: CommandOutcome) {
        self.dedup.complete(given.sender.idempotency_key.as_ref(), given.answer, &outcome);
    }
}

/// The next command. When every handle is gone nobody can want anything; the host then waits to be stopped.
async fn next(commands: &mut mpsc::Receiver<Given>) -> Given {
    match commands.recv().await {
        Some(given) => given,
        None => std::future::pending().await,
    }
}
