//! Complete messages: the assistant's blocks, tool results, and the progress of tools.

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::{Incoming, Lenient, Members, Text};
use crate::event::{Author, Block, BlockKind, BlockSource};
use crate::id::{EntryId, MessageId, ToolUseId};
use crate::json::{RawJson, object};

/// Blocks of the assistant; in practice one block per frame.
#[derive(Debug)]
pub(crate) struct AssistantFrame<'a> {
    pub(crate) message_id: Text<'a>,
    pub(crate) parent: Option<ToolUseId>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) source: BlockSource,
    pub(crate) retracted: Option<MessageId>,
}

/// Content that was added to the model's context; in practice one tool result per frame, or a text.
#[derive(Debug)]
pub(crate) struct UserFrame {
    pub(crate) parent: Option<ToolUseId>,
    pub(crate) tool_results: Vec<ToolResult>,
    /// Set when the frame contains more than tool results.
    pub(crate) injected: Option<InjectedContext>,
    /// The tool's own result, if the frame has only one tool result.
    pub(crate) result: Option<RawJson>,
    /// A message that the API withdrew after it was streamed.
    pub(crate) retracted: Option<MessageId>,
}

#[derive(Debug)]
pub(crate) struct InjectedContext {
    pub(crate) synthetic: bool,
    pub(crate) repeated: bool,
    pub(crate) content: RawJson,
}

#[derive(Debug)]
pub(crate) struct ToolResult {
    pub(crate) tool_use: ToolUseId,
    pub(crate) is_error: bool,
    pub(crate) content: RawJson,
}

/// A tool that is still running.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct ToolProgressFrame<'a> {
    #[serde(borrow)]
    tool_use_id: Text<'a>,
    #[serde(borrow, default)]
    parent_tool_use_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(crate) tool_name: Text<'a>,
    #[serde(default)]
    pub(crate) elapsed_time_seconds: f64,
}

impl ToolProgressFrame<'_> {
    /// Returns the id of the tool use. A heartbeat has its own id, and the tool use's id as its parent.
    pub(crate) fn tool_use(&self) -> ToolUseId {
        let heartbeat = self.parent_tool_use_id.as_deref().filter(|parent| {
            self.tool_use_id.strip_prefix(*parent).is_some_and(|rest| rest.starts_with("-heartbeat-"))
        });
        ToolUseId(heartbeat.unwrap_or(&self.tool_use_id).to_owned())
    }
}

pub(super) fn read_tool_progress(line: &str) -> Option<ToolProgressFrame<'_>> {
    serde_json::from_str(line).ok()
}

/// What the CLI reports on a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PromptUpdate {
    /// The CLI started it.
    Started,
    /// The CLI dropped it.
    Cancelled,
    /// The CLI has it in its queue.
    Queued,
    /// The prompt is done. (A prompt that was merged into another turn is reported as done before that turn ends.)
    Done,
}

pub(super) fn read_lifecycle(line: &str) -> Option<Incoming<'_>> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        command_uuid: Text<'a>,
        #[serde(borrow)]
        state: Text<'a>,
    }
    let members: Members<'_> = serde_json::from_str(line).ok()?;
    let update = match &*members.state {
        "started" => PromptUpdate::Started,
        "cancelled" => PromptUpdate::Cancelled,
        "completed" => PromptUpdate::Done,
        _ => PromptUpdate::Queued,
    };
    Some(Incoming::Prompt { uuid: members.command_uuid, update })
}

/// Reads a message in one pass, because it may be long.
pub(super) fn read_assistant(line: &str) -> Option<AssistantFrame<'_>> {
    #[derive(serde::Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        message: Members<Message<'a>>,
        #[serde(default)]
        parent_tool_use_id: Lenient<String>,
        #[serde(default)]
        refused_message_id: Lenient<String>,
        #[serde(default)]
        uuid: Lenient<String>,
        #[serde(default)]
        agent_id: Lenient<String>,
        #[serde(default)]
        aborted: Lenient<bool>,
        #[serde(default)]
        is_api_error_message: Lenient<bool>,
        #[serde(default)]
        error: Lenient<String>,
        #[serde(default)]
        local_command_source: Lenient<IgnoredAny>,
        #[serde(default)]
        local_command_run: Lenient<IgnoredAny>,
    }
    #[derive(serde::Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        id: Text<'a>,
        #[serde(borrow)]
        content: Vec<&'a RawValue>,
    }
    let line: Line<'_> = serde_json::from_str(line).ok()?;
    let error = line.error.into_option();
    let is_command = line.local_command_source.into_option().or(line.local_command_run.into_option()).is_some();
    let author = if line.is_api_error_message.or_default() || error.is_some() {
        Author::ApiError(error.unwrap_or_default())
    } else if is_command {
        Author::Command
    } else {
        Author::Model
    };
    let source = BlockSource {
        entry: line.uuid.into_option().and_then(|uuid| EntryId::parse(&uuid).ok()),
        agent: line.agent_id.into_option(),
        cut_short: line.aborted.or_default(),
        author,
    };
    Some(AssistantFrame {
        message_id: line.message.0.id,
        parent: line.parent_tool_use_id.into_option().map(ToolUseId),
        // Clients are promised that a block is an object; anything else is dropped.
        blocks: line.message.0.content.into_iter().filter_map(object).map(read_block).collect(),
        source,
        retracted: line.refused_message_id.into_option().map(MessageId),
    })
}

