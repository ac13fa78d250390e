//! Blocks: the pieces an assistant message is made of, and how they grow.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::{EntryId, ToolUseId};
use crate::json::RawJson;
use crate::wire::repair::{Half, lone_surrogates};

/// What a block is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum BlockKind {
    /// Text for the user.
    Text,
    /// The model's reasoning.
    Thinking,
    /// The model uses a tool.
    ToolUse {
        /// This use of the tool.
        id: ToolUseId,
        /// The tool's name.
        name: String,
    },
    /// A kind this version does not know, by its name.
    Other {
        /// The API's name of it.
        name: String,
    },
}

/// What was added to a streaming block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "type", content = "text", rename_all = "snake_case")]
pub enum Delta {
    /// Text.
    Text(String),
    /// Reasoning.
    Thinking(String),
    /// A piece of the JSON of a tool's input.
    Input(String),
}

impl Delta {
    /// The added text, whatever it is for.
    pub fn text(&self) -> &str {
        match self {
            Delta::Text(text) | Delta::Thinking(text) | Delta::Input(text) => text,
        }
    }
}

/// Where a complete block comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockSource {
    /// Its id in the stored conversation: a session can be resumed at it.
    pub entry: Option<EntryId>,
    /// Set when a subagent wrote it: the CLI's id of the subagent.
    pub agent: Option<String>,
    /// True when it was interrupted before it was complete.
    pub cut_short: bool,
    /// Who wrote it.
    pub writer: Writer,
}

/// Who wrote a block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// The model.
    #[default]
    Model,
    /// A slash command.
    Command,
    /// The CLI, because the API failed: by its word for the failure.
    ApiError(String),
}

/// A complete block: what it is, and the API's own JSON of it.
#[derive(Debug, Clone)]
pub struct Block {
    /// What it is.
    pub kind: BlockKind,
    /// The block in the API's shape, exactly as it came.
    pub raw: RawJson,
}

impl Block {
    /// The text of a text block, the reasoning of a thinking block.
    pub fn text(&self) -> Option<String> {
        #[derive(Deserialize)]
        struct Words<'a> {
            #[serde(borrow)]
            text: Option<Cow<'a, str>>,
            #[serde(borrow)]
            thinking: Option<Cow<'a, str>>,
        }
        let read = |json: &str| {
            let words: Words<'_> = serde_json::from_str(json).ok()?;
            match self.kind {
                BlockKind::Text => words.text.map(Cow::into_owned),
                BlockKind::Thinking => words.thinking.map(Cow::into_owned),
                BlockKind::ToolUse { .. } | BlockKind::Other { .. } => None,
            }
        };
        let json = self.raw.as_str();
        // Half a character, which JSON can hold and a Rust string cannot, is shown as U+FFFD.
        read(json).or_else(|| read(&lone_surrogates(json, Half::Replaced)?))
    }

    /// The input of a tool use, as the model wrote it.
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

/// A block is written as the API spells it.
impl Serialize for Block {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

/// As it is written: an object that is the API's.
#[cfg(feature = "schema")]
impl schemars::JsonSchema for Block {
    fn schema_name() -> Cow<'static, str> {
        "Block".into()
    }

    fn json_schema(_generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A complete block in the API's shape, exactly as it came.",
            "type": "object",
            "additionalProperties": true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocks_words_can_be_read_even_with_half_a_character() {
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
