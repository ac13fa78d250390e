//! The lock of the conversation. Every front end takes the same lock, so that only one process drives a conversation.

use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior, interval};
use watari_hub::lock::{ConversationLocks, Lock, LockError};
use watari_sdk::files::folders;
use watari_sdk::{Options, RefusalCode, SessionId, StartFrom, conversations_folder, resolve_start_from, threads};

use super::StdioSession;
use crate::command::print_error;
use crate::dialect::bridge::Incoming;
use crate::dialect::speaker::ProtocolError;

/// The lock of a conversation whose id is known now or later.
#[derive(Debug, Default)]
pub(super) struct ConversationLock {
    held: Option<Lock>,
    locks: ConversationLocks,
    id: Option<SessionId>,
    /// Whether the last attempt to restore it has failed.
    is_lost: bool,
}

/// How often it is checked that no other program has removed the lock.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

impl ConversationLock {
    /// Takes the lock before the CLI is started, so that nothing of a refused session reaches the CLI, and shares it
    /// with the supervisor. Only the conversation that will be written is locked: for a fork the copy, not the original.
    /// A conversation whose id is not known yet gets a provisional lock.
    pub(super) async fn take_before(options: &mut Options) -> Result<ConversationLock, String> {
        resolve_start_from(options).await.map_err(|error| error.to_string())?;
        let id = match &options.start_from {
            StartFrom::NewWithId(id) | StartFrom::Resume(id) | StartFrom::ResumeAt { conversation: id, .. } => {
                Some(id.clone())
            }
            StartFrom::Fork { into, .. } => into.clone(),
            StartFrom::New => None,
            StartFrom::Continue => {
                return Err("the latest conversation is not known; this is a bug in watari".to_owned());
            }
        };
        let conversations = conversations_folder(options);
        // In a thread, because it waits for the lock of a session that was just killed.
        let taking = threads::run(move || {
            let state_locks = folders::state_folder(|name| std::env::var_os(name)).map(|state| state.join("locks"));
            let locks = ConversationLocks::make(conversations.as_deref(), state_locks.as_deref());
            let mut lock = ConversationLock { locks, ..ConversationLock::default() };
            match (&id, &lock.locks.folder) {
                (Some(id), _) => lock.take(id)?,
                // If it cannot be taken, the warning follows when the id is known.
                (None, Some(locks)) => lock.held = Lock::of_new_conversation(locks, &holder()).ok(),
                (None, None) => {}
            }
            Ok::<_, String>(lock)
        });
        let mut lock = taking.await.ok_or("taking the lock stopped unexpectedly; this is a bug in watari")??;
        options.lock = lock.held.as_mut().and_then(Lock::share);
        Ok(lock)
    }

    /// Takes the lock of a conversation, and releases that of the previous one. An error means that another process
    /// holds the lock. An unusable lock folder is only a warning.
    pub(super) fn take(&mut self, id: &SessionId) -> Result<(), String> {
        if self.id.as_ref() == Some(id) {
            return Ok(());
        }
        let taken = match (&mut self.held, &self.locks.folder) {
            (Some(lock), _) => lock.move_to_conversation(id.as_str()),
            (None, Some(locks)) => {
                Lock::of_conversation(locks, id.as_str(), &holder()).map(|lock| self.held = Some(lock))
            }
            (None, None) => Ok(()),
        };
        let missing_reason = match taken {
            Ok(()) => self.locks.missing_reason.take(),
            Err(LockError::Held { holder }) => {
                return Err(format!("the session {id} is in use by {holder}: connect to that, or end it first"));
            }
            Err(error @ LockError::Io { .. }) => Some(error.to_string()),
        };
        if let Some(why) = missing_reason {
            print_error(&format!("warning: another process could drive the session {id} too: {why}"));
        }
        self.id = Some(id.clone());
        Ok(())
    }
}

impl StdioSession {
    /// Restores the lock if another program has removed it. If another process has taken it meanwhile, the client is
    /// told once.
    pub(super) fn check_lock(&mut self) {
        let was_lost = self.lock.is_lost;
        let lost = self.lock.restore();
        self.send_error(lost.filter(|_| !was_lost).map(in_use));
    }
}

/// The error while another process drives the conversation.
fn in_use(message: String) -> ProtocolError {
    ProtocolError::refused(RefusalCode::ConversationInUse, message)
}

impl ConversationLock {
    /// Returns why a message is refused, if another process has taken the lock. It can still end its turn or its session.
    pub(super) fn refusal_of(&mut self, incoming: &Incoming) -> Option<ProtocolError> {
        let lost = in_use(self.restore()?);
        match incoming {
            Incoming::Start { .. }
            | Incoming::UserMessage(_)
            | Incoming::PermissionResponse { .. }
            | Incoming::SetModel(_)
            | Incoming::SetPermissionMode(_)
            | Incoming::RegisterTools(_)
            | Incoming::ToolCallResult { .. } => Some(lost),
            Incoming::Interrupt { .. } | Incoming::Abort => None,
        }
    }

    /// Restores the lock if another program has removed it; says which process has taken it meanwhile. If it cannot be
    /// restored for another reason, that is only a warning.
    fn restore(&mut self) -> Option<String> {
        let restored = self.locks.restore(self.held.as_mut()?);
        let was_lost = std::mem::replace(&mut self.is_lost, restored.is_err());
        match restored {
            Ok(_) => None,
            Err(LockError::Held { holder }) => {
                let session = self.id.as_ref().map_or_else(String::new, |id| format!(" {id}"));
                Some(format!(
                    "another program removed the lock of the session{session}, which is now in use by {holder}: no \
                     message is accepted until that has ended"
                ))
            }
            Err(error @ LockError::Io { .. }) => {
                if !was_lost {
                    print_error(&format!("warning: another process could drive the session too: {error}"));
                }
                None
            }
        }
    }
}

/// The times at which the lock is checked.
pub(super) fn lock_checks() -> Interval {
    let mut checks = interval(CHECKED_EVERY);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    checks
}

/// The name that other processes report as the holder of the lock.
fn holder() -> String {
    format!("watari stdio, process {}", std::process::id())
}
