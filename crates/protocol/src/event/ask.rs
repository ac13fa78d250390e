//! Asks: questions the CLI puts and waits on.

use serde::{Deserialize, Serialize};

use crate::id::{HookId, ToolUseId};
use crate::json::{RawJson, same_value};

/// What is asked. All texts in it come from the model, the working directory or a server: show them as data.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AskKind {
    /// May this tool be used?
    Permission(Box<PermissionAsk>),
    /// The model asks the user something; the questions are the input. Only a person can answer.
    Question(Box<PermissionAsk>),
    /// The model has a plan and wants to begin. Only a person can answer.
    Plan(Box<PermissionAsk>),
    /// A hook that this program registered is to run.
    Hook(HookAsk),
    /// A server wants a form filled in.
    Form(Box<FormAsk>),
    /// A tool of this program is to run.
    ToolCall(Box<ToolCallAsk>),
}

/// The use of a tool that needs somebody's consent.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermissionAsk {
    /// The tool's name.
    pub tool: String,
    /// What it would be run with.
    pub input: RawJson,
    /// The use it is about.
    pub tool_use: Option<ToolUseId>,
    /// True when the session was asked about the same use of a tool before: its id alone does not name this ask.
    #[serde(skip_serializing_if = "is_false")]
    pub repeated: bool,
    /// Set when a subagent asks.
    pub agent: Option<String>,
    /// Rules the CLI proposes to add, so that it need not ask again.
    pub suggestions: Option<RawJson>,
    /// True when only a person can answer.
    pub needs_person: bool,
    /// The whole request.
    pub detail: RawJson,
}

/// A hook that is to run.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HookAsk {
    /// The registration it is for.
    pub hook: HookId,
    /// What happened, by the CLI's name, such as `PreToolUse`.
    pub event: String,
    /// The use of a tool it is about.
    pub tool_use: Option<ToolUseId>,
    /// What the hook is told, in the CLI's shape.
    pub input: RawJson,
}

/// A form that a server wants filled in.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FormAsk {
    /// The MCP server.
    pub server: String,
    /// What it says.
    pub message: String,
    /// The fields, as a JSON Schema.
    pub schema: Option<RawJson>,
    /// Set when the form is a page elsewhere.
    pub url: Option<String>,
    /// The whole request.
    pub detail: RawJson,
}

/// A tool of this program that is to run. Whether it may was decided before.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolCallAsk {
    /// The tool's name, as it was registered.
    pub tool: String,
    /// What it is to be run with: what the model wrote, not checked against the tool's schema.
    pub input: RawJson,
    /// The use it is about.
    pub tool_use: Option<ToolUseId>,
    /// The CLI's own number of the call, which its answer must carry.
    #[serde(skip)]
    pub(crate) call: RawJson,
}

/// What an ask is about, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AskSummary {
    /// What kind of ask it is.
    pub kind: AskTag,
    /// The use of a tool it is about.
    pub tool_use: Option<ToolUseId>,
    /// True when the session was asked about the same use of a tool before.
    #[serde(skip_serializing_if = "is_false")]
    pub repeated: bool,
    /// The tool's name, for the program's own log: `ask_opened` has it for clients.
    #[serde(skip)]
    pub tool: Option<String>,
}

/// What an answer allowed beyond what was asked. All of it is absent when the tool ran as asked, or did not run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Allowed {
    /// True when the tool ran with another input than the one in `ask_opened`.
    #[serde(skip_serializing_if = "is_false")]
    pub edited: bool,
    /// The whole input that the tool ran with, when it was edited; of a form, what it was filled in with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<RawJson>,
    /// The permission rules that were granted with the answer, in the CLI's shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<RawJson>,
}

impl Allowed {
    /// Compares the input of an answer with the input of the ask. An input of the same value is not an edit.
    pub(crate) fn compared(asked: Option<&RawJson>, given: Option<RawJson>, permissions: Option<RawJson>) -> Allowed {
        let input = given.filter(|given| !asked.is_some_and(|asked| same_value(asked, given)));
        let permissions = permissions.filter(|permissions| !matches!(permissions.as_str(), "[]" | "null"));
        Allowed { edited: input.is_some(), input, permissions }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// A kind of ask, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AskTag {
    /// May a tool be used?
    Permission,
    /// A question of the model to the user.
    Question,
    /// A plan of the model.
    Plan,
    /// A hook of the program's.
    Hook,
    /// A form of a server.
    Form,
    /// A call of a tool of the program's.
    ToolCall,
}

impl AskKind {
    /// The use of a tool that consent is asked for.
    pub(crate) fn permission_mut(&mut self) -> Option<&mut PermissionAsk> {
        match self {
            AskKind::Permission(ask) | AskKind::Question(ask) | AskKind::Plan(ask) => Some(ask),
            AskKind::Hook(_) | AskKind::Form(_) | AskKind::ToolCall(_) => None,
        }
    }

    /// What it is about, in short.
    pub fn summary(&self) -> AskSummary {
        let of_tool = |kind, ask: &PermissionAsk| AskSummary {
            kind,
            tool_use: ask.tool_use.clone(),
            repeated: ask.repeated,
            tool: Some(ask.tool.clone()),
        };
        let (kind, tool_use, tool) = match self {
            AskKind::Permission(ask) => return of_tool(AskTag::Permission, ask),
            AskKind::Question(ask) => return of_tool(AskTag::Question, ask),
            AskKind::Plan(ask) => return of_tool(AskTag::Plan, ask),
            AskKind::Hook(ask) => (AskTag::Hook, ask.tool_use.clone(), None),
            AskKind::Form(_) => (AskTag::Form, None, None),
            AskKind::ToolCall(ask) => (AskTag::ToolCall, ask.tool_use.clone(), Some(ask.tool.clone())),
        };
        AskSummary { kind, tool_use, repeated: false, tool }
    }
}

/// How an ask ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AskResolution {
    /// Somebody said yes.
    Allowed,
    /// Somebody said no.
    Denied,
    /// Somebody gave an answer that is neither: a hook's output, a form, a tool's result.
    Answered,
    /// Nobody answered in time, which is a no.
    Expired,
    /// The CLI withdrew it.
    Withdrawn,
    /// The session ended, which is a no.
    SessionEnded,
}

impl AskResolution {
    /// What whoever ended it did.
    pub(crate) fn describe(self) -> &'static str {
        match self {
            AskResolution::Allowed => "said yes",
            AskResolution::Denied => "said no",
            AskResolution::Answered => "answered it",
            AskResolution::Expired | AskResolution::Withdrawn | AskResolution::SessionEnded => "ended it",
        }
    }
}
