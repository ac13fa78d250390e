//! What a test tells the stub to answer.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

/// How many characters a text delta has unless the reply says otherwise.
const CHUNK_CHARS: usize = 4;

/// The replies of a stub, one per model call; the last one is repeated.
#[derive(Debug, Clone, Default)]
pub struct Script {
    replies: Vec<Arc<Reply>>,
    agent_replies: Vec<Arc<Reply>>,
}

/// One answer of the model: a message of some blocks, an error, or one that never ends.
#[derive(Debug, Clone)]
pub struct Reply {
    pub(super) blocks: Vec<Block>,
    pub(super) ending: Ending,
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
    ToolUse { id: String, name: String, input: Value },
}

#[derive(Debug, Clone)]
pub(super) enum Ending {
    /// The message ends as it should.
    Stop,
    /// There is no message, only an HTTP error.
    Status { code: u16, message: String },
    /// One more block begins and does not end.
    Hold,
    /// One more block begins, and the connection is cut.
    Cut,
    /// The stream says that there was an error.
    StreamError { kind: String, message: String },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    pub(super) input_tokens: u64,
    pub(super) output_tokens: u64,
}

impl Script {
    /// A script that answers every model call with "Hello!" and those of subagents with "sub done".
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the reply to the next model call.
    #[must_use]
    pub fn reply(mut self, reply: Reply) -> Self {
        self.replies.push(Arc::new(reply));
        self
    }

    /// Sets the replies to subagents, which do not take from the main list.
    #[must_use]
    pub fn for_agents(mut self, replies: impl IntoIterator<Item = Reply>) -> Self {
        self.agent_replies = replies.into_iter().map(Arc::new).collect();
        self
    }

    pub(super) fn main_reply(&self, turn: usize) -> Arc<Reply> {
        at_or_last(&self.replies, turn).unwrap_or_else(|| Arc::new(Reply::text("Hello!")))
    }

    pub(super) fn agent_reply(&self, turn: usize) -> Arc<Reply> {
        at_or_last(&self.agent_replies, turn).unwrap_or_else(|| Arc::new(Reply::text("sub done")))
    }

    pub(super) fn side_reply() -> Arc<Reply> {
        Arc::new(Reply::text("ok"))
    }
}

impl Reply {
    /// A message with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::ending(Ending::Stop).and_text(text)
    }

    /// A message with one piece of thinking.
    pub fn thinking(thinking: impl Into<String>) -> Self {
        Self::ending(Ending::Stop).and_thinking(thinking)
    }

    /// A message that calls one tool.
    pub fn tool_use(id: impl Into<String>, name: impl Into<String>, input: Value) -> Self {
        Self::ending(Ending::Stop).and_tool_use(id, name, input)
    }

    /// An HTTP error in place of a message. Blocks that are added to it are never sent.
    pub fn status(code: u16, message: impl Into<String>) -> Self {
        Self::ending(Ending::Status { code, message: message.into() })
    }

    /// A message that begins a text with "…" and then says nothing more, until the client goes or the stub is dropped.
    /// Blocks that are added to it come whole before that text. A client that does not stream gets no answer at all.
    pub fn hold() -> Self {
        Self::ending(Ending::Hold)
    }

    /// A message that begins a text with "…", and then the connection is cut. Blocks that are added to it come whole
    /// before that text. A client that does not stream gets HTTP status 500.
    pub fn cut() -> Self {
        Self::ending(Ending::Cut)
    }

    /// A stream that ends with an error event, such as `overloaded_error`. Blocks that are added to it come whole
    /// before that. A client that does not stream gets HTTP status 529.
    pub fn stream_error(kind: impl Into<String>, message: impl Into<String>) -> Self {
        Self::ending(Ending::StreamError { kind: kind.into(), message: message.into() })
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
        self.and(Block::ToolUse { id: id.into(), name: name.into(), input })
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
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Says why the message ends: otherwise `tool_use` if it calls a tool, else `end_turn`.
    #[must_use]
    pub fn stop_reason(mut self, reason: impl Into<String>) -> Self {
        self.stop_reason = Some(reason.into());
        self
    }

    /// Sets the tokens that the message says it has cost.
    #[must_use]
    pub fn usage(mut self, input: u64, output: u64) -> Self {
        self.usage = Usage { input_tokens: input, output_tokens: output };
        self
    }

    pub(super) fn calls_a_tool(&self) -> bool {
        self.blocks.iter().any(|block| matches!(block, Block::ToolUse { .. }))
    }

    fn ending(ending: Ending) -> Self {
        Self {
            blocks: Vec::new(),
            ending,
            stop_reason: None,
            delay: Duration::ZERO,
            pace: None,
            chunk_chars: CHUNK_CHARS,
            usage: Usage { input_tokens: 10, output_tokens: 5 },
        }
    }

    fn and(mut self, block: Block) -> Self {
        self.blocks.push(block);
        self
    }
}

fn at_or_last(replies: &[Arc<Reply>], turn: usize) -> Option<Arc<Reply>> {
    replies.get(turn).or(replies.last()).map(Arc::clone)
}
