//! The lines of a client to a host.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::{PROTOCOL, write_json};
use crate::answer::{Answer, HookOutput};
use crate::command::{Command, PromptContent, Request};
use crate::id::{AskId, EntryId};
use crate::initialize::ProgramTool;
use crate::json::RawJson;
use crate::position::Position;

/// A line of a client to a host.
#[derive(Debug, Clone, Serialize)]
pub struct ClientLine<'a> {
    #[serde(flatten)]
    message: Message<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

/// What a client says first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientHello<'a> {
    /// The position after which it wants events, [`Position::default`] for all; none for live events only.
    pub since: Option<Position>,
    /// The key of the session that it expects, if it has been connected before.
    pub key: Option<&'a str>,
    /// Its name, which identifies its commands when it connects again.
    pub client: Option<&'a str>,
}

impl<'a> ClientLine<'a> {
    /// The first line of a client. (An `error` about it carries the id.)
    pub fn hello(id: Option<&'a str>, hello: &ClientHello<'a>) -> ClientLine<'a> {
        let ClientHello { since, key, client } = *hello;
        ClientLine { message: Message::Hello { protocol: [PROTOCOL], since, key, client }, id }
    }

    /// A command. The reply carries the id, and a command with a repeated id has no second effect. The host knows which
    /// client sends it, so `by` is not written.
    pub fn command(id: Option<&'a str>, command: &'a Command) -> ClientLine<'a> {
        ClientLine { message: Message::of(command), id }
    }

    /// Appends the line, with a newline.
    pub fn write(&self, out: &mut Vec<u8>) {
        write_json(self, out);
        out.push(b'\n');
    }
}

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Message<'a> {
    Hello {
        protocol: [u64; 1],
        #[serde(skip_serializing_if = "Option::is_none")]
        since: Option<Position>,
        #[serde(skip_serializing_if = "Option::is_none")]
        key: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        client: Option<&'a str>,
    },
    Prompt {
        content: Content<'a>,
    },
    Interrupt {
        cancel_queued: bool,
    },
    Answer {
        ask: AskId,
        answer: AnswerLine<'a>,
    },
    Request {
        request: RequestLine<'a>,
    },
    Close,
    Abort,
}

#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Blocks(&'a RawJson),
}

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnswerLine<'a> {
    Allow {
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<&'a RawJson>,
        #[serde(skip_serializing_if = "Option::is_none")]
        permissions: Option<&'a RawJson>,
    },
    Deny {
        message: &'a str,
        interrupt: bool,
    },
    Choose {
        choices: &'a BTreeMap<String, String>,
    },
    Hook {
        output: HookLine<'a>,
    },
    Accept {
        content: &'a RawJson,
    },
    Decline,
    Cancel,
    ToolResult {
        content: &'a RawJson,
        is_error: bool,
    },
}

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum HookLine<'a> {
    NoOpinion,
    Allow {
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<&'a RawJson>,
    },
    Deny {
        reason: &'a str,
    },
    Ask {
        reason: &'a str,
    },
    Defer,
    Block {
        reason: &'a str,
    },
    Context {
        text: &'a str,
    },
    Halt {
        reason: &'a str,
    },
    Other {
        output: &'a RawJson,
    },
}

#[derive(Debug, Clone, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum RequestLine<'a> {
    SetModel {
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<&'a str>,
    },
    SetPermissionMode {
        mode: &'static str,
    },
    SetThinking {
        #[serde(skip_serializing_if = "Option::is_none")]
        tokens: Option<u32>,
    },
    SetTools {
        tools: Vec<ToolLine<'a>>,
    },
    McpStatus,
    SetMcpServers {
        servers: &'a BTreeMap<String, RawJson>,
    },
    ReconnectMcp {
        server: &'a str,
    },
    ToggleMcp {
        server: &'a str,
        enabled: bool,
    },
    ContextUsage,
    Rewind {
        entry: &'a EntryId,
        dry_run: bool,
    },
    StopTask {
        task: &'a str,
    },
    ReadFile {
        path: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        max_bytes: Option<u64>,
    },
    Rename {
        title: &'a str,
    },
    Reinitialize,
    Other {
        subtype: &'a str,
        fields: &'a Map<String, Value>,
    },
}

