//! A small judge of JSON by a JSON Schema: the words of draft 2020-12 that ours use, and a panic for any other.

#![allow(dead_code, reason = "every test program uses some of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

use std::sync::LazyLock;

use serde_json::Value;

/// The lines of `watari stdio`: every one that a test writes or reads is judged by it.
pub(crate) static BRIDGE: LazyLock<Judge> = LazyLock::new(|| {
    let document = include_str!("../../../../docs/schema/bridge.json");
    Judge::new(serde_json::from_str(document).unwrap())
});

/// What a schema says.
pub(crate) struct Judge {
    document: Value,
}

impl Judge {
    pub(crate) fn new(document: Value) -> Judge {
        Judge { document }
    }

    /// Whether something fits a definition of the schema; why not.
    pub(crate) fn judge(&self, definition: &str, value: &Value) -> Result<(), String> {
        let definitions = &self.document["$defs"];
        let schema = definitions.get(definition).unwrap_or_else(|| panic!("the schema has no {definition}"));
        self.check(schema, value).map_err(|why| match value["type"].as_str().and_then(|kind| definitions.get(kind)) {
            // What is wrong with one message is more than that it is none of all.
            Some(message) => format!("{why}: {:?}", self.check(message, value)),
            None => why,
        })
    }

    fn check(&self, schema: &Value, value: &Value) -> Result<(), String> {
        if let Some(anything) = schema.as_bool() {
            return if anything { Ok(()) } else { Err("nothing may be here".to_owned()) };
        }
        let words = schema.as_object().unwrap();
        for (word, given) in words {
            let fits = match word.as_str() {
                "$ref" => {
                    let name = given.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                    self.check(&self.document["$defs"][name], value)?;
                    true
                }
                "type" => match given.as_array() {
                    Some(kinds) => kinds.iter().any(|kind| is_a(kind, value)),
                    None => is_a(given, value),
                },
                "const" => value == given,
                "enum" => given.as_array().unwrap().contains(value),
                "oneOf" => self.count(given, value) == 1,
                "anyOf" => self.count(given, value) > 0,
                "minimum" => value.as_f64().is_none_or(|number| number >= given.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|number| number <= given.as_f64().unwrap()),
                "required" => value.as_object().is_none_or(|members| {
                    given.as_array().unwrap().iter().all(|name| members.contains_key(name.as_str().unwrap()))
                }),
                "items" => {
                    value.as_array().into_iter().flatten().try_for_each(|item| self.check(given, item))?;
                    true
                }
                "properties" => {
                    for (name, schema) in given.as_object().unwrap() {
                        let checked = value.get(name).map_or(Ok(()), |member| self.check(schema, member));
                        checked.map_err(|why| format!("{name}: {why}"))?;
                    }
                    true
                }
                "additionalProperties" => {
                    let named = |name: &String| words.get("properties").is_some_and(|all| all.get(name).is_some());
                    for (name, member) in value.as_object().into_iter().flatten().filter(|(name, _)| !named(name)) {
                        self.check(given, member).map_err(|why| format!("{name}: {why}"))?;
                    }
                    true
                }
                "description" | "format" => true,
                _ => panic!("the word {word} of a schema is not known here"),
            };
            if !fits {
                let shown: String = value.to_string().chars().take(300).collect();
                return Err(format!("{shown} does not fit {word} {given}"));
            }
        }
        Ok(())
    }

    fn count(&self, schemas: &Value, value: &Value) -> usize {
        schemas.as_array().unwrap().iter().filter(|schema| self.check(schema, value).is_ok()).count()
    }
}

fn is_a(kind: &Value, value: &Value) -> bool {
    match kind.as_str().unwrap() {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        // So that 10.0 is one.
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("the type {other} of a schema is not known here"),
    }
}
