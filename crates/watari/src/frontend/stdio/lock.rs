//! The lock of the conversation that is driven here: every front end takes the same one, so that no two drive one.

use watari_hub::lock::{ConversationLocks, Lock, LockError};
use watari_sdk::files::folders;
use watari_sdk::{Options, Session, SessionId, conversations_folder, resolve_continue, threads};

use crate::command::protocol_error;

/// The lock, of a conversation that is known or will be.
#[derive(Debug, Default)]
pub(super) struct ConversationLock {
    held: Option<Lock>,
    locks: ConversationLocks,
    id: Option<SessionId>,
}

impl ConversationLock {
    /// Takes the lock of a session before anything is started for it, so that nothing of a session that is refused reaches
    /// the CLI, and hands it to the supervisor too. A fork only reads the conversation that it comes from. The id that the
    /// CLI gives a new conversation is nobody else's.
    pub(super) async fn take_before(options: &mut Options) -> Result<ConversationLock, String> {
        resolve_continue(options).await.map_err(|error| error.to_string())?;
        let id = match &options.session {
            Session::NewWithId(id) | Session::Resume(id) | Session::ResumeAt { session: id, .. } => Some(id.clone()),
            Session::Fork { into, .. } => into.clone(),
            Session::New => None,
            Session::Continue => {
                return Err("the latest conversation is not known; this is a mistake in watari".to_owned());
            }
        };
        let conversations = conversations_folder(options);
        // In a thread of its own: the lock of a session that was just killed is waited for.
        let taking = threads::run(move || {
            let state_locks = folders::state_folder(|name| std::env::var_os(name)).map(|state| state.join("locks"));
            let locks = ConversationLocks::make(conversations.as_deref(), state_locks.as_deref());
            let mut lock = ConversationLock { locks, ..ConversationLock::default() };
            match (&id, &lock.locks.folder) {
                (Some(id), _) => lock.take(id)?,
                // Without it, the warning comes when the id is known.
                (None, Some(locks)) => lock.held = Lock::of_new_conversation(locks, &holder()).ok(),
                (None, None) => {}
            }
            Ok::<_, String>(lock)
        });
        let mut lock = taking.await.ok_or("taking the lock broke off; this is a mistake in watari")??;
        options.lock = lock.held.as_mut().and_then(Lock::share);
        Ok(lock)
    }

    /// Takes the lock of a conversation, and gives back that of the one before. An error is the refusal: another process
    /// has it. A lock folder that cannot be used is only a warning.
    pub(super) fn take(&mut self, id: &SessionId) -> Result<(), String> {
        if self.id.as_ref() == Some(id) {
            return Ok(());
        }
        let taken = match (&mut self.held, &self.locks.folder) {
            (Some(lock), _) => lock.move_to_conversation(id.as_str(), &holder()),
            (None, Some(locks)) => {
                Lock::of_conversation(locks, id.as_str(), &holder()).map(|lock| self.held = Some(lock))
            }
            (None, None) => Ok(()),
        };
        let weakness = match taken {
            Ok(()) => self.locks.weakness.take(),
            Err(LockError::Held { holder }) => {
                return Err(format!("the session {id} is in use by {holder}: connect to that, or end it first"));
            }
            Err(error @ LockError::Io { .. }) => Some(error.to_string()),
        };
        if let Some(why) = weakness {
            protocol_error(&format!("warning: another process could drive the session {id} too: {why}"));
        }
        self.id = Some(id.clone());
        Ok(())
    }
}

/// What others are told who want the same conversation.
fn holder() -> String {
    format!("watari stdio, process {}", std::process::id())
}
