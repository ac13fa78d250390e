//! A message of the model in the API's format, whole or as events.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value};

use super::script::{Block, Reply};

/// A plausible signature: the base64 of "sig".
pub(super) const SIGNATURE: &str = "c2ln";

/// A reply with an id and a model, ready to be sent.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) id: String,
    pub(super) model: String,
    pub(super) reply: Arc<Reply>,
}

/// The API's message, as the answer to a call that does not stream and as the beginning of a stream.
#[derive(Debug, Serialize)]
pub(super) struct MessageBody<'a> {
    id: &'a str,
    r#type: &'static str,
    role: &'static str,
    model: &'a str,
    content: Vec<Content<'a>>,
    stop_reason: Option<&'a str>,
    stop_sequence: Option<&'a str>,
    usage: FullUsage,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Content<'a> {
    Text { text: &'a str },
    Thinking { thinking: &'a str, signature: &'a str },
    ToolUse { id: Cow<'a, str>, name: &'a str, input: Cow<'a, Value> },
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event<'a> {
    MessageStart { message: MessageBody<'a> },
    ContentBlockStart { index: usize, content_block: Content<'a> },
    ContentBlockDelta { index: usize, delta: Delta<'a> },
    ContentBlockStop { index: usize },
    MessageDelta { delta: Stop<'a>, usage: OutputUsage },
    MessageStop,
    Error { error: ErrorBody<'a> },
}

#[derive(Debug, Serialize)]
pub(super) struct ErrorBody<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) message: &'a str,
}

#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[expect(clippy::enum_variant_names, reason = "the API names them so")]
pub(super) enum Delta<'a> {
    TextDelta { text: &'a str },
    ThinkingDelta { thinking: &'a str },
    SignatureDelta { signature: &'a str },
    InputJsonDelta { partial_json: &'a str },
}

#[derive(Debug, Serialize)]
pub(super) struct Stop<'a> {
    stop_reason: &'a str,
    stop_sequence: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct FullUsage {
    input_tokens: u64,
    output_tokens: u64,
    cache_creation_input_tokens: u64,
    cache_read_input_tokens: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct OutputUsage {
    output_tokens: u64,
}

impl Message {
    pub(super) fn whole(&self) -> MessageBody<'_> {
        MessageBody {
            content: self
                .reply
                .blocks
                .iter()
                .enumerate()
                .map(|(index, block)| self.whole_block(index, block))
                .collect(),
            stop_reason: Some(self.stop_reason()),
            ..self.with_output(self.reply.usage.output_tokens)
        }
    }

    pub(super) fn start(&self) -> Event<'_> {
        // The API counts the tokens that exist when the first event is sent: one.
        Event::MessageStart { message: self.with_output(1) }
    }

    pub(super) fn delta(&self) -> Event<'_> {
        Event::MessageDelta {
            delta: Stop { stop_reason: self.stop_reason(), stop_sequence: None },
            usage: OutputUsage { output_tokens: self.reply.usage.output_tokens },
        }
    }

    /// A block in its first event: with its names, without its content.
    pub(super) fn empty_block<'a>(&self, index: usize, block: &'a Block) -> Content<'a> {
        match block {
            Block::Text(_) => Content::Text { text: "" },
            Block::Thinking(_) => Content::Thinking { thinking: "", signature: "" },
            Block::ToolUse { id, name, input: _ } => {
                let input = Cow::Owned(Value::Object(Map::new()));
                Content::ToolUse { id: self.tool_use_id(index, id.as_deref()), name, input }
            }
        }
    }

    fn whole_block<'a>(&self, index: usize, block: &'a Block) -> Content<'a> {
        match block {
            Block::Text(text) => Content::Text { text },
            Block::Thinking(thinking) => Content::Thinking { thinking, signature: SIGNATURE },
            Block::ToolUse { id, name, input } => {
                Content::ToolUse { id: self.tool_use_id(index, id.as_deref()), name, input: Cow::Borrowed(input) }
            }
        }
    }

    fn tool_use_id<'a>(&self, index: usize, given: Option<&'a str>) -> Cow<'a, str> {
        match given {
            Some(id) => Cow::Borrowed(id),
            None => Cow::Owned(format!("toolu_{}_{index}", self.id)),
        }
    }

    fn with_output(&self, output_tokens: u64) -> MessageBody<'_> {
        MessageBody {
            id: &self.id,
            r#type: "message",
            role: "assistant",
            model: &self.model,
            content: Vec::new(),
            stop_reason: None,
            stop_sequence: None,
            usage: FullUsage {
                input_tokens: self.reply.usage.input_tokens,
                output_tokens,
                cache_creation_input_tokens: 0,
                cache_read_input_tokens: 0,
            },
        }
    }

    fn stop_reason(&self) -> &str {
        match &self.reply.stop_reason {
            Some(reason) => reason,
            None if self.reply.calls_a_tool() => "tool_use",
            None => "end_turn",
        }
    }
}

impl Event<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Event::MessageStart { .. } => "message_start",
            Event::ContentBlockStart { .. } => "content_block_start",
            Event::ContentBlockDelta { .. } => "content_block_delta",
            Event::ContentBlockStop { .. } => "content_block_stop",
            Event::MessageDelta { .. } => "message_delta",
            Event::MessageStop => "message_stop",
            Event::Error { .. } => "error",
        }
    }
}
