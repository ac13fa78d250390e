//! The files that a host owns exclusively while it runs a session: folder, locks, record and log.

mod find;
pub(crate) mod restore;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use watari_sdk::{AskedToolUses, Key, SessionId};

use crate::lock::{self, ConversationLocks, Lock, LockError};
use crate::log::storage::Disk;
use crate::log::{AppendError, Log, OpenError, ReadError};
use crate::record::{self, Record, RecordError, State};
use crate::snapshot::Snapshot;
use find::FoundSession;
use watari_sdk::files::folders::{self, FolderError};

/// The folders of this user's sessions.
#[derive(Debug, Clone)]
pub struct SessionDirs {
    /// Persistent files.
    pub state: PathBuf,
    /// The sockets of running sessions.
    pub runtime: PathBuf,
    /// Where the CLI stores conversations, if known: their locks are there.
    pub conversations: Option<PathBuf>,
}

/// The conversation of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conversation {
    /// A new conversation with this id.
    New(SessionId),
    /// A conversation that the CLI has stored.
    Resumed(SessionId),
}

/// The files of a session, open and locked for its host.
#[derive(Debug)]
pub struct SessionFiles {
    pub(crate) dirs: SessionDirs,
    pub(crate) record: Record,
    pub(crate) log: Log,
    /// What the last host left open when it was killed.
    pub(crate) left_open: Snapshot,
    /// The tool uses that the session had asks about.
    pub(crate) asked_tool_uses: AskedToolUses,
    /// What another program did to the record or the log since the last host, if anything.
    pub(crate) damage: Option<String>,
    /// How many bytes of an incomplete line were cut off the end of the log.
    cut_bytes: u64,
    folder: PathBuf,
    /// True if Watari had no session of this conversation before.
    is_new: bool,
    /// True if Watari had a session of this conversation in this directory before.
    is_known_here: bool,
    /// True for a new session until it begins: until then there is nothing to preserve.
    discard_on_drop: bool,
    holder: String,
    lock: Lock,
    conversation_locks: ConversationLocks,
    /// None only while it is replaced.
    conversation_lock: Option<Lock>,
}