#[derive(Debug, Clone, Serialize)]
struct ToolLine<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawJson,
}

impl<'a> Message<'a> {
    fn of(command: &'a Command) -> Message<'a> {
        match command {
            Command::Prompt(prompt) => Message::Prompt {
                content: match &prompt.content {
                    PromptContent::Text(text) => Content::Text(text),
                    PromptContent::Blocks(blocks) => Content::Blocks(blocks),
                },
            },
            Command::Interrupt { cancel_queued } => Message::Interrupt { cancel_queued: *cancel_queued },
            Command::Answer { ask, answer, by: _ } => Message::Answer { ask: *ask, answer: AnswerLine::of(answer) },
            Command::Request { request, by: _ } => Message::Request { request: RequestLine::of(request) },
            Command::Close => Message::Close,
            Command::Abort => Message::Abort,
        }
    }
}

impl<'a> AnswerLine<'a> {
    fn of(answer: &'a Answer) -> AnswerLine<'a> {
        match answer {
            Answer::Allow { input, permissions } => {
                AnswerLine::Allow { input: input.as_ref(), permissions: permissions.as_ref() }
            }
            Answer::Deny { message, interrupt } => AnswerLine::Deny { message, interrupt: *interrupt },
            Answer::Choose(choices) => AnswerLine::Choose { choices },
            Answer::Hook(output) => AnswerLine::Hook { output: HookLine::of(output) },
            Answer::Accept(content) => AnswerLine::Accept { content },
            Answer::Decline => AnswerLine::Decline,
            Answer::Cancel => AnswerLine::Cancel,
            Answer::ToolResult { content, is_error } => AnswerLine::ToolResult { content, is_error: *is_error },
        }
    }
}

impl<'a> HookLine<'a> {
    fn of(output: &'a HookOutput) -> HookLine<'a> {
        match output {
            HookOutput::NoOpinion => HookLine::NoOpinion,
            HookOutput::Allow { input } => HookLine::Allow { input: input.as_ref() },
            HookOutput::Deny { reason } => HookLine::Deny { reason },
            HookOutput::Ask { reason } => HookLine::Ask { reason },
            HookOutput::Defer => HookLine::Defer,
            HookOutput::Block { reason } => HookLine::Block { reason },
            HookOutput::Context { text } => HookLine::Context { text },
            HookOutput::Halt { reason } => HookLine::Halt { reason },
            HookOutput::Other(output) => HookLine::Other { output },
        }
    }
}

impl<'a> RequestLine<'a> {
    fn of(request: &'a Request) -> RequestLine<'a> {
        match request {
            Request::SetModel(model) => RequestLine::SetModel { model: model.as_deref() },
            Request::SetPermissionMode(mode) => RequestLine::SetPermissionMode { mode: mode.as_str() },
            Request::SetThinking(tokens) => RequestLine::SetThinking { tokens: *tokens },
            Request::SetTools(tools) => RequestLine::SetTools { tools: tools.iter().map(ToolLine::of).collect() },
            Request::McpStatus => RequestLine::McpStatus,
            Request::SetMcpServers(servers) => RequestLine::SetMcpServers { servers },
            Request::ReconnectMcp { server } => RequestLine::ReconnectMcp { server },
            Request::ToggleMcp { server, enabled } => RequestLine::ToggleMcp { server, enabled: *enabled },
            Request::ContextUsage => RequestLine::ContextUsage,
            Request::Rewind { entry, dry_run } => RequestLine::Rewind { entry, dry_run: *dry_run },
            Request::StopTask { task } => RequestLine::StopTask { task },
            Request::ReadFile { path, max_bytes } => RequestLine::ReadFile { path, max_bytes: *max_bytes },
            Request::Rename { title } => RequestLine::Rename { title },
            Request::Reinitialize => RequestLine::Reinitialize,
            Request::Other { subtype, fields } => RequestLine::Other { subtype, fields },
        }
    }
}

impl<'a> ToolLine<'a> {
    fn of(tool: &'a ProgramTool) -> ToolLine<'a> {
        let ProgramTool { name, description, input_schema } = tool;
        ToolLine { name, description, input_schema }
    }
}
