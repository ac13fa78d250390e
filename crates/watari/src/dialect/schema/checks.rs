//! Helpers for tests that a dialect's schema and its reader agree.

use serde_json::{Value, json};

use crate::dialect::judge::Judge;
use crate::dialect::members::Members;

/// Values of every kind, and every constant of a schema.
pub(in crate::dialect) fn values(schema: &Value) -> Vec<Value> {
    let mut values = vec![
        json!(null),
        json!(true),
        json!(false),
        json!(0),
        json!(7),
        json!(7.0),
        json!(7.5),
        json!(-1),
        json!(4_294_967_296_u64),
        json!(""),
        json!("a word"),
        json!([]),
        json!(["a word"]),
        json!([7]),
        json!([{}]),
        json!({}),
        json!({"a": "b"}),
        json!({"a": null}),
        json!({"a": 7}),
        json!({"a": {}}),
        // At and beyond the limits of numbers, positions, names and blocks.
        json!(9_007_199_254_740_991_u64),
        json!(9_007_199_254_740_992_u64),
        json!(1e16),
        json!(u64::MAX),
        json!("9999999999999999999:1"),
        json!("10000000000000000000:1"),
        json!("3:18446744073709551616"),
        json!("req_9999999999999999999"),
        json!("req_18446744073709551616"),
        json!("req_+7"),
        json!("call_9999999999999999999"),
        json!("call_10000000000000000000"),
        json!("call_"),
        json!("渡".repeat(256)),
        json!("渡".repeat(257)),
        json!("x".repeat(51)),
        json!("_x"),
        json!("x__y"),
        json!("x_y_"),
        json!("x".repeat(52)),
        json!([{"type": "text", "text": "a"}, {"type": "image"}, {"type": "document"}]),
        json!([{"type": "text"}]),
        json!([{"type": "text", "text": 5}]),
        json!([{"type": "tool_result", "tool_use_id": "toolu_1", "content": "yes"}]),
        json!([{"type": "image"}, {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}]),
        json!([{"type": null}]),
    ];
    constants(schema, &mut values);
    values.sort_by_key(Value::to_string);
    values.dedup();
    values
}

