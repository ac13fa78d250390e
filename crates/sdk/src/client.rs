//! A live session, and how to start one.

use std::future::Future;
use std::time::Duration;

use tokio::sync::mpsc::OwnedPermit;
use tokio::sync::{mpsc, oneshot, watch};
use watari_protocol::{
    Accepted, Answer, AskId, CliInfo, Command, Exit, InterruptReceipt, PermissionMode, Prompt, PromptId, RawJson,
    Refusal, Request, RequestFailure, RequestReply,
};

use crate::driver::{CommandReply, Envelope, WaitsFor};
use crate::opening::open;
use crate::options::Options;
use crate::process::StartError;
use crate::sink::{Events, event_queue};

pub use crate::version::MINIMUM_CLI_VERSION;

/// A live session with Claude Code.
///
/// Its methods can be called from several tasks at once. Dropping it terminates the session's process tree
/// immediately; [`Client::close`] ends the session in order.
#[derive(Debug)]
pub struct Client {
    commands: mpsc::Sender<Envelope>,
    exit: watch::Receiver<Option<Exit>>,
    cli: CliInfo,
}

/// Why a session could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The CLI was not started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The id of a new session is already in use.
    #[error("the session id {id} is already in use; resume that session, or choose another id")]
    SessionIdInUse {
        /// The id.
        id: String,
    },
    /// The session to resume does not exist.
    #[error(
        "there is no session {id} to resume in this working directory; check the id and the directory (a session without messages is not stored: start a new one)"
    )]
    UnknownSession {
        /// The id.
        id: String,
    },
    /// The CLI is older than [`MINIMUM_CLI_VERSION`].
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
        exit: Exit,
    },
    /// The CLI did not become ready in time, and was terminated.
    #[error("the Claude Code CLI did not answer within {within:?} and was terminated; try `claude --version` by hand")]
    Silent {
        /// The time limit.
        within: Duration,
    },
    /// The prompt of a query was refused.
    #[error("the prompt was refused: {0}")]
    Prompt(Refusal),
    /// The CLI refused the `initialize` request.
    #[error("the Claude Code CLI refused to set up the session: {0}")]
    SetupRefused(RequestFailure),
}

/// Why a command did not take effect.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The session refused it; nothing changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It was not sent.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The CLI refused it, or exited.
    #[error(transparent)]
    Failed(#[from] RequestFailure),
}

impl Client {
    /// Starts the CLI and waits until it is ready. Events of startup hooks may come before
    /// [`watari_protocol::Event::Ready`].
    pub async fn connect(options: Options) -> Result<(Client, Events), ConnectError> {
        // `give_up` is never ready, so there is a session or an error.
        let ended = || ConnectError::Exited { exit: Exit::default() };
        // Boxed, so that the caller's future stays small.
        Box::pin(Client::connect_or_cancel(options, std::future::pending())).await?.ok_or_else(ended)
    }

    /// As [`Client::connect`], until `give_up` is ready: then it terminates the CLI, and returns `None` when no process
    /// of the session is left. Dropping this future terminates the session too, but does not report when that is done.
    pub async fn connect_or_cancel(
        options: Options,
        give_up: impl Future<Output = ()>,
    ) -> Result<Option<(Client, Events)>, ConnectError> {
        let (sink, events) = event_queue();
        let (opening, running) = open(options, sink).await?;
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends by itself when the client is dropped or closed, and closing waits for its exit; it must not be aborted while it terminates the CLI"
        )]
        let _task = tokio::spawn(running);
        let client = opening.ready_unless(give_up).await?;
        Ok(client.map(|client| (client, events)))
    }

    pub(crate) fn new(commands: mpsc::Sender<Envelope>, exit: watch::Receiver<Option<Exit>>, cli: CliInfo) -> Client {
        Client { commands, exit, cli }
    }

    /// What the CLI reported about itself when it started.
    pub fn cli(&self) -> &CliInfo {
        &self.cli
    }

    /// Sends a prompt to the model. While a turn runs, the prompt waits.
    pub async fn send(&self, prompt: impl Into<Prompt>) -> Result<PromptId, CommandError> {
        match self.command(Command::Prompt(prompt.into())).await? {
            CommandReply::Accepted(Accepted::Prompt(id)) => Ok(id),
            CommandReply::Accepted(Accepted::Done | Accepted::Request(_)) | CommandReply::Reply(_) => {
                Err(CommandError::Ended)
            }
        }
    }

    /// Interrupts the running turn; waiting prompts still run.
    pub async fn interrupt(&self) -> Result<InterruptReceipt, RequestError> {
        self.interrupt_with(Command::Interrupt { cancel_queued: false }).await
    }

    /// Interrupts the running turn and drops the waiting prompts.
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

    /// Sends a request to the CLI and waits for the answer, at most a minute. Returns the answer's fields as the CLI
    /// sent them, or null if it has none.
    pub async fn request(&self, request: Request) -> Result<RawJson, RequestError> {
        match self.reply_to(request.into()).await? {
            RequestReply::Done(fields) => Ok(fields),
            RequestReply::Interrupted(receipt) => Ok(RawJson::of(&receipt)),
            RequestReply::Failed(failed) => Err(failed.into()),
        }
    }

    /// Ends the session in order, and waits until no process of it is left: the running turn is interrupted, the
    /// conversation is stored, and processes that do not exit by themselves are killed.
    pub async fn close(&self) -> Exit {
        self.end(Command::Close).await
    }

    /// Terminates the session now, and waits until no process of it is left. The CLI has half a second to store
    /// the conversation.
    pub async fn abort(&self) -> Exit {
        self.end(Command::Abort).await
    }

    /// Reserves a place in the command queue, for a command that must not wait.
    pub(crate) fn reserve(&self) -> Option<OwnedPermit<Envelope>> {
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
        let envelope = Envelope { command, waits_for: WaitsFor::Reply, answer };
        self.commands.send(envelope).await.map_err(|_| CommandError::Ended)?;
        Ok(answered.await.map_err(|_| CommandError::Ended)??)
    }
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
