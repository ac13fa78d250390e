//! Stream events: a message while it is written. This is the hot path.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::{Text, strings};
use crate::json::object;

/// One step of a streaming message.
#[derive(Debug)]
pub(crate) enum StreamFrame<'a> {
    MessageStarted {
        id: Text<'a>,
        model: Text<'a>,
    },
    BlockStarted {
        index: u64,
        content: &'a RawValue,
    },
    /// If `has_lone_surrogate`, the text contains placeholders for lone surrogates, which must be joined.
    BlockDelta {
        index: u64,
        delta: StreamDelta<'a>,
        has_lone_surrogate: bool,
    },
    BlockStopped {
        index: u64,
    },
    MessageChanged {
        stop_reason: Option<Text<'a>>,
    },
    MessageStopped,
    /// A frame without information for clients: a signature, a citation, a ping.
    Ignored,
}

/// The content that was added to a block.
#[derive(Debug)]
pub(crate) enum StreamDelta<'a> {
    Text(Text<'a>),
    Thinking(Text<'a>),
    Input(Text<'a>),
}

pub(super) fn read(line: &str) -> Option<StreamFrame<'_>> {
    let StreamLine { event, parent_tool_use_id } = serde_json::from_str(line).ok()?;
    // If a CLI ever streams a subagent, its stream must not be mixed into the main one.
    if parent_tool_use_id.is_some() {
        return None;
    }
    Some(match event.kind {
        EventKind::ContentBlockDelta => match delta_text(event.delta?) {
            Some((kind, text)) => {
                let delta = read_delta(kind, strings::read(text)?)?;
                StreamFrame::BlockDelta { index: event.index?, delta, has_lone_surrogate: false }
            }
            None => StreamFrame::Ignored,
        },
        EventKind::MessageStart => {
            let message: MessageHead<'_> = serde_json::from_str(event.message?.get()).ok()?;
            StreamFrame::MessageStarted { id: message.id, model: message.model }
        }
        EventKind::ContentBlockStart => {
            StreamFrame::BlockStarted { index: event.index?, content: object(event.content_block?)? }
        }
        EventKind::ContentBlockStop => StreamFrame::BlockStopped { index: event.index? },
        EventKind::MessageDelta => {
            StreamFrame::MessageChanged { stop_reason: event.delta.and_then(|delta| delta.stop_reason) }
        }
        EventKind::MessageStop => StreamFrame::MessageStopped,
        EventKind::Ping => StreamFrame::Ignored,
        EventKind::Unknown => return None,
    })
}

/// Returns the text of a delta, if its kind has one. What other kinds add is in the finished block.
fn delta_text<'a>(delta: DeltaMembers<'a>) -> Option<(DeltaKind, &'a RawValue)> {
    delta.text.filter(|(text_of, _)| delta.kind == Some(*text_of))
}

fn read_delta(kind: DeltaKind, text: Text<'_>) -> Option<StreamDelta<'_>> {
    match kind {
        DeltaKind::TextDelta => Some(StreamDelta::Text(text)),
        DeltaKind::ThinkingDelta => Some(StreamDelta::Thinking(text)),
        DeltaKind::InputJsonDelta => Some(StreamDelta::Input(text)),
        DeltaKind::Other => None,
    }
}

#[derive(serde::Deserialize)]
struct StreamLine<'a> {
    #[serde(borrow)]
    event: EventMembers<'a>,
    #[serde(default)]
    parent_tool_use_id: Option<IgnoredAny>,
}

#[derive(serde::Deserialize)]
struct EventMembers<'a> {
    #[serde(rename = "type")]
    kind: EventKind,
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<DeltaMembers<'a>>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum EventKind {
    MessageStart,
    ContentBlockStart,
    ContentBlockDelta,
    ContentBlockStop,
    MessageDelta,
    MessageStop,
    Ping,
    #[serde(other)]
    Unknown,
}

/// The required members of a delta. Of its possible texts, it holds the one that its kind requires.
#[derive(Default)]
struct DeltaMembers<'a> {
    kind: Option<DeltaKind>,
    text: Option<(DeltaKind, &'a RawValue)>,
    stop_reason: Option<Text<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum DeltaKind {
    TextDelta,
    ThinkingDelta,
    InputJsonDelta,
    #[serde(other)]
    Other,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "snake_case")]
enum DeltaMember {
    Type,
    Text,
    Thinking,
    PartialJson,
    StopReason,
    #[serde(other)]
    Other,
}

/// Implemented by hand, because a member for each text would double the size of the type, which is moved several times.
impl<'de: 'a, 'a> Deserialize<'de> for DeltaMembers<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<DeltaMembers<'a>, D::Error> {
        struct DeltaVisitor;
        impl<'de> Visitor<'de> for DeltaVisitor {
            type Value = DeltaMembers<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a delta")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<DeltaMembers<'de>, A::Error> {
                let mut delta = DeltaMembers::default();
                while let Some(member) = map.next_key()? {
                    let text_of = match member {
                        DeltaMember::Type => {
                            delta.kind = map.next_value()?;
                            continue;
                        }
                        DeltaMember::StopReason => {
                            delta.stop_reason = map.next_value()?;
                            continue;
                        }
                        DeltaMember::Other => {
                            map.next_value::<IgnoredAny>()?;
                            continue;
                        }
                        DeltaMember::Text => DeltaKind::TextDelta,
                        DeltaMember::Thinking => DeltaKind::ThinkingDelta,
                        DeltaMember::PartialJson => DeltaKind::InputJsonDelta,
                    };
                    if let Some(text) = map.next_value::<Option<&RawValue>>()?
                        && delta.kind.is_none_or(|kind| kind == text_of)
                    {
                        delta.text = Some((text_of, text));
                    }
                }
                Ok(delta)
            }
        }
        deserializer.deserialize_map(DeltaVisitor)
    }
}

#[derive(serde::Deserialize)]
struct MessageHead<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
}