fn constants(schema: &Value, found: &mut Vec<Value>) {
    match schema {
        Value::Array(schemas) => schemas.iter().for_each(|schema| constants(schema, found)),
        Value::Object(members) => {
            found.extend(members.get("enum").and_then(Value::as_array).into_iter().flatten().cloned());
            found.extend(members.get("const").cloned());
            members.values().for_each(|schema| constants(schema, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The names of the members that a schema has.
pub(in crate::dialect) fn names_in(schema: &Value) -> Vec<&str> {
    schema["properties"].as_object().unwrap().keys().map(String::as_str).collect()
}

/// The names that the reader looks up when it reads a value.
pub(in crate::dialect) fn asked_for<T>(
    value: &Value,
    read: impl Fn(&mut Members<'_>) -> Result<T, String>,
) -> Vec<&'static str> {
    let text = value.to_string();
    let mut members = Members::of_line(&text).unwrap();
    assert!(read(&mut members).is_ok(), "{value}");
    members.known.sort_unstable();
    members.known
}

/// Replaces every member of an object by each value, and removes it; `around` makes a message of the object.
pub(in crate::dialect) fn variations(object: &Value, values: &[Value], around: impl Fn(Value) -> Value) -> Vec<Value> {
    let mut made = Vec::new();
    for name in object.as_object().unwrap().keys() {
        let mut without = object.clone();
        without.as_object_mut().unwrap().remove(name);
        made.push(around(without));
        made.extend(values.iter().map(|value| {
            let mut with = object.clone();
            with[name] = value.clone();
            around(with)
        }));
    }
    made
}

/// Asserts that the reader accepts a line exactly if the schema does. Returns how many were accepted and refused.
pub(in crate::dialect) fn are_taken_as_the_schema_says<T: std::fmt::Debug, E: std::fmt::Debug>(
    schema: &Value,
    lines: Vec<Value>,
    read: impl Fn(&str) -> Result<T, E>,
) -> (usize, usize) {
    let judge = Judge::new(schema.clone());
    let (mut taken, mut refused) = (0, 0);
    for line in lines {
        let (judged, received) = (judge.judge("to_watari", &line), read(&line.to_string()));
        assert_eq!(judged.is_ok(), received.is_ok(), "{line}: {judged:?}, {received:?}");
        *if received.is_ok() { &mut taken } else { &mut refused } += 1;
    }
    (taken, refused)
}

/// Replaces every value of a message, one by one, by a value that must never reach the CLI, and asserts that the reader
/// refuses or drops it. Returns the fields that its errors name.
pub(in crate::dialect) fn refused_in_every_place(
    messages: &[Value],
    bad: &[String],
    read: impl Fn(&str) -> Result<String, String>,
) -> Vec<String> {
    let mut named = Vec::new();
    for (message, bad) in messages.iter().flat_map(|message| bad.iter().map(move |bad| (message, bad))) {
        for place in places(message) {
            let mut marked = message.clone();
            *marked.pointer_mut(&place).unwrap() = json!("@BAD@");
            let line = marked.to_string().replace("\"@BAD@\"", bad);
            match read(&line) {
                Ok(received) => assert!(received.len() < 5000, "{place} of {message} reaches the CLI"),
                Err(error) => {
                    assert!(error.len() < 2000, "{place} of {message} is quoted");
                    let field = error.split_once(" is nested too deep").or(error.split_once(" has "));
                    named.extend(field.map(|(field, _)| field.to_owned()));
                }
            }
        }
    }
    named.sort_unstable();
    named.dedup();
    named
}

/// Values that are nested far too deep, in every shape that a field may have.
pub(in crate::dialect) fn deep() -> Vec<String> {
    let nested = |open: &str, close: &str| format!("{}1{}", open.repeat(3000), close.repeat(3000));
    let (object, list) = (nested("{\"a\":", "}"), nested("[", "]"));
    vec![
        format!("[{object}]"),
        format!(r#"{{"a":{object},"b":{{"a":{list}}}}}"#),
        format!(r#"{{"type":"object","a":{object}}}"#),
        format!(r#"{{"type":"json_schema","schema":{object}}}"#),
        object,
        list,
    ]
}

/// The JSON pointers of all values within a value.
fn places(value: &Value) -> Vec<String> {
    let inner: Vec<(String, &Value)> = match value {
        Value::Object(members) => members.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(values) => values.iter().enumerate().map(|(place, value)| (place.to_string(), value)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    };
    let below = |(name, value): (String, &Value)| {
        let own = format!("/{}", name.replace('~', "~0").replace('/', "~1"));
        let deeper = places(value).into_iter().map(|place| format!("{own}{place}")).collect::<Vec<_>>();
        std::iter::once(own).chain(deeper).collect::<Vec<_>>()
    };
    inner.into_iter().flat_map(below).collect()
}

/// Asserts that every definition and every field has a description. Returns the extensions.
pub(in crate::dialect) fn extensions_of_what_is_described(schema: &Value) -> Vec<String> {
    let mut extensions = Vec::new();
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        assert!(definition["description"].is_string(), "{name}");
        let variants = definition["oneOf"].as_array().or(definition["anyOf"].as_array());
        for shape in variants.into_iter().flatten().chain([definition]) {
            let fields = shape["properties"].as_object();
            // If there is one field beside the tag, the variant's description covers it.
            let count = fields.into_iter().flatten().filter(|(_, schema)| schema.get("const").is_none()).count();
            let is_named = count == 1 && shape["description"].is_string();
            for (field, schema) in fields.into_iter().flatten() {
                let is_tag = schema.get("const").is_some();
                let is_described = schema["description"].is_string() || is_named && shape != definition;
                assert!(is_tag || is_described, "{name}.{field}");
                let is_extension = |schema: &Value| {
                    schema["description"].as_str().is_some_and(|description| description.starts_with("Extension: "))
                };
                if is_extension(schema) && !is_extension(definition) {
                    extensions.push(format!("{name}.{field}"));
                } else if is_tag && is_extension(definition) {
                    extensions.push(name.clone());
                }
            }
        }
    }
    extensions
}
