//! Opens a session: starts the CLI, and waits until it is ready or reports why it is not.

use std::future::{Future, pending};
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot, watch};
use watari_protocol::{
    Accepted, CliInfo, Command, Config, Event, Exit, ExitReason, Machine, Refusal, SessionId, StartFailure,
    prompt_entry_prefix, start_failure,
};

use crate::argv;
use crate::client::{Client, CommandError, ConnectError};
use crate::driver::{CommandReply, Driver, Envelope, WaitsFor};
use crate::latest;
use crate::options::{Options, PermissionPrompts, StartFrom};
use crate::probe::ClaudeProbe;
use crate::process::{self, StartError};
use crate::sink::Sink;
use crate::transcript::TranscriptWatch;
use crate::version::is_too_old;

/// How many commands may wait for the session's task. After that, a [`Client`] waits, and [`Orders`] are refused.
const COMMANDS_WAITING_MAX: usize = 64;

/// How long a form of an MCP server may stay unanswered in a program that is not asked for permissions. Such a program
/// may not expect asks at all, and would wait forever.
const FORM_ANSWERED_WITHIN: Duration = Duration::from_secs(10 * 60);

/// Starts the CLI with a sink of the caller, for a host. The sink receives each event before the lines that the event
/// causes are written to the CLI. The returned future is the session itself: poll it to its end, and do not drop it
/// earlier. Other programs use [`Client::connect`].
pub async fn open<S: Sink>(
    mut options: Options,
    sink: S,
) -> Result<(Opening, impl Future<Output = ()> + use<S>), StartError> {
    let start_within = options.start_within.unwrap_or(Duration::from_secs(60));
    latest::resolve_continue(&mut options).await?;
    let config = config(&options, start_within);
    let watari_prompts = prompt_entry_prefix(config.uuid_seed);
    let started = process::start(&options).await?;
    let probe = ClaudeProbe::of(&started);
    let machine = Machine::start(config, Instant::now());
    let (ready, is_ready) = oneshot::channel();
    let (exit, has_exited) = watch::channel(None);
    let place = argv::transcript_place(&started.environment, &started.directory);
    let sink = TranscriptWatch::new(sink, place, watari_prompts, resumed(&options.start_from));
    let sink = StartWatch { sink, ready: Some(ready), exit };
    let (commands, receiver) = mpsc::channel(COMMANDS_WAITING_MAX);
    let running = Driver::new(machine, started, receiver, sink).run();
    Ok((Opening { commands, has_exited, is_ready, options, start_within, probe }, running))
}

/// A session whose CLI was started and may not be ready yet.
#[derive(Debug)]
pub struct Opening {
    commands: mpsc::Sender<Envelope>,
    has_exited: watch::Receiver<Option<Exit>>,
    is_ready: oneshot::Receiver<Result<CliInfo, Exit>>,
    options: Options,
    start_within: Duration,
    probe: ClaudeProbe,
}

impl Opening {
    /// Returns a handle that submits commands, even before the session is ready.
    pub fn orders(&self) -> Orders {
        Orders { commands: self.commands.clone() }
    }

    /// Returns the exit of the CLI, once it has exited.
    pub(crate) fn exit(&self) -> watch::Receiver<Option<Exit>> {
        self.has_exited.clone()
    }

    /// Waits until the CLI is ready, or has exited.
    pub async fn ready(self) -> Result<Client, ConnectError> {
        let ended = || ConnectError::Exited { exit: Box::default() };
        self.ready_or_cancel(pending()).await?.ok_or_else(ended)
    }

