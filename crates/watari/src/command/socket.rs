//! `watari socket`: one session on a UNIX socket, which stays when its clients leave.

mod detached;
mod options;
mod untrusted;

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tokio::task::JoinSet;
use tracing::level_filters::LevelFilter;
use watari_hub::{Conversation, Home, Kept, host};
use watari_sdk::{Options, PermissionMode, SessionId, stored_spelling};

use super::{StallOptions, StopSignals, complain, fail, mention};
use crate::frontend::unix::{self, Doors};
use crate::host_log;
use detached::Started;

/// Hold one session on a UNIX socket, one JSON object a line; it stays when its clients leave.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Socket {
    /// The directory that Claude Code works in
    #[arg(long, value_name = "DIR", default_value = ".")]
    cwd: PathBuf,
    /// Where to listen; otherwise a place is chosen and printed
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Go on with this conversation
    #[arg(long, value_name = "SESSION_ID")]
    resume: Option<SessionId>,
    /// The Claude Code to start; otherwise the first that is found
    #[arg(long, value_name = "PATH")]
    claude: Option<PathBuf>,
    /// The model; otherwise what the settings say
    #[arg(long)]
    model: Option<String>,
    /// What is asked about before it runs: default, acceptEdits, plan, dontAsk, auto or bypassPermissions; otherwise what the
    /// settings say
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<PermissionMode>,
    /// Allow the mode in which everything runs without a question; only in a sandbox
    #[arg(long)]
    allow_bypass: bool,
    /// After how many seconds an approval request that nobody answers is a no; 0 means never
    #[arg(long, value_name = "SECONDS", default_value_t = 300)]
    permission_timeout: u32,
    /// MCP servers: a file, or JSON such as {"mcpServers": {…}}
    #[arg(long, value_name = "FILE|JSON")]
    mcp_config: Option<String>,
    /// Run nothing that the directory names: read no settings, start no MCP server but those given here, and run no
    /// git
    #[arg(long)]
    untrusted: bool,
    /// End when no client was connected and nothing ran, in a turn or in the background, for SECONDS; otherwise never
    #[arg(long, value_name = "SECONDS")]
    idle_exit: Option<u32>,
    /// Stop the session when its log of events has this many MiB, until it is resumed with a higher limit (0 = no limit)
    #[arg(long, value_name = "MIB", default_value_t = 4096)]
    event_log_limit: u32,
    #[command(flatten)]
    stalls: StallOptions,
    /// Where to write what happens to the host; otherwise beside the session's events
    #[arg(long, value_name = "PATH")]
    log: Option<PathBuf>,
    /// How much of it: error, warn, info or debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: LevelFilter,
    /// Go to the background when the session is ready, and print its key
    #[arg(long)]
    detach: bool,
    /// What --detach starts
    #[arg(long, hide = true)]
    detached: bool,
}

