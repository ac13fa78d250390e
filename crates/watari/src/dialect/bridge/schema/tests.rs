//! The schema says of a line what the reader says of it.

use super::*;
use crate::dialect::bridge::incoming::{self, read};
use crate::dialect::bridge::options;
use crate::dialect::judge::Judge;
use crate::dialect::members::Members;

/// A session that could be resumed.
const SESSION: &str = "33333333-3333-4333-8333-333333333333";

/// Every message that a client can write, with every field.
fn messages() -> Vec<Value> {
    vec![
        json!({"type": "start", "prompt": "渡り", "options": {"model": "sonnet"}}),
        json!({"type": "user_message", "text": "see", "images": [{"type": "image"}], "documents": [{"type": "document"}]}),
        json!({"type": "permission_response", "requestId": "req_1", "result": allow()}),
        json!({"type": "permission_response", "requestId": "req_1", "result": deny()}),
        json!({"type": "abort"}),
        json!({"type": "interrupt", "cancelQueued": true}),
        json!({"type": "set_model", "model": "opus"}),
        json!({"type": "set_permission_mode", "mode": "plan"}),
        json!({"type": "register_tools", "tools": [tool()]}),
        json!({"type": "tool_call_result", "callId": "call_1", "content": "5", "isError": true}),
    ]
}

fn allow() -> Value {
    json!({"behavior": "allow", "updatedInput": {"command": "ls"}, "updatedPermissions": [{"type": "addRules"}]})
}

fn tool() -> Value {
    json!({"name": "add", "description": "Adds.", "inputSchema": {"type": "object"}})
}

fn deny() -> Value {
    json!({"behavior": "deny", "message": "no", "interrupt": true})
}

/// Values of every kind, among them every object that fits somewhere, and every word that the schema has or the reader
/// names where it knows better.
fn values(schema: &Value) -> Vec<Value> {
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
        json!("req_7"),
        json!(SESSION),
        json!([]),
        json!(["a word"]),
        json!([7]),
        json!([{}]),
        json!([{"path": "/p"}]),
        json!([{"path": 7}]),
        json!(["user", "local"]),
        json!(["user", "mine"]),
        json!({}),
        json!({"a": "b"}),
        json!({"a": null}),
        json!({"a": 7}),
        json!({"a": {}}),
        json!({"preset": "claude_code"}),
        json!({"preset": "claude_code", "append": "and", "type": "preset"}),
        json!({"preset": "claude_code", "append": 7}),
        json!({"preset": "other"}),
        json!({"type": "json_schema", "schema": {}}),
        json!({"type": "json_schema", "schema": 7}),
        json!({"type": "text", "schema": {}}),
        json!({"type": "json_schema"}),
        json!({"path": "/p"}),
        allow(),
        deny(),
        json!({"behavior": "perhaps"}),
    ];
    words(schema, &mut values);
    for name in names_in(&schema["$defs"]["StartOptions"]) {
        for wrong in [json!("a word"), json!(["a word"])] {
            let line = json!({"type": "start", "prompt": "go", "options": {name: wrong}});
            let told = read(line.to_string().as_bytes()).err().unwrap_or_default();
            let words = told.split(|letter: char| !letter.is_alphanumeric());
            values.extend(words.flat_map(|word| [json!(word), json!([word])]));
        }
    }
    values.sort_by_key(Value::to_string);
    values.dedup();
    values
}

