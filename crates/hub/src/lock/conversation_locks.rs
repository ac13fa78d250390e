//! The folder of conversation locks. It is beside the conversations, so that every process that can drive a
//! conversation finds its lock, whatever its state folder is.

use std::path::{Path, PathBuf};

use watari_sdk::CONFIG_DIR_VARIABLE;
use watari_sdk::files::folders::{self, STATE_VARIABLE};

use super::orphans::remove_orphans;
use super::{Lock, LockError};

/// The folder of locks, inside the folder in which the CLI stores conversations.
const NAME: &str = ".watari-locks";

/// A folder for the locks of conversations.
#[derive(Debug, Clone, Default)]
pub struct ConversationLocks {
    /// None if no folder can be used.
    pub folder: Option<PathBuf>,
    /// Why no folder can be used, and what to do.
    pub missing_reason: Option<String>,
    /// Where the CLI stores conversations, and the folder to use if that cannot be used.
    candidates: (Option<PathBuf>, Option<PathBuf>),
}

impl ConversationLocks {
    /// Creates the folder, and removes the orphaned locks in it. `conversations` is where the CLI stores conversations;
    /// if that cannot be used, `state_locks` is better than none.
    pub fn make(conversations: Option<&Path>, state_locks: Option<&Path>) -> ConversationLocks {
        let candidates = (conversations.map(Path::to_owned), state_locks.map(Path::to_owned));
        let beside = conversations.map(|conversations| conversations.join(NAME));
        let mut missing_reason = None;
        for (folder, variable) in [(beside, CONFIG_DIR_VARIABLE), (candidates.1.clone(), STATE_VARIABLE)] {
            let made = folder.ok_or_else(nowhere).and_then(|folder| made(folder, variable));
            match made {
                Ok(folder) => {
                    remove_orphans(&folder);
                    if let Some(why) = missing_reason {
                        // Processes with the same state folder find the lock here. Those with another are detected by
                        // what they write.
                        tracing::info!(folder = %folder.display(), "using the state folder for conversation locks: {why}");
                    }
                    return ConversationLocks { folder: Some(folder), missing_reason: None, candidates };
                }
                // The first reason says how to use the better folder.
                Err(why) => drop(missing_reason.get_or_insert(why)),
            }
        }
        ConversationLocks { folder: None, missing_reason, candidates }
    }

    /// If another program has removed a lock in this folder, or the folder, restores it, and returns true. If another
    /// process has taken the lock meanwhile, fails.
    pub fn restore(&mut self, lock: &mut Lock) -> Result<bool, LockError> {
        if lock.is_in_place() {
            return Ok(false);
        }
        let (conversations, state_locks) = &self.candidates;
        *self = ConversationLocks::make(conversations.as_deref(), state_locks.as_deref());
        let folder = self.folder.as_deref().or(lock.path.parent()).map(Path::to_owned);
        folder.map_or(Ok(false), |folder| lock.restore(&folder))
    }
}

fn made(folder: PathBuf, variable: &str) -> Result<PathBuf, String> {
    folders::make(&folder).map_err(|trouble| {
        let (what, remedy) = trouble.describe(&folder, variable);
        format!("{what}; {remedy}")
    })?;
    Ok(folder)
}

fn nowhere() -> String {
    format!("there is no place for its lock: set HOME to an absolute path, or {CONFIG_DIR_VARIABLE}")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn locks_are_beside_the_conversations_or_else_in_the_state_folder() {
        let root = tempfile::tempdir().unwrap();
        let (projects, state) = (root.path().join("config/projects"), root.path().join("state/locks"));
        let locks = ConversationLocks::make(Some(&projects), Some(&state));
        assert_eq!((locks.folder, locks.missing_reason), (Some(projects.join(NAME)), None));
        assert!(!state.exists());
        fs::remove_dir(projects.join(NAME)).unwrap();
        fs::write(projects.join(NAME), "not a folder").unwrap();
        let locks = ConversationLocks::make(Some(&projects), Some(&state));
        assert_eq!((locks.folder, locks.missing_reason), (Some(state), None));
        let nothing_else = ConversationLocks::make(Some(&projects), None);
        let why = nothing_else.missing_reason.unwrap();
        assert!(why.contains("is not a folder; move it away, or set CLAUDE_CONFIG_DIR"), "{why}");
        let nowhere = ConversationLocks::make(None, None);
        assert!(nowhere.folder.is_none() && nowhere.missing_reason.unwrap().starts_with("there is no place"));
    }
}
