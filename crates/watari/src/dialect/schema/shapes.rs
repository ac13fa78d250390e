//! Shapes that several dialects have. Only schemas are made of them.

#![expect(dead_code, reason = "only their shapes are used")]

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};
use watari_hub::Position;

use crate::dialect::limits::NAME_CHARACTERS_MAX;

/// What a tool gives back.
#[derive(JsonSchema)]
#[serde(untagged)]
pub(in crate::dialect) enum CallContent {
    /// A text.
    Text(String),
    /// Blocks in the shape of MCP.
    Blocks(Vec<Map<String, Value>>),
}

/// What a tool gives back.
#[derive(JsonSchema)]
#[serde(untagged)]
pub(in crate::dialect) enum ToolContent {
    /// A text.
    Text(String),
    /// Blocks, as the API has them.
    Blocks(Vec<Map<String, Value>>),
}

/// A tool that the client runs itself. The model knows it as `mcp__client__` and its name.
#[derive(JsonSchema)]
pub(in crate::dialect) struct ClientTool {
    /// Its name: up to 51 letters, digits, `_` and `-`. It does not begin with `_`, and has no `__` in it.
    #[schemars(extend("pattern" = TOOL_NAME, "maxLength" = 51))]
    name: String,
    /// What the model is told of it.
    description: Option<String>,
    /// What it is run with, as a JSON Schema of an object; any object if there is nothing.
    input_schema: Option<ToolSchema>,
}

/// What a tool may be called.
pub(in crate::dialect) const TOOL_NAME: &str = "^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*_?$";

/// A name that a client gives itself, or a line of its own.
pub(in crate::dialect) struct Name;

impl JsonSchema for Name {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Name".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "maxLength": NAME_CHARACTERS_MAX})
    }
}

/// A block of a prompt: a text, an image or a document, in the shape of the API.
pub(in crate::dialect) struct PromptBlock;

impl JsonSchema for PromptBlock {
    fn schema_name() -> Cow<'static, str> {
        "PromptBlock".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A block of a prompt, in the shape of the API: a text, an image or a document.",
            "oneOf": [
                {
                    "description": "A text.",
                    "type": "object",
                    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
                    "required": ["type", "text"],
                },
                {
                    "description": "An image or a document, with its source.",
                    "type": "object",
                    "properties": {"type": {"enum": ["image", "document"]}},
                    "required": ["type"],
                },
            ],
        })
    }
}

/// A JSON Schema of an object.
pub(in crate::dialect) struct ToolSchema;

impl JsonSchema for ToolSchema {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ToolSchema".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "object",
            "properties": {
                "type": {"const": "object"},
                "properties": {"type": "object", "additionalProperties": {"type": "object"}},
                "required": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["type"],
            "additionalProperties": true,
        })
    }
}

/// An object with at least one member.
pub(in crate::dialect) struct NonEmpty;

impl JsonSchema for NonEmpty {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "NonEmpty".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "minProperties": 1, "additionalProperties": true})
    }
}

/// From where a client wants to be told.
pub(in crate::dialect) struct Since;

impl JsonSchema for Since {
    fn schema_name() -> Cow<'static, str> {
        "Since".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "From where a client wants to be told: everything behind a position, or everything for 0.",
            "anyOf": [generator.subschema_for::<Position>(), {"const": 0}, {"const": "0"}],
        })
    }
}
