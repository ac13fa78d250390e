//! The lock of the conversation that is driven here: every front end takes the same one, so that no two drive one.

use std::path::PathBuf;

use watari_hub::lock::{self, Lock, LockError};
use watari_sdk::files::folders;
use watari_sdk::{Options, Session, SessionId, resolve_continue};

use crate::command::complain;

/// The lock, once the conversation is known.
#[derive(Debug, Default)]
pub(super) struct ConversationLock {
    held: Option<(SessionId, Lock)>,
}

impl ConversationLock {
    /// Takes the lock of a session before anything is started for it, so that nothing of a session that is refused reaches
    /// the CLI. A fork only reads the conversation that it comes from. The id that the CLI gives a new conversation is
    /// nobody else's.
    pub(super) async fn take_before(&mut self, options: &mut Options) -> Result<(), String> {
        resolve_continue(options).await.map_err(|error| error.to_string())?;
        match &options.session {
            Session::NewWithId(id) | Session::Resume(id) | Session::ResumeAt { session: id, .. } => self.take(id),
            Session::Fork { into: Some(id), .. } => self.take(id),
            Session::New | Session::Fork { into: None, .. } => Ok(()),
            Session::Continue => Err("the latest conversation is not known; this is a mistake in watari".to_owned()),
        }
    }

    /// Takes the lock of a conversation, and gives back that of the one before. An error is the refusal: another process
    /// has it. A lock folder that cannot be used is only a warning.
    pub(super) fn take(&mut self, id: &SessionId) -> Result<(), String> {
        if self.held.as_ref().is_some_and(|(held, _)| held == id) {
            return Ok(());
        }
        let lock = locks_folder().and_then(|locks| {
            let holder = format!("watari stdio, process {}", std::process::id());
            Lock::of_conversation(&locks, id.as_str(), &holder).map_err(|error| match error {
                LockError::Held { holder } => Refusal::Held(holder),
                LockError::Io { .. } => Refusal::NoLock(error.to_string()),
            })
        });
        match lock {
            Ok(lock) => {
                self.held = Some((id.clone(), lock));
                Ok(())
            }
            Err(Refusal::Held(holder)) => {
                Err(format!("the session {id} is in use by {holder}: connect to that, or end it first"))
            }
            Err(Refusal::NoLock(why)) => {
                complain(&format!("warning: another process could drive the session {id} too: {why}"));
                Ok(())
            }
        }
    }
}

/// Why there is no lock.
enum Refusal {
    Held(String),
    NoLock(String),
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
    lock::remove_orphans(&locks);
    Ok(locks)
}
