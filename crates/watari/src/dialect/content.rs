//! Content that several dialects share: prompts with images and documents, tools and their results.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::value::RawValue;
use watari_sdk::{AMBIGUOUS_TOOL_NAME_MESSAGE, AskId, PROMPT_BLOCK_TYPES, ProgramTool, Prompt, RawJson};

use super::members::{Members, TextOrBlocks};

/// A text, followed by images and documents in the API's format, which are passed on unchanged.
pub(crate) fn prompt(members: &mut Members<'_>) -> Result<Prompt, String> {
    let text = members.content("text")?;
    let what = "a list of content blocks";
    let mut blocks = members.blocks("images", what)?;
    check_blocks("images", &blocks)?;
    let documents = members.blocks("documents", what)?;
    check_blocks("documents", &documents)?;
    blocks.extend(documents);
    if blocks.is_empty() {
        return Ok(text.into());
    }
    let text = RawJson::of(&serde_json::json!({"type": "text", "text": text}));
    let blocks: Vec<&str> = std::iter::once(text.as_str()).chain(blocks.iter().map(|block| block.get())).collect();
    Ok(Prompt::blocks(format!("[{}]", blocks.join(",")).as_str()))
}

/// A prompt that is a text, or blocks of texts, images and documents, which are passed on unchanged.
pub(crate) fn text_or_prompt_blocks(members: &mut Members<'_>) -> Result<Prompt, String> {
    Ok(match members.text_or_blocks("content", "a string or a list of content blocks")? {
        TextOrBlocks::Text(text) => text.into(),
        TextOrBlocks::Blocks(blocks) => {
            check_blocks("content", &blocks.parse::<Vec<&RawValue>>().unwrap_or_default())?;
            Prompt::blocks(blocks)
        }
    })
}

/// Refuses blocks that a user may not send: a tool result or thinking in a prompt would look as if the tool or the
/// model had written it. The machine checks the same; here the error names the client's field.
fn check_blocks(field: &str, blocks: &[&RawValue]) -> Result<(), String> {
    #[derive(serde::Deserialize)]
    struct Block<'a> {
        #[serde(borrow, default)]
        r#type: Option<&'a RawValue>,
        #[serde(borrow, default)]
        text: Option<&'a RawValue>,
    }
    for (place, block) in blocks.iter().enumerate() {
        let Ok(Block { r#type: kind, text }) = serde_json::from_str(block.get()) else {
            return Err(format!("{field}[{place}] must be an object with one type"));
        };
        let kind = kind.and_then(|kind| serde_json::from_str::<String>(kind.get()).ok()).unwrap_or_default();
        if !PROMPT_BLOCK_TYPES.contains(&kind.as_str()) {
            return Err(format!("{field}[{place}].type must be one of {}", PROMPT_BLOCK_TYPES.join(", ")));
        }
        if kind == "text" && !text.is_some_and(|text| text.get().starts_with('"')) {
            return Err(format!("{field}[{place}].text must be a string"));
        }
    }
    Ok(())
}

/// The tools of the client.
pub(crate) fn tools(members: &mut Members<'_>, schema: &'static str) -> Result<Vec<ProgramTool>, String> {
    let mut tools: Vec<ProgramTool> = Vec::new();
    for mut members in members.objects("tools", "tools[].", "a list of tools with a name")? {
        let tool = tool(&mut members, schema)?;
        if tools.iter().any(|other| other.name == tool.name) {
            return Err(format!("two tools have the name {:?}", tool.name));
        }
        tools.push(tool);
    }
    Ok(tools)
}

pub(crate) fn tool(members: &mut Members<'_>, schema_name: &'static str) -> Result<ProgramTool, String> {
    let name: String = members.required("name", "a string")?;
    let description = members.text("description")?.unwrap_or_default();
    let schema = members.raw_object(schema_name)?;
    if let Some(problem) = schema.as_ref().and_then(|schema| schema_problem(schema)) {
        return Err(format!("tools[].{schema_name}.{problem}"));
    }
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let longest = ProgramTool::NAME_BYTES_MAX;
    if name.is_empty() || name.len() > longest || !name.chars().all(fits) {
        return Err(format!("tools[].name must have 1 to {longest} letters, digits, _ and -"));
    }
    let input_schema = schema.unwrap_or_else(|| RawJson::from(r#"{"type":"object"}"#));
    let tool = ProgramTool { name, description, input_schema };
    if !tool.has_unambiguous_name() {
        return Err(format!("tools[].name {AMBIGUOUS_TOOL_NAME_MESSAGE}"));
    }
    Ok(tool)
}

/// The part of a tool's schema that the CLI would not accept. (It would silently drop every tool of the server: 2.1.325
/// and 2.1.42.)
fn schema_problem(schema: &RawJson) -> Option<&'static str> {
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

/// The ask that a client names by its number, such as `call_7`.
pub(crate) fn parse_ask_name(before: &str, name: &str) -> Option<AskId> {
    let number = name.strip_prefix(before)?;
    let is_number =
        (1..=NUMBER_DIGITS_MAX).contains(&number.len()) && number.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| number.parse().ok())?.map(AskId)
}

/// How many digits the number of an ask may have: every number of this length fits into a `u64`.
const NUMBER_DIGITS_MAX: usize = 19;

/// The edited input of a tool. It may not be empty: the CLI would run the original input.
pub(crate) fn edited_input(members: &mut Members<'_>) -> Result<Option<RawJson>, String> {
    let input = members.raw_object("input")?;
    let is_empty = |input: &RawJson| input.as_str().trim_start_matches('{').trim_start().starts_with('}');
    match input.as_ref().is_some_and(is_empty) {
        true => Err("input is empty: leave it out to run the original input, or deny".to_owned()),
        false => Ok(input),
    }
}

/// The result of a tool: a text, or blocks in MCP's format, which are passed on unchanged.
pub(crate) fn tool_result(members: &mut Members<'_>) -> Result<RawJson, String> {
    Ok(match members.text_or_blocks("content", "a string or a list of blocks")? {
        TextOrBlocks::Text(text) => RawJson::of(&serde_json::json!([{"type": "text", "text": text}])),
        TextOrBlocks::Blocks(blocks) => blocks,
    })
}