/// The words that a schema lists.
fn words(schema: &Value, found: &mut Vec<Value>) {
    match schema {
        Value::Array(schemas) => schemas.iter().for_each(|schema| words(schema, found)),
        Value::Object(members) => {
            found.extend(members.get("enum").and_then(Value::as_array).into_iter().flatten().cloned());
            found.extend(members.get("const").cloned());
            members.values().for_each(|schema| words(schema, found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn names_in(schema: &Value) -> Vec<&str> {
    schema["properties"].as_object().unwrap().keys().map(String::as_str).collect()
}

/// The names that are asked for when a value is read.
fn asked_for<T>(value: &Value, read: impl Fn(&mut Members<'_>) -> Result<T, String>) -> Vec<&'static str> {
    let text = value.to_string();
    let mut members = Members::read(&text).unwrap();
    assert!(read(&mut members).is_ok(), "{value}");
    members.known.sort_unstable();
    members.known
}

#[test]
fn the_schema_names_what_the_reader_asks_for_and_nothing_else() {
    let schema = schema();
    let definitions = &schema["$defs"];
    let mut read = Vec::new();
    for message in messages() {
        let kind = message["type"].as_str().unwrap();
        assert_eq!(names_in(&definitions[kind]), asked_for(&message, incoming::message), "{kind}");
        read.push(json!({"$ref": format!("#/$defs/{kind}")}));
    }
    // An answer is a yes or a no.
    read.dedup();
    assert_eq!(definitions["to_watari"]["oneOf"], Value::from(read));
    assert_eq!(names_in(&definitions["StartOptions"]), asked_for(&json!({}), options::read));
    let answers = &definitions["PermissionResult"]["oneOf"];
    assert_eq!(names_in(&answers[0]), asked_for(&allow(), incoming::answer));
    assert_eq!(names_in(&answers[1]), asked_for(&deny(), incoming::answer));
    assert_eq!(
        names_in(&definitions["ClientTool"]),
        asked_for(&tool(), |given| crate::dialect::content::tool(given, "inputSchema"))
    );
}

/// Puts values in the place of every member of an object, and takes it away; `around` makes a message of the object.
fn variations(object: &Value, values: &[Value], around: impl Fn(Value) -> Value) -> Vec<Value> {
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

#[test]
fn the_reader_takes_a_line_exactly_if_the_schema_does() {
    let document = schema();
    let (values, judge) = (values(&document), Judge::new(document.clone()));
    let mut lines: Vec<Value> =
        messages().iter().flat_map(|message| variations(message, &values, |line| line)).collect();
    for result in [allow(), deny()] {
        let answer = |result| json!({"type": "permission_response", "requestId": "req_1", "result": result});
        lines.extend(variations(&result, &values, answer));
    }
    lines.extend(variations(&tool(), &values, |tool| json!({"type": "register_tools", "tools": [tool]})));
    for name in names_in(&document["$defs"]["StartOptions"]) {
        // A copy needs something to be copied.
        let more = if name == "forkSession" { json!({"resume": SESSION}) } else { json!({}) };
        let start = |options: Value| {
            let mut all = more.clone();
            all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
            json!({"type": "start", "prompt": "go", "options": all})
        };
        lines.extend(variations(&json!({name: null}), &values, start));
    }
    let (mut taken, mut refused) = (0, 0);
    for line in lines {
        // Which requests there are, a schema cannot say.
        let is_request = line["requestId"].as_str().is_none_or(|id| id.starts_with("req_"));
        let is_call = line["callId"].as_str().is_none_or(|id| id.starts_with("call_"));
        // What a tool may be called, it says in words.
        let fits = |name: &str| !name.is_empty() && !name.contains(' ');
        let is_ours = is_request && is_call && line["tools"][0]["name"].as_str().is_none_or(fits);
        let (judged, heard) = (judge.judge("to_watari", &line), read(line.to_string().as_bytes()));
        assert_eq!(judged.is_ok() && is_ours, heard.is_ok(), "{line}: {judged:?}, {heard:?}");
        *if heard.is_ok() { &mut taken } else { &mut refused } += 1;
    }
    assert!(taken > 300 && refused > 1000, "{taken} lines were taken, {refused} refused");
}

#[test]
fn every_option_has_an_effect() {
    let document = schema();
    let (values, judge) = (values(&document), Judge::new(document.clone()));
    let heard = |options: &Value| {
        let line = json!({"type": "start", "prompt": "go", "options": options});
        format!("{:?}", read(line.to_string().as_bytes()))
    };
    for name in names_in(&document["$defs"]["StartOptions"]) {
        let base = if name == "forkSession" { json!({"resume": SESSION}) } else { json!({}) };
        let changes = values.iter().any(|value| {
            let mut options = base.clone();
            options[name] = value.clone();
            judge.judge("StartOptions", &options).is_ok() && heard(&options) != heard(&base)
        });
        assert!(changes, "{name}");
    }
}

#[test]
fn every_message_and_every_field_is_described() {
    let document = schema();
    let mut extensions = Vec::new();
    for (name, definition) in document["$defs"].as_object().unwrap() {
        assert!(definition["description"].is_string(), "{name}");
        let variants = definition["oneOf"].as_array().or(definition["anyOf"].as_array());
        for shape in variants.into_iter().flatten().chain([definition]) {
            for (field, schema) in shape["properties"].as_object().into_iter().flatten() {
                let is_tag = schema.get("const").is_some();
                assert!(is_tag || schema["description"].is_string(), "{name}.{field}");
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
    insta::assert_snapshot!(extensions.join("\n"), @"
    StartOptions.additionalDirectories
    StartOptions.agents
    StartOptions.allowedTools
    StartOptions.continue
    StartOptions.effort
    StartOptions.forkSession
    StartOptions.mcpServers
    StartOptions.outputFormat
    StartOptions.permissionTimeoutMs
    StartOptions.plugins
    StartOptions.settings
    interrupt
    message_dropped
    permission_closed
    register_tools
    set_model
    set_permission_mode
    status.model
    status.permissionMode
    task
    tool_call
    tool_call_result
    tool_result
    turn_result.origin
    ");
}
