//! A small validator for JSON Schema: the keywords of draft 2020-12 that our schemas use, and a panic for any other.

#![allow(dead_code, reason = "every test program uses some of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

use std::sync::LazyLock;

use serde_json::Value;

/// The lines of `watari stdio`: every one that a test writes or reads is judged by it.
pub(crate) static BRIDGE: LazyLock<Judge> =
    LazyLock::new(|| Judge::read(include_str!("../../../../docs/schema/bridge.json")));

/// The lines of the socket of `watari socket`.
pub(crate) static SOCKET: LazyLock<Judge> =
    LazyLock::new(|| Judge::read(include_str!("../../../../docs/schema/socket.json")));

/// The lines of Watari's own socket.
pub(crate) static NATIVE: LazyLock<Judge> =
    LazyLock::new(|| Judge::read(include_str!("../../../../docs/schema/native.json")));

/// What a schema says.
pub(crate) struct Judge {
    document: Value,
}

impl Judge {
    pub(crate) fn new(document: Value) -> Judge {
        Judge { document }
    }

    fn read(document: &str) -> Judge {
        Judge::new(serde_json::from_str(document).unwrap())
    }

    /// Whether something fits a definition of the schema; why not.
    pub(crate) fn judge(&self, definition: &str, value: &Value) -> Result<(), String> {
        let definitions = &self.document["$defs"];
        let schema = definitions.get(definition).unwrap_or_else(|| panic!("the schema has no {definition}"));
        self.check(schema, value).map_err(|why| {
            let kind = value["type"].as_str().unwrap_or_default();
            // One that both sides write is named for its direction too.
            match definitions.get(format!("{kind}_{definition}")).or(definitions.get(kind)) {
                // What is wrong with one message is more than that it is none of all.
                Some(message) => format!("{why}: {:?}", self.check(message, value)),
                None => why,
            }
        })
    }

    fn check(&self, schema: &Value, value: &Value) -> Result<(), String> {
        if let Some(anything) = schema.as_bool() {
            return if anything { Ok(()) } else { Err("nothing may be here".to_owned()) };
        }
        let keywords = schema.as_object().unwrap();
        for (keyword, argument) in keywords {
            let fits = match keyword.as_str() {
                "$ref" => {
                    let name = argument.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                    self.check(&self.document["$defs"][name], value)?;
                    true
                }
                "type" => match argument.as_array() {
                    Some(kinds) => kinds.iter().any(|kind| is_a(kind, value)),
                    None => is_a(argument, value),
                },
                "const" => value == argument || argument.is_number() && value.as_f64() == argument.as_f64(),
                "enum" => argument.as_array().unwrap().contains(value),
                "oneOf" => self.count(argument, value) == 1,
                "anyOf" => self.count(argument, value) > 0,
                "minimum" => value.as_f64().is_none_or(|number| number >= argument.as_f64().unwrap()),
                "maximum" => value.as_f64().is_none_or(|number| number <= argument.as_f64().unwrap()),
                "required" => value.as_object().is_none_or(|members| {
                    argument.as_array().unwrap().iter().all(|name| members.contains_key(name.as_str().unwrap()))
                }),
                "minProperties" => value.as_object().is_none_or(|all| all.len() as u64 >= argument.as_u64().unwrap()),
                "maxLength" => {
                    value.as_str().is_none_or(|text| text.chars().count() as u64 <= argument.as_u64().unwrap())
                }
                "pattern" => value.as_str().is_none_or(|text| is_like(argument, text)),
                "contains" => {
                    value.as_array().is_none_or(|all| all.iter().any(|one| self.check(argument, one).is_ok()))
                }
                "items" => {
                    value.as_array().into_iter().flatten().try_for_each(|item| self.check(argument, item))?;
                    true
                }
                "properties" => {
                    for (name, schema) in argument.as_object().unwrap() {
                        let checked = value.get(name).map_or(Ok(()), |member| self.check(schema, member));
                        checked.map_err(|why| format!("{name}: {why}"))?;
                    }
                    true
                }
                "additionalProperties" => {
                    let named = |name: &String| keywords.get("properties").is_some_and(|all| all.get(name).is_some());
                    for (name, member) in value.as_object().into_iter().flatten().filter(|(name, _)| !named(name)) {
                        self.check(argument, member).map_err(|why| format!("{name}: {why}"))?;
                    }
                    true
                }
                "description" | "format" => true,
                _ => panic!("the keyword {keyword} of a schema is not known here"),
            };
            if !fits {
                let shown: String = value.to_string().chars().take(300).collect();
                return Err(format!("{shown} does not fit {keyword} {argument}"));
            }
        }
        Ok(())
    }

    fn count(&self, schemas: &Value, value: &Value) -> usize {
        let schemas = schemas.as_array().unwrap().iter();
        schemas.filter(|schema| !self.is_another(schema, value) && self.check(schema, value).is_ok()).count()
    }

    /// Whether a schema is that of something of another type, which need not be looked at.
    fn is_another(&self, schema: &Value, value: &Value) -> bool {
        let name = schema["$ref"].as_str().and_then(|name| name.strip_prefix("#/$defs/"));
        let schema = name.map_or(schema, |name| &self.document["$defs"][name]);
        let (wanted, found) = (schema["properties"]["type"].get("const"), value.get("type"));
        wanted.is_some() && found.is_some() && wanted != found
    }
}

/// Whether a text is like one of the patterns that ours use.
fn is_like(pattern: &Value, text: &str) -> bool {
    let is_number = |text: &str| (1..=19).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    match pattern.as_str().unwrap() {
        "^[0-9]{1,19}:[0-9]{1,19}$" => {
            text.split_once(':').is_some_and(|(epoch, seq)| is_number(epoch) && is_number(seq))
        }
        "^req_[0-9]{1,19}$" => text.strip_prefix("req_").is_some_and(is_number),
        "^call_[0-9]{1,19}$" => text.strip_prefix("call_").is_some_and(is_number),
        "^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*_?$" => {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
            !text.is_empty() && text.bytes().all(fits) && !text.starts_with('_') && !text.contains("__")
        }
        "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$" => {
            let parts: Vec<&str> = text.split('-').collect();
            let is_hexadecimal = parts.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_hexdigit()));
            is_hexadecimal && parts.iter().map(|part| part.len()).eq([8, 4, 4, 4, 12])
        }
        other => panic!("the pattern {other} of a schema is not known here"),
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
