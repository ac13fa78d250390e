//! The schema and the reader accept the same lines.

use serde_json::json;

use super::*;
use crate::dialect::bridge::incoming::{self, read};
use crate::dialect::bridge::options;
use crate::dialect::judge::Judge;
use crate::dialect::schema::checks::{
    self, are_taken_as_the_schema_says, asked_for, extensions_of_what_is_described, names_in, refused_in_every_place,
    variations,
};

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

/// Values of every kind, including every object that is valid somewhere, every constant of the schema, and every word of
/// the reader's errors, which list the values that it accepts.
fn values(schema: &Value) -> Vec<Value> {
    let mut values = checks::values(schema);
    values.extend([
        json!("req_7"),
        json!(SESSION),
        json!([{"path": "/p"}]),
        json!([{"path": 7}]),
        json!(["user", "local"]),
        json!(["user", "mine"]),
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
    ]);
    for name in names_in(&schema["$defs"]["StartOptions"]) {
        for wrong in [json!("a word"), json!(["a word"])] {
            let line = json!({"type": "start", "prompt": "go", "options": {name: wrong}});
            let error = read(line.to_string().as_bytes()).err().map(|error| error.message).unwrap_or_default();
            let candidates = error.split(|letter: char| !letter.is_alphanumeric());
            values.extend(candidates.flat_map(|word| [json!(word), json!([word])]));
        }
    }
    values.sort_by_key(Value::to_string);
    values.dedup();
    values
}

#[test]
fn the_schema_has_exactly_the_members_that_the_parser_reads() {
    let schema = schema();
    let definitions = &schema["$defs"];
    let mut read = Vec::new();
    for message in messages() {
        let kind = message["type"].as_str().unwrap();
        assert_eq!(names_in(&definitions[kind]), asked_for(&message, incoming::message), "{kind}");
        read.push(json!({"$ref": format!("#/$defs/{kind}")}));
    }
    // An answer allows or denies.
    read.dedup();
    assert_eq!(definitions["to_watari"]["oneOf"], Value::from(read));
    assert_eq!(names_in(&definitions["StartOptions"]), asked_for(&json!({}), options::read));
    let answers = &definitions["PermissionResult"]["oneOf"];
    assert_eq!(names_in(&answers[0]), asked_for(&allow(), incoming::answer));
    assert_eq!(names_in(&answers[1]), asked_for(&deny(), incoming::answer));
    assert_eq!(
        names_in(&definitions["ClientTool"]),
        asked_for(&tool(), |members| crate::dialect::content::tool(members, "inputSchema"))
    );
}

#[test]
fn the_parser_accepts_a_line_exactly_if_the_schema_does() {
    let document = schema();
    let values = values(&document);
    let mut lines: Vec<Value> =
        messages().iter().flat_map(|message| variations(message, &values, |line| line)).collect();
    for result in [allow(), deny()] {
        let answer = |result| json!({"type": "permission_response", "requestId": "req_1", "result": result});
        lines.extend(variations(&result, &values, answer));
    }
    lines.extend(variations(&tool(), &values, |tool| json!({"type": "register_tools", "tools": [tool]})));
    for name in names_in(&document["$defs"]["StartOptions"]) {
        // A fork needs a session to resume.
        let more = if name == "forkSession" { json!({"resume": SESSION}) } else { json!({}) };
        let start = |options: Value| {
            let mut all = more.clone();
            all.as_object_mut().unwrap().extend(options.as_object().unwrap().clone());
            json!({"type": "start", "prompt": "go", "options": all})
        };
        lines.extend(variations(&json!({name: null}), &values, start));
    }
    let (taken, refused) = are_taken_as_the_schema_says(&document, lines, |line| read(line.as_bytes()));
    assert!(taken > 300 && refused > 1000, "{taken} lines were taken, {refused} refused");
}

#[test]
fn every_option_has_an_effect() {
    let document = schema();
    let (values, judge) = (values(&document), Judge::new(document.clone()));
    let received = |options: &Value| {
        let line = json!({"type": "start", "prompt": "go", "options": options});
        format!("{:?}", read(line.to_string().as_bytes()))
    };
    for name in names_in(&document["$defs"]["StartOptions"]) {
        let base = if name == "forkSession" { json!({"resume": SESSION}) } else { json!({}) };
        let changes = values.iter().any(|value| {
            let mut options = base.clone();
            options[name] = value.clone();
            judge.judge("StartOptions", &options).is_ok() && received(&options) != received(&base)
        });
        assert!(changes, "{name}");
    }
}

#[test]
fn every_message_and_every_field_is_described() {
    insta::assert_snapshot!(extensions_of_what_is_described(&schema()).join("\n"), @"
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
    error.code
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
    tool_call_closed
    tool_call_result
    tool_result
    turn_result.origin
    turn_result.structuredOutput
    ");
}

/// Every line that a client can write, with every option.
fn lines() -> Vec<Value> {
    let document = schema();
    let options = names_in(&document["$defs"]["StartOptions"]).into_iter().map(|name| {
        let value = match name {
            "mcpServers" | "agents" => json!({"a": {"command": "x"}}),
            _ => json!({}),
        };
        json!({"type": "start", "prompt": "go", "options": {name: value}})
    });
    messages().into_iter().chain(options.collect::<Vec<_>>()).collect()
}

#[test]
fn no_value_that_is_nested_too_deep_reaches_the_cli() {
    let read =
        |line: &str| read(line.as_bytes()).map(|received| format!("{received:?}")).map_err(|error| error.message);
    insta::assert_snapshot!(refused_in_every_place(&lines(), &checks::deep(), read).join("\n"), @"
    callId
    cancelQueued
    content
    documents
    images
    isError
    mode
    model
    options.additionalDirectories
    options.agents
    options.allowedTools
    options.continue
    options.cwd
    options.disallowedTools
    options.effort
    options.env
    options.forkSession
    options.includePartialMessages
    options.maxBudgetUsd
    options.maxThinkingTokens
    options.maxTurns
    options.mcpServers
    options.model
    options.outputFormat.schema
    options.permissionMode
    options.permissionTimeoutMs
    options.plugins
    options.resume
    options.settingSources
    options.settings
    options.systemPrompt
    prompt
    requestId
    result.behavior
    result.interrupt
    result.message
    result.updatedInput
    result.updatedPermissions
    text
    tools[].description
    tools[].inputSchema
    tools[].name
    type
    ");
}