    /// Like [`Opening::ready`], but can be cancelled: if `cancel` completes first, the session is terminated, and the
    /// result is `None` once no process of it is left.
    pub(crate) async fn ready_or_cancel(
        mut self,
        cancel: impl Future<Output = ()>,
    ) -> Result<Option<Client>, ConnectError> {
        let first = tokio::select! {
            biased;
            // The select runs once, so either may be dropped: the result of a cancelled session is not needed.
            () = cancel => {
                self.abort().await;
                return Ok(None);
            }
            first = &mut self.is_ready => first,
        };
        match first {
            Ok(Ok(cli)) => {
                let too_old = cli.version.clone().filter(|version| is_too_old(version));
                let client = Client::new(self.commands, self.has_exited, cli);
                match too_old {
                    None => Ok(Some(client)),
                    Some(found) => {
                        client.abort().await;
                        Err(ConnectError::TooOld { found })
                    }
                }
            }
            Ok(Err(exit)) => Err(explain(exit, &self.options, self.start_within, &self.probe).await),
            // The session's task ended without a result, which only a panic in it can cause.
            Err(_) => Err(ConnectError::Exited { exit: Box::default() }),
        }
    }

    /// Terminates the session, and waits until no process of it is left.
    async fn abort(&mut self) {
        // Refused only when the session has ended by itself: this is its first command.
        let _ended = self.orders().submit(Command::Abort);
        // An error is a panic in the session's task, after which there is nothing to wait for.
        let _exit = self.has_exited.wait_for(Option::is_some).await;
    }
}

/// Submits commands to a session without waiting for their answers.
#[derive(Debug, Clone)]
pub struct Orders {
    commands: mpsc::Sender<Envelope>,
}

/// A submitted command.
#[derive(Debug)]
pub struct Receipt {
    answered: oneshot::Receiver<Result<CommandReply, Refusal>>,
}

/// Why a command could not be submitted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// The queue of commands is full.
    #[error("{COMMANDS_WAITING_MAX} commands are already waiting: wait for their answers")]
    Busy,
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
}

impl Orders {
    /// Submits a command; commands take effect in order. The CLI's answer to it arrives as an event.
    pub fn submit(&self, command: Command) -> Result<Receipt, OrderError> {
        let (answer, answered) = oneshot::channel();
        match self.commands.try_send(Envelope { command, waits_for: WaitsFor::Acceptance, answer }) {
            Ok(()) => Ok(Receipt { answered }),
            Err(mpsc::error::TrySendError::Full(_)) => Err(OrderError::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(OrderError::Ended),
        }
    }
}

impl Receipt {
    /// Waits until the command's effect is stored, and returns its result.
    pub async fn accepted(self) -> Result<Accepted, CommandError> {
        match self.answered.await.map_err(|_| CommandError::Ended)?? {
            CommandReply::Accepted(accepted) => Ok(accepted),
            // Not requested.
            CommandReply::Reply(_) => Ok(Accepted::Done),
        }
    }
}

/// Returns the conversation whose transcript exists before the CLI is started and is continued by this session.
fn resumed(session: &StartFrom) -> Option<SessionId> {
    match session {
        StartFrom::Resume(id) | StartFrom::ResumeAt { session: id, .. } => Some(id.clone()),
        StartFrom::New | StartFrom::NewWithId(_) | StartFrom::Fork { .. } | StartFrom::Continue => None,
    }
}

fn config(options: &Options, start_within: Duration) -> Config {
    let answer_within = match options.permission_prompts {
        PermissionPrompts::Ask { answer_within } => answer_within,
        PermissionPrompts::Deny | PermissionPrompts::DenyAlsoForms | PermissionPrompts::Tool(_) => {
            Some(FORM_ANSWERED_WITHIN)
        }
    };
    let cost_so_far_usd = match options.start_from {
        StartFrom::New | StartFrom::NewWithId(_) => Some(0.0),
        StartFrom::Resume(_) | StartFrom::Fork { .. } | StartFrom::ResumeAt { .. } | StartFrom::Continue => None,
    };
    let initialize = argv::initialize(options);
    let mut config = Config {
        initialize,
        answer_within,
        start_within,
        allow_bypass: argv::allows_bypass(options),
        liveness: options.liveness,
        cost_so_far_usd,
        uuid_seed: random_u128(),
        ids_after: options.ids_after,
        asked_tool_uses: options.asked_tool_uses.clone(),
        ..Config::default()
    };
    if let Some(message) = &options.timeout_message {
        config.timeout_message.clone_from(message);
    }
    config
}

/// Returns a random number, from the random seeds of the standard library's hash maps.
pub(crate) fn random_u128() -> u128 {
    let draw = || RandomState::new().hash_one(std::process::id());
    u128::from(draw()) << 64 | u128::from(draw())
}

/// Passes events on, and reports to the connecting caller whether the session started.
struct StartWatch<S> {
    sink: S,
    ready: Option<oneshot::Sender<Result<CliInfo, Exit>>>,
    exit: watch::Sender<Option<Exit>>,
}

impl<S: Sink> Sink for StartWatch<S> {
    fn emit(&mut self, event: Event) {
        if let Event::Ready { cli } = &event {
            self.report_start(Ok(cli.clone()));
        }
        if let Event::CliExited { exit } = &event {
            self.exit.send_replace(Some(Exit::clone(exit)));
            self.report_start(Err(Exit::clone(exit)));
        }
        self.sink.emit(event);
    }

