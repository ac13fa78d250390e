//! The shapes of what a client writes. Only the schema is made of them: the reader is `incoming.rs`.

#![expect(dead_code, reason = "only their shapes are used")]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::dialect::limits::WHOLE_MAX;
use crate::dialect::schema::shapes::{CallContent, PromptBlock, TOOL_NAME, ToolSchema};

/// What a client writes, one object a line. Null stands for a field that is not there.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum ToWatari {
    /// Begins the session. Once, before all others.
    Start {
        /// The first message.
        prompt: String,
        /// What the session is to be like.
        options: Option<Box<StartOptions>>,
    },
    /// The next message. During a turn it waits for a turn of its own.
    UserMessage {
        /// What the user says.
        text: String,
        /// Images, as content blocks in the shape of the API. They follow the text.
        images: Option<Vec<PromptBlock>>,
        /// Documents, as content blocks in the shape of the API. They follow the images.
        documents: Option<Vec<PromptBlock>>,
    },
    /// Answers a `permission_request`.
    PermissionResponse {
        /// The request, as it was named there.
        #[schemars(extend("pattern" = "^req_[0-9]{1,19}$"))]
        request_id: String,
        /// The answer.
        result: PermissionResult,
    },
    /// Ends the session at once.
    Abort,
    /// Extension: ends the turn, not the session.
    Interrupt {
        /// Extension: whether messages that wait for their turn are dropped too.
        cancel_queued: Option<bool>,
    },
    /// Extension: another model from the next turn on.
    SetModel {
        /// Extension: its name; without one, the CLI's own choice.
        model: Option<String>,
    },
    /// Extension: another permission mode.
    SetPermissionMode {
        /// Extension: the mode.
        mode: PermissionMode,
    },
    /// Extension: tools that the client runs itself. Before `start`; the last one counts.
    RegisterTools {
        /// Extension: the tools.
        tools: Vec<ClientTool>,
    },
    /// Extension: answers a `tool_call`.
    ToolCallResult {
        /// Extension: the call, as it was named there.
        #[schemars(extend("pattern" = "^call_[0-9]{1,19}$"))]
        call_id: String,
        /// Extension: what the tool gives back.
        content: CallContent,
        /// Extension: whether it failed; then the content says why.
        is_error: Option<bool>,
    },
}

/// A tool that the client runs itself. The model knows it as `mcp__client__` and its name.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClientTool {
    /// Its name: up to 51 letters, digits, `_` and `-`. It does not begin with `_`, and has no `__` in it.
    #[schemars(extend("pattern" = TOOL_NAME, "maxLength" = 51))]
    name: String,
    /// What the model is told of it.
    description: Option<String>,
    /// What it is run with, as a JSON Schema of an object; any object if there is nothing.
    input_schema: Option<ToolSchema>,
}

/// The answer to a permission request.
#[derive(JsonSchema)]
#[serde(tag = "behavior", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum PermissionResult {
    /// Yes.
    Allow {
        /// What the tool is used with instead. Without it, or if it is empty, it runs as it was asked for.
        updated_input: Option<Map<String, Value>>,
        /// Rules that hold from now on, in the shape of the CLI.
        updated_permissions: Option<Vec<Value>>,
    },
    /// No.
    Deny {
        /// What the model reads; `User denied` if there is nothing.
        message: Option<String>,
        /// Whether the turn ends too.
        interrupt: Option<bool>,
    },
}

/// What a session is to be like. All of it can be left out; one that is not known is told by an `error`, and the session
/// starts without it.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StartOptions {
    /// The folder to work in; otherwise that of the process.
    cwd: Option<String>,
    /// The id of a session that goes on. Not together with `continue`.
    resume: Option<String>,
    /// The model; otherwise the CLI's own choice.
    model: Option<String>,
    /// The system prompt; otherwise it is empty.
    system_prompt: Option<SystemPrompt>,
    /// What is asked about; `default` if there is nothing.
    permission_mode: Option<PermissionMode>,
    /// The names of tools that the model does not get.
    disallowed_tools: Option<Vec<String>>,
    /// After how many answers of the model a turn ends: 1 or more.
    #[schemars(extend("minimum" = 1, "maximum" = u32::MAX))]
    max_turns: Option<u32>,
    /// How many tokens the model may think for; 0 for none.
    #[schemars(extend("maximum" = u32::MAX))]
    max_thinking_tokens: Option<u32>,
    /// What the session may cost, in US dollars.
    max_budget_usd: Option<f64>,
    /// The settings files that count; otherwise all three.
    setting_sources: Option<Vec<SettingSource>>,
    /// Variables that are added to the inherited ones; null takes one away. Watari's own, such as `CLAUDE_CODE_ENTRYPOINT`, keep
    /// their values.
    env: Option<BTreeMap<String, Option<String>>>,
    /// Whether messages are streamed as they are written; otherwise they are.
    include_partial_messages: Option<bool>,
    /// Extension: how long a permission request waits for its answer, in milliseconds: a minute if there is nothing, 0
    /// for ever.
    #[schemars(extend("maximum" = WHOLE_MAX))]
    permission_timeout_ms: Option<u64>,
    /// Extension: the names of tools that are not asked about.
    allowed_tools: Option<Vec<String>>,
    /// Extension: what `resume` names stays as it is, and its copy goes on. Needs `resume`.
    fork_session: Option<bool>,
    /// Extension: the last session of the folder goes on.
    r#continue: Option<bool>,
    /// Extension: MCP servers by name, in the shape of the CLI.
    mcp_servers: Option<BTreeMap<String, Map<String, Value>>>,
    /// Extension: kinds of subagents by name, in the shape of the CLI.
    agents: Option<BTreeMap<String, Map<String, Value>>>,
    /// Extension: more folders in which tools may work.
    additional_directories: Option<Vec<String>>,
    /// Extension: plugins to load.
    plugins: Option<Vec<Plugin>>,
    /// Extension: settings above those of the files.
    settings: Option<Settings>,
    /// Extension: how hard the model tries.
    effort: Option<Effort>,
    /// Extension: the shape of the answer.
    output_format: Option<OutputFormat>,
}

/// What is asked about before it runs. `bypassPermissions` needs `watari stdio --allow-bypass`.
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

/// A settings file.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SettingSource {
    User,
    Project,
    Local,
}

/// How hard the model tries.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Effort {
    Low,
    Medium,
    High,
    Xhigh,
    Max,
}

/// A system prompt.
#[derive(JsonSchema)]
#[serde(untagged)]
enum SystemPrompt {
    /// The whole of it.
    Text(String),
    /// One that the CLI has.
    Preset {
        /// Which one.
        preset: Preset,
        /// What is added to it.
        append: Option<String>,
    },
}

/// A system prompt that the CLI has.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Preset {
    ClaudeCode,
}

/// A plugin.
#[derive(JsonSchema)]
struct Plugin {
    /// Its folder.
    path: String,
}

/// Settings.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Settings {
    /// The path of a file.
    File(String),
    /// The settings themselves, in the shape of the CLI.
    Inline(Map<String, Value>),
}

/// The shape of an answer.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutputFormat {
    /// JSON that fits a schema.
    JsonSchema {
        /// The schema.
        schema: Map<String, Value>,
    },
}
