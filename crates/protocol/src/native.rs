//! The messages of the native dialect. Its events are the lines that a host stores and sends to its clients: each has
//! its place in the log, and then the members of the event. The other messages of both sides are here, too; `watari` reads
//! those of a client, because it says exactly what is wrong with them.

mod client;
mod read;
mod server;
#[cfg(test)]
mod tests;

pub use client::{ClientHello, ClientLine};
pub use read::{ReadEventError, read};
pub use server::{Resume, ServerMessage};

use std::io::Write;

use serde::Serialize;

use crate::event::{Event, HostEvent};
use crate::json::{RawJson, join_lines};
use crate::position::Position;

/// The version of this dialect.
pub const PROTOCOL: u64 = 1;

/// A line of the log, or of a host to its client: an event and its place.
#[derive(Debug, Clone)]
pub struct EventLine {
    /// The place of the event.
    pub place: EventPlace,
    /// The event.
    pub event: NativeEvent,
}

/// The place of an event among the others. It is the first member of the event's line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventPlace {
    /// The position of a durable event, as `seq`.
    At(Position),
    /// The position of the durable event before an ephemeral one, as `after`.
    After(Position),
}

/// An event of a session or of its host.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum NativeEvent {
    /// An event of the session.
    Session(Event),
    /// An event of its host.
    Host(HostEvent),
    /// An event that this version does not know.
    Foreign(ForeignEvent),
}

/// An event that this version does not know, kept whole: a newer host has published it. (A message of the CLI that this
/// version does not know is [`Event::Unknown`].)
#[derive(Debug, Clone)]
pub struct ForeignEvent {
    name: String,
    object: RawJson,
    is_ephemeral: bool,
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
            NativeEvent::Foreign(event) => event.is_ephemeral,
        }
    }

    /// Returns the approximate size of the event in bytes.
    pub fn weight_bytes(&self) -> usize {
        match self {
            NativeEvent::Session(event) => event.weight_bytes(),
            NativeEvent::Host(event) => event.weight_bytes(),
            NativeEvent::Foreign(event) => size_of::<ForeignEvent>() + event.object.as_str().len(),
        }
    }

    /// Appends the event as a JSON object on one line, without its place.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            NativeEvent::Session(event) => write_json(event, out),
            NativeEvent::Host(event) => write_json(event, out),
            NativeEvent::Foreign(event) => write_json(&event.object, out),
        }
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

impl ForeignEvent {
    /// The event's `type`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The event as a JSON object, without its place.
    pub fn object(&self) -> &RawJson {
        &self.object
    }
}

impl EventLine {
    /// Appends the line, without a newline.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut event = Vec::new();
        self.event.write(&mut event);
        self.place.write_line(&event, out);
    }
}

impl EventPlace {
    /// Appends the line of an event, given as a JSON object, without a newline: this place, and then the members of the
    /// object.
    pub fn write_line(self, event: &[u8], out: &mut Vec<u8>) {
        let (name, position) = match self {
            EventPlace::At(position) => (SEQ, position),
            EventPlace::After(position) => (AFTER, position),
        };
        // Writing to memory does not fail.
        let _written = write!(out, "{{\"{name}\":\"{position}\"");
        let members = event.strip_prefix(b"{").unwrap_or(b"}");
        if !members.starts_with(b"}") {
            out.push(b',');
        }
        out.extend_from_slice(members);
    }
}

/// Appends a value as JSON on one line, without a newline.
fn write_json(value: &impl Serialize, out: &mut Vec<u8>) {
    let start = out.len();
    // Writing to memory does not fail, and all keys are strings.
    let _written = serde_json::to_writer(&mut *out, value);
    join_lines(&mut out[start..]);
}

const SEQ: &str = "seq";
const AFTER: &str = "after";
