//! What a host publishes: an event of the session, or of the host itself.

use watari_sdk::{Event, HostEvent};

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
