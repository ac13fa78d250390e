//! The events of the host itself, in the same format and the same log as the session's events, and the host's state.

use serde::{Deserialize, Serialize, Serializer};

use crate::json::TagWriter;
use crate::key::Key;

/// Something that happened to a session's host.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(tag = "type", !remote))]
#[serde(remote = "Self", rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum HostEvent {
    /// A host has opened the session. If an earlier host was killed, the new one first publishes the events that close
    /// what was left open (blocks, asks, prompts, the CLI), and then this event.
    HostStarted {
        /// Watari's key of the session.
        key: Key,
        /// The CLI's id of the conversation.
        session_id: String,
        /// The session's working directory.
        cwd: String,
        /// The version of Watari.
        version: String,
    },
    /// The CLI could not be started. The next prompt tries again, unless this was the host's first start of the CLI:
    /// then the host stops.
    StartFailed {
        /// The reason, and what to do.
        message: String,
    },
    /// The conversation could not be resumed, because the CLI has not stored it. It begins again,
    /// empty: normally under the same id, otherwise `session_opened` reports another.
    ContextLost {
        /// The conversation that was lost.
        session_id: String,
    },
    /// The host stops and closes the session. The session can be resumed later.
    HostStopping {
        /// The reason.
        reason: String,
    },
    /// Another program deleted, shortened or changed the session's log file. The host has restored it.
    LogRestored {
        /// What happened to the file, and whether events were lost.
        message: String,
    },
    /// The events from the position of this event to `through` are lost: another program removed them from the log. A
    /// replay has this event instead of them. Clients that were connected when those events were published have
    /// received them.
    EventsLost {
        /// The number of the last lost event: the part of its position after the colon.
        through: u64,
    },
    /// The CLI wrote more unparsable lines in one turn than the log stores. These lines were only counted.
    UnparsedLinesOmitted {
        /// The number of lines.
        lines: u64,
        /// Their size in bytes.
        bytes: u64,
    },
    /// The host cannot store events, for example because the disk is full, so the session waits.
    StorageFailed {
        /// The reason, and what to do.
        message: String,
    },
    /// The host can store events again.
    StorageRecovered,
    /// The replay to this client is complete: live events follow. Do not prompt the user before this event.
    CaughtUp,
}

/// An event is one object, with its `type` first.
impl Serialize for HostEvent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        HostEvent::serialize(self, TagWriter::new(serializer))
    }
}

/// The state of a session, as its events show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum SessionState {
    /// The CLI is starting.
    Starting,
    /// No turn runs and no prompt waits.
    Idle,
    /// A turn runs.
    Running,
    /// No CLI runs; the next prompt restarts it.
    Down,
}
