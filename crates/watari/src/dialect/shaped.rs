//! What the CLI wrote and is passed on as it came, in fields of which the schema promises a shape. The type of the field
//! is the promise: it cannot be made of a value of another shape.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::schema::shapes::ToolContent;

/// A JSON object, as it came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Object<'a>(Option<&'a RawValue>);

impl<'a> Object<'a> {
    /// None if the value is something else.
    pub(crate) fn of(value: &'a RawValue) -> Option<Object<'a>> {
        value.get().starts_with('{').then_some(Object(Some(value)))
    }

    /// An object without members.
    pub(crate) fn empty() -> Object<'static> {
        Object(None)
    }

    /// The objects of a list. What is no object in it is left out, and so is what is no list.
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

/// What a tool gave back: a text, or blocks as the API has them.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content<'a> {
    /// Of one of these shapes, as it came.
    AsItCame(&'a RawValue),
    /// Of another shape: its JSON is the text.
    Other(&'a str),
}

impl<'a> Content<'a> {
    /// None if the tool gave nothing back.
    pub(crate) fn of(value: &'a RawValue) -> Option<Content<'a>> {
        let is_blocks =
            || items(value).is_some_and(|blocks| blocks.into_iter().all(|block| Object::of(block).is_some()));
        match value.get().as_bytes().first() {
            Some(b'"') => Some(Content::AsItCame(value)),
            Some(b'[') if is_blocks() => Some(Content::AsItCame(value)),
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
            Content::AsItCame(value) => value.serialize(serializer),
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
