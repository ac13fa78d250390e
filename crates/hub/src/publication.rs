//! The events of the host itself, in the same format and the same log as the session's events.

use serde::Serialize;
use watari_sdk::Event;

use crate::key::Key;

/// Something that happened to a session's host.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
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
        version: &'static str,
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
        /// The sequence number of the last lost event.
        through: u64,
    },
    /// The CLI wrote more unparsable lines in one turn than the log stores. These lines were only counted.
    UnparsedLinesOmitted {
        /// The number of lines.
        lines: u64,
        /// Their size in bytes.
        bytes: u64,
    },
    /// The host cannot store events, for example because the disk is full, or another program removed a lock of the
    /// session and another process has taken it. The session waits.
    StorageFailed {
        /// The reason, and what to do.
        message: String,
    },
    /// The host can store events again.
    StorageRecovered,
    /// The replay to this client is complete: live events follow. Do not prompt the user before this event.
    CaughtUp,
}

/// The types of the ephemeral events, of the session and of its host. They are broadcast, not stored, and have no
/// position of their own.
pub const EPHEMERAL_TYPES: [&str; 6] =
    ["block_delta", "tool_progressed", "thinking_counted", "storage_failed", "storage_recovered", "caught_up"];

/// An event of the session or of its host, to be published.
#[derive(Debug)]
pub(crate) enum Publication {
    Event(Event),
    Host(HostEvent),
}

impl From<Event> for Publication {
    fn from(event: Event) -> Publication {
        Publication::Event(event)
    }
}

impl From<HostEvent> for Publication {
    fn from(event: HostEvent) -> Publication {
        Publication::Host(event)
    }
}

impl Publication {
    /// Whether the event is broadcast without being stored.
    pub(crate) fn is_ephemeral(&self) -> bool {
        match self {
            Publication::Event(event) => {
                matches!(event, Event::BlockDelta { .. } | Event::ToolProgressed { .. } | Event::ThinkingCounted { .. })
            }
            Publication::Host(event) => {
                matches!(event, HostEvent::StorageFailed { .. } | HostEvent::StorageRecovered | HostEvent::CaughtUp)
            }
        }
    }

    /// Appends the event as a JSON object.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        // Writing to memory does not fail, and all keys are strings.
        let _written = match self {
            Publication::Event(event) => serde_json::to_writer(out, event),
            Publication::Host(event) => serde_json::to_writer(out, event),
        };
    }

    pub(crate) fn weight_bytes(&self) -> usize {
        match self {
            Publication::Event(event) => event.weight_bytes(),
            Publication::Host(_) => size_of::<Publication>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use watari_sdk::{BlockId, Delta, ToolUseId};

    use super::*;

    #[test]
    fn ephemeral_events_are_known_by_their_type() {
        let (message, tool_use) = (String::new(), ToolUseId("t".into()));
        let ephemeral: [Publication; 6] = [
            Event::BlockDelta { block: BlockId(1), at: 0, delta: Delta::Text("a".into()) }.into(),
            Event::ToolProgressed { tool_use, tool: "Bash".into(), elapsed_seconds: 30.0 }.into(),
            Event::ThinkingCounted { tokens: 7 }.into(),
            HostEvent::StorageFailed { message: message.clone() }.into(),
            HostEvent::StorageRecovered.into(),
            HostEvent::CaughtUp.into(),
        ];
        let types = ephemeral.map(|publication| {
            let mut text = Vec::new();
            publication.write(&mut text);
            let event: serde_json::Value = serde_json::from_slice(&text).unwrap();
            (event["type"].as_str().unwrap().to_owned(), publication.is_ephemeral())
        });
        assert_eq!(types, EPHEMERAL_TYPES.map(|name| (name.to_owned(), true)));
        let durable: [Publication; 2] = [Event::BecameIdle.into(), HostEvent::StartFailed { message }.into()];
        assert!(durable.iter().all(|publication| !publication.is_ephemeral()));
    }
}
