//! The shapes of what a client writes. Only the schema is made of them: the reader is `incoming.rs`.

#![expect(dead_code, reason = "only their shapes are used")]

use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::dialect::schema::shapes::{CallContent, ClientTool, Name, NonEmpty, PromptBlock, Since};

/// What a client writes, one object a line. Null stands for a field that is not there.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToWatari {
    /// The next message. During a turn it waits for a turn of its own.
    Message {
        /// What the user says.
        text: String,
        /// Extension: images, as content blocks in the shape of the API. They follow the text.
        images: Option<Vec<PromptBlock>>,
        /// Extension: documents, as content blocks in the shape of the API. They follow the images.
        documents: Option<Vec<PromptBlock>>,
    },
    /// Says yes to an `approval_request`.
    Approve {
        /// The request, as it was named there.
        request_id: String,
        /// Extension: what the tool is used with instead, the whole of it; of a form, what was filled in.
        #[schemars(with = "Option<NonEmpty>")]
        input: Option<Map<String, Value>>,
    },
    /// Says no to an `approval_request`.
    Deny {
        /// The request, as it was named there.
        request_id: String,
        /// What the model reads; `User denied` if there is nothing.
        reason: Option<String>,
    },
    /// Ends the turn that runs, not the session.
    Abort,
    /// Extension: asks to be told of events from a place on, and of their places. What came before the answer, which is
    /// a `hello` too, does not count.
    Hello {
        /// From where; what happens from now on if there is nothing.
        since: Option<Since>,
        /// The session that it follows, by the `key` it was told: if another is here, everything is told, with `resume`
        /// `gap`.
        key: Option<String>,
        /// The client's name, which is the same when it comes back: its ids of commands are then known.
        client: Option<Name>,
    },
    /// Extension: tools that clients run themselves, in the place of those there were.
    RegisterTools {
        /// The tools.
        tools: Vec<ClientTool>,
    },
    /// Extension: answers a `tool_call`.
    ToolCallResult {
        /// The call, as it was named there.
        call_id: String,
        /// What the tool gives back.
        content: CallContent,
        /// Whether it failed; then the content says why.
        is_error: Option<bool>,
    },
    /// Extension: ends the session.
    Close,
}
