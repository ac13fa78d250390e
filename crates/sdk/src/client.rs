//! A live session, and how to start one.

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc::OwnedPermit;
use tokio::sync::{mpsc, oneshot, watch};
use watari_protocol::{
    Accepted, Answer, AskId, CliInfo, Command, Exit, InterruptReceipt, PermissionMode, Prompt, PromptId, RawJson,
    Refusal, Request, RequestFailure, RequestReply,
};

use crate::commands::{Envelope, command_queue};
use crate::opening::open;
use crate::options::Options;
use crate::process::StartError;
use crate::sink::{ClientTicket, CommandReply, Events, Milestones, WaitsFor, event_queue};

pub use crate::version::MINIMUM_CLI_VERSION;

/// A live session with Claude Code. Its events arrive in [`Events`]. Several tasks can call its methods at the same
/// time: share it in an [`Arc`](std::sync::Arc). (It is not `Clone`, because dropping it ends the session.)
///
/// There are three ways to end it:
///
/// | | the running turn | time for the CLI to exit | waits until no process is left |
/// |---|---|---|---|
/// | [`Client::close`] | is interrupted | at most ten seconds, then it is killed | yes |
/// | [`Client::abort`] | is cut off | half a second, to store the conversation | yes |
/// | dropping the client | is cut off | half a second, to store the conversation | no |
///
/// [`Client::send`] and [`Client::answer`] do not wait for the CLI. [`Client::request`], [`Client::set_model`],
/// [`Client::set_permission_mode`], [`Client::interrupt`] and [`Client::interrupt_all`] wait for its answer. Keep
/// reading the events meanwhile: do not await these five in the loop that reads the events, but in another task, or
/// beside that loop with `tokio::join!`. When 2 MiB of events wait to be read, Watari no longer reads the CLI's output,
/// so the CLI's answer arrives only when you read on. The call then fails after a minute.
#[derive(Debug)]
pub struct Client {
    commands: mpsc::Sender<Envelope<ClientTicket>>,
    exit: watch::Receiver<Option<Exit>>,
    cli: CliInfo,
}

/// Why a session could not be started.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum ConnectError {
    /// The CLI was not started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The id of a new conversation is already in use.
    #[error("the session id {id} is already in use; resume that conversation, or choose another id")]
    SessionIdInUse {
        /// The id.
        id: String,
    },
    /// The conversation to resume does not exist.
    #[error(
        "there is no conversation {id} to resume in this working directory; check the id and the directory (a conversation without messages is not stored: start a new one)"
    )]
    UnknownSession {
        /// The id.
        id: String,
    },
    /// The CLI reported at its start that it is older than [`MINIMUM_CLI_VERSION`]. (A CLI that reports its version
    /// only with the first turn is not detected here: ask [`crate::InstalledCli::version`].)
    #[error(
        "the Claude Code CLI is version {found}, and at least {MINIMUM_CLI_VERSION} is needed; update it with `claude update`"
    )]
    TooOld {
        /// Its version.
        found: String,
    },
    /// The CLI rejected a flag.
    #[error("the Claude Code CLI{} rejected a flag: {stderr}; remove that option, or update the CLI with `claude update`", describe_version(.version.as_deref()))]
    UnknownFlag {
        /// Its version, if it reports one.
        version: Option<String>,
        /// What it wrote to stderr.
        stderr: String,
    },
    /// The CLI refuses to bypass permissions for root.
    #[error(
        "the Claude Code CLI refuses to bypass permissions for root; run as another user, or set IS_SANDBOX=1 inside a sandbox"
    )]
    BypassAsRoot,
    /// The CLI exited before it was ready.
    #[error("the Claude Code CLI exited before it was ready ({}): {}", describe_ending(.exit), describe_stderr(.exit))]
    Exited {
        /// How it exited.
        exit: Box<Exit>,
    },
    /// The CLI did not become ready in time, and was terminated.
    #[error("the Claude Code CLI did not answer within {within:?} and was terminated; try `claude --version` by hand")]
    StartTimedOut {
        /// The time limit.
        within: Duration,
    },
    /// The prompt was refused. Only [`crate::query()`] returns this.
    #[error("the prompt was refused: {0}")]
    Prompt(Refusal),
    /// The CLI refused the `initialize` request, which sets up the session.
    #[error("the Claude Code CLI refused to set up the session: {0}")]
    SetupRefused(RequestFailure),
    /// The session did not start, and processes of it could not be ended.
    #[error("{}{}", describe_cause(.cause.as_deref()), .exit.left_text().unwrap_or_default())]
    ProcessesLeft {
        /// Why it did not start; none if the start was cancelled.
        cause: Option<Box<ConnectError>>,
        /// How the CLI exited, with the processes that are left.
        exit: Box<Exit>,
    },
}

