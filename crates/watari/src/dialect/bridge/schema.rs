//! The JSON Schema of the dialect, for programs that generate their types from it.
//!
//! What Watari writes is described by the type that is written. What it reads is described by `to_watari.rs`, and read by
//! `incoming.rs` member by member, to say exactly what is wrong with a line; tests hold the two together.

mod to_watari;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

use super::outgoing::Line;
use to_watari::ToWatari;

/// One document: a definition for each message by its type, `to_watari` for all that a client writes, and `from_watari`
/// for all that it reads.
pub(crate) fn schema() -> Value {
    let mut definitions = Map::new();
    let mut written = SchemaSettings::draft2020_12().for_deserialize().into_generator();
    let to_watari = ToWatari::json_schema(&mut written);
    definitions.extend(written.take_definitions(true));
    let mut read = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let from_watari = Line::json_schema(&mut read);
    definitions.extend(read.take_definitions(true));
    for (name, union) in [("to_watari", to_watari), ("from_watari", from_watari)] {
        let union = name_messages(union, &mut definitions);
        definitions.insert(name.to_owned(), union);
    }
    definitions.values_mut().for_each(join_lines);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "The bridge of watari stdio",
        "description": "The lines that a client of `watari stdio` writes and reads, one JSON object each. Watari ignores \
                        fields that it does not know, and writes those that are named here and no others; a newer \
                        one may write more. What an extension is, the Node bridge does not have.",
        "oneOf": [{"$ref": "#/$defs/to_watari"}, {"$ref": "#/$defs/from_watari"}],
        "$defs": definitions,
    })
}

/// Makes a definition of each message of a union, and gives back the union of their names.
fn name_messages(union: Schema, definitions: &mut Map<String, Value>) -> Value {
    let mut union = union.to_value();
    for message in union["oneOf"].as_array_mut().into_iter().flatten() {
        let name = message["properties"]["type"]["const"].as_str().unwrap_or_default().to_owned();
        let reference = json!({"$ref": format!("#/$defs/{name}")});
        definitions.insert(name, std::mem::replace(message, reference));
    }
    union
}

/// Puts descriptions on one line: where the source breaks them means nothing.
fn join_lines(schema: &mut Value) {
    match schema {
        Value::String(text) => *text = text.replace('\n', " "),
        Value::Array(schemas) => schemas.iter_mut().for_each(join_lines),
        Value::Object(words) => words.values_mut().for_each(join_lines),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
