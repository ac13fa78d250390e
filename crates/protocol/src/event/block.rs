//! Blocks: the parts of an assistant message, and the deltas that are added to them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::{EntryId, ToolUseId};
use crate::json::RawJson;
use crate::wire::message::read_kind;
use crate::wire::repair::{LoneSurrogate, lone_surrogates};

/// The kind of a block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BlockKind {
    /// Text for the user.
    Text,
    /// The model's reasoning.
    Thinking,
    /// The model uses a tool.
    ToolUse {
        /// The tool use.
        id: ToolUseId,
        /// The tool's name.
        name: String,
    },
    /// A kind that this version does not know.
    Other {
        /// The API's name for the kind.
        name: String,
    },
}

/// The content that was added to a streaming block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "text", rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Delta {
    /// Text.
    Text(String),
    /// Reasoning.
    Thinking(String),
    /// A part of the JSON of a tool's input.
    Input(String),
}

impl Delta {
    /// Returns the added text, of any kind.
    pub fn text(&self) -> &str {
        match self {
            Delta::Text(text) | Delta::Thinking(text) | Delta::Input(text) => text,
        }
    }
}

/// Where a complete block comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockSource {
    /// The block's id in the stored conversation; a conversation can be resumed at it (in Rust,
    /// `StartFrom::ResumeAt`).
    pub entry: Option<EntryId>,
    /// The CLI's id of the subagent, if a subagent wrote the block.
    pub agent: Option<String>,
    /// True when the block was interrupted before it was complete.
    pub cut_short: bool,
    /// Who wrote the block.
    pub author: Author,
}

/// Who wrote a block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Author {
    /// The model.
    #[default]
    Model,
    /// A slash command.
    Command,
    /// The CLI, because the API failed; carries the CLI's name for the error.
    ApiError(String),
}

/// A complete block: its kind, and its JSON as the API sent it.
#[derive(Debug, Clone)]
pub struct Block {
    /// The kind of block.
    pub kind: BlockKind,
    /// The block in the API's format, unchanged.
    pub raw: RawJson,
}

impl Block {
    /// Returns the text of a text block or the reasoning of a thinking block; none for other kinds.
    pub fn text(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Texts<'a> {
            #[serde(borrow)]
            text: Option<Cow<'a, str>>,
            #[serde(borrow)]
            thinking: Option<Cow<'a, str>>,
        }
        let read = |json: &str| {
            let texts: Texts<'_> = serde_json::from_str(json).ok()?;
            match self.kind {
                BlockKind::Text => texts.text.map(Cow::into_owned),
                BlockKind::Thinking => texts.thinking.map(Cow::into_owned),
                BlockKind::ToolUse { .. } | BlockKind::Other { .. } => None,
            }
        };
        let json = self.raw.as_str();
        // A lone surrogate, which JSON allows and a Rust string does not, is shown as U+FFFD.
        read(json).or_else(|| read(&lone_surrogates(json, LoneSurrogate::Replaced)?))
    }

    /// Returns the input of a tool use, as the model wrote it.
    pub fn input(&self) -> Option<RawJson> {
        #[derive(Deserialize)]
        struct Use<'a> {
            #[serde(borrow)]
            input: Option<&'a RawValue>,
        }
        let tool_use: Use<'_> = self.raw.parse().ok()?;
        tool_use.input.map(RawJson::copied)
    }
}

/// A block is serialized in the API's format.
impl Serialize for Block {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Block {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Block, D::Error> {
        let raw = RawJson::deserialize(deserializer)?;
        Ok(Block { kind: read_kind(raw.as_ref()), raw })
    }
}

/// The schema of the serialized form: an object in the API's format.
#[cfg(feature = "schema")]
impl schemars::JsonSchema for Block {
    fn schema_name() -> Cow<'static, str> {
        "Block".into()
    }

    fn json_schema(_generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A complete block in the API's format, unchanged.",
            "type": "object",
            "additionalProperties": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocks_text_can_be_read_even_with_a_lone_surrogate() {
        let block = |kind, json: &str| Block { kind, raw: RawJson::from(json) };
        assert_eq!(block(BlockKind::Text, r#"{"type":"text","text":"a \"b\""}"#).text().as_deref(), Some("a \"b\""));
        assert_eq!(block(BlockKind::Text, r#"{"type":"text","text":"x\ud83d"}"#).text().as_deref(), Some("x\u{fffd}"));
        assert_eq!(block(BlockKind::Thinking, r#"{"thinking":"hm"}"#).text().as_deref(), Some("hm"));
        let tool = BlockKind::ToolUse { id: ToolUseId("t".into()), name: "Bash".into() };
        let block = block(tool, r#"{"input":{"n":1e400}}"#);
        assert_eq!(block.text(), None);
        assert_eq!(block.input().unwrap().as_str(), r#"{"n":1e400}"#);
    }
}
