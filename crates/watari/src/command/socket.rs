//! `watari socket`: one session on a UNIX socket, which continues when its clients disconnect.

mod detached;
mod options;
mod untrusted;

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tokio::task::JoinSet;
use tracing::level_filters::LevelFilter;
use watari_hub::{Conversation, SessionDirs, SessionFiles, host};
use watari_sdk::{Options, PermissionMode, SessionId, session_id_as_stored};

use super::{StallOptions, StopSignals, adopt_orphans, fail, print_error, print_stdout, whole_number};
use crate::frontend::unix::{self, Listeners};
use crate::host_log;
use detached::StartOutcome;

/// Serve one session on a UNIX socket, one JSON object per line; it continues when clients disconnect.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Socket {
    /// Working directory of Claude Code
    #[arg(long, value_name = "DIR", default_value = ".")]
    cwd: PathBuf,
    /// Path of the socket [default: RUNTIME/KEY.agent.sock, which is printed]
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Resume the conversation with this id
    #[arg(long, value_name = "SESSION_ID")]
    resume: Option<SessionId>,
    /// Path of the Claude Code to start [default: the first `claude` in PATH or in the usual install folders]
    #[arg(long, value_name = "PATH")]
    claude: Option<PathBuf>,
    /// Model [default: from Claude Code's settings]
    #[arg(long)]
    model: Option<String>,
    /// Permission mode: default, acceptEdits, plan, dontAsk, auto or bypassPermissions [default: from Claude Code's
    /// settings]
    #[arg(long, value_name = "MODE")]
    permission_mode: Option<PermissionMode>,
    /// Allow bypassPermissions, the mode that runs everything without asking; only in a sandbox
    #[arg(long)]
    allow_bypass: bool,
    /// Deny unanswered approval requests after SECONDS (0 = never)
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = whole_number, allow_negative_numbers = true)]
    permission_timeout: u32,
    /// MCP servers: a file, or JSON such as {"mcpServers": {…}}
    #[arg(long, value_name = "FILE|JSON")]
    mcp_config: Option<String>,
    /// Run nothing that the directory configures without your approval: read no settings, start no MCP servers except
    /// those of --mcp-config and of the clients, and run no git
    #[arg(long)]
    untrusted: bool,
    /// Exit after SECONDS without a connected client, a running turn or background work [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = whole_number, allow_negative_numbers = true)]
    idle_exit: Option<u32>,
    /// When the event log reaches this many MiB, pause the session and refuse messages and answers; to continue, end
    /// the session and resume it with a higher limit (0 = no limit)
    #[arg(long, value_name = "MIB", default_value_t = 4096, value_parser = whole_number, allow_negative_numbers = true)]
    event_log_limit: u32,
    #[command(flatten)]
    stalls: StallOptions,
    /// Path of the host's log file [default: STATE/sessions/KEY/host.log]
    #[arg(long, value_name = "PATH")]
    log: Option<PathBuf>,
    /// Log level: error, warn, info or debug
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: LevelFilter,
    /// Run in the background: when the session is ready, print its key, and the socket's path on standard error, and
    /// return
    #[arg(long)]
    detach: bool,
    /// Marks the host that --detach starts
    #[arg(long, hide = true)]
    detached: bool,
}

