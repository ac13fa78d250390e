//! Short forms of the CLI's messages, and what can be derived from them.

use serde_json::Value;

/// A tool call, with the result that the CLI reported.
pub(super) struct ToolUse<'a> {
    pub(super) name: &'a str,
    pub(super) result: Option<&'a Value>,
}

/// The tools that a session lists.
pub(super) fn tools_of_session(messages: &[Value]) -> Vec<&str> {
    let starts = messages.iter().filter(|message| message["type"] == "system" && message["subtype"] == "init");
    starts.flat_map(|start| start["tools"].as_array().into_iter().flatten()).filter_map(Value::as_str).collect()
}

/// All tool calls, in order.
pub(super) fn tool_uses(messages: &[Value]) -> Vec<ToolUse<'_>> {
    let blocks = || messages.iter().flat_map(blocks_of);
    let result_of = |id: &Value| {
        blocks().find(|block| block["type"] == "tool_result" && !id.is_null() && block["tool_use_id"] == *id)
    };
    let uses = blocks().filter(|block| block["type"] == "tool_use");
    uses.map(|block| ToolUse { name: block["name"].as_str().unwrap_or_default(), result: result_of(&block["id"]) })
        .collect()
}

/// The text of a tool's result, whether it is one text or several blocks.
pub(super) fn text_of_result(result: &Value) -> String {
    match &result["content"] {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    }
}

/// The name of a message in the document: `system/init`, `assistant(tool_use:Bash)`, `result/success`.
pub(super) fn name_of(message: &Value) -> String {
    let word = |key: &str| message[key].as_str().unwrap_or_default().to_owned();
    let kind = word("type");
    match kind.as_str() {
        "system" | "result" => {
            let has_denials = message["permission_denials"].as_array().is_some_and(|denials| !denials.is_empty());
            let mark = match (message["is_error"] == true, has_denials) {
                (true, _) => "(is_error)",
                (false, true) => "(permission_denials)",
                (false, false) => "",
            };
            let subtype = word("subtype");
            let slash = if subtype.is_empty() { "" } else { "/" };
            format!("{kind}{slash}{subtype}{mark}")
        }
        "assistant" | "user" => {
            let blocks: Vec<String> = blocks_of(message).map(block_name).collect();
            let blocks = if blocks.is_empty() { "text".to_owned() } else { blocks.join(" + ") };
            let mark = if message["error"].is_string() { ", error" } else { "" };
            let from = if message["parent_tool_use_id"].is_string() { ", subagent" } else { "" };
            let synthetic = if message["isSynthetic"] == true { ", synthetic" } else { "" };
            format!("{kind}({blocks}{mark}{synthetic}{from})")
        }
        "control_request" => format!("{kind}/{}", message["request"]["subtype"].as_str().unwrap_or_default()),
        _ => kind,
    }
}

/// The names of a whole conversation's messages. Repeated names in a row are listed once.
pub(super) fn sequence(messages: &[Value]) -> Vec<String> {
    let mut names: Vec<String> = messages.iter().map(name_of).collect();
    names.dedup();
    names
}

fn blocks_of(message: &Value) -> impl Iterator<Item = &Value> {
    message["message"]["content"].as_array().into_iter().flatten()
}

fn block_name(block: &Value) -> String {
    let kind = block["type"].as_str().unwrap_or_default();
    match kind {
        "tool_use" => format!("tool_use:{}", block["name"].as_str().unwrap_or_default()),
        "tool_result" if block["is_error"] == true => "tool_result:error".to_owned(),
        _ => kind.to_owned(),
    }
}
