//! Blocks: the pieces an assistant message is made of, and how they grow.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::ToolUseId;
use crate::json::Raw;

/// What a block is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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

/// A complete block: what it is, and the API's own JSON of it.
#[derive(Debug, Clone)]
pub struct Block {
    /// What it is.
    pub kind: BlockKind,
    /// The block in the API's shape, exactly as it came.
    pub raw: Raw,
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
        let words: Words<'_> = self.raw.parse().ok()?;
        match self.kind {
            BlockKind::Text => words.text.map(Cow::into_owned),
            BlockKind::Thinking => words.thinking.map(Cow::into_owned),
            BlockKind::ToolUse { .. } | BlockKind::Other { .. } => None,
        }
    }

    /// The input of a tool use, as the model wrote it.
    pub fn input(&self) -> Option<Raw> {
        #[derive(Deserialize)]
        struct Use<'a> {
            #[serde(borrow)]
            input: Option<&'a RawValue>,
        }
        let tool_use: Use<'_> = self.raw.parse().ok()?;
        tool_use.input.map(Raw::copied)
    }
}

/// A block is written as the API spells it.
impl Serialize for Block {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}
