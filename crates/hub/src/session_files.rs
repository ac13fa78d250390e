//! What a host has of its session on disk, and nobody else while it has it: folder, locks, record and log.

mod find;
pub(crate) mod restore;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use watari_sdk::{AskedToolUses, SessionId};

use crate::folders::{self, Trouble};
use crate::key::Key;
use crate::lock::{self, ConversationLocks, Lock, LockError};
use crate::log::storage::Disk;
use crate::log::{AppendError, Log, OpenError, ReadError};
use crate::record::{self, Record, RecordError, State};
use crate::snapshot::Snapshot;
use find::Found;

/// The folders of this user's sessions.
#[derive(Debug, Clone)]
pub struct SessionDirs {
    /// What is kept.
    pub state: PathBuf,
    /// The sockets of those that live.
    pub runtime: PathBuf,
    /// Where the CLI stores conversations, if that is known: their locks are there.
    pub conversations: Option<PathBuf>,
}

/// Which conversation a host is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conversation {
    /// A new one, which gets this id.
    New(SessionId),
    /// One that the CLI has stored.
    Resumed(SessionId),
}

/// What a host has of its session.
#[derive(Debug)]
pub struct SessionFiles {
    pub(crate) home: SessionDirs,
    pub(crate) record: Record,
    pub(crate) log: Log,
    /// What the last host was killed in the middle of.
    pub(crate) left_open: Snapshot,
    /// The tool uses that the session was asked about.
    pub(crate) asked_tool_uses: AskedToolUses,
    /// What another program has done to the log since the last host, if it has.
    pub(crate) damage: Option<String>,
    /// How much was cut off the end of the log because it was no whole line.
    cut_bytes: u64,
    folder: PathBuf,
    /// True when Watari had no session of this conversation before.
    is_new: bool,
    /// True when Watari had a session of this conversation in this directory before.
    is_known_here: bool,
    /// True from when the folder was made to when the session begins: until then there is nothing to keep.
    discard_on_drop: bool,
    holder: String,
    lock: Lock,
    conversation_locks: ConversationLocks,
    /// None only while it is exchanged for another.
    conversation_lock: Option<Lock>,
}

