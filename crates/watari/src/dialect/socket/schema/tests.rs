//! The schema and the reader accept the same lines.

use serde_json::json;
use watari_sdk::AskId;

use super::*;
use crate::dialect::content;
use crate::dialect::schema::checks::{
    self, are_taken_as_the_schema_says, asked_for, extensions_of_what_is_described, names_in, refused_in_every_place,
    variations,
};
use crate::dialect::socket::asks::AskRef;
use crate::dialect::socket::incoming::{self, read};

/// Every message that a client can write, with every field.
fn messages() -> Vec<Value> {
    vec![
        json!({"type": "message", "text": "see", "images": [{"type": "image"}], "documents": [{"type": "document"}], "id": "1"}),
        json!({"type": "approve", "request_id": "toolu_1", "input": {"command": "ls"}, "id": "1"}),
        json!({"type": "deny", "request_id": "toolu_1", "reason": "no", "id": "1"}),
        json!({"type": "abort", "id": "1"}),
        json!({"type": "hello", "since": "3:17", "client": "editor", "id": "1"}),
        json!({"type": "register_tools", "tools": [tool()], "id": "1"}),
        json!({"type": "tool_call_result", "call_id": "call_1", "content": "5", "is_error": true, "id": "1"}),
        json!({"type": "close", "id": "1"}),
    ]
}

fn tool() -> Value {
    json!({"name": "add", "description": "Adds.", "input_schema": {"type": "object"}})
}

/// The client has one open ask.
fn ask_of(request_id: &str) -> Option<AskRef> {
    request_id.starts_with("toolu_").then_some(AskRef::Tool(AskId(1)))
}

#[test]
fn the_schema_has_exactly_the_members_that_the_parser_reads() {
    let schema = schema();
    let mut read = Vec::new();
    for message in messages() {
        let kind = message["type"].as_str().unwrap();
        let asked = asked_for(&message, |members| {
            let id = members.text("id")?;
            incoming::message(members, id, ask_of)
        });
        assert_eq!(names_in(&schema["$defs"][kind]), asked, "{kind}");
        read.push(json!({"$ref": format!("#/$defs/{kind}")}));
    }
    let asked = asked_for(&tool(), |members| content::tool(members, "input_schema"));
    assert_eq!(names_in(&schema["$defs"]["ClientTool"]), asked);
    assert_eq!(schema["$defs"]["to_watari"]["oneOf"], Value::from(read));
}

#[test]
fn the_parser_accepts_a_line_exactly_if_the_schema_does() {
    let schema = schema();
    let mut values = checks::values(&schema);
    values.extend([json!("toolu_7"), json!("call_7"), json!("3:17"), json!("3:"), json!("3:17:1"), json!("0:0")]);
    let mut lines: Vec<Value> =
        messages().iter().flat_map(|message| variations(message, &values, |line| line)).collect();
    lines.extend(variations(&tool(), &values, |tool| json!({"type": "register_tools", "tools": [tool]})));
    let (taken, refused) = are_taken_as_the_schema_says(&schema, lines, |line| read(line, ask_of));
    assert!(taken > 100 && refused > 500, "{taken} lines were taken, {refused} refused");
}

#[test]
fn every_message_and_every_field_is_described() {
    insta::assert_snapshot!(extensions_of_what_is_described(&schema()).join("\n"), @"
    abort.id
    accepted
    approval_request.seq
    approval_request.tool_use_id
    approval_resolved
    approve.id
    approve.input
    caught_up
    close
    deny.id
    done.message_id
    done.seq
    error.code
    error.id
    error.kind
    error.seq
    hello
    hello_from_watari
    init.seq
    message.documents
    message.id
    message.images
    register_tools
    subagent_text
    text_delta.seq
    text_reset
    thinking_delta
    tool_call
    tool_call_closed
    tool_call_result
    tool_result.content
    tool_result.is_error
    tool_result.parent_request_id
    tool_result.seq
    tool_use.parent_request_id
    tool_use.seq
    ");
}

#[test]
fn no_value_that_is_nested_too_deep_reaches_the_cli() {
    let read =
        |line: &str| read(line, ask_of).map(|received| format!("{received:?}")).map_err(|problem| problem.message);
    insta::assert_snapshot!(refused_in_every_place(&messages(), &checks::deep(), read).join("\n"), @"
    call_id
    client
    content
    documents
    id
    images
    input
    is_error
    reason
    request_id
    since
    text
    tools[].description
    tools[].input_schema
    tools[].name
    type
    ");
}