const AFTER_HELP: &str = "\
Several clients can connect at any time. Each first reads
  {\"type\":\"init\",\"session_id\":\"…\"}
To send a prompt, write {\"type\":\"message\",\"text\":\"What is in this folder?\"}. To answer an approval_request, write
{\"type\":\"approve\",\"request_id\":\"…\"} or {\"type\":\"deny\",…}; the first answer counts. To replay missed events after
a reconnect, write {\"type\":\"hello\",\"since\":\"3:17\"}, where since is the seq of the last line that you have; lines have
a seq after the first hello. SIGTERM ends the session; --resume continues it.

KEY is Watari's name of the session. STATE is $XDG_STATE_HOME/watari or ~/.local/state/watari. RUNTIME is
$XDG_RUNTIME_DIR/watari or STATE/run. Events are stored in STATE/sessions/KEY, readable only by this user. A second
socket, RUNTIME/KEY.sock, has other messages: see `watari schema native`.

Exit codes: 0 the session was ended, 1 it could not start or failed (standard error says why), 2 the command line is
wrong.

Examples:
  watari socket --cwd ~/project --socket /tmp/agent-socket-1.sock
  watari socket --cwd ~/project --detach    # run in the background
  watari socket --cwd ~/project --resume 3447b64d-2090-41fe-b1dc-65114ad62db4";

impl Socket {
    pub(crate) fn run(self: Box<Socket>) -> ExitCode {
        if self.detach {
            return detached::start();
        }
        adopt_orphans();
        let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => return fail(&format!("cannot start: {error}")),
        };
        let is_detached = self.detached;
        if is_detached {
            detached::leave_terminal();
        }
        // A task, like the session itself: the runtime switches between tasks without polling the system.
        let hosted = runtime.spawn(async move { self.host().await });
        match runtime.block_on(hosted) {
            Ok(Ok(())) => ExitCode::SUCCESS,
            Ok(Err(why)) => {
                if is_detached {
                    tracing::error!("{why}");
                }
                print_error(&why);
                ExitCode::FAILURE
            }
            Err(panic) => fail(&format!("panicked: {panic}")),
        }
    }

    async fn host(mut self: Box<Socket>) -> Result<(), String> {
        let mut signals = StopSignals::listen();
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let cwd = self.cwd.canonicalize().map_err(|error| format!("cannot use {}: {error}", self.cwd.display()))?;
        let options = options::session(&mut self, cwd.clone())?;
        let home = home(&options)?;
        let conversation = match self.resume.take() {
            Some(id) => Conversation::Resumed(session_id_as_stored(&options, &id)),
            None => Conversation::New(new_session_id()?),
        };
        let holder = format!("watari socket, process {}", std::process::id());
        let mut files =
            SessionFiles::open(&home, &conversation, &cwd, random_u64(), &holder).map_err(|error| text(&error))?;
        files.limit_log(match u64::from(self.event_log_limit) {
            0 => u64::MAX,
            limit => limit * 1024 * 1024,
        });
        let log = match self.log.take() {
            Some(path) => host_log::LogPath::Named(path),
            None => host_log::LogPath::Default(files.folder().join("host.log")),
        };
        let cannot_log = format!("cannot log to {}", log.path().display());
        host_log::begin(log, self.log_level).map_err(|error| format!("{cannot_log}: {error}"))?;
        if files.cut_bytes() > 0 {
            tracing::warn!(bytes = files.cut_bytes(), "the event log ended in an incomplete line, which was removed");
        }
        if let Some(why) = files.missing_lock_reason() {
            let warning = format!("another process could drive the session too: {why}");
            tracing::warn!("{warning}");
            print_error(&format!("warning: {warning}"));
        }
        let key = files.key().clone();
        let chosen = || Ok(home.runtime.join(format!("{key}.agent.sock")));
        let socket = self.socket.as_deref().map_or_else(chosen, std::path::absolute).map_err(|error| text(&error))?;
        let lock = unix::lock(&home.locks(), &socket, &holder).map_err(|error| text(&error))?;
        let idle_exit = self.idle_exit.map(|seconds| Duration::from_secs(seconds.into()));
        let listeners = Listeners::open(&home, &key, &socket, lock, idle_exit).map_err(|error| text(&error))?;
        let (Conversation::New(id) | Conversation::Resumed(id)) = &conversation;
        tracing::info!(%key, session = %id, socket = %socket.display(), cwd = %cwd.display(), "the host started");
        let (host, handle, stopper) = host(files, conversation, options).map_err(|error| text(&error))?;
        if !self.detached {
            announce(&socket);
        }
        let (mut state, mut storage) = (handle.state(), handle.storage_failure());
        let (mut hosting, mut serving) = (JoinSet::new(), JoinSet::new());
        // A separate task, so that signals do not wake it.
        hosting.spawn(host.run());
        serving.spawn(listeners.serve(handle, stopper.clone()));
        let (mut is_reported, mut not_stored) = (!self.detached, None);
        let ended = loop {
            tokio::select! {
                // Each may be dropped half-way: the host continues, and what has arrived stays pending.
                Some(ended) = hosting.join_next() => break ended,
                () = detached::starter_exited(), if !is_reported => {
                    is_reported = true;
                    stopper.stop(STARTER_EXITED);
                }
                // A second signal skips the waits before SIGKILL.
                () = signals.received() => stopper.stop_or_abort("the host received a signal to stop"),
                started = detached::started(&mut state, &mut storage), if !is_reported => {
                    is_reported = true;
                    match started {
                        StartOutcome::Ready => if !detached::ready(&key, &socket) {
                            stopper.stop(STARTER_EXITED);
                        },
                        StartOutcome::LogUnavailable(why) => {
                            stopper.stop(NOT_STORED);
                            not_stored = Some(why);
                        }
                        // The result of the host says why.
                        StartOutcome::Ended => {}
                    }
                }
            }
        };
        // Let the clients read their last lines.
        let served = async { while serving.join_next().await.is_some() {} };
        tokio::select! {
            // Both may be dropped half-way: the remaining clients are disconnected when the program exits.
            () = served => {}
            () = signals.received() => tracing::warn!("received a second signal: clients may not have read their last lines"),
        }
        tracing::info!("the host ended");
        match ended {
            Ok(ended) => match not_stored {
                Some(why) => Err(format!("{NOT_STORED}: {why}; fix that and start it again")),
                None => ended.map_err(|error| text(&error)),
            },
            Err(panic) => Err(format!("panicked: {panic}")),
        }
    }
}

/// Why a background host stops when the process that started it has exited.
const STARTER_EXITED: &str = "the process that started it exited before the session was ready";

/// Why a background host stops when it cannot store the first events of its session. No command was acknowledged yet.
const NOT_STORED: &str = "the session was not started, because its events cannot be stored";

/// Prints the path of the socket.
fn announce(socket: &Path) {
    // Not every path is UTF-8, so its bytes are printed. If they cannot be, the host still serves its clients.
    let _written = print_stdout(&[socket.as_os_str().as_encoded_bytes(), b"\n"].concat());
}

/// The folders of this user's sessions.
fn home(options: &Options) -> Result<SessionDirs, String> {
    let variable = |name: &str| std::env::var_os(name);
    let state = watari_hub::folders::state_folder(variable);
    let runtime = watari_hub::folders::runtime_folder(variable);
    match (state, runtime) {
        (Some(state), Some(runtime)) => {
            Ok(SessionDirs { state, runtime, conversations: watari_sdk::conversations_folder(options) })
        }
        _ => Err("there is no folder for session files: set HOME or XDG_STATE_HOME to an absolute path".to_owned()),
    }
}

/// A random number: the standard library seeds its hash maps with random numbers.
fn random_u64() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// The id of a new conversation: a random UUID.
fn new_session_id() -> Result<SessionId, String> {
    let (high, low) = (random_u64(), random_u64());
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