/// Why a session cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum OpenSessionError {
    /// A folder cannot be used.
    #[error("{what}: {remedy}")]
    Folder {
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// Another host has it.
    #[error("the session {session_id} is in use by {holder}: connect to that, or end it first")]
    InUse {
        /// The conversation.
        session_id: String,
        /// Who has it.
        holder: String,
    },
    /// A lock cannot be had for another reason.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The record cannot be used.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// The log was changed by another program, and cannot be written again.
    #[error(transparent)]
    Restore(#[from] AppendError),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The sessions cannot be listed.
    #[error("cannot look for sessions in {}: {source}", .path.display())]
    List {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl SessionDirs {
    /// The folder of one session.
    fn session(&self, key: &Key) -> PathBuf {
        self.state.join("sessions").join(key.as_str())
    }

    /// Where the native socket of a session is.
    pub fn socket(&self, key: &Key) -> PathBuf {
        self.runtime.join(format!("{key}.sock"))
    }

    /// Where the locks of sockets are; those of conversations only if they cannot be beside these.
    pub fn locks(&self) -> PathBuf {
        self.state.join("locks")
    }

    /// The variable to set for another runtime folder.
    pub fn runtime_variable(&self) -> &'static str {
        folders::runtime_variable(&self.runtime, Some(&self.state))
    }

    /// Makes the folders, for this user alone.
    pub fn make(&self) -> Result<(), OpenSessionError> {
        make(&self.runtime, self.runtime_variable())?;
        make(&self.state, "XDG_STATE_HOME")?;
        make(&self.state.join("sessions"), "XDG_STATE_HOME")?;
        make(&self.locks(), "XDG_STATE_HOME")
    }
}

/// Looks at the record of a session. If it says that a host has it, and none has, that host was killed.
pub fn inspect(folder: &Path) -> Result<Record, RecordError> {
    let path = folder.join("record.json");
    let mut record = Record::read(&path)?;
    if record.state == State::Running
        && let Ok(_lock) = Lock::take(&folder.join("lock"), INSPECTING)
    {
        // Whoever had it may have ended it before we had the lock.
        record = Record::read(&path)?;
        if record.state == State::Running {
            record.state = State::Interrupted;
            record.write(&path)?;
        }
    }
    Ok(record)
}

fn make(folder: &Path, variable: &str) -> Result<(), OpenSessionError> {
    folders::make(folder).map_err(|trouble: Trouble| {
        let (what, remedy) = trouble.describe(folder, variable);
        OpenSessionError::Folder { what, remedy }
    })
}

impl SessionFiles {
    /// Takes a session for this process. `holder` is what others are told who want it too; `random` names a session that
    /// Watari has not had before.
    pub fn open(
        home: &SessionDirs,
        conversation: &Conversation,
        cwd: &Path,
        random: u64,
        holder: &str,
    ) -> Result<SessionFiles, OpenSessionError> {
        SessionFiles::open_on(Disk::Real, home, conversation, cwd, random, holder)
    }

    /// The same, with the log on another disk.
    pub(crate) fn open_on(
        disk: Disk,
        home: &SessionDirs,
        conversation: &Conversation,
        cwd: &Path,
        random: u64,
        holder: &str,
    ) -> Result<SessionFiles, OpenSessionError> {
        home.make()?;
        lock::remove_orphans(&home.locks());
        let conversation_locks = ConversationLocks::make(home.conversations.as_deref(), Some(&home.locks()));
        let (Conversation::New(session_id) | Conversation::Resumed(session_id)) = conversation;
        // First of all, so that no other host looks for the same one at the same time.
        let conversation_lock = lock_conversation(&conversation_locks, home, session_id.as_str(), holder)?;
        let found = match conversation {
            Conversation::New(_) => None,
            Conversation::Resumed(id) => home.find(id)?,
        };
        let (found, record_damage) = found.map_or((None, None), |Found { record, damage }| (Some(record), damage));
        let key = found.as_ref().map_or_else(|| Key::from_random(random), |record| record.key.clone());
        let folder = home.session(&key);
        let is_new = found.is_none();
        // A record that was made again from the log does not say where.
        let is_known_here = found.as_ref().is_some_and(|record| record.cwd == cwd || record.cwd.as_os_str().is_empty());
        make(&folder, "XDG_STATE_HOME")?;
        let lock = lock_session(&folder.join("lock"), holder).map_err(|error| in_use(session_id.as_str(), error))?;
        let mut record = found.unwrap_or_else(|| Record {
            version: record::VERSION,
            key,
            session_id: None,
            cwd: PathBuf::new(),
            started_ms: 0,
            state: State::Running,
            epochs: Vec::new(),
            epoch: 0,
            lost_through: None,
        });
        let epochs_before = record.epochs.last().map_or(0, |end| end.epoch).max(record.epoch);
        let (mut log, found) = Log::open_on(disk, &folder.join("events.jsonl"), epochs_before)?;
        let ((left_open, asked_tool_uses), damage) =
            restore::read_or_restore(&mut log, &mut record, &folder.join("record.json"))?;
        let damage = [record_damage, damage].into_iter().flatten().reduce(|one, other| format!("{one}; {other}"));
        record.session_id = Some(session_id.to_string());
        record.cwd = cwd.to_owned();
        record.started_ms = milliseconds_since_1970();
        Ok(SessionFiles {
            home: home.clone(),
            record,
            log,
            left_open,
            asked_tool_uses,
            damage,
            cut_bytes: found.cut_bytes,
            folder,
            is_new,
            is_known_here,
            discard_on_drop: is_new,
            holder: holder.to_owned(),
            lock,
            conversation_locks,
            conversation_lock: Some(conversation_lock),
        })
    }

    /// How many bytes its log may have. When it has them, the session waits as on a full disk.
    pub fn limit_log(&mut self, bytes_max: u64) {
        self.log.limit(bytes_max);
    }

    /// Notes that the session runs, once what was left open is ended: a host that is killed before that leaves it all to
    /// the next one.
    pub(crate) fn begin(&mut self) -> Result<(), RecordError> {
        self.record.state = State::Running;
        self.record.epoch = self.log.last().epoch;
        self.record.write(&self.folder.join("record.json"))?;
        self.discard_on_drop = false;
        Ok(())
    }

    /// The session never was one: nothing of it stays, unless there was one before.
    pub(crate) fn discard_if_new(&mut self) {
        self.discard_on_drop = self.is_new;
    }

    /// Whether Watari had a session of this conversation in this directory before. A CLI may look
    /// for a conversation only in the directory in which that was begun (2.1.42 does), so elsewhere it may have one.
    pub(crate) fn had_session_here(&self) -> bool {
        self.is_known_here
    }

    /// How much was cut off the end of the log because it was no whole line.
    pub fn cut_bytes(&self) -> u64 {
        self.cut_bytes
    }

    /// Why another process could drive the conversation too, if it could.
    pub fn lock_weakness(&self) -> Option<&str> {
        self.conversation_locks.weakness.as_deref()
    }

    /// Watari's own name of the session.
    pub fn key(&self) -> &Key {
        &self.record.key
    }

    /// The folder of the session.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The conversation has another id from now on. Nobody else may have that.
    pub(crate) fn change_conversation(&mut self, session_id: &str) -> Result<(), OpenSessionError> {
        if self.record.session_id.as_deref() == Some(session_id) {
            return Ok(());
        }
        match &mut self.conversation_lock {
            Some(lock) => {
                lock.move_to_conversation(session_id, &self.holder).map_err(|error| in_use(session_id, error))?;
            }
            None => {
                let lock = lock_conversation(&self.conversation_locks, &self.home, session_id, &self.holder)?;
                self.conversation_lock = Some(lock);
            }
        }
        self.record.session_id = Some(session_id.to_owned());
        self.record.write(&self.folder.join("record.json"))?;
        Ok(())
    }

    /// The lock of the conversation, for the supervisor of a CLI.
    pub(crate) fn share_lock(&mut self) -> Option<Arc<fs::File>> {
        self.conversation_lock.as_mut()?.share()
    }

    /// Notes that the session has ended in good order.
    pub(crate) fn close(&mut self) -> Result<(), RecordError> {
        self.record.epochs.push(self.log.last());
        self.record.state = State::Ended;
        self.record.write(&self.folder.join("record.json"))
    }
}

/// One that never began leaves nothing.
impl Drop for SessionFiles {
    fn drop(&mut self) {
        if self.discard_on_drop {
            // What cannot be removed is not a session either: it has no record.
            let _removed = fs::remove_dir_all(&self.folder);
        }
    }
}

/// What stands in the lock of a session while somebody looks at its record.
const INSPECTING: &str = "a look at the record";

/// How long a look may take before it is somebody who has the session.
const LOOKS_MAX: u32 = 1000;

/// Takes the lock of a session. One who only looks has it for a moment, and is waited for.
fn lock_session(path: &Path, holder: &str) -> Result<Lock, LockError> {
    let mut looks = 0;
    loop {
        match Lock::take(path, holder) {
            Err(LockError::Held { holder }) if holder == INSPECTING && looks < LOOKS_MAX => {
                looks += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            taken => return taken,
        }
    }
}

fn lock_conversation(
    locks: &ConversationLocks,
    home: &SessionDirs,
    session_id: &str,
    holder: &str,
) -> Result<Lock, OpenSessionError> {
    let folder = locks.folder.clone().unwrap_or_else(|| home.locks());
    Lock::of_conversation(&folder, session_id, holder).map_err(|error| in_use(session_id, error))
}

fn in_use(session_id: &str, error: LockError) -> OpenSessionError {
    match error {
        LockError::Held { holder } => OpenSessionError::InUse { session_id: session_id.to_owned(), holder },
        LockError::Io { .. } => error.into(),
    }
}

fn milliseconds_since_1970() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
