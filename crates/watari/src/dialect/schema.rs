//! JSON Schemas of the dialects, from which programs generate their types.
//!
//! The schema of what Watari writes comes from the types that it writes. What it reads has separate types for the
//! schema and is parsed member by member, so that errors are exact; tests keep the two consistent.

#[cfg(test)]
pub(super) mod checks;
mod doc_links;
pub(super) mod shapes;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The messages of one direction, distinguished by their `type`.
pub(super) struct Messages {
    generator: SchemaGenerator,
    union: Value,
    /// Whether they have only the fields of the schema.
    are_exact: bool,
}

/// Whether a message always has a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Always,
    Sometimes,
}

impl Messages {
    /// The messages that a client writes. Additional fields are ignored.
    pub(super) fn to_watari<T: JsonSchema>() -> Messages {
        let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
        let union = T::json_schema(&mut generator).to_value();
        Messages { generator, union, are_exact: false }
    }

    /// The messages that a client reads, with only the fields of the schema.
    pub(super) fn from_watari<T: JsonSchema>() -> Messages {
        let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let union = T::json_schema(&mut generator).to_value();
        Messages { generator, union, are_exact: true }
    }

    /// Adds the messages of another type. The description of the first type stays.
    pub(super) fn and<T: JsonSchema>(mut self) -> Messages {
        let mut more = T::json_schema(&mut self.generator).to_value();
        if let (Some(messages), Some(more)) = (self.union["oneOf"].as_array_mut(), more["oneOf"].as_array_mut()) {
            messages.append(more);
        }
        self
    }

    /// Adds a member to each message whose type matches, unless the message already has a member of that name.
    pub(super) fn with<T: JsonSchema>(
        mut self,
        (name, description): (&str, &str),
        presence: Presence,
        matches: impl Fn(&str) -> bool,
    ) -> Messages {
        let mut member = self.generator.subschema_for::<T>().to_value();
        member["description"] = json!(description);
        for message in self.union["oneOf"].as_array_mut().into_iter().flatten() {
            if !matches(&type_of(message)) || message["properties"].get(name).is_some() {
                continue;
            }
            message["properties"][name] = member.clone();
            if let (Presence::Always, Some(required)) = (presence, message["required"].as_array_mut()) {
                required.push(json!(name));
            }
        }
        self
    }
}

/// One document. It has a definition for each message, named by the message's type, a definition `to_watari` for all
/// messages that a client writes, and a definition `from_watari` for all that it reads. If a type exists in both
/// directions, the definition of the message that a client reads is named `TYPE_from_watari`.
pub(super) fn document(title: &str, description: &str, to_watari: Messages, from_watari: Messages) -> Value {
    let mut definitions = Map::new();
    for (name, messages) in [("to_watari", to_watari), ("from_watari", from_watari)] {
        let Messages { mut generator, mut union, are_exact } = messages;
        let mut own = generator.take_definitions(true);
        for message in union["oneOf"].as_array_mut().into_iter().flatten() {
            let kind = type_of(message);
            unfold(message, &own);
            let definition = if definitions.contains_key(&kind) { format!("{kind}_{name}") } else { kind };
            let reference = json!({"$ref": format!("#/$defs/{definition}")});
            own.insert(definition, std::mem::replace(message, reference));
        }
        own.insert(name.to_owned(), union);
        if are_exact {
            own.values_mut().for_each(refuse_more);
        }
        definitions.extend(own);
    }
    definitions.values_mut().for_each(plain_texts);
    let used = Value::from(definitions.clone()).to_string();
    let unions = ["to_watari", "from_watari"];
    definitions.retain(|name, _| unions.contains(&name.as_str()) || used.contains(&format!("\"#/$defs/{name}\"")));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        "description": description,
        "oneOf": [{"$ref": "#/$defs/to_watari"}, {"$ref": "#/$defs/from_watari"}],
        "$defs": definitions,
    })
}

fn type_of(message: &Value) -> String {
    message["properties"]["type"]["const"].as_str().unwrap_or_default().to_owned()
}

/// Turns a message whose members depend on its kind into one object per kind with all members: most code generators
/// support only that.
fn unfold(message: &mut Value, definitions: &Map<String, Value>) {
    let Some(Value::Array(kinds)) = message.get_mut("oneOf").map(Value::take) else { return };
    let whole = |mut kind: Value| {
        let name = kind["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/$defs/"));
        let members = name.and_then(|name| definitions.get(name)).cloned().unwrap_or_default();
        if let Some(kind) = kind.as_object_mut() {
            kind.remove("$ref");
        }
        for part in [&members, message] {
            for (name, member) in part["properties"].as_object().into_iter().flatten() {
                kind["properties"][name] = member.clone();
            }
            for name in part["required"].as_array().into_iter().flatten() {
                kind["required"].as_array_mut().into_iter().for_each(|required| required.push(name.clone()));
            }
        }
        kind
    };
    let kinds: Vec<Value> = kinds.into_iter().map(whole).collect();
    *message = json!({"description": message["description"], "oneOf": kinds});
}

/// Forbids additional members in every object that has named members.
fn refuse_more(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(refuse_more),
        Value::Object(members) => {
            members.values_mut().for_each(refuse_more);
            if members.get("properties").is_some_and(Value::is_object) {
                members.entry("additionalProperties").or_insert(json!(false));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Puts descriptions on one line, because the line breaks of the source have no meaning, and replaces links of rustdoc.
fn plain_texts(schema: &mut Value) {
    match schema {
        Value::String(text) => *text = doc_links::replaced(&text.replace('\n', " ")),
        Value::Array(schemas) => schemas.iter_mut().for_each(plain_texts),
        Value::Object(members) => members.values_mut().for_each(plain_texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
