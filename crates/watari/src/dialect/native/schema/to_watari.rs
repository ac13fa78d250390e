//! The shapes of what a client writes. Only the schema is made of them: the reader is `incoming.rs`.

#![expect(dead_code, reason = "only their shapes are used")]

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use crate::dialect::limits::WHOLE_MAX;
use crate::dialect::schema::shapes::{CallContent, ClientTool, Name, NonEmpty, PromptBlock, Since};

/// What a client writes, one object a line. Null stands for a field that is not there.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum ToWatari {
    /// The first line: before it nothing is told, and no command is carried out. Its answer is a `hello` too.
    Hello {
        /// The versions of this dialect that the client speaks, with 1 among them.
        #[schemars(extend("contains" = {"const": super::super::PROTOCOL}))]
        protocol: Vec<Version>,
        /// From where it wants to be told; what still holds and what happens from now on if there is nothing.
        since: Option<Since>,
        /// The session that it follows, by the `key` it was told: if another is here, everything is told, with `resume`
        /// `gap`.
        key: Option<String>,
        /// The client's name, which is the same when it comes back: its ids of commands are then known.
        client: Option<Name>,
    },
    /// A prompt. During a turn it waits for a turn of its own.
    Prompt {
        /// What it says.
        content: PromptContent,
    },
    /// Ends the turn that runs, not the session.
    Interrupt {
        /// Whether prompts that wait for their turn are dropped too.
        cancel_queued: Option<bool>,
    },
    /// Answers an ask.
    Answer {
        /// The ask, as it was named in `ask_opened`.
        #[schemars(extend("maximum" = WHOLE_MAX))]
        ask: u64,
        /// The answer.
        answer: AnswerInput,
    },
    /// Asks the CLI for something. Its answer is the event `request_answered`.
    Request {
        /// What.
        request: RequestMade,
    },
    /// Ends the session in good order.
    Close,
    /// Ends the session now.
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
        json_schema!({"type": "integer", "minimum": 0, "maximum": WHOLE_MAX})
    }
}

/// What a prompt says.
#[derive(JsonSchema)]
#[serde(untagged)]
pub(super) enum PromptContent {
    /// A text.
    Text(String),
    /// Texts, images and documents, as content blocks in the shape of the API.
    Blocks(Vec<PromptBlock>),
}

/// The answer to an ask. Permissions and plans take `allow` or `deny`, questions also `choose`, hooks `hook`, forms
/// `submit`, `decline` or `dismiss`, calls of a tool `tool_result` or `deny`.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum AnswerInput {
    /// The tool may run.
    Allow {
        /// What it is run with instead, the whole of it.
        #[schemars(with = "Option<NonEmpty>")]
        input: Option<Map<String, Value>>,
        /// Rules that hold from now on, in the shape of the CLI.
        permissions: Option<Vec<Value>>,
    },
    /// It may not.
    Deny {
        /// What the model reads; `User denied` if there is nothing.
        message: Option<String>,
        /// Whether the turn ends too.
        interrupt: Option<bool>,
    },
    /// What the user chose.
    Choose {
        /// By the text of each question.
        choices: BTreeMap<String, String>,
    },
    /// What a hook says.
    Hook {
        /// Its output.
        output: HookOutput,
    },
    /// A form that was filled in.
    Submit {
        /// Its content.
        content: Map<String, Value>,
    },
    /// A form that the user does not want to fill in.
    Decline,
    /// A form that was put away without a decision.
    Dismiss,
    /// What a tool of the program gives back.
    ToolResult {
        /// A text, or blocks.
        content: CallContent,
        /// Whether it failed; then the content says why.
        is_error: Option<bool>,
    },
}

/// What a hook says.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum HookOutput {
    /// Nothing: it goes on as if there were no hook.
    NoOpinion,
    /// The tool runs, without anybody else being asked.
    Allow {
        /// What it is run with instead.
        input: Option<Map<String, Value>>,
    },
    /// The tool does not run.
    Deny {
        /// Why.
        reason: String,
    },
    /// Somebody is asked, whatever the rules say.
    Ask {
        /// Why.
        reason: String,
    },
    /// The turn ends, and the use of the tool is kept for later.
    Defer,
    /// Of a prompt: it is not sent. Of a stop: it goes on.
    Block {
        /// Why, or what to do instead.
        reason: String,
    },
    /// The model is told something.
    Context {
        /// What.
        text: String,
    },
    /// The turn ends.
    Halt {
        /// Why.
        reason: String,
    },
    /// Anything else.
    Other {
        /// In the shape of the CLI.
        output: Map<String, Value>,
    },
}

/// Something that the CLI is asked for.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum RequestMade {
    /// Another model.
    SetModel {
        /// Its name; without one, the CLI's own choice.
        model: Option<String>,
    },
    /// Another permission mode.
    SetPermissionMode {
        /// The mode.
        mode: PermissionMode,
    },
    /// How much the model may think.
    SetThinking {
        /// In tokens; without a number, the CLI's own choice.
        #[schemars(extend("maximum" = u32::MAX))]
        tokens: Option<u32>,
    },
    /// Tools that clients run themselves, in the place of those there were.
    SetTools {
        /// The tools.
        tools: Vec<ClientTool>,
    },
    /// Which MCP servers there are, and how they are.
    McpStatus,
    /// Other MCP servers, in the place of those that were added before.
    SetMcpServers {
        /// By name, in the shape of the CLI.
        servers: BTreeMap<String, Map<String, Value>>,
    },
    /// Connects to an MCP server again.
    ReconnectMcp {
        /// Its name.
        server: String,
    },
    /// Whether an MCP server is used.
    ToggleMcp {
        /// Its name.
        server: String,
        /// Whether.
        enabled: bool,
    },
    /// What fills the model's context.
    ContextUsage,
    /// Brings files back to what they were before a prompt.
    Rewind {
        /// The prompt, by its `entry` in `prompt_accepted`.
        entry: Uuid,
        /// Whether it is only told what would change.
        dry_run: Option<bool>,
    },
    /// Ends a background task.
    StopTask {
        /// The CLI's id of it.
        task: String,
    },
    /// Reads a file as the CLI may.
    ReadFile {
        /// Its path.
        path: String,
        /// How much of it.
        #[schemars(extend("maximum" = WHOLE_MAX))]
        max_bytes: Option<u64>,
    },
    /// Gives the conversation a title.
    Rename {
        /// The title.
        title: String,
    },
    /// What the session was opened with is sent again.
    Reinitialize,
    /// Anything else that the CLI knows.
    Other {
        /// The CLI's name of it.
        subtype: String,
        /// Its fields.
        fields: Option<Map<String, Value>>,
    },
}

/// What is asked about before it runs.
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

/// A UUID, in either case.
pub(super) struct Uuid;

impl JsonSchema for Uuid {
    fn schema_name() -> Cow<'static, str> {
        "Uuid".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A UUID, in either case.",
            "type": "string",
            "pattern": "^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$",
        })
    }
}
