//! Stream events: a message while it is being written. The hot path.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer};
use serde_json::value::RawValue;

use super::{Frame, Text};

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
    /// With stand-ins for halves of characters when it has any: they are to be joined.
    BlockGrew {
        index: u64,
        delta: StreamDelta<'a>,
        has_halves: bool,
    },
    BlockStopped {
        index: u64,
    },
    MessageChanged {
        stop_reason: Option<Text<'a>>,
    },
    MessageStopped,
    /// Nothing a client needs: a signature, a citation, a ping.
    Nothing,
}

/// What was added to a block.
#[derive(Debug)]
pub(crate) enum StreamDelta<'a> {
    Text(Text<'a>),
    Thinking(Text<'a>),
    Input(Text<'a>),
}

pub(super) fn read<'a>(frame: &Frame<'a>) -> Option<StreamFrame<'a>> {
    let MaybeEvent(Some(event)) = &frame.event else {
        return None;
    };
    // A subagent's stream, should a CLI ever send one, must not be mixed into the main one.
    if frame.parent_tool_use_id.is_some() {
        return None;
    }
    let read = match &*event.kind {
        "message_start" => {
            let message: MessageHead<'a> = serde_json::from_str(event.message?.get()).ok()?;
            StreamFrame::MessageStarted { id: message.id, model: message.model }
        }
        "content_block_start" => StreamFrame::BlockStarted { index: event.index?, content: event.content_block? },
        "content_block_delta" => match read_delta(event.delta.as_ref()?) {
            Some(delta) => StreamFrame::BlockGrew { index: event.index?, delta, has_halves: false },
            None => StreamFrame::Nothing,
        },
        "content_block_stop" => StreamFrame::BlockStopped { index: event.index? },
        "message_delta" => StreamFrame::MessageChanged {
            stop_reason: event.delta.as_ref().and_then(|delta| delta.stop_reason.clone()),
        },
        "message_stop" => StreamFrame::MessageStopped,
        "ping" => StreamFrame::Nothing,
        _ => return None,
    };
    Some(read)
}

/// A kind of delta that is not text is none: the finished block carries what it added.
fn read_delta<'a>(delta: &DeltaMembers<'a>) -> Option<StreamDelta<'a>> {
    match delta.kind.as_deref()? {
        "text_delta" => delta.text.clone().map(StreamDelta::Text),
        "thinking_delta" => delta.thinking.clone().map(StreamDelta::Thinking),
        "input_json_delta" => delta.partial_json.clone().map(StreamDelta::Input),
        _ => None,
    }
}

#[derive(Debug, serde::Deserialize)]
struct MessageHead<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
}

/// The API's event, if the frame has one: other frames use the same key for something else.
#[derive(Debug, Default)]
pub(crate) struct MaybeEvent<'a>(Option<EventMembers<'a>>);

#[derive(Debug, serde::Deserialize)]
struct EventMembers<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(default)]
    index: Option<u64>,
    #[serde(borrow, default)]
    delta: Option<DeltaMembers<'a>>,
    #[serde(borrow, default)]
    message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content_block: Option<&'a RawValue>,
}

#[derive(Debug, serde::Deserialize)]
struct DeltaMembers<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    text: Option<Text<'a>>,
    #[serde(borrow, default)]
    thinking: Option<Text<'a>>,
    #[serde(borrow, default)]
    partial_json: Option<Text<'a>>,
    #[serde(borrow, default)]
    stop_reason: Option<Text<'a>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for MaybeEvent<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MaybeEvent<'a>, D::Error> {
        struct EventVisitor;
        impl<'de> Visitor<'de> for EventVisitor {
            type Value = MaybeEvent<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a stream event or anything else")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<MaybeEvent<'de>, A::Error> {
                EventMembers::deserialize(MapAccessDeserializer::new(map)).map(|event| MaybeEvent(Some(event)))
            }

            fn visit_str<E: de::Error>(self, _: &str) -> Result<MaybeEvent<'de>, E> {
                Ok(MaybeEvent(None))
            }

            fn visit_unit<E: de::Error>(self) -> Result<MaybeEvent<'de>, E> {
                Ok(MaybeEvent(None))
            }
        }
        deserializer.deserialize_any(EventVisitor)
    }
}
