//! The shapes of the lines that a client writes, used only for the schema: `incoming.rs` parses the lines.

#![expect(dead_code, reason = "only their shapes are used")]

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use crate::dialect::limits::INTEGER_MAX;
use crate::dialect::schema::shapes::{CallContent, ClientTool, Name, NonEmpty, PromptBlock, Since};

/// The lines that a client writes, one object per line. A null field counts as absent.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToWatari {
    /// The first line: before it no events are sent, and commands are refused. The reply is a `hello`, too.
    Hello {
        /// The versions of this dialect that the client supports; 1 must be among them.
        #[schemars(extend("contains" = {"const": watari_sdk::native::PROTOCOL}))]
        protocol: Vec<Version>,
        /// Where the replay begins. Default: no replay, only the snapshot and live events.
        since: Option<Since>,
        /// The `key` of the session that the client expects. If the host serves another session, it replays all events,
        /// with `resume` `gap`.
        key: Option<String>,
        /// The client's name, stable across reconnects: it identifies the client's command ids.
        client: Option<Name>,
    },
    /// A prompt. During a turn it is queued for its own turn.
    Prompt {
        /// The content of the prompt.
        content: PromptContent,
    },
    /// Interrupts the running turn, not the session.
    Interrupt {
        /// Whether queued prompts are dropped, too.
        cancel_queued: Option<bool>,
    },
    /// Answers an ask.
    Answer {
        /// The number of the ask, from `ask_opened`.
        #[schemars(extend("maximum" = INTEGER_MAX))]
        ask: u64,
        /// The answer.
        answer: AnswerInput,
    },
    /// Sends a request to the CLI. Its answer is the event `request_answered`.
    Request {
        /// The request.
        request: RequestMade,
    },
    /// Closes the session gracefully.
    Close,
    /// Ends the session immediately.
    Abort,
}

/// A version of this dialect.
pub(super) struct Version;

impl JsonSchema for Version {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Version".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 0, "maximum": INTEGER_MAX})
    }
}

/// The content of a prompt.
#[derive(JsonSchema)]
#[serde(untagged)]
pub(super) enum PromptContent {
    /// A text.
    Text(String),
    /// Texts, images and documents, as content blocks in the API's format.
    Blocks(Vec<PromptBlock>),
}

/// The answer to an ask. Permissions and plans take `allow` or `deny`, questions also `choose`, hooks `hook`, forms
/// `accept`, `decline` or `cancel`, tool calls `tool_result` or `deny`.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum AnswerInput {
    /// Allows the tool to run.
    Allow {
        /// An edited input that replaces the original input.
        #[schemars(with = "Option<NonEmpty>")]
        input: Option<Map<String, Value>>,
        /// Permission updates (rules, directories, the mode) in the CLI's format.
        permissions: Option<Vec<Value>>,
    },
    /// Denies the ask.
    Deny {
        /// The reason for the model. Default: `User denied`.
        message: Option<String>,
        /// Whether to interrupt the turn, too.
        interrupt: Option<bool>,
    },
    /// The user's choices.
    Choose {
        /// The choices by the text of each question.
        choices: BTreeMap<String, String>,
    },
    /// The result of a hook.
    Hook {
        /// Its output.
        output: HookOutput,
    },
    /// A completed form.
    Accept {
        /// Its content.
        content: Map<String, Value>,
    },
    /// The user declines the form.
    Decline,
    /// The user dismisses the form without a decision.
    Cancel,
    /// The result of a client's tool.
    ToolResult {
        /// A text, or blocks.
        content: CallContent,
        /// Whether the tool failed; then the content is the reason.
        is_error: Option<bool>,
    },
}

/// The output of a hook.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum HookOutput {
    /// No decision, as if there were no hook.
    NoOpinion,
    /// Runs the tool without a permission request.
    Allow {
        /// An edited input that replaces the original input.
        input: Option<Map<String, Value>>,
    },
    /// Does not run the tool.
    Deny {
        /// The reason.
        reason: String,
    },
    /// Opens a permission request, whatever the rules say.
    Ask {
        /// The reason.
        reason: String,
    },
    /// Ends the turn, and stores the tool use for later.
    Defer,
    /// Blocks a prompt, which is not sent, or a stop, so that the turn continues.
    Block {
        /// The reason, or what to do instead.
        reason: String,
    },
    /// Adds context for the model.
    Context {
        /// The context.
        text: String,
    },
    /// Ends the turn.
    Halt {
        /// The reason.
        reason: String,
    },
    /// Any other output.
    Other {
        /// The output, in the CLI's format.
        output: Map<String, Value>,
    },
}

/// A request to the CLI.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum RequestMade {
    /// Changes the model from the next API call on.
    SetModel {
        /// The name of the model. Default: the CLI's choice.
        model: Option<String>,
    },
    /// Changes the permission mode.
    SetPermissionMode {
        /// The mode.
        mode: PermissionMode,
    },
    /// Limits the model's thinking.
    SetThinking {
        /// The limit in tokens. Default: the CLI's choice.
        #[schemars(extend("maximum" = u32::MAX))]
        tokens: Option<u32>,
    },
    /// Replaces the tools that clients run.
    SetTools {
        /// The tools.
        tools: Vec<ClientTool>,
    },
    /// Lists the MCP servers and their status.
    McpStatus,
    /// Replaces the MCP servers that were added before.
    SetMcpServers {
        /// The servers by name, in the CLI's format.
        servers: BTreeMap<String, Map<String, Value>>,
    },
    /// Reconnects to an MCP server.
    ReconnectMcp {
        /// The name of the server.
        server: String,
    },
    /// Enables or disables an MCP server.
    ToggleMcp {
        /// The name of the server.
        server: String,
        /// Whether the server is used.
        enabled: bool,
    },
    /// Reports what fills the model's context.
    ContextUsage,
    /// Restores files to their state before a prompt.
    Rewind {
        /// The prompt, by its `entry` in `prompt_accepted`.
        entry: Uuid,
        /// Whether to only report what would change.
        dry_run: Option<bool>,
    },
    /// Stops a background task.
    StopTask {
        /// The CLI's id of the task.
        task: String,
    },
    /// Reads a file with the CLI's permissions.
    ReadFile {
        /// The path of the file.
        path: String,
        /// How many bytes to read at most.
        #[schemars(extend("maximum" = INTEGER_MAX))]
        max_bytes: Option<u64>,
    },
    /// Renames the conversation.
    Rename {
        /// The title.
        title: String,
    },
    /// Sends the initialization of the session again.
    Reinitialize,
    /// Any other request of the CLI.
    Other {
        /// The CLI's name of the request.
        subtype: String,
        /// Its fields.
        fields: Option<Map<String, Value>>,
    },
}

/// The permission mode. `default`: asks for what no rule allows. `acceptEdits`: edits files in the working directory
/// without asking. `plan`: reads and plans, changes nothing. `dontAsk`: denies what no rule allows, without asking.
/// `auto`: a classifier decides. `bypassPermissions`: runs everything without asking; it needs `watari socket
/// --allow-bypass`.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) enum PermissionMode {
    Default,
    AcceptEdits,
    Plan,
    DontAsk,
    Auto,
    BypassPermissions,
}

/// A UUID, in upper or lower case.
pub(super) struct Uuid;

impl JsonSchema for Uuid {
    fn schema_name() -> Cow<'static, str> {
        "Uuid".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A UUID, in upper or lower case.",
            "type": "string",
            "pattern": "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$",
        })
    }
}
