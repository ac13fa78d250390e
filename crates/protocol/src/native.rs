//! The messages of the native dialect: events as a host stores them and sends them to its clients.

use crate::event::{Event, HostEvent};

/// An event of a session or of its host: what a host publishes.
#[derive(Debug, Clone)]
pub enum NativeEvent {
    /// An event of the session.
    Session(Event),
    /// An event of its host.
    Host(HostEvent),
}

/// The types of the ephemeral events: those for which [`NativeEvent::is_ephemeral`] returns true.
pub const EPHEMERAL_TYPES: [&str; 6] =
    ["block_delta", "tool_progressed", "thinking_counted", "storage_failed", "storage_recovered", "caught_up"];

impl NativeEvent {
    /// Returns whether the event is ephemeral: broadcast, but not stored. It then has no position of its own.
    pub fn is_ephemeral(&self) -> bool {
        match self {
            NativeEvent::Session(event) => event.is_ephemeral(),
            NativeEvent::Host(event) => event.is_ephemeral(),
        }
    }

    /// Returns the approximate size of the event in bytes.
    pub fn weight_bytes(&self) -> usize {
        match self {
            NativeEvent::Session(event) => event.weight_bytes(),
            NativeEvent::Host(event) => event.weight_bytes(),
        }
    }

    /// Appends the event as a JSON object, without its place.
    pub fn write(&self, out: &mut Vec<u8>) {
        // Writing to memory does not fail, and all keys are strings.
        let _written = match self {
            NativeEvent::Session(event) => serde_json::to_writer(out, event),
            NativeEvent::Host(event) => serde_json::to_writer(out, event),
        };
    }
}

impl From<Event> for NativeEvent {
    fn from(event: Event) -> NativeEvent {
        NativeEvent::Session(event)
    }
}

impl From<HostEvent> for NativeEvent {
    fn from(event: HostEvent) -> NativeEvent {
        NativeEvent::Host(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Delta;
    use crate::id::{BlockId, ToolUseId};

    #[test]
    fn ephemeral_events_are_known_by_their_type() {
        let (message, tool_use) = (String::new(), ToolUseId("t".into()));
        let ephemeral: [NativeEvent; 6] = [
            Event::BlockDelta { block: BlockId(1), at: 0, delta: Delta::Text("a".into()) }.into(),
            Event::ToolProgressed { tool_use, tool: "Bash".into(), elapsed_seconds: 30.0 }.into(),
            Event::ThinkingCounted { tokens: 7 }.into(),
            HostEvent::StorageFailed { message: message.clone() }.into(),
            HostEvent::StorageRecovered.into(),
            HostEvent::CaughtUp.into(),
        ];
        let types = ephemeral.map(|event| {
            let mut text = Vec::new();
            event.write(&mut text);
            let object: serde_json::Value = serde_json::from_slice(&text).unwrap();
            (object["type"].as_str().unwrap().to_owned(), event.is_ephemeral())
        });
        assert_eq!(types, EPHEMERAL_TYPES.map(|name| (name.to_owned(), true)));
        let durable: [NativeEvent; 2] = [Event::BecameIdle.into(), HostEvent::StartFailed { message }.into()];
        assert!(durable.iter().all(|event| !event.is_ephemeral()));
    }
}
