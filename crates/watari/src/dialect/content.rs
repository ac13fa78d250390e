//! What clients of several dialects send in the same shape: prompts with images and documents, tools and their results.

use serde_json::value::RawValue;
use watari_sdk::{Prompt, Raw, Tool};

use super::members::Members;

/// A text, and after it images and documents in the API's shape, which pass as they are.
pub(crate) fn prompt(members: &mut Members<'_>) -> Result<Prompt, String> {
    let text: String = members.required("text", "a string")?;
    let mut blocks: Vec<&RawValue> = Vec::new();
    for name in ["images", "documents"] {
        let what = "a list of content blocks";
        let given: Vec<&RawValue> = members.optional(name, what)?.unwrap_or_default();
        if !given.iter().all(|block| block.get().starts_with('{')) {
            return Err(format!("{name} must be {what}"));
        }
        blocks.extend(given);
    }
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
    let schema: Option<&RawValue> = given.optional(schema_name, "an object")?;
    if schema.is_some_and(|schema| !schema.get().starts_with('{')) {
        return Err(format!("tools[].{schema_name} must be an object"));
    }
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    if name.is_empty() || name.len() > TOOL_NAME_MAX || !name.chars().all(fits) {
        return Err(format!("tools[].name must have 1 to {TOOL_NAME_MAX} letters, digits, _ and -"));
    }
    let input_schema = Raw::from(schema.map_or(r#"{"type":"object"}"#, |schema| schema.get()));
    Ok(Tool { name, description, input_schema })
}

/// With what stands before it for the model, 64, as the API has it.
const TOOL_NAME_MAX: usize = 64 - "mcp__client__".len();

/// What a tool gives back: a text, or blocks in MCP's shape, which pass as they are.
pub(crate) fn tool_result(members: &mut Members<'_>) -> Result<Raw, String> {
    let what = "a string or a list of blocks";
    let content: &RawValue = members.required("content", what)?;
    if let Ok(text) = serde_json::from_str::<String>(content.get()) {
        return Ok(Raw::of(&serde_json::json!([{"type": "text", "text": text}])));
    }
    blocks(content).ok_or_else(|| format!("content must be {what}"))
}

/// A list of objects, as it came; none if it is something else.
pub(crate) fn blocks(value: &RawValue) -> Option<Raw> {
    let blocks: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
    blocks.iter().all(|block| block.get().starts_with('{')).then(|| Raw::from(value.get()))
}
