//! The shapes of the lines that a client writes, used only for the schema: `incoming.rs` parses the lines.

#![expect(dead_code, reason = "only their shapes are used")]

use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::dialect::schema::shapes::{CallContent, ClientTool, Name, NonEmpty, PromptBlock, Since};

/// The lines that a client writes, one object per line. A null field counts as absent.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToWatari {
    /// A message to the model. During a turn it is queued for its own turn.
    Message {
        /// The text of the user.
        text: String,
        /// Extension: images, as content blocks in the API's format. They follow the text.
        images: Option<Vec<PromptBlock>>,
        /// Extension: documents, as content blocks in the API's format. They follow the images.
        documents: Option<Vec<PromptBlock>>,
    },
    /// Approves an `approval_request`.
    Approve {
        /// The `request_id` of the `approval_request`.
        request_id: String,
        /// Extension: an edited input that replaces the original input; of a form, its completed content.
        #[schemars(with = "Option<NonEmpty>")]
        input: Option<Map<String, Value>>,
    },
    /// Denies an `approval_request`.
    Deny {
        /// The `request_id` of the `approval_request`.
        request_id: String,
        /// The reason for the model. Default: `User denied`.
        reason: Option<String>,
    },
    /// Interrupts the running turn, not the session.
    Abort,
    /// Extension: requests a replay and the positions of events. The reply is a `hello`, too; discard everything that
    /// was received before it.
    Hello {
        /// Where the replay begins. Default: no replay, only the snapshot and live events.
        since: Option<Since>,
        /// The `key` of the session that the client expects. If the host serves another session, it replays all events,
        /// with `resume` `gap`.
        key: Option<String>,
        /// The client's name, stable across reconnects: it identifies the client's command ids.
        client: Option<Name>,
    },
    /// Extension: replaces the tools that clients run.
    RegisterTools {
        /// The tools.
        tools: Vec<ClientTool>,
    },
    /// Extension: answers a `tool_call`.
    ToolCallResult {
        /// The `call_id` of the `tool_call`.
        call_id: String,
        /// The result of the tool.
        content: CallContent,
        /// Whether the tool failed; then the content is the reason.
        is_error: Option<bool>,
    },
    /// Extension: ends the session.
    Close,
}
