//! The script of the stub.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::fault::{Fault, FaultPoint};

/// The default number of characters of a text delta.
const CHUNK_CHARS: usize = 4;

/// The replies of a stub, one per model call; the last one is repeated.
#[derive(Debug, Clone, Default)]
pub struct Script {
    replies: Vec<Arc<Reply>>,
    agents: Vec<AgentScript>,
    side: Vec<Arc<Reply>>,
}

/// The replies to one kind of subagent. Every subagent begins with the first.
#[derive(Debug, Clone, Default)]
pub(super) struct AgentScript {
    /// A text in the subagent's prompt; none matches any.
    prompt: Option<String>,
    replies: Vec<Arc<Reply>>,
}

/// One answer of the model: a message of some blocks, or an HTTP answer in its place.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(super) http: Option<HttpAnswer>,
    pub(super) blocks: Vec<Block>,
    /// Whether the last block is started and not finished.
    dangling: bool,
    pub(super) fault: Option<(Fault, FaultPoint)>,
    pub(super) stop_reason: Option<String>,
    pub(super) delay: Duration,
    pub(super) pace: Option<Duration>,
    pub(super) chunk_chars: usize,
    pub(super) usage: Usage,
}

#[derive(Debug, Clone)]
pub(super) enum Block {
    Text(String),
    Thinking(String),
    /// A call without an id gets a unique one.
    ToolUse {
        id: Option<String>,
        name: String,
        input: Value,
    },
}

/// An answer that is not a message of the model.
#[derive(Debug, Clone)]
pub(super) struct HttpAnswer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, String)>,
    pub(super) content_type: String,
    pub(super) body: String,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
}

impl Script {
    /// A script that answers every model call with "Hello!", those of subagents with "sub done" and calls without
    /// tools with "ok".
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the reply to the next model call.
    #[must_use]
    pub fn reply(mut self, reply: Reply) -> Self {
        self.replies.push(Arc::new(reply));
        self
    }

    /// Adds replies to every subagent, which do not count against the main list or another subagent's.
    #[must_use]
    pub fn for_agents(self, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.and_agent(None, replies)
    }

    /// Adds replies to every subagent whose prompt contains this text. The first match is used.
    #[must_use]
    pub fn for_agents_with_prompt(self, prompt: impl Into<String>, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.and_agent(Some(prompt.into()), replies)
    }

    /// Adds replies to calls without tools, with which the CLI asks for a title or a command's prefix.
    #[must_use]
    pub fn for_side_calls(mut self, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.side.extend(replies.into_iter().map(Arc::new));
        self
    }

    /// Appends all replies of another script.
    #[must_use]
    pub fn then(mut self, other: Script) -> Self {
        self.replies.extend(other.replies);
        self.agents.extend(other.agents);
        self.side.extend(other.side);
        self
    }

    pub(super) fn main_reply(&self, turn: usize) -> Arc<Reply> {
        at_or_last(&self.replies, turn).unwrap_or_else(|| Arc::new(Reply::text("Hello!")))
    }

    pub(super) fn side_reply(&self, turn: usize) -> Arc<Reply> {
        at_or_last(&self.side, turn).unwrap_or_else(|| Arc::new(Reply::text("ok")))
    }

    pub(super) fn agent_reply(&self, agent: Option<usize>, turn: usize) -> Arc<Reply> {
        let replies = agent.and_then(|agent| self.agents.get(agent)).map(|agent| agent.replies.as_slice());
        at_or_last(replies.unwrap_or_default(), turn).unwrap_or_else(|| Arc::new(Reply::text("sub done")))
    }

    /// The list from which a subagent with this prompt takes its replies.
    pub(super) fn agent_of(&self, prompt: &str) -> Option<usize> {
        self.agents.iter().position(|agent| agent.prompt.as_ref().is_none_or(|text| prompt.contains(text)))
    }

    /// The list whose text is in this prompt: older CLIs do not mark a call as a subagent's.
    pub(super) fn agent_named_in(&self, prompt: &str) -> Option<usize> {
        self.agents.iter().position(|agent| agent.prompt.as_ref().is_some_and(|text| prompt.contains(text)))
    }

    fn and_agent(mut self, prompt: Option<String>, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.agents.push(AgentScript { prompt, replies: replies.into_iter().map(Arc::new).collect() });
        self
    }
}