pub(super) fn read_user(line: &str) -> Option<UserFrame> {
    #[derive(serde::Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        message: Members<Message<'a>>,
        #[serde(default)]
        parent_tool_use_id: Lenient<String>,
        #[serde(default, rename = "isSynthetic")]
        synthetic: Lenient<bool>,
        #[serde(default, rename = "isReplay")]
        repeated: Lenient<bool>,
        #[serde(borrow, default)]
        tool_use_result: Option<&'a RawValue>,
        #[serde(default)]
        refused_message_id: Lenient<String>,
    }
    #[derive(serde::Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        content: &'a RawValue,
    }
    let line: Line<'_> = serde_json::from_str(line).ok()?;
    let content = line.message.0.content;
    // Plain text is injected context; a list may contain tool results and injected context.
    let parts: Vec<&RawValue> = serde_json::from_str(content.get()).unwrap_or_default();
    let tool_results: Vec<ToolResult> = parts.iter().filter_map(|part| read_tool_result(part)).collect();
    let injected = if tool_results.len() < parts.len() || parts.is_empty() {
        let (synthetic, repeated) = (line.synthetic.or_default(), line.repeated.or_default());
        Some(InjectedContext { synthetic, repeated, content: RawJson::copied(content) })
    } else {
        None
    };
    let result = line.tool_use_result.filter(|_| tool_results.len() == 1).map(RawJson::copied);
    let retracted = line.refused_message_id.into_option().map(MessageId);
    let parent = line.parent_tool_use_id.into_option().map(ToolUseId);
    Some(UserFrame { parent, tool_results, injected, result, retracted })
}

fn read_tool_result(part: &RawValue) -> Option<ToolResult> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow, rename = "type")]
        kind: Text<'a>,
        #[serde(borrow)]
        tool_use_id: Text<'a>,
        #[serde(default)]
        is_error: Lenient<bool>,
        #[serde(borrow, default)]
        content: Option<&'a RawValue>,
    }
    let members: Members<'_> = serde_json::from_str(part.get()).ok()?;
    (&*members.kind == "tool_result").then(|| ToolResult {
        tool_use: ToolUseId(members.tool_use_id.into_string()),
        is_error: members.is_error.or_default(),
        content: members.content.map_or_else(|| RawJson::from("null"), RawJson::copied),
    })
}

pub(super) fn read_suggestion(line: &str) -> Option<Text<'_>> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow)]
        suggestion: Text<'a>,
    }
    serde_json::from_str::<Members<'_>>(line).ok().map(|members| members.suggestion)
}

pub(super) fn read_mirror(line: &str) -> Option<Incoming<'_>> {
    #[derive(serde::Deserialize)]
    struct Members<'a> {
        #[serde(borrow, rename = "filePath")]
        path: Text<'a>,
        #[serde(borrow)]
        entries: &'a RawValue,
    }
    let members: Members<'_> = serde_json::from_str(line).ok()?;
    Some(Incoming::Mirror { path: members.path, entries: members.entries })
}

/// Reads a block in the API's format; a block that cannot be read has an unknown kind.
pub(crate) fn read_block(raw: &RawValue) -> Block {
    Block { kind: read_kind(raw), raw: RawJson::copied(raw) }
}

/// Returns the kind of a block in the API's format.
pub(crate) fn read_kind(raw: &RawValue) -> BlockKind {
    #[derive(serde::Deserialize)]
    struct Head<'a> {
        #[serde(borrow, default, rename = "type")]
        kind: Option<Text<'a>>,
        #[serde(borrow, default)]
        id: Option<Text<'a>>,
        #[serde(borrow, default)]
        name: Option<Text<'a>>,
    }
    // A text block may be long: do not parse it.
    if raw.get().starts_with(r#"{"type":"text","#) {
        return BlockKind::Text;
    }
    let Ok(head) = serde_json::from_str::<Head<'_>>(raw.get()) else {
        return BlockKind::Other { name: String::new() };
    };
    match (head.kind.as_deref(), head.id, head.name) {
        (Some("text"), _, _) => BlockKind::Text,
        (Some("thinking"), _, _) => BlockKind::Thinking,
        (Some("tool_use"), Some(id), Some(name)) => {
            BlockKind::ToolUse { id: ToolUseId(id.into_string()), name: name.into_string() }
        }
        (name, _, _) => BlockKind::Other { name: name.unwrap_or_default().to_owned() },
    }
}
