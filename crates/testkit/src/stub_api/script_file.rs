//! Scripts that a person writes by hand, as YAML or JSON.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::fault::{Fault, Point};
use super::script::{Block, HttpAnswer, Reply, Script, error_kind};
use crate::hand_written::{self, BadFile};

/// The answers of the stub, one per model call.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "Script of watari stub")]
pub(crate) struct ScriptFile {
    /// Answers to the session itself, in order. The last one is repeated; without any it is "Hello!".
    #[serde(default)]
    replies: Vec<ReplyFile>,
    /// Answers to subagents. Every subagent begins at the first reply of its list. (A CLI as old as 2.1.42 does not tell
    /// one subagent from another: there the next one goes on in the list, and a list needs a prompt.)
    #[serde(default)]
    agents: Vec<AgentFile>,
    /// Answers to calls without tools, by which the CLI asks for a title or a command's prefix. The last one is
    /// repeated; without any it is "ok".
    #[serde(default)]
    side_calls: Vec<ReplyFile>,
}

/// Answers to one kind of subagent.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct AgentFile {
    /// A text in the prompt that the subagent was given. Without it the list is for all that fit no earlier one.
    prompt: Option<String>,
    /// Answers in order; the last one is repeated.
    replies: Vec<ReplyFile>,
}

/// One answer: a message of the model (`thinking`, `text` and `tool` in this order, or `blocks`), or something of HTTP
/// in its place (`status`).
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(try_from = "ReplyFields")]
struct ReplyFile(#[schemars(with = "ReplyFields")] Reply);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReplyFields {
    /// Thinking.
    thinking: Option<String>,
    /// A text.
    text: Option<String>,
    /// The name of a tool that is called.
    tool: Option<String>,
    /// The tool's input.
    input: Option<Map<String, Value>>,
    /// The id of the call; otherwise the stub makes one up.
    id: Option<String>,
    /// The blocks of the message, if it is not at most one of each kind. An empty list is a message without content.
    blocks: Option<Vec<BlockFile>>,
    /// Why the message ends: otherwise `tool_use` if it calls a tool, else `end_turn`.
    stop_reason: Option<String>,
    /// The tokens that the message says it has cost.
    usage: Option<UsageFile>,
    /// Waits this long before every text delta.
    pace_ms: Option<u64>,
    /// Cuts texts into deltas of this many characters; otherwise four.
    chunk_chars: Option<usize>,
    /// Waits this long before the headers of the answer are sent.
    delay_ms: Option<u64>,
    /// Something that goes wrong in the stream.
    fault: Option<FaultFile>,
    /// An HTTP status in place of a message.
    status: Option<u16>,
    /// The message of the error that goes with the status.
    message: Option<String>,
    /// The body that goes with the status, as it is, in place of an error in the API's shape.
    body: Option<String>,
    /// The content type of that body; otherwise `text/event-stream`.
    content_type: Option<String>,
    /// Further headers that go with the status, such as `retry-after`.
    headers: Option<BTreeMap<String, String>>,
}

/// One block of a message.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum BlockFile {
    /// A text.
    Text(String),
    /// Thinking.
    Thinking(String),
    /// A call of a tool.
    ToolUse {
        /// The tool's name.
        name: String,
        /// The tool's input.
        #[serde(default)]
        input: Map<String, Value>,
        /// The id of the call; otherwise the stub makes one up.
        id: Option<String>,
    },
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UsageFile {
    /// Tokens of the request.
    input: u64,
    /// Tokens of the answer.
    output: u64,
}

/// What goes wrong, and where. For a client that does not stream an error is an HTTP status, a drop is status 500 and a
/// stall is a wait.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum FaultFile {
    /// The stream says that there was an error, and ends.
    Error {
        /// Where.
        at: Point,
        /// The API's name for it, such as `overloaded_error`.
        r#type: String,
        /// What it says of it.
        message: Option<String>,
    },
    /// The connection is cut.
    Drop {
        /// Where.
        at: Point,
    },
    /// The stream ends as if it were complete.
    End {
        /// Where.
        at: Point,
    },
    /// Nothing comes for a while.
    Stall {
        /// Where.
        at: Point,
        /// After this long the stream goes on; without it, never.
        ms: Option<u64>,
    },
    /// A text is put into the stream as it is, and the stream goes on.
    Insert {
        /// Where.
        at: Point,
        /// The text, such as a comment, an event that nobody knows, or something that is no event at all.
        text: String,
    },
}

/// Reads a script file.
pub(super) fn load_script(path: &Path) -> Result<Script, BadFile> {
    hand_written::load::<ScriptFile>(path).map(Script::from)
}

/// Reads a script that is already here.
pub(super) fn read_script(name: &str, text: &str) -> Result<Script, BadFile> {
    hand_written::read::<ScriptFile>(name, text).map(Script::from)
}

impl From<ScriptFile> for Script {
    fn from(file: ScriptFile) -> Self {
        let replies = |replies: Vec<ReplyFile>| replies.into_iter().map(|reply| reply.0);
        let script = replies(file.replies).fold(Script::new(), Script::reply);
        let script = file.agents.into_iter().fold(script, |script, agent| match agent.prompt {
            Some(prompt) => script.for_agents_asked(prompt, replies(agent.replies)),
            None => script.for_agents(replies(agent.replies)),
        });
        script.for_side_calls(replies(file.side_calls))
    }
}

impl TryFrom<ReplyFields> for ReplyFile {
    type Error = String;

