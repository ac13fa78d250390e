//! Shapes that several dialects share. They are used only for schemas.

#![expect(dead_code, reason = "only their shapes are used")]

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};
use watari_hub::Position;

use crate::dialect::limits::NAME_CHARACTERS_MAX;

/// The result of a tool.
#[derive(JsonSchema)]
#[serde(untagged)]
pub(in crate::dialect) enum CallContent {
    /// A text.
    Text(String),
    /// Blocks in MCP's format.
    Blocks(Vec<Map<String, Value>>),
}

/// The result of a tool.
#[derive(JsonSchema)]
#[serde(untagged)]
pub(in crate::dialect) enum ToolContent {
    /// A text.
    Text(String),
    /// Blocks in the API's format.
    Blocks(Vec<Map<String, Value>>),
}

/// A tool that the client runs. Its name for the model is `mcp__client__` followed by `name`.
#[derive(JsonSchema)]
pub(in crate::dialect) struct ClientTool {
    /// The tool's name: up to 51 letters, digits, `_` and `-`. It may not begin with `_` or contain `__`.
    #[schemars(extend("pattern" = TOOL_NAME, "maxLength" = 51))]
    name: String,
    /// The description for the model.
    description: Option<String>,
    /// The JSON Schema of its input, which is an object. Default: any object.
    input_schema: Option<ToolSchema>,
}

/// The pattern of a tool's name.
pub(in crate::dialect) const TOOL_NAME: &str = "^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*_?$";

/// The name of a client, or the id of its line.
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

/// A block of a prompt: a text, an image or a document, in the API's format.
pub(in crate::dialect) struct PromptBlock;

impl JsonSchema for PromptBlock {
    fn schema_name() -> Cow<'static, str> {
        "PromptBlock".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A block of a prompt, in the API's format: a text, an image or a document.",
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

/// The position after which a client wants events.
pub(in crate::dialect) struct Since;

impl JsonSchema for Since {
    fn schema_name() -> Cow<'static, str> {
        "Since".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "The position after which to replay events, or 0 to replay all events.",
            "anyOf": [generator.subschema_for::<Position>(), {"const": 0}, {"const": "0"}],
        })
    }
}
