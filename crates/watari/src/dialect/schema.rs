//! JSON Schemas of dialects, for programs that generate their types from them.
//!
//! What Watari writes is described by the type that is written. What it reads is described by a type of its own, and read
//! member by member, to say exactly what is wrong with a line; tests hold the two together.

#[cfg(test)]
pub(super) mod checks;
pub(super) mod shapes;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The messages of one direction, told apart by their `type`.
pub(super) struct Messages {
    generator: SchemaGenerator,
    union: Value,
    /// Whether they have the fields that are named and no others.
    are_exact: bool,
}

/// Whether a message always has a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Always,
    Sometimes,
}

impl Messages {
    /// What a client writes. It may write more, which means nothing.
    pub(super) fn to_watari<T: JsonSchema>() -> Messages {
        let mut generator = SchemaSettings::draft2020_12().for_deserialize().into_generator();
        let union = T::json_schema(&mut generator).to_value();
        Messages { generator, union, are_exact: false }
    }

    /// What a client reads: the fields that are named and no others.
    pub(super) fn from_watari<T: JsonSchema>() -> Messages {
        let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        let union = T::json_schema(&mut generator).to_value();
        Messages { generator, union, are_exact: true }
    }

    /// And those of another type. What is said of all of them stays.
    pub(super) fn and<T: JsonSchema>(mut self) -> Messages {
        let mut more = T::json_schema(&mut self.generator).to_value();
        if let (Some(messages), Some(more)) = (self.union["oneOf"].as_array_mut(), more["oneOf"].as_array_mut()) {
            messages.append(more);
        }
        self
    }

    /// Each message of a type that `is_meant` has one more member, unless it has one of that name.
    pub(super) fn with<T: JsonSchema>(
        mut self,
        (name, description): (&str, &str),
        presence: Presence,
        is_meant: impl Fn(&str) -> bool,
    ) -> Messages {
        let mut member = self.generator.subschema_for::<T>().to_value();
        member["description"] = json!(description);
        for message in self.union["oneOf"].as_array_mut().into_iter().flatten() {
            if !is_meant(&type_of(message)) || message["properties"].get(name).is_some() {
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

/// One document: a definition for each message by its type, `to_watari` for all that a client writes, and `from_watari`
/// for all that it reads. If both directions have a type, the definition of the one that is read says so in its name.
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
    definitions.values_mut().for_each(join_lines);
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

/// A message that has other members for each kind of it, becomes one object for each kind, with all its members: most
/// programs that generate code can make something of that only.
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

/// Every object whose members are named has no others.
fn refuse_more(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(refuse_more),
        Value::Object(words) => {
            words.values_mut().for_each(refuse_more);
            if words.get("properties").is_some_and(Value::is_object) {
                words.entry("additionalProperties").or_insert(json!(false));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
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
