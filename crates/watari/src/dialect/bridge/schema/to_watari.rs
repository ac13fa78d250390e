//! The shapes of the lines that a client writes, used only for the schema: `incoming.rs` parses the lines.

#![expect(dead_code, reason = "only their shapes are used")]

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::{Map, Value};

use crate::dialect::limits::INTEGER_MAX;
use crate::dialect::schema::shapes::{CallContent, PromptBlock, TOOL_NAME, ToolSchema};

/// The lines that a client writes, one object per line. A null field counts as absent.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum ToWatari {
    /// Starts the session. Sent once; only `register_tools` and `abort` may come before it.
    Start {
        /// The first message.
        prompt: String,
        /// The options of the session.
        options: Option<Box<StartOptions>>,
    },
    /// The next message. During a turn it is queued for its own turn.
    UserMessage {
        /// The text of the user.
        text: String,
        /// Images, as content blocks in the API's format. They follow the text.
        images: Option<Vec<PromptBlock>>,
        /// Documents, as content blocks in the API's format. They follow the images.
        documents: Option<Vec<PromptBlock>>,
    },
    /// Answers a `permission_request`.
    PermissionResponse {
        /// The `requestId` of the `permission_request`.
        #[schemars(extend("pattern" = "^req_[0-9]{1,19}$"))]
        request_id: String,
        /// The answer.
        result: PermissionResult,
    },
    /// Ends the session immediately.
    Abort,
    /// Extension: interrupts the turn, not the session.
    Interrupt {
        /// Extension: whether queued messages are dropped, too.
        cancel_queued: Option<bool>,
    },
    /// Extension: changes the model from the next API call on.
    SetModel {
        /// Extension: the name of the model. Default: the CLI's choice.
        model: Option<String>,
    },
    /// Extension: changes the permission mode.
    SetPermissionMode {
        /// Extension: the mode.
        mode: PermissionMode,
    },
    /// Extension: registers the tools that the client runs. Sent before `start`; the last one counts.
    RegisterTools {
        /// Extension: the tools.
        tools: Vec<ClientTool>,
    },
    /// Extension: answers a `tool_call`.
    ToolCallResult {
        /// Extension: the `callId` of the `tool_call`.
        #[schemars(extend("pattern" = "^call_[0-9]{1,19}$"))]
        call_id: String,
        /// Extension: the result of the tool.
        content: CallContent,
        /// Extension: whether the tool failed; then the content is the reason.
        is_error: Option<bool>,
    },
}

/// A tool that the client runs. Its name for the model is `mcp__client__` followed by `name`.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ClientTool {
    /// The tool's name: up to 51 letters, digits, `_` and `-`. It may not begin with `_` or contain `__`.
    #[schemars(extend("pattern" = TOOL_NAME, "maxLength" = 51))]
    name: String,
    /// The description for the model.
    description: Option<String>,
    /// The JSON Schema of its input, which is an object. Default: any object.
    input_schema: Option<ToolSchema>,
}

/// The answer to a permission request.
#[derive(JsonSchema)]
#[serde(tag = "behavior", rename_all = "snake_case", rename_all_fields = "camelCase")]
pub(super) enum PermissionResult {
    /// Allows the tool to run.
    Allow {
        /// An edited input that replaces the original input. If absent or empty, the original input is used.
        updated_input: Option<Map<String, Value>>,
        /// Permission updates (rules, directories, the mode) in the CLI's format.
        updated_permissions: Option<Vec<Value>>,
    },
    /// Does not allow the tool to run.
    Deny {
        /// The reason for the model. Default: `User denied`.
        message: Option<String>,
        /// Whether to interrupt the turn, too.
        interrupt: Option<bool>,
    },
}

