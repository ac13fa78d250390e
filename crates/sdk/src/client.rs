//! A live session, and how to get one.

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
/// Its methods can be called from several tasks at once. Dropping it ends the session at once, with
/// everything the CLI has started; [`Client::close`] ends it in good order.
#[derive(Debug)]
pub struct Client {
    commands: mpsc::Sender<Envelope>,
    exit: watch::Receiver<Option<Exit>>,
    cli: CliInfo,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// The CLI was not started.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The id of a new session is taken.
    #[error("the session id {id} is already in use; resume that session, or choose another id")]
    SessionIdInUse {
        /// The id.
        id: String,
    },
    /// There is no such session.
    #[error(
        "there is no session {id} to resume for this working directory; check the id and the directory (one without a message is not stored: start a new one)"
    )]
    UnknownSession {
        /// The id.
        id: String,
    },
    /// The CLI is older than any that works.
    #[error(
        "the Claude Code CLI is version {found}, and at least {MINIMUM_CLI_VERSION} is needed; update it with `claude update`"
    )]
    TooOld {
        /// Its version.
        found: String,
    },
    /// The CLI does not know a flag.
    #[error("the Claude Code CLI{} does not know a flag it was given: {stderr}; drop that option, or update the CLI with `claude update`", describe_version(.version.as_deref()))]
    UnknownFlag {
        /// Its version, if it says one.
        version: Option<String>,
        /// What it said.
        stderr: String,
    },
    /// Bypassing permissions as root.
    #[error(
        "the Claude Code CLI will not bypass permissions for root; run as another user, or set IS_SANDBOX=1 inside a sandbox"
    )]
    BypassAsRoot,
    /// The CLI ended before it was ready.
    #[error("the Claude Code CLI ended before it was ready ({}): {}", describe_ending(.exit), describe_stderr(.exit))]
    Exited {
        /// How.
        exit: Exit,
    },
    /// The CLI was silent.
    #[error("the Claude Code CLI did not answer within {within:?} and was ended; try `claude --version` by hand")]
    Silent {
        /// For how long.
        within: Duration,
    },
    /// The prompt of a query cannot be sent.
    #[error("the prompt was refused: {0}")]
    Prompt(Refusal),
    /// The CLI refused what the session was to be set up with.
    #[error("the Claude Code CLI would not set the session up: {0}")]
    SetupRefused(RequestFailure),
}

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The session refused it; nothing was changed.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The session has ended.
    #[error("the session has ended")]
    Ended,
}

/// Why a request has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It was not sent.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The CLI said no, or went away.
    #[error(transparent)]
    Failed(#[from] RequestFailure),
}

impl Client {
    /// Starts the CLI and waits until it is ready. Of the events that come with the client, what hooks did while it
    /// started may come before [`watari_protocol::Event::Ready`].
    pub async fn connect(options: Options) -> Result<(Client, Events), ConnectError> {
        // Nobody gives up, so there is a session or an error.
        let ended = || ConnectError::Exited { exit: Exit::default() };
        // Boxed, so that those who connect in a future of their own do not carry it.
        Box::pin(Client::connect_unless(options, std::future::pending())).await?.ok_or_else(ended)
    }

    /// As [`Client::connect`], until `give_up` is ready: then the CLI is ended, and this returns `None` when nothing of the
    /// session is left. Dropping this future ends the session too, but nobody knows when that is done.
    pub async fn connect_unless(
        options: Options,
        give_up: impl Future<Output = ()>,
    ) -> Result<Option<(Client, Events)>, ConnectError> {
        let (sink, events) = event_queue();
        let (opening, running) = open(options, sink).await?;
        #[expect(
            clippy::disallowed_methods,
            reason = "it ends by itself when the client is dropped or closed, which waits for its last word; it must not be aborted while it ends the CLI"
        )]
        let _task = tokio::spawn(running);
        let client = opening.ready_unless(give_up).await?;
        Ok(client.map(|client| (client, events)))
    }

    pub(crate) fn new(commands: mpsc::Sender<Envelope>, exit: watch::Receiver<Option<Exit>>, cli: CliInfo) -> Client {
        Client { commands, exit, cli }
    }

    /// What the CLI said of itself when it started.
    pub fn cli(&self) -> &CliInfo {
        &self.cli
    }

    /// Asks the model something. While a turn runs, the prompt waits for its own.
    pub async fn send(&self, prompt: impl Into<Prompt>) -> Result<PromptId, CommandError> {
        match self.command(Command::Prompt(prompt.into())).await? {
            CommandReply::Accepted(Accepted::Prompt(id)) => Ok(id),
            CommandReply::Accepted(Accepted::Done | Accepted::Request(_)) | CommandReply::Reply(_) => {
                Err(CommandError::Ended)
            }
        }
    }

    /// Ends the running turn; prompts that wait still run.
    pub async fn interrupt(&self) -> Result<InterruptReceipt, RequestError> {
        self.interrupt_with(Command::Interrupt { cancel_queued: false }).await
    }

    /// Ends the running turn and drops the prompts that wait.
    pub async fn interrupt_all(&self) -> Result<InterruptReceipt, RequestError> {
        self.interrupt_with(Command::Interrupt { cancel_queued: true }).await
    }

    /// Answers an ask. The first answer counts; a later one is refused.
    pub async fn answer(&self, ask: AskId, answer: Answer) -> Result<(), CommandError> {
        self.command(Command::Answer { ask, answer, by: None }).await.map(drop)
    }

    /// Changes the model, from the next call to the API on; none means the CLI's own choice.
    pub async fn set_model(&self, model: Option<&str>) -> Result<(), RequestError> {
        self.request(Request::SetModel(model.map(str::to_owned))).await.map(drop)
    }

    /// Changes how permissions are decided.
    pub async fn set_permission_mode(&self, mode: PermissionMode) -> Result<(), RequestError> {
        self.request(Request::SetPermissionMode(mode)).await.map(drop)
    }

    /// Asks the CLI for something, and waits at most a minute for its answer: its own fields, null when it has none.
    pub async fn request(&self, request: Request) -> Result<RawJson, RequestError> {
        match self.reply_to(request.into()).await? {
            RequestReply::Done(fields) => Ok(fields),
            RequestReply::Interrupted(receipt) => Ok(RawJson::of(&receipt)),
            RequestReply::Failed(failed) => Err(failed.into()),
        }
    }

    /// Ends the session in good order, and waits until nothing of it is left: the running turn is
    /// interrupted, the conversation is stored, and what does not end by itself is ended.
    pub async fn close(&self) -> Exit {
        self.end(Command::Close).await
    }

    /// Ends the session now, and waits until nothing of it is left. The CLI has half a second to store the
    /// conversation.
    pub async fn abort(&self) -> Exit {
        self.end(Command::Abort).await
    }

    /// A place in the queue of commands that is kept free, for a command that must not wait.
    pub(crate) fn reserve(&self) -> Option<OwnedPermit<Envelope>> {
        self.commands.clone().try_reserve_owned().ok()
    }

    async fn end(&self, command: Command) -> Exit {
        // Refused when the session has ended by itself; then how it ended is already known.
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
        (None, None) => "how is not known".to_owned(),
    }
}

fn describe_stderr(exit: &Exit) -> String {
    let said: Vec<&str> = std::iter::once(&exit.stderr).chain(&exit.errors).map(String::as_str).collect();
    let said: Vec<&str> = said.into_iter().filter(|words| !words.is_empty()).collect();
    if said.is_empty() { "it said nothing; try `claude --version` by hand".to_owned() } else { said.join("; ") }
}
