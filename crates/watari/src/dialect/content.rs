//! What clients of several dialects send in the same shape: prompts with images and documents, tools and their results.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;
use watari_sdk::{Prompt, Raw, Tool};

use super::members::{Members, TextOrBlocks};

/// A text, and after it images and documents in the API's shape, which pass as they are.
pub(crate) fn prompt(members: &mut Members<'_>) -> Result<Prompt, String> {
    let text = members.content("text")?;
    let what = "a list of content blocks";
    let mut blocks = members.blocks("images", what)?;
    blocks.extend(members.blocks("documents", what)?);
    if blocks.is_empty() {
        return Ok(text.into());
    }
    let text = Raw::of(&serde_json::json!({"type": "text", "text": text}));
    let blocks: Vec<&str> = std::iter::once(text.as_str()).chain(blocks.iter().map(|block| block.get())).collect();
    Ok(Prompt::blocks(format!("[{}]", blocks.join(",")).as_str()))
}

/// The tools of the client. What the model calls them has a limit, and so has the API.
pub(crate) fn tools(members: &mut Members<'_>, schema: &'static str) -> Result<Vec<Tool>, String> {
    let mut tools: Vec<Tool> = Vec::new();
    for mut given in members.objects("tools", "tools[].", "a list of tools with a name")? {
        let tool = tool(&mut given, schema)?;
        if tools.iter().any(|other| other.name == tool.name) {
            return Err(format!("two of the tools are called {:?}", tool.name));
        }
        tools.push(tool);
    }
    Ok(tools)
}

pub(crate) fn tool(given: &mut Members<'_>, schema_name: &'static str) -> Result<Tool, String> {
    let name: String = given.required("name", "a string")?;
    let description = given.text("description")?.unwrap_or_default();
    let schema = given.raw_object(schema_name)?;
    if let Some(what) = schema.as_ref().and_then(|schema| wrong_in_schema(schema)) {
        return Err(format!("tools[].{schema_name}.{what}"));
    }
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if name.is_empty() || name.len() > TOOL_NAME_MAX || !name.chars().all(fits) {
        return Err(format!("tools[].name must have 1 to {TOOL_NAME_MAX} letters, digits, _ and -"));
    }
    let input_schema = schema.unwrap_or_else(|| Raw::from(r#"{"type":"object"}"#));
    Ok(Tool { name, description, input_schema })
}

/// What the CLI would not take in the schema of a tool. (It then drops every tool of the server without a word: 2.1.325 and
/// 2.1.42.)
fn wrong_in_schema(schema: &Raw) -> Option<&'static str> {
    type Object<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;
    let members: Object<'_> = schema.parse().unwrap_or_default();
    let text = |name: &str| members.get(name).map(|value| value.get());
    let is_properties = |text: &str| {
        let properties = serde_json::from_str::<Object<'_>>(text);
        properties.is_ok_and(|properties| properties.values().all(|property| property.get().starts_with('{')))
    };
    if !text("type").is_some_and(|text| serde_json::from_str::<String>(text).is_ok_and(|name| name == "object")) {
        Some("type must be \"object\": the input of a tool is an object")
    } else if text("properties").is_some_and(|text| !is_properties(text)) {
        Some("properties must be an object of schemas, each an object")
    } else if text("required").is_some_and(|text| serde_json::from_str::<Vec<String>>(text).is_err()) {
        Some("required must be a list of strings")
    } else {
        None
    }
}

/// With what stands before it for the model, 64, as the API has it.
const TOOL_NAME_MAX: usize = 64 - "mcp__client__".len();

/// The input that a tool is to run with instead. An empty one cannot be told to the CLI: it would run what was asked.
pub(crate) fn edited_input(members: &mut Members<'_>) -> Result<Option<Raw>, String> {
    let input = members.raw_object("input")?;
    let is_empty = |input: &Raw| input.as_str().trim_start_matches('{').trim_start().starts_with('}');
    match input.as_ref().is_some_and(is_empty) {
        true => Err("input is empty: leave it out to run what was asked, or deny".to_owned()),
        false => Ok(input),
    }
}

/// What a tool gives back: a text, or blocks in MCP's shape, which pass as they are.
pub(crate) fn tool_result(members: &mut Members<'_>) -> Result<Raw, String> {
    Ok(match members.text_or_blocks("content", "a string or a list of blocks")? {
        TextOrBlocks::Text(text) => Raw::of(&serde_json::json!([{"type": "text", "text": text}])),
        TextOrBlocks::Blocks(blocks) => blocks,
    })
}
