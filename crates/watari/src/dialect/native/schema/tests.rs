//! The schema and the reader accept the same lines.

use serde_json::json;

use super::*;
use crate::dialect::native::incoming::{self, read};
use crate::dialect::schema::checks::{
    self, are_taken_as_the_schema_says, asked_for, extensions_of_what_is_described, names_in, refused_in_every_place,
    variations,
};

/// An entry of a conversation.
const ENTRY: &str = "33333333-3333-4333-8333-333333333333";

/// Every message that a client can write, with every field.
fn messages() -> Vec<Value> {
    vec![
        json!({"type": "hello", "protocol": [1, 2], "since": "3:17", "client": "editor", "id": "1"}),
        json!({"type": "prompt", "content": "go", "id": "1"}),
        json!({"type": "interrupt", "cancel_queued": true, "id": "1"}),
        json!({"type": "answer", "ask": 7, "answer": {"type": "decline"}, "id": "1"}),
        json!({"type": "request", "request": {"type": "mcp_status"}, "id": "1"}),
        json!({"type": "close", "id": "1"}),
        json!({"type": "abort", "id": "1"}),
    ]
}

fn answers() -> Vec<Value> {
    vec![
        json!({"type": "allow", "input": {"command": "ls"}, "permissions": [{"type": "addRules"}]}),
        json!({"type": "deny", "message": "no", "interrupt": true}),
        json!({"type": "choose", "choices": {"Which?": "this"}}),
        json!({"type": "hook", "output": {"type": "defer"}}),
        json!({"type": "accept", "content": {"name": "渡り"}}),
        json!({"type": "decline"}),
        json!({"type": "cancel"}),
        json!({"type": "tool_result", "content": [{"type": "text", "text": "5"}], "is_error": true}),
    ]
}

fn hook_outputs() -> Vec<Value> {
    vec![
        json!({"type": "no_opinion"}),
        json!({"type": "allow", "input": {"command": "ls"}}),
        json!({"type": "deny", "reason": "no"}),
        json!({"type": "ask", "reason": "look"}),
        json!({"type": "defer"}),
        json!({"type": "block", "reason": "no"}),
        json!({"type": "context", "text": "it rains"}),
        json!({"type": "halt", "reason": "enough"}),
        json!({"type": "other", "output": {"continue": true}}),
    ]
}

fn requests() -> Vec<Value> {
    vec![
        json!({"type": "set_model", "model": "opus"}),
        json!({"type": "set_permission_mode", "mode": "plan"}),
        json!({"type": "set_thinking", "tokens": 7}),
        json!({"type": "set_tools", "tools": [tool()]}),
        json!({"type": "mcp_status"}),
        json!({"type": "set_mcp_servers", "servers": {"one": {"command": "x"}}}),
        json!({"type": "reconnect_mcp", "server": "one"}),
        json!({"type": "toggle_mcp", "server": "one", "enabled": true}),
        json!({"type": "context_usage"}),
        json!({"type": "rewind", "entry": ENTRY, "dry_run": true}),
        json!({"type": "stop_task", "task": "t"}),
        json!({"type": "read_file", "path": "/p", "max_bytes": 7}),
        json!({"type": "rename", "title": "a title"}),
        json!({"type": "reinitialize"}),
        json!({"type": "other", "subtype": "x", "fields": {"a": 1}}),
    ]
}

fn tool() -> Value {
    json!({"name": "add", "description": "Adds.", "input_schema": {"type": "object"}})
}

fn types(examples: &[Value]) -> Vec<&Value> {
    examples.iter().map(|example| &example["type"]).collect()
}

#[test]
fn the_schema_has_exactly_the_members_that_the_parser_reads() {
    let schema = schema();
    let definitions = &schema["$defs"];
    let mut read = Vec::new();
    for message in messages() {
        let kind = message["type"].as_str().unwrap();
        let asked = asked_for(&message, |members| {
            let id = members.text("id")?;
            incoming::message(members, id)
        });
        assert_eq!(names_in(&definitions[kind]), asked, "{kind}");
        read.push(json!({"$ref": format!("#/$defs/{kind}")}));
    }
    assert_eq!(definitions["to_watari"]["oneOf"], Value::from(read));
    let shapes = |name: &str, examples: &[Value]| {
        let shapes = definitions[name]["oneOf"].as_array().unwrap().clone();
        let named: Vec<&Value> = shapes.iter().map(|shape| &shape["properties"]["type"]["const"]).collect();
        assert_eq!(named, types(examples), "{name}");
        shapes
    };
    for (shape, answer) in shapes("AnswerInput", &answers()).iter().zip(&answers()) {
        assert_eq!(names_in(shape), asked_for(answer, incoming::answer), "{answer}");
    }
    for (shape, output) in shapes("HookOutput", &hook_outputs()).iter().zip(&hook_outputs()) {
        assert_eq!(names_in(shape), asked_for(output, incoming::hook), "{output}");
    }
    for (shape, request) in shapes("RequestMade", &requests()).iter().zip(&requests()) {
        assert_eq!(names_in(shape), asked_for(request, incoming::request), "{request}");
    }
}

