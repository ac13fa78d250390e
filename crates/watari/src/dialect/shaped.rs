//! Wrappers for raw JSON of the CLI, which is passed on unchanged. The schema says that such a field is an object, or a
//! text or blocks. The constructors produce only that, so what Watari writes always matches the schema.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::schema::shapes::ToolContent;

/// A JSON object of the CLI, unchanged.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Object<'a>(Option<&'a RawValue>);

impl<'a> Object<'a> {
    /// None if the value is not an object.
    pub(crate) fn of(value: &'a RawValue) -> Option<Object<'a>> {
        value.get().starts_with('{').then_some(Object(Some(value)))
    }

    /// An object without members.
    pub(crate) fn empty() -> Object<'static> {
        Object(None)
    }

    /// The objects of a list, without its other elements; empty if the value is not a list.
    pub(crate) fn list(value: &'a RawValue) -> Vec<Object<'a>> {
        items(value).unwrap_or_default().into_iter().filter_map(Object::of).collect()
    }
}

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(value) => value.serialize(serializer),
            None => serializer.serialize_map(Some(0))?.end(),
        }
    }
}

impl JsonSchema for Object<'_> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Object".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Map::<String, Value>::json_schema(generator)
    }
}

/// The result of a tool: a text, or blocks in the API's format.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    /// A value of one of these shapes, unchanged.
    Unchanged(&'a RawValue),
    /// A value of another shape: its JSON is the text.
    Other(&'a str),
}

impl<'a> Content<'a> {
    /// None if the tool returned nothing.
    pub(crate) fn of(value: &'a RawValue) -> Option<Content<'a>> {
        let is_blocks =
            || items(value).is_some_and(|blocks| blocks.into_iter().all(|block| Object::of(block).is_some()));
        match value.get().as_bytes().first() {
            Some(b'"') => Some(Content::Unchanged(value)),
            Some(b'[') if is_blocks() => Some(Content::Unchanged(value)),
            _ if value.get() == "null" => None,
            _ => Some(Content::Other(value.get())),
        }
    }
}

fn items(value: &RawValue) -> Option<Vec<&RawValue>> {
    serde_json::from_str(value.get()).ok()
}

impl Serialize for Content<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Content::Unchanged(value) => value.serialize(serializer),
            Content::Other(text) => serializer.serialize_str(text),
        }
    }
}

impl JsonSchema for Content<'_> {
    fn inline_schema() -> bool {
        <ToolContent as JsonSchema>::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        ToolContent::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        ToolContent::json_schema(generator)
    }
}