const AFTER_HELP: &str = "\
Clients connect when they like, several at once, and read
  {\"type\":\"init\",\"session_id\":\"…\"}
first. A line such as {\"type\":\"message\",\"text\":\"What is in this folder?\"} asks, and {\"type\":\"approve\",
\"request_id\":\"…\"} or {\"type\":\"deny\",…} answers an approval_request; the first answer counts. A client that comes
back with {\"type\":\"hello\",\"since\":\"3:17\"} gets everything it has missed. SIGTERM ends the session; it can be
resumed by its id. Beside this socket there is one that speaks Watari's own events: watari schema native.

What happened is kept in $XDG_STATE_HOME/watari/sessions/KEY (otherwise ~/.local/state/watari), for this user alone.

Exit codes: 0 the session was ended, 1 there is none (why stands on standard error), 2 the command line is wrong.

Examples:
  watari socket --cwd ~/project --socket /tmp/agent-socket-1.sock
  watari socket --cwd ~/project --detach          # prints the key; goes on in the background
  watari socket --cwd ~/project --resume 3447b64d-2090-41fe-b1dc-65114ad62db4";

impl Socket {
    pub(crate) fn run(self: Box<Socket>) -> ExitCode {
        if self.detach {
            return detached::start();
        }
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return fail(&format!("cannot start: {error}")),
        };
        let is_detached = self.detached;
        if is_detached {
            detached::leave_terminal();
        }
        // A task like the session's own: the one runs right after the other, without a look at the system between.
        let hosted = runtime.spawn(async move { self.host().await });
        match runtime.block_on(hosted) {
            Ok(Ok(())) => ExitCode::SUCCESS,
            Ok(Err(why)) => {
                if is_detached {
                    tracing::error!("{why}");
                }
                complain(&why);
                ExitCode::FAILURE
            }
            Err(panic) => fail(&format!("broke off: {panic}")),
        }
    }

    async fn host(mut self: Box<Socket>) -> Result<(), String> {
        let mut signals = StopSignals::listen();
        let words = |error: &dyn std::fmt::Display| error.to_string();
        let cwd = self.cwd.canonicalize().map_err(|error| format!("cannot use {}: {error}", self.cwd.display()))?;
        let options = options::session(&mut self, cwd.clone())?;
        let home = home(&options)?;
        let conversation = match self.resume.take() {
            Some(id) => Conversation::Resumed(stored_spelling(&options, &id)),
            None => Conversation::New(new_session_id()?),
        };
        let holder = format!("watari socket, process {}", std::process::id());
        let mut kept = Kept::open(&home, &conversation, &cwd, chance(), &holder).map_err(|error| words(&error))?;
        kept.limit_log(match u64::from(self.event_log_limit) {
            0 => u64::MAX,
            limit => limit * 1024 * 1024,
        });
        let log = match self.log.take() {
            Some(path) => host_log::Place::Named(path),
            None => host_log::Place::Own(kept.folder().join("host.log")),
        };
        let cannot_log = format!("cannot log to {}", log.path().display());
        host_log::begin(log, self.log_level).map_err(|error| format!("{cannot_log}: {error}"))?;
        if kept.cut_bytes() > 0 {
            tracing::warn!(bytes = kept.cut_bytes(), "the end of the events was broken off and is cut");
        }
        if let Some(why) = kept.lock_weakness() {
            let warning = format!("another process could drive the session too: {why}");
            tracing::warn!("{warning}");
            complain(&format!("warning: {warning}"));
        }
        let key = kept.key().clone();
        let chosen = || Ok(home.runtime.join(format!("{key}.agent.sock")));
        let socket = self.socket.as_deref().map_or_else(chosen, std::path::absolute).map_err(|error| words(&error))?;
        let lock = unix::lock(&home.locks(), &socket, &holder).map_err(|error| words(&error))?;
        let idle_exit = self.idle_exit.map(|seconds| Duration::from_secs(seconds.into()));
        let doors = Doors::open(&home, &key, &socket, lock, idle_exit).map_err(|error| words(&error))?;
        let (Conversation::New(id) | Conversation::Resumed(id)) = &conversation;
        tracing::info!(%key, session = %id, socket = %socket.display(), cwd = %cwd.display(), "a host has started");
        let (host, handle, stopper) = host(kept, conversation, options).map_err(|error| words(&error))?;
        if !self.detached {
            announce(&socket);
        }
        let (mut state, mut storage) = (handle.state(), handle.storage());
        let (mut hosting, mut serving) = (JoinSet::new(), JoinSet::new());
        // A task of its own, which is woken by the CLI and not by signals.
        hosting.spawn(host.run());
        serving.spawn(doors.serve(handle, stopper.clone()));
        let (mut is_told, mut not_stored) = (!self.detached, None);
        let ended = loop {
            tokio::select! {
                // All may be dropped half-way: the host goes on, and what has come stays.
                Some(ended) = hosting.join_next() => break ended,
                () = detached::starter_went(), if !is_told => {
                    is_told = true;
                    stopper.stop(STARTER_WENT);
                }
                // The second shortens every wait to the kill.
                () = signals.heard() => stopper.insist("the host was told to end"),
                started = detached::started(&mut state, &mut storage), if !is_told => {
                    is_told = true;
                    match started {
                        Started::Ready => if !detached::ready(&key, &socket) {
                            stopper.stop(STARTER_WENT);
                        },
                        Started::NotStored(why) => {
                            stopper.stop(NOT_STORED);
                            not_stored = Some(why);
                        }
                        // How it ended says why.
                        Started::Ended => {}
                    }
                }
            }
        };
        // What the clients were told they should also have read.
        let served = async { while serving.join_next().await.is_some() {} };
        tokio::select! {
            // Both may be dropped half-way: who is still served is let go with the program.
            () = served => {}
            () = signals.heard() => tracing::warn!("told to end again: clients may not have read their last lines"),
        }
        tracing::info!("the host has ended");
        match ended {
            Ok(ended) => match not_stored {
                Some(why) => Err(format!("{NOT_STORED}: {why}; put that right, and start it again")),
                None => ended.map_err(|error| words(&error)),
            },
            Err(panic) => Err(format!("broke off: {panic}")),
        }
    }
}

/// Why a host in the background ends that nobody waits for.
const STARTER_WENT: &str = "whoever started it went away before it was ready";

/// Why a host in the background ends that cannot store how its session starts. Nobody was promised anything yet.
const NOT_STORED: &str = "the session was not started, because its events cannot be stored";

/// Says where the socket is.
fn announce(socket: &Path) {
    // If nobody reads it, whoever connects knows.
    // As it is: not every path is UTF-8.
    let _written = mention(&[socket.as_os_str().as_encoded_bytes(), b"\n"].concat());
}

/// The folders of this user's sessions.
fn home(options: &Options) -> Result<Home, String> {
    let variable = |name: &str| std::env::var_os(name);
    let state = watari_hub::folders::state_folder(variable);
    let runtime = watari_hub::folders::runtime_folder(variable);
    match (state, runtime) {
        (Some(state), Some(runtime)) => {
            Ok(Home { state, runtime, conversations: watari_sdk::conversations_folder(options) })
        }
        _ => {
            Err("there is no place for what is kept of sessions: set HOME or XDG_STATE_HOME to an absolute path"
                .to_owned())
        }
    }
}

/// A number that nobody else has drawn: the standard library seeds its hash maps with such numbers.
fn chance() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// The id of a new conversation: a UUID of chance.
fn new_session_id() -> Result<SessionId, String> {
    let (high, low) = (chance(), chance());
    let text = format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        0x8000 | (low >> 48) & 0x3fff,
        low & 0xffff_ffff_ffff
    );
    SessionId::parse(&text).map_err(|error| error.to_string())
}
