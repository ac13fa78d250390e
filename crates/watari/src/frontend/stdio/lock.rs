//! The lock of the conversation that is driven here: every front end takes the same one, so that no two drive one.

use std::path::PathBuf;

use watari_hub::lock::{self, Lock, LockError};
use watari_sdk::files::folders;
use watari_sdk::{Options, Session, SessionId, resolve_continue};

use crate::command::complain;

/// The lock, of a conversation that is known or will be.
#[derive(Debug, Default)]
pub(super) struct ConversationLock {
    held: Option<Lock>,
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
        // In a thread of its own: the lock of a session that was just killed is waited for.
        let taking = tokio::task::spawn_blocking(move || {
            let mut lock = ConversationLock::default();
            if let Ok(locks) = locks_folder() {
                lock::remove_orphans(&locks);
            }
            match &id {
                Some(id) => lock.take(id)?,
                // Without it, the warning comes when the id is known.
                None => {
                    lock.held = locks_folder().ok().and_then(|locks| Lock::of_new_conversation(&locks, &holder()).ok())
                }
            }
            Ok::<_, String>(lock)
        });
        let mut lock = taking.await.map_err(|error| error.to_string())??;
        options.lock = lock.held.as_mut().and_then(Lock::share);
        Ok(lock)
    }

    /// Takes the lock of a conversation, and gives back that of the one before. An error is the refusal: another process
    /// has it. A lock folder that cannot be used is only a warning.
    pub(super) fn take(&mut self, id: &SessionId) -> Result<(), String> {
        if self.id.as_ref() == Some(id) {
            return Ok(());
        }
        let taken = match &mut self.held {
            Some(lock) => lock.move_to_conversation(id.as_str(), &holder()).map_err(Refusal::from),
            None => locks_folder().and_then(|locks| {
                self.held = Some(Lock::of_conversation(&locks, id.as_str(), &holder())?);
                Ok(())
            }),
        };
        match taken {
            Ok(()) => {}
            Err(Refusal::Held(holder)) => {
                return Err(format!("the session {id} is in use by {holder}: connect to that, or end it first"));
            }
            Err(Refusal::NoLock(why)) => {
                complain(&format!("warning: another process could drive the session {id} too: {why}"));
            }
        }
        self.id = Some(id.clone());
        Ok(())
    }
}

/// What others are told who want the same conversation.
fn holder() -> String {
    format!("watari stdio, process {}", std::process::id())
}

/// Why there is no lock.
enum Refusal {
    Held(String),
    NoLock(String),
}

impl From<LockError> for Refusal {
    fn from(error: LockError) -> Refusal {
        match error {
            LockError::Held { holder } => Refusal::Held(holder),
            LockError::Io { .. } => Refusal::NoLock(error.to_string()),
        }
    }
}

/// The folder with the locks of conversations, made if it is not there.
fn locks_folder() -> Result<PathBuf, Refusal> {
    let state = folders::state_folder(|name| std::env::var_os(name));
    let nowhere = || Refusal::NoLock("there is no place for its lock: set HOME, or XDG_STATE_HOME".to_owned());
    let locks = state.ok_or_else(nowhere)?.join("locks");
    folders::make(&locks).map_err(|trouble| {
        let (what, remedy) = trouble.words(&locks, "XDG_STATE_HOME");
        Refusal::NoLock(format!("{what}; {remedy}"))
    })?;
    Ok(locks)
}