#[test]
fn the_parser_accepts_a_line_exactly_if_the_schema_does() {
    let schema = schema();
    // The constants of events are too many, and irrelevant here.
    let written = ["hello", "abort", "AnswerInput", "HookOutput", "RequestMade", "PermissionMode", "Since"];
    let mut values = checks::values(&written.map(|name| schema["$defs"][name].clone()).into());
    values.extend([
        json!("3:17"),
        json!("3:"),
        json!("+3:1"),
        json!([1]),
        json!([1.0]),
        json!([1, "a"]),
        json!([1, -1]),
    ]);
    values.extend([json!(ENTRY), json!({"a": {}, "b": 7}), json!([{}, 7])]);
    values.extend(answers().into_iter().chain(hook_outputs()).chain(requests()));
    let answer = |answer: Value| json!({"type": "answer", "ask": 7, "answer": answer});
    let mut lines: Vec<Value> =
        messages().iter().flat_map(|message| variations(message, &values, |line| line)).collect();
    lines.extend(answers().iter().flat_map(|it| variations(it, &values, answer)));
    let hook = |output: Value| answer(json!({"type": "hook", "output": output}));
    lines.extend(hook_outputs().iter().flat_map(|it| variations(it, &values, hook)));
    let request = |request: Value| json!({"type": "request", "request": request});
    lines.extend(requests().iter().flat_map(|it| variations(it, &values, request)));
    lines.extend(variations(&tool(), &values, |tool| request(json!({"type": "set_tools", "tools": [tool]}))));
    let (taken, refused) = are_taken_as_the_schema_says(&schema, lines, read);
    assert!(taken > 300 && refused > 3000, "{taken} lines were taken, {refused} refused");
}

#[test]
fn every_message_and_every_field_is_described() {
    assert_eq!(extensions_of_what_is_described(&schema()), Vec::<String>::new());
}

#[test]
fn every_event_has_its_own_position_or_the_position_before_it() {
    let schema = schema();
    let messages = schema["$defs"]["from_watari"]["oneOf"].as_array().unwrap();
    let mut ephemeral = Vec::new();
    for message in messages.iter().skip(4) {
        let name = message["$ref"].as_str().unwrap().strip_prefix("#/$defs/").unwrap();
        let definition = &schema["$defs"][name];
        let kinds = definition["oneOf"].as_array().cloned().unwrap_or_else(|| vec![definition.clone()]);
        for kind in kinds {
            let has = |place: &str| kind["required"].as_array().unwrap().contains(&json!(place));
            assert_ne!(has("seq"), has("after"), "{name}");
            if has("after") {
                ephemeral.push(name);
            }
            assert_eq!(kind["additionalProperties"], false, "{name}");
        }
    }
    ephemeral.sort_unstable();
    let mut expected = EPHEMERAL_TYPES;
    expected.sort_unstable();
    assert_eq!(ephemeral, expected);
}

/// Every line that a client can write, with every answer, output and request.
fn lines() -> Vec<Value> {
    let answer = |answer: Value| json!({"type": "answer", "ask": 7, "answer": answer});
    let hook = |output: Value| answer(json!({"type": "hook", "output": output}));
    let request = |request: Value| json!({"type": "request", "request": request});
    let blocks = json!({"type": "prompt", "content": [{"type": "text", "text": "go"}]});
    let mut lines = messages();
    lines.push(blocks);
    lines.extend(answers().into_iter().map(answer));
    lines.extend(hook_outputs().into_iter().map(hook));
    lines.extend(requests().into_iter().map(request));
    lines
}

#[test]
fn no_value_that_is_nested_too_deep_reaches_the_cli() {
    let read = |line: &str| read(line).map(|received| format!("{received:?}")).map_err(|problem| problem.message);
    insta::assert_snapshot!(refused_in_every_place(&lines(), &checks::deep(), read).join("\n"), @"
    answer.choices
    answer.content
    answer.input
    answer.interrupt
    answer.is_error
    answer.message
    answer.output.input
    answer.output.output
    answer.output.reason
    answer.output.text
    answer.output.type
    answer.permissions
    answer.type
    ask
    cancel_queued
    client
    content
    id
    protocol
    request.dry_run
    request.enabled
    request.entry
    request.fields
    request.max_bytes
    request.mode
    request.model
    request.path
    request.server
    request.servers
    request.subtype
    request.task
    request.title
    request.tokens
    request.type
    since
    tools[].description
    tools[].input_schema
    tools[].name
    type
    ");
}