/// The options of a session. All are optional. An unknown option is reported by an `error`, and the session starts
/// without it.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct StartOptions {
    /// The working directory. Default: that of the process.
    cwd: Option<String>,
    /// The id of the conversation to resume. Not together with `continue`.
    resume: Option<String>,
    /// The model. Default: the CLI's choice.
    model: Option<String>,
    /// The system prompt. Default: an empty one. Claude Code's own system prompt is the preset `claude_code`.
    system_prompt: Option<SystemPrompt>,
    /// The permission mode. Default: `default`.
    permission_mode: Option<PermissionMode>,
    /// The names of tools that the model may not use.
    disallowed_tools: Option<Vec<String>>,
    /// The number of the model's answers after which a turn ends: 1 or more.
    #[schemars(extend("minimum" = 1, "maximum" = u32::MAX))]
    max_turns: Option<u32>,
    /// The limit for thinking, in tokens; 0 disables it.
    #[schemars(extend("maximum" = u32::MAX))]
    max_thinking_tokens: Option<u32>,
    /// The cost limit of the session, in US dollars.
    max_budget_usd: Option<f64>,
    /// The settings files to read. Default: all three.
    setting_sources: Option<Vec<SettingSource>>,
    /// Environment variables to add to the inherited ones; null removes a variable. Watari's own variables, such as
    /// `CLAUDE_CODE_ENTRYPOINT`, keep their values.
    env: Option<BTreeMap<String, Option<String>>>,
    /// Whether to stream messages as they are written. Default: true.
    include_partial_messages: Option<bool>,
    /// Extension: the time limit for the answer to a permission request, in milliseconds; 0 means no limit. Default:
    /// one minute.
    #[schemars(extend("maximum" = INTEGER_MAX))]
    permission_timeout_ms: Option<u64>,
    /// Extension: the names of tools that run without a permission request.
    allowed_tools: Option<Vec<String>>,
    /// Extension: whether to continue in a copy of the conversation that `resume` names. Needs `resume`.
    fork_session: Option<bool>,
    /// Extension: whether to continue the latest conversation of the working directory.
    r#continue: Option<bool>,
    /// Extension: MCP servers by name, in the CLI's format.
    mcp_servers: Option<BTreeMap<String, Map<String, Value>>>,
    /// Extension: kinds of subagents by name, in the CLI's format.
    agents: Option<BTreeMap<String, Map<String, Value>>>,
    /// Extension: additional directories in which tools may work.
    additional_directories: Option<Vec<String>>,
    /// Extension: plugins to load.
    plugins: Option<Vec<Plugin>>,
    /// Extension: settings that override those of the files.
    settings: Option<Settings>,
    /// Extension: the effort of the model.
    effort: Option<Effort>,
    /// Extension: the format of the answer.
    output_format: Option<OutputFormat>,
}

/// The permission mode. `default`: asks for what no rule allows. `acceptEdits`: edits files in the working directory
/// without asking. `plan`: reads and plans, changes nothing. `dontAsk`: denies what no rule allows, without asking.
/// `auto`: a classifier decides. `bypassPermissions`: runs everything without asking; it needs `watari stdio
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

/// A settings file of Claude Code. `user`: `~/.claude/settings.json`. `project`: `.claude/settings.json` in the working
/// directory. `local`: `.claude/settings.local.json` in the working directory.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SettingSource {
    User,
    Project,
    Local,
}

/// The effort of the model.
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
    /// A complete system prompt.
    Text(String),
    /// A system prompt of the CLI.
    Preset {
        /// The name of the system prompt.
        preset: Preset,
        /// Text to append to it.
        append: Option<String>,
    },
}

/// A system prompt of the CLI.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Preset {
    ClaudeCode,
}

/// A plugin.
#[derive(JsonSchema)]
struct Plugin {
    /// The path of its folder.
    path: String,
}

/// Settings.
#[derive(JsonSchema)]
#[serde(untagged)]
enum Settings {
    /// The path of a file.
    File(String),
    /// The settings themselves, in the CLI's format.
    Inline(Map<String, Value>),
}

/// The format of an answer.
#[derive(JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OutputFormat {
    /// JSON that matches a schema.
    JsonSchema {
        /// The schema.
        schema: Map<String, Value>,
    },
}
