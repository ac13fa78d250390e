//! What a host tells beside what happens in the session: its own events, in the same words and the same log.

use serde::Serialize;
use watari_sdk::Event;

use crate::key::Key;

/// Something that happened to the host of a session.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum HostEvent {
    /// A host has taken the session up. What an earlier one was killed in the middle of was ended before.
    HostStarted {
        /// Watari's own name of the session.
        key: Key,
        /// The CLI's id of the conversation.
        session_id: String,
        /// The directory it works in.
        cwd: String,
        /// The version of Watari.
        version: &'static str,
    },
    /// The CLI could not be started again. The next prompt tries anew.
    StartFailed {
        /// Why, and what to do.
        message: String,
    },
    /// The conversation could not be taken up again: the CLI has nothing of it. What comes is a new one.
    ContextLost {
        /// The conversation that is gone.
        session_id: String,
    },
    /// The host ends, and the session with it; it can be resumed.
    HostStopping {
        /// Why.
        reason: String,
    },
    /// Something happened to the session's log file: it was deleted, shortened or written to by another program. The host
    /// has written the log again.
    LogRestored {
        /// What happened, and whether events were lost by it.
        message: String,
    },
    /// The events from this number on are lost: another program removed them from the log. This stands in their place in a
    /// replay; clients that were connected when they happened have received them.
    EventsLost {
        /// The last number that is lost.
        through: u64,
    },
    /// The CLI wrote more lines that are not messages than are stored for one turn: these were only counted.
    UnparsedLinesOmitted {
        /// How many lines.
        lines: u64,
        /// How many bytes they had.
        bytes: u64,
    },
    /// Events cannot be stored, so the session waits. Not numbered.
    StorageFull {
        /// What the matter is, and what to do.
        message: String,
    },
    /// Events can be stored again. Not numbered.
    StorageRecovered,
    /// All that there was has been told to this client: what comes now happens now. Not numbered.
    CaughtUp,
}

/// The types of those events, of the session and of its host, that are told to whoever listens and not kept. They have no
/// number.
pub const EPHEMERAL_TYPES: [&str; 6] =
    ["block_delta", "tool_progressed", "thinking_counted", "storage_full", "storage_recovered", "caught_up"];

/// What is told.
#[derive(Debug)]
pub(crate) enum Published {
    Event(Event),
    Host(HostEvent),
}

impl From<Event> for Published {
    fn from(event: Event) -> Published {
        Published::Event(event)
    }
}

impl From<HostEvent> for Published {
    fn from(event: HostEvent) -> Published {
        Published::Host(event)
    }
}

impl Published {
    /// Whether it is told to those who listen and not kept.
    pub(crate) fn is_ephemeral(&self) -> bool {
        match self {
            Published::Event(event) => {
                matches!(event, Event::BlockDelta { .. } | Event::ToolProgressed { .. } | Event::ThinkingCounted { .. })
            }
            Published::Host(event) => {
                matches!(event, HostEvent::StorageFull { .. } | HostEvent::StorageRecovered | HostEvent::CaughtUp)
            }
        }
    }

    /// Adds its text, a JSON object.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        // Writing to memory does not fail, and none of them has keys that are no text.
        let _written = match self {
            Published::Event(event) => serde_json::to_writer(out, event),
            Published::Host(event) => serde_json::to_writer(out, event),
        };
    }

    pub(crate) fn weight_bytes(&self) -> usize {
        match self {
            Published::Event(event) => event.weight_bytes(),
            Published::Host(_) => size_of::<Published>(),
        }
    }
}

#[cfg(test)]
mod tests {
    use watari_sdk::{BlockId, Delta, ToolUseId};

    use super::*;

    #[test]
    fn what_is_fleeting_is_known_by_its_type() {
        let (message, tool_use) = (String::new(), ToolUseId("t".into()));
        let ephemeral_line: [Published; 6] = [
            Event::BlockDelta { block: BlockId(1), at: 0, delta: Delta::Text("a".into()) }.into(),
            Event::ToolProgressed { tool_use, tool: "Bash".into(), elapsed_seconds: 30.0 }.into(),
            Event::ThinkingCounted { tokens: 7 }.into(),
            HostEvent::StorageFull { message: message.clone() }.into(),
            HostEvent::StorageRecovered.into(),
            HostEvent::CaughtUp.into(),
        ];
        let types = ephemeral_line.map(|published| {
            let mut text = Vec::new();
            published.write(&mut text);
            let event: serde_json::Value = serde_json::from_slice(&text).unwrap();
            (event["type"].as_str().unwrap().to_owned(), published.is_ephemeral())
        });
        assert_eq!(types, EPHEMERAL_TYPES.map(|name| (name.to_owned(), true)));
        let kept: [Published; 2] = [Event::BecameIdle.into(), HostEvent::StartFailed { message }.into()];
        assert!(kept.iter().all(|published| !published.is_ephemeral()));
    }
}