/// Why a command did not take effect. A command is what a method of [`Client`] sends to the session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum CommandError {
    /// The session refused it immediately; nothing changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
}

/// Why a request failed. A request is a command that the CLI answers, so it can also fail later.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum RequestError {
    /// It was not sent to the CLI.
    #[error(transparent)]
    NotSent(#[from] CommandError),
    /// The CLI refused it, did not answer in time, or exited.
    #[error(transparent)]
    Failed(#[from] RequestFailure),
}

impl Client {
    /// Starts the CLI and waits until it is ready. The first event is [`crate::Event::Ready`], except that
    /// events of startup hooks may come before it.
    pub async fn connect(options: Options) -> Result<(Client, Events), ConnectError> {
        // It is never cancelled, so there is a session or an error.
        let ended = || ConnectError::Exited { exit: Box::default() };
        // Boxed, so that the caller's future stays small.
        Box::pin(Client::connect_or_cancel(options, std::future::pending())).await?.ok_or_else(ended)
    }

    /// Like [`Client::connect`], but can be cancelled: if the future `cancel` completes first, the CLI is terminated,
    /// and the result is `None` once no process of the session is left. ([`ConnectError::ProcessesLeft`] names those
    /// that could not be ended.) Dropping the returned future terminates the session too, but does not wait for that.
    pub async fn connect_or_cancel(
        options: Options,
        cancel: impl Future<Output = ()>,
    ) -> Result<Option<(Client, Events)>, ConnectError> {
        let (sink, events, Milestones { is_ready, exited }) = event_queue();
        let (commands, mut queue) = command_queue();
        let session = open(options, sink).await?;
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends by itself when the client is dropped or closed, and closing waits for its exit; it must not be aborted while it terminates the CLI"
        )]
        let task = tokio::spawn(async move { session.run(&mut queue).await });
        let watched = exited.clone();
        let client = |cli| Client { commands, exit: exited, cli };
        tokio::select! {
            biased;
            // The select runs once, so an arm that is dropped is not needed any more.
            () = cancel => {
                let exit = client(CliInfo { version: None, raw: RawJson::from("null") }).abort().await;
                match exit.left {
                    0 => Ok(None),
                    _ => Err(ConnectError::ProcessesLeft { cause: None, exit: Box::new(exit) }),
                }
            }
            ready = is_ready => match ready {
                Ok(cli) => Ok(Some((client(cli), events))),
                // The session has ended, and its task knows why.
                Err(_) => {
                    let error = match task.await {
                        Ok(Err(error)) => error,
                        // A session that ended without an error was ready, so this is a panic in its task.
                        Ok(Ok(())) | Err(_) => ConnectError::Exited { exit: Box::default() },
                    };
                    // Nobody receives the event that names them.
                    let left = watched.borrow().clone().filter(|exit| exit.left > 0);
                    Err(match left.map(Box::new) {
                        None => error,
                        Some(exit) => ConnectError::ProcessesLeft { cause: Some(Box::new(error)), exit },
                    })
                }
            },
        }
    }

    /// What the CLI reported about itself when it started.
    pub fn cli(&self) -> &CliInfo {
        &self.cli
    }

    /// Queues a prompt and returns its id immediately. The answer arrives as events; the last is
    /// [`crate::Event::TurnFinished`] or [`crate::Event::PromptDropped`] with this id. If a turn is
    /// running, the prompt runs after it.
    pub async fn send(&self, prompt: impl Into<Prompt>) -> Result<PromptId, CommandError> {
        match self.command(Command::Prompt(prompt.into())).await? {
            CommandReply::Accepted(Accepted::Prompt(id)) => Ok(id),
            CommandReply::Accepted(Accepted::Done | Accepted::Request(_)) | CommandReply::Reply(_) => {
                Err(CommandError::Ended)
            }
        }
    }

    /// Interrupts the running turn. Returns the prompts that will still run ([`InterruptReceipt::still_queued`]) as
    /// soon as the CLI has confirmed the interrupt; the turn's [`crate::Event::TurnFinished`] may come later.
    /// Does nothing if no turn is running.
    pub async fn interrupt(&self) -> Result<InterruptReceipt, RequestError> {
        self.interrupt_with(Command::Interrupt { cancel_queued: false }).await
    }

    /// Interrupts the running turn as [`Client::interrupt`] does, and drops the waiting prompts. Returns
    /// the dropped prompts ([`InterruptReceipt::cancelled`]).
    pub async fn interrupt_all(&self) -> Result<InterruptReceipt, RequestError> {
        self.interrupt_with(Command::Interrupt { cancel_queued: true }).await
    }

    /// Answers an ask. The first answer counts; a later one is refused.
    pub async fn answer(&self, ask: AskId, answer: Answer) -> Result<(), CommandError> {
        self.command(Command::Answer { ask, answer, by: None }).await.map(drop)
    }

    /// Changes the model from the next API call on; `None` means the CLI's default.
    pub async fn set_model(&self, model: Option<&str>) -> Result<(), RequestError> {
        self.request(Request::SetModel(model.map(str::to_owned))).await.map(drop)
    }

    /// Changes the permission mode.
    pub async fn set_permission_mode(&self, mode: PermissionMode) -> Result<(), RequestError> {
        self.request(Request::SetPermissionMode(mode)).await.map(drop)
    }

    /// Sends a request to the CLI and waits for the answer. Returns it as JSON, as the CLI sent it; the JSON `null` if
    /// it has no fields. Fails with [`RequestFailure::TimedOut`] after a minute. Keep reading the events meanwhile: see
    /// [`Client`].
    pub async fn request(&self, request: Request) -> Result<RawJson, RequestError> {
        match self.reply_to(request.into()).await? {
            RequestReply::Done(fields) => Ok(fields),
            RequestReply::Interrupted(receipt) => Ok(RawJson::of(&receipt)),
            RequestReply::Failed(failed) => Err(failed.into()),
        }
    }

    /// Ends the session gracefully: interrupts the running turn, lets the CLI store the conversation, and waits until
    /// no process of the session is left. Processes that do not exit by themselves are killed; [`Exit::left_processes`]
    /// are those that could not be. The events need not be read meanwhile.
    pub async fn close(&self) -> Exit {
        self.end(Command::Close).await
    }

    /// Terminates the session immediately, and waits until no process of it is left, or the rest cannot be killed
    /// ([`Exit::left`]). The CLI has half a second to store the conversation.
    pub async fn abort(&self) -> Exit {
        self.end(Command::Abort).await
    }

    /// Reserves a place in the command queue, for a command that must not wait.
    pub(crate) fn reserve(&self) -> Option<OwnedPermit<Envelope<ClientTicket>>> {
        self.commands.clone().try_reserve_owned().ok()
    }

    async fn end(&self, command: Command) -> Exit {
        // Refused when the session has ended by itself; then its exit is already known.
        let _ended = self.command(command).await;
        let mut exit = self.exit.clone();
        // An error is a panic in the session's task, after which there is nothing to wait for.
        let exit = exit.wait_for(Option::is_some).await.map(|exit| exit.clone());
        exit.unwrap_or_default().unwrap_or_default()
    }

    async fn interrupt_with(&self, command: Command) -> Result<InterruptReceipt, RequestError> {
        match self.reply_to(command).await? {
            RequestReply::Interrupted(receipt) => Ok(receipt),
            RequestReply::Done(_) => Ok(InterruptReceipt::default()),
            RequestReply::Failed(failed) => Err(failed.into()),
        }
    }

    async fn reply_to(&self, command: Command) -> Result<RequestReply, CommandError> {
        match self.command(command).await? {
            CommandReply::Reply(reply) => Ok(reply),
            CommandReply::Accepted(_) => Err(CommandError::Ended),
        }
    }

    async fn command(&self, command: Command) -> Result<CommandReply, CommandError> {
        let (answer, answered) = oneshot::channel();
        let envelope = Envelope { command, ticket: ClientTicket { waits_for: WaitsFor::Reply, answer } };
        self.commands.send(envelope).await.map_err(|_| CommandError::Ended)?;
        Ok(answered.await.map_err(|_| CommandError::Ended)??)
    }
}

fn describe_cause(cause: Option<&ConnectError>) -> String {
    cause.map(|cause| format!("{cause}; ")).unwrap_or_default()
}

fn describe_version(version: Option<&str>) -> String {
    version.map(|version| format!(" {version}")).unwrap_or_default()
}

fn describe_ending(exit: &Exit) -> String {
    match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "exit status unknown".to_owned(),
    }
}

fn describe_stderr(exit: &Exit) -> String {
    let texts = std::iter::once(&exit.stderr).chain(&exit.errors).map(String::as_str);
    let texts: Vec<&str> = texts.filter(|text| !text.is_empty()).collect();
    if texts.is_empty() { "it reported no error; try `claude --version` by hand".to_owned() } else { texts.join("; ") }
}