    fn try_from(fields: ReplyFields) -> Result<Self, String> {
        let is_http = fields.status.is_some();
        let is_message = [fields.thinking.is_some(), fields.text.is_some(), fields.tool.is_some()].contains(&true);
        match (is_http, is_message, fields.blocks.is_some()) {
            (false, false, false) => Err("a reply needs one of text, thinking, tool, blocks or status".to_owned()),
            (true, false, false) => http_reply(fields).map(ReplyFile),
            (false, _, _) => message_reply(fields).map(ReplyFile),
            (true, _, _) => Err("a reply is a message or has a status, not both".to_owned()),
        }
    }
}

fn message_reply(fields: ReplyFields) -> Result<Reply, String> {
    let only_http = [
        ("message", fields.message.is_some()),
        ("body", fields.body.is_some()),
        ("content_type", fields.content_type.is_some()),
        ("headers", fields.headers.is_some()),
    ];
    refuse(&only_http, "needs a status")?;
    if fields.tool.is_none() {
        refuse(&[("input", fields.input.is_some()), ("id", fields.id.is_some())], "needs a tool")?;
    }
    let tool = fields.tool.map(|name| Block::tool_use(fields.id, name, fields.input.unwrap_or_default()));
    let short = [fields.thinking.map(Block::Thinking), fields.text.map(Block::Text), tool];
    let short: Vec<Block> = short.into_iter().flatten().collect();
    let blocks = match fields.blocks {
        Some(_) if !short.is_empty() => {
            return Err("a reply has blocks or text, thinking and tool, not both".to_owned());
        }
        Some(blocks) => blocks.into_iter().map(Block::from).collect(),
        None => short,
    };
    let reply = blocks.into_iter().fold(Reply::message(), Reply::and);
    let reply = fields.stop_reason.into_iter().fold(reply, Reply::stop_reason);
    let reply = fields.usage.into_iter().fold(reply, |reply, usage| reply.usage(usage.input, usage.output));
    let reply = milliseconds(fields.pace_ms).into_iter().fold(reply, Reply::paced);
    let reply = fields.chunk_chars.into_iter().fold(reply, Reply::chunks_of);
    let reply = milliseconds(fields.delay_ms).into_iter().fold(reply, Reply::after);
    let Some((fault, at)) = fields.fault.map(FaultFile::split) else {
        return Ok(reply);
    };
    if at == Point::InBlock && reply.blocks.is_empty() {
        return Err("there is no block for the fault to be in".to_owned());
    }
    if at == Point::BeforeHeaders && !matches!(fault, Fault::Stall { .. }) {
        return Err("before the headers there can only be a stall".to_owned());
    }
    Ok(reply.fault(fault, at))
}

fn http_reply(fields: ReplyFields) -> Result<Reply, String> {
    let only_messages = [
        ("input", fields.input.is_some()),
        ("id", fields.id.is_some()),
        ("stop_reason", fields.stop_reason.is_some()),
        ("usage", fields.usage.is_some()),
        ("pace_ms", fields.pace_ms.is_some()),
        ("chunk_chars", fields.chunk_chars.is_some()),
        ("fault", fields.fault.is_some()),
    ];
    refuse(&only_messages, "is for messages only, not for a status")?;
    let status = fields.status.unwrap_or(500);
    if !(200..=599).contains(&status) {
        return Err(format!("{status} is not a status of an answer; take one from 200 to 599"));
    }
    let mut answer = match (fields.body, fields.message) {
        (Some(_), Some(_)) => return Err("a status has a message or a body, not both".to_owned()),
        (Some(body), None) => {
            let content_type = fields.content_type.unwrap_or_else(|| "text/event-stream".to_owned());
            HttpAnswer { status, headers: Vec::new(), content_type, body }
        }
        (None, message) => {
            refuse(&[("content_type", fields.content_type.is_some())], "needs a body")?;
            let kind = error_kind(status);
            HttpAnswer::error(status, kind, &message.unwrap_or_else(|| kind.replace('_', " ")))
        }
    };
    for (name, value) in fields.headers.into_iter().flatten() {
        if ["content-length", "transfer-encoding", "content-type"].contains(&name.to_ascii_lowercase().as_str()) {
            return Err(format!("the header {name} is told by the body and content_type"));
        }
        if HeaderName::try_from(&name).is_err() || HeaderValue::try_from(&value).is_err() {
            return Err(format!("{name}: {value} is not a header"));
        }
        answer.headers.push((name, value));
    }
    let reply = Reply::http(answer);
    Ok(milliseconds(fields.delay_ms).into_iter().fold(reply, Reply::after))
}

/// Names the first of these fields that is there and has no place here.
fn refuse(fields: &[(&str, bool)], why: &str) -> Result<(), String> {
    match fields.iter().find(|(_, is_there)| *is_there) {
        Some((name, _)) => Err(format!("{name} {why}")),
        None => Ok(()),
    }
}

fn milliseconds(count: Option<u64>) -> Option<Duration> {
    count.map(Duration::from_millis)
}

impl From<BlockFile> for Block {
    fn from(file: BlockFile) -> Self {
        match file {
            BlockFile::Text(text) => Block::Text(text),
            BlockFile::Thinking(thinking) => Block::Thinking(thinking),
            BlockFile::ToolUse { name, input, id } => Block::tool_use(id, name, input),
        }
    }
}

impl FaultFile {
    fn split(self) -> (Fault, Point) {
        match self {
            FaultFile::Error { at, r#type, message } => {
                let message = message.unwrap_or_else(|| r#type.replace('_', " "));
                (Fault::Error { kind: r#type, message }, at)
            }
            FaultFile::Drop { at } => (Fault::Drop, at),
            FaultFile::End { at } => (Fault::End, at),
            FaultFile::Stall { at, ms } => (Fault::Stall { how_long: milliseconds(ms) }, at),
            FaultFile::Insert { at, text } => (Fault::Insert(text), at),
        }
    }
}