impl Reply {
    /// A message with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::message().and_text(text)
    }

    /// A message with one thinking block.
    pub fn thinking(thinking: impl Into<String>) -> Self {
        Self::message().and_thinking(thinking)
    }

    /// A message that calls one tool.
    pub fn tool_use(id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        Self::message().and_tool_use(id, name, input)
    }

    /// A message without blocks, to which blocks can be added.
    pub fn message() -> Self {
        Self {
            http: None,
            blocks: Vec::new(),
            dangling: false,
            fault: None,
            stop_reason: None,
            delay: Duration::ZERO,
            pace: None,
            chunk_chars: CHUNK_CHARS,
            usage: Usage { input_tokens: 10, output_tokens: 5 },
        }
    }

    /// An HTTP error in the API's format in place of a message. Blocks added to it are never sent. The last reply of a
    /// script is repeated, so add another if the CLI should recover.
    pub fn status(code: u16, message: impl Into<String>) -> Self {
        Self::http(HttpAnswer::error(code, error_kind(code), &message.into()))
    }

    /// Any HTTP answer in place of a message: a page, a malformed stream, nothing at all.
    pub fn raw(status: u16, content_type: impl Into<String>, body: impl Into<String>) -> Self {
        Self::http(HttpAnswer { status, headers: Vec::new(), content_type: content_type.into(), body: body.into() })
    }

    pub(super) fn http(answer: HttpAnswer) -> Self {
        Self { http: Some(answer), ..Self::message() }
    }

    /// A message that starts a text with "…" and then sends nothing more, until the client disconnects or the stub is
    /// dropped. Blocks added to it are sent before that text. A client that does not stream gets no answer at all.
    pub fn stall() -> Self {
        Self { dangling: true, ..Self::text("…").fault(Fault::Stall { duration: None }, FaultPoint::InBlock) }
    }

    /// A message that starts a text with "…", and then cuts the connection. Blocks added to it are sent before that
    /// text. A client that does not stream gets HTTP status 500.
    pub fn cut() -> Self {
        Self { dangling: true, ..Self::text("…").fault(Fault::Drop, FaultPoint::InBlock) }
    }

    /// A stream that ends with an error event, such as `overloaded_error`. Blocks added to it are sent before that. A
    /// client that does not stream gets the matching HTTP status.
    pub fn stream_error(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self::message().fault(Fault::Error { kind: kind.into(), message: message.into() }, FaultPoint::AfterBlocks)
    }

    /// Adds a text to the same message.
    #[must_use]
    pub fn and_text(self, text: impl Into<String>) -> Self {
        self.and(Block::Text(text.into()))
    }

    /// Adds thinking to the same message.
    #[must_use]
    pub fn and_thinking(self, thinking: impl Into<String>) -> Self {
        self.and(Block::Thinking(thinking.into()))
    }

    /// Adds a call of a tool to the same message.
    #[must_use]
    pub fn and_tool_use(self, id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        self.and(Block::ToolUse { id: Some(id.into()), name: name.into(), input })
    }

    /// Adds a fault at a point of the stream.
    #[must_use]
    pub fn fault(mut self, fault: Fault, at: FaultPoint) -> Self {
        self.fault = Some((fault, at));
        self
    }

    /// Adds a header to an HTTP answer, such as `retry-after`; it has no effect on a message.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        if let Some(http) = &mut self.http {
            http.headers.push((name.into(), value.into()));
        }
        self
    }

    /// Waits this long before every text delta.
    #[must_use]
    pub fn paced(mut self, pace: Duration) -> Self {
        self.pace = Some(pace);
        self
    }

    /// Cuts texts into deltas of this many characters; zero counts as one.
    #[must_use]
    pub fn chunks_of(mut self, chars: usize) -> Self {
        self.chunk_chars = chars.max(1);
        self
    }

    /// Waits this long before the headers are sent.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the stop reason; the default is `tool_use` if the message calls a tool, else `end_turn`.
    #[must_use]
    pub fn stop_reason(mut self, reason: impl Into<String>) -> Self {
        self.stop_reason = Some(reason.into());
        self
    }

    /// Sets the tokens that the message reports.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = Usage { input_tokens: input, output_tokens: output };
        self
    }

    pub(super) fn calls_a_tool(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, Block::ToolUse { .. }))
    }

    pub(super) fn and(mut self, block: Block) -> Self {
        let end = self.blocks.len() - usize::from(self.dangling);
        self.blocks.insert(end, block);
        self
    }
}

impl Block {
    pub(super) fn tool_use(id: Option<String>, name: String, input: Map<String, Value>) -> Self {
        Block::ToolUse { id, name, input: Value::Object(input) }
    }
}

impl HttpAnswer {
    /// An error in the API's format.
    pub(super) fn error(status: u16, kind: &str, message: &str) -> Self {
        let body = json!({"type": "error", "error": {"type": kind, "message": message}}).to_string();
        Self { status, headers: Vec::new(), content_type: "application/json".to_owned(), body }
    }
}

/// The HTTP status of an error of this kind without streaming.
pub(super) fn error_status(kind: &str) -> u16 {
    ERRORS.iter().find(|(_, found)| *found == kind).map_or(500, |(status, _)| *status)
}

pub(super) fn error_kind(status: u16) -> &'static str {
    ERRORS.iter().find(|(found, _)| *found == status).map_or("api_error", |(_, kind)| kind)
}

/// The API's errors by their status.
const ERRORS: [(u16, &str); 9] = [
    (400, "invalid_request_error"),
    (401, "authentication_error"),
    (402, "billing_error"),
    (403, "permission_error"),
    (404, "not_found_error"),
    (413, "request_too_large"),
    (429, "rate_limit_error"),
    (504, "timeout_error"),
    (529, "overloaded_error"),
];

fn at_or_last(replies: &[Arc<Reply>], turn: usize) -> Option<Arc<Reply>> {
    replies.get(turn).or(replies.last()).map(Arc::clone)
}
