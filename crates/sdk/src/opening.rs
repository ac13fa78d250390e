//! Opens a session: starts the CLI, and waits until it is ready or reports why it is not.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use watari_protocol::{Config, Exit, ExitReason, Machine, SessionId, StartFailure, prompt_entry_prefix, start_failure};

use crate::argv;
use crate::client::ConnectError;
use crate::commands::CommandQueue;
use crate::driver::{Driven, Driver};
use crate::latest;
use crate::options::{Options, PermissionPrompts, StartFrom};
use crate::probe::InstalledCli;
use crate::process::{self, StartError};
use crate::sink::Sink;
use crate::transcript::TranscriptWatch;
use crate::version::is_too_old;

/// How long a form of an MCP server may stay unanswered in a program that is not asked for permissions. Such a program
/// may not expect asks at all, and would wait forever.
const FORM_ANSWERED_WITHIN: Duration = Duration::from_secs(10 * 60);

/// Starts the CLI with a sink of the caller, for a host. The sink receives each event before the lines that the event
/// causes are written to the CLI. Other programs use [`crate::Client::connect`].
pub async fn open<S: Sink>(mut options: Options, sink: S) -> Result<Session<S>, StartError> {
    let start_timeout = options.start_timeout.unwrap_or(Duration::from_secs(60));
    latest::resolve_start_from(&mut options).await?;
    let config = config(&options, start_timeout);
    let watari_prompts = prompt_entry_prefix(config.uuid_seed);
    let started = process::start(&options).await?;
    let probe = InstalledCli::of(&started);
    let machine = Machine::start(config, Instant::now());
    let place = argv::transcript_place(&started.environment, &started.directory);
    let transcript = TranscriptWatch::new(place, watari_prompts, resumed(&options.start_from));
    Ok(Session { driver: Driver::new(machine, started, transcript, sink), options, start_timeout, probe })
}

/// A session whose CLI was started and may not be ready yet. It does nothing before [`Session::run`].
pub struct Session<S: Sink> {
    driver: Driver<S>,
    options: Options,
    start_timeout: Duration,
    probe: InstalledCli,
}

impl<S: Sink> Session<S> {
    /// Runs the session until no process of it is left: poll it to its end, and do not drop it earlier. It receives its
    /// commands from the queue. If the CLI does not become ready, the result is the reason, and the commands that waited
    /// for the CLI are still in the queue.
    pub async fn run(self, commands: &mut CommandQueue<S::Ticket>) -> Result<(), ConnectError> {
        let Session { driver, options, start_timeout, probe } = self;
        match driver.run(commands).await {
            Driven { was_ready: true, .. } => Ok(()),
            Driven { too_old: Some(found), .. } => Err(ConnectError::TooOld { found }),
            Driven { exit, .. } => Err(explain(exit, &options, start_timeout, &probe).await),
        }
    }
}

/// Returns the conversation whose transcript exists before the CLI is started and is continued by this session.
fn resumed(session: &StartFrom) -> Option<SessionId> {
    match session {
        StartFrom::Resume(id) | StartFrom::ResumeAt { conversation: id, .. } => Some(id.clone()),
        StartFrom::New | StartFrom::NewWithId(_) | StartFrom::Fork { .. } | StartFrom::Continue => None,
    }
}

fn config(options: &Options, start_timeout: Duration) -> Config {
    let answer_timeout = match options.permission_prompts {
        PermissionPrompts::Ask { answer_timeout } => answer_timeout,
        PermissionPrompts::Deny | PermissionPrompts::DenyAlsoElicitations | PermissionPrompts::Tool(_) => {
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
        answer_timeout,
        start_timeout,
        allow_bypass: argv::allows_bypass(options),
        watchdog: options.watchdog,
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

/// Explains why a CLI exited before it was ready, from what it reported.
async fn explain(exit: Exit, options: &Options, within: Duration, probe: &InstalledCli) -> ConnectError {
    match exit.reason {
        ExitReason::StartTimedOut => return ConnectError::StartTimedOut { within },
        ExitReason::StartRefused(refusal) => return ConnectError::SetupRefused(refusal),
        // Nobody needs to know more, and nothing of the session may be started any more.
        ExitReason::Requested => return ConnectError::Exited { exit: Box::new(exit) },
        ExitReason::ServerNameConflict
        | ExitReason::Unresponsive { .. }
        | ExitReason::OwnerKilled
        | ExitReason::ByItself => {}
        #[cfg(not(feature = "exhaustive"))]
        _ => {}
    }
    match (start_failure(&exit), &options.start_from) {
        (StartFailure::SessionIdInUse, StartFrom::NewWithId(id) | StartFrom::Fork { into: Some(id), .. }) => {
            ConnectError::SessionIdInUse { id: id.to_string() }
        }
        (
            StartFailure::UnknownSession,
            StartFrom::Resume(id) | StartFrom::Fork { from: id, .. } | StartFrom::ResumeAt { conversation: id, .. },
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
            config(&Options { permission_prompts, ..Options::default() }, Duration::ZERO).answer_timeout
        };
        assert_eq!(limit(PermissionPrompts::Ask { answer_timeout: None }), None);
        assert_eq!(limit(PermissionPrompts::Deny), Some(FORM_ANSWERED_WITHIN));
    }
}