/// Why a session cannot be opened.
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
    /// Another process has it.
    #[error("the session {session_id} is in use by {holder}: connect to that, or end it first")]
    InUse {
        /// The conversation.
        session_id: String,
        /// The process that has it.
        holder: String,
    },
    /// A lock cannot be taken for another reason.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The record cannot be used.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The log cannot be opened.
    #[error(transparent)]
    Log(#[from] OpenError),
    /// Another program changed the log, which cannot be restored.
    #[error(transparent)]
    Restore(#[from] AppendError),
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The sessions cannot be listed.
    #[error("cannot list the sessions in {}: {source}", .path.display())]
    List {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl SessionDirs {
    /// The folder of one session.
    fn session(&self, key: &Key) -> PathBuf {
        self.state.join("sessions").join(key.as_str())
    }

    /// The path of a session's native socket.
    pub fn socket(&self, key: &Key) -> PathBuf {
        self.runtime.join(format!("{key}.sock"))
    }

    /// The folder of the sockets' locks; conversation locks are here only if they cannot be beside the conversations.
    pub fn locks(&self) -> PathBuf {
        self.state.join("locks")
    }

    /// The environment variable that sets another runtime folder.
    pub fn runtime_variable(&self) -> &'static str {
        folders::runtime_variable(&self.runtime, Some(&self.state))
    }

    /// Creates the folders, for this user alone.
    pub fn make(&self) -> Result<(), OpenSessionError> {
        make(&self.runtime, self.runtime_variable())?;
        make(&self.state, "XDG_STATE_HOME")?;
        make(&self.state.join("sessions"), "XDG_STATE_HOME")?;
        make(&self.locks(), "XDG_STATE_HOME")
    }
}

/// Reads the record of a session. If the record says that a host runs, but none does, that host was killed: the record
/// is changed to say so.
pub fn read_and_mark_killed(folder: &Path) -> Result<Record, RecordError> {
    let path = folder.join("record.json");
    let mut record = Record::read(&path)?;
    if record.state == State::Running
        && let Ok(_lock) = Lock::take(&folder.join("lock"), INSPECTING)
    {
        // The host may have ended the session before we took the lock.
        record = Record::read(&path)?;
        if record.state == State::Running {
            record.state = State::HostKilled;
            record.write(&path)?;
        }
    }
    Ok(record)
}

fn make(folder: &Path, variable: &str) -> Result<(), OpenSessionError> {
    folders::make(folder).map_err(|trouble: FolderError| {
        let (what, remedy) = trouble.describe(folder, variable);
        OpenSessionError::Folder { what, remedy }
    })
}

impl SessionFiles {
    /// Opens a session for this process. `holder` is the description that other processes see; `random` makes the key
    /// if Watari has not had this session before.
    pub fn open(
        dirs: &SessionDirs,
        conversation: &Conversation,
        cwd: &Path,
        random: u64,
        holder: &str,
    ) -> Result<SessionFiles, OpenSessionError> {
        SessionFiles::open_on(Disk::Real, dirs, conversation, cwd, random, holder)
    }

    /// Like [`SessionFiles::open`], but the log is on the given disk.
    pub(crate) fn open_on(
        disk: Disk,
        dirs: &SessionDirs,
        conversation: &Conversation,
        cwd: &Path,
        random: u64,
        holder: &str,
    ) -> Result<SessionFiles, OpenSessionError> {
        dirs.make()?;
        lock::remove_orphans(&dirs.locks());
        let conversation_locks = ConversationLocks::make(dirs.conversations.as_deref(), Some(&dirs.locks()));
        let (Conversation::New(session_id) | Conversation::Resumed(session_id)) = conversation;
        // First of all, so that no other host searches for the same session at the same time.
        let conversation_lock = lock_conversation(&conversation_locks, dirs, session_id.as_str(), holder)?;
        let found_session = match conversation {
            Conversation::New(_) => None,
            Conversation::Resumed(id) => dirs.find(id)?,
        };
        let (found_record, record_damage) =
            found_session.map_or((None, None), |FoundSession { record, damage }| (Some(record), damage));
        let key = found_record.as_ref().map_or_else(|| Key::from_random(random), |record| record.key.clone());
        let folder = dirs.session(&key);
        let is_new = found_record.is_none();
        // A record that was rebuilt from the log does not have the directory.
        let is_known_here =
            found_record.as_ref().is_some_and(|record| record.cwd == cwd || record.cwd.as_os_str().is_empty());
        make(&folder, "XDG_STATE_HOME")?;
        let lock = lock_session(&folder.join("lock"), holder).map_err(|error| in_use(session_id.as_str(), error))?;
        let mut record = found_record.unwrap_or_else(|| Record {
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
        let (mut log, found_end) = Log::open_on(disk, &folder.join("events.jsonl"), epochs_before)?;
        let ((left_open, asked_tool_uses), damage) =
            restore::read_or_restore(&mut log, &mut record, &folder.join("record.json"))?;
        let damage = [record_damage, damage].into_iter().flatten().reduce(|one, other| format!("{one}; {other}"));
        record.session_id = Some(session_id.to_string());
        record.cwd = cwd.to_owned();
        record.started_ms = milliseconds_since_1970();
        Ok(SessionFiles {
            dirs: dirs.clone(),
            record,
            log,
            left_open,
            asked_tool_uses,
            damage,
            cut_bytes: found_end.cut_bytes,
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

    /// Sets the maximum size of the log. When it is reached, the session waits as on a full disk.
    pub fn limit_log(&mut self, bytes_max: u64) {
        self.log.set_limit(bytes_max);
    }

    /// Records that the session runs. The host calls this after it has closed what was left open: if it is killed
    /// before, the next host still finds what is open.
    pub(crate) fn record_running(&mut self) -> Result<(), RecordError> {
        self.record.state = State::Running;
        self.record.epoch = self.log.last().epoch;
        self.record.write(&self.folder.join("record.json"))?;
        self.discard_on_drop = false;
        Ok(())
    }

    /// Notes that the session never began: the drop removes its folder, unless the session existed before this host.
    pub(crate) fn discard_if_new(&mut self) {
        self.discard_on_drop = self.is_new;
    }

    /// Whether this conversation was hosted from this directory before. Only then does "unknown session" mean that the
    /// conversation is gone: some versions of the CLI (2.1.42) search for a conversation only in the directory in which
    /// it began.
    pub(crate) fn had_session_here(&self) -> bool {
        self.is_known_here
    }

    /// How many bytes of an incomplete line were cut off the end of the log.
    pub fn cut_bytes(&self) -> u64 {
        self.cut_bytes
    }

    /// Why the conversation is not locked, if it is not: another process could then drive it at the same time.
    pub fn missing_lock_reason(&self) -> Option<&str> {
        self.conversation_locks.missing_reason.as_deref()
    }

    /// Watari's key of the session.
    pub fn key(&self) -> &Key {
        &self.record.key
    }

    /// The folder of the session.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Changes the conversation's id, and moves the lock to it.
    pub(crate) fn change_conversation(&mut self, session_id: &str) -> Result<(), OpenSessionError> {
        if self.record.session_id.as_deref() == Some(session_id) {
            return Ok(());
        }
        match &mut self.conversation_lock {
            Some(lock) => {
                lock.move_to_conversation(session_id).map_err(|error| in_use(session_id, error))?;
            }
            None => {
                let lock = lock_conversation(&self.conversation_locks, &self.dirs, session_id, &self.holder)?;
                self.conversation_lock = Some(lock);
            }
        }
        self.record.session_id = Some(session_id.to_owned());
        self.record.write(&self.folder.join("record.json"))?;
        Ok(())
    }

    /// The lock of the conversation, for the CLI's supervisor.
    pub(crate) fn share_lock(&mut self) -> Option<Arc<fs::File>> {
        self.conversation_lock.as_mut()?.share()
    }

    /// Records that the host has ended normally.
    pub(crate) fn record_ended(&mut self) -> Result<(), RecordError> {
        self.record.epochs.push(self.log.last());
        self.record.state = State::Ended;
        self.record.write(&self.folder.join("record.json"))
    }
}

/// Removes the folder of a session that never began.
impl Drop for SessionFiles {
    fn drop(&mut self) {
        if self.discard_on_drop {
            // A folder that cannot be removed is not a session: it has no record.
            let _removed = fs::remove_dir_all(&self.folder);
        }
    }
}

/// The holder of a session's lock while its record is inspected.
const INSPECTING: &str = "an inspection of the record";

/// How many milliseconds an inspection may take; after that, the session counts as in use.
const INSPECTION_MILLISECONDS_MAX: u32 = 1000;

/// Takes the lock of a session. An inspection holds it for a moment, so this waits for it.
fn lock_session(path: &Path, holder: &str) -> Result<Lock, LockError> {
    let mut waited_milliseconds = 0;
    loop {
        match Lock::take(path, holder) {
            Err(LockError::Held { holder })
                if holder == INSPECTING && waited_milliseconds < INSPECTION_MILLISECONDS_MAX =>
            {
                waited_milliseconds += 1;
                std::thread::sleep(Duration::from_millis(1));
            }
            taken => return taken,
        }
    }
}

fn lock_conversation(
    locks: &ConversationLocks,
    dirs: &SessionDirs,
    session_id: &str,
    holder: &str,
) -> Result<Lock, OpenSessionError> {
    let folder = locks.folder.clone().unwrap_or_else(|| dirs.locks());
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