    fn poll_room(&mut self, context: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        self.sink.poll_room(context)
    }

    fn begin_closing(&mut self) {
        self.sink.begin_closing();
    }

    fn poll_work(&mut self, context: &mut std::task::Context<'_>) -> std::task::Poll<()> {
        self.sink.poll_work(context)
    }

    fn verify_storage(&mut self) -> bool {
        self.sink.verify_storage()
    }

    fn is_storage_blocked(&self) -> bool {
        self.sink.is_storage_blocked()
    }

    fn refusal_of(&self, command: &Command) -> Option<Refusal> {
        self.sink.refusal_of(command)
    }
}

impl<S> StartWatch<S> {
    fn report_start(&mut self, first: Result<CliInfo, Exit>) {
        if let Some(ready) = self.ready.take() {
            // The caller may have been dropped; the session then ends by itself.
            let _ignored = ready.send(first);
        }
    }
}

/// Explains why a CLI exited before it was ready, from what it reported.
async fn explain(exit: Exit, options: &Options, within: Duration, probe: &ClaudeProbe) -> ConnectError {
    match exit.reason {
        ExitReason::StartTimedOut => return ConnectError::Silent { within },
        ExitReason::StartRefused(refusal) => return ConnectError::SetupRefused(refusal),
        ExitReason::Requested
        | ExitReason::ServerNameConflict
        | ExitReason::Unresponsive { .. }
        | ExitReason::OwnerKilled
        | ExitReason::ByItself => {}
    }
    match (start_failure(&exit), &options.start_from) {
        (StartFailure::SessionIdInUse, StartFrom::NewWithId(id) | StartFrom::Fork { into: Some(id), .. }) => {
            ConnectError::SessionIdInUse { id: id.to_string() }
        }
        (
            StartFailure::UnknownSession,
            StartFrom::Resume(id) | StartFrom::Fork { from: id, .. } | StartFrom::ResumeAt { session: id, .. },
        ) => ConnectError::UnknownSession { id: id.to_string() },
        (StartFailure::BypassAsRoot, _) => ConnectError::BypassAsRoot,
        (failure, _) => {
            // An old CLI exits at the first unknown flag, so its version is the better explanation.
            let version = probe.version().await.ok().map(|version| version.to_string());
            match version {
                Some(found) if is_too_old(&found) => ConnectError::TooOld { found },
                version if failure == StartFailure::UnknownFlag => {
                    ConnectError::UnknownFlag { version, stderr: exit.stderr }
                }
                _ => ConnectError::Exited { exit: Box::new(exit) },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_that_nobody_expects_has_a_time_limit() {
        let limit = |permission_prompts| {
            config(&Options { permission_prompts, ..Options::default() }, Duration::ZERO).answer_within
        };
        assert_eq!(limit(PermissionPrompts::Ask { answer_within: None }), None);
        assert_eq!(limit(PermissionPrompts::Deny), Some(FORM_ANSWERED_WITHIN));
    }
}
