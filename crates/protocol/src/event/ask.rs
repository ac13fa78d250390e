//! Asks: questions to which the CLI waits for an answer.

use serde::{Deserialize, Serialize};

use crate::id::{HookId, ToolUseId};
use crate::json::{RawJson, present, same_value};

/// What is asked. All texts in it come from the model, the working directory or a server: show them as untrusted data.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum AskKind {
    /// The CLI asks whether it may use a tool.
    Permission(Box<PermissionAsk>),
    /// The model asks the user questions. They are in the input: `{"questions": [{"question": "Which colour?",
    /// "header": "Colour", "options": [{"label": "Blue", "description": "..."}], "multiSelect": false}]}`. Meant for a
    /// person: do not answer it automatically.
    Question(Box<PermissionAsk>),
    /// The model has a plan and asks whether to start. To allow it ends the mode `plan`; the new mode is in
    /// [`Event::StatusChanged`](super::Event::StatusChanged). Meant for a person: do not answer it automatically.
    Plan(Box<PermissionAsk>),
    /// The CLI calls a hook that the program registered.
    Hook(HookAsk),
    /// An elicitation: an MCP server asks the user to fill in a form.
    Elicitation(Box<ElicitationAsk>),
    /// The CLI calls a tool that the program or a client runs.
    ToolCall(Box<ToolCallAsk>),
}

/// A tool use that needs permission.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PermissionAsk {
    /// The tool's name.
    pub tool: String,
    /// The tool's input.
    pub input: RawJson,
    /// The tool use.
    pub tool_use: Option<ToolUseId>,
    /// True when the session was asked about the same tool use before: the tool use's id does not identify this ask.
    #[serde(default, skip_serializing_if = "is_false")]
    pub repeated: bool,
    /// The subagent that asks, if a subagent does.
    pub agent: Option<String>,
    /// Permission updates that the CLI suggests, so that it need not ask again.
    pub suggestions: Option<RawJson>,
    /// True when the CLI marks the ask as meant for a person: do not answer it automatically.
    pub needs_person: bool,
    /// The complete request.
    pub raw: RawJson,
}

/// A call of a hook.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HookAsk {
    /// The registered hook.
    pub hook: HookId,
    /// The hook event that triggered it, by the CLI's name, such as `PreToolUse`.
    pub event: String,
    /// The tool use that it is about.
    pub tool_use: Option<ToolUseId>,
    /// The hook's input, in the CLI's format.
    pub input: RawJson,
}

/// An elicitation: an MCP server asks the user to fill in a form.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ElicitationAsk {
    /// The MCP server.
    pub server: String,
    /// The server's message.
    pub message: String,
    /// The fields, as a JSON Schema.
    pub schema: Option<RawJson>,
    /// The URL of the form, if it is a web page.
    pub url: Option<String>,
    /// The complete request.
    pub raw: RawJson,
}

/// A call of a tool that the program or a client runs. The permission for it was decided before.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolCallAsk {
    /// The tool's name, as registered.
    pub tool: String,
    /// The input as the model wrote it, not checked against the tool's schema.
    pub input: RawJson,
    /// The tool use.
    pub tool_use: Option<ToolUseId>,
    /// The CLI's id of the call, which the answer must carry.
    #[serde(skip)]
    #[serde(default = "RawJson::null")]
    pub(crate) call: RawJson,
}

/// A summary of an ask.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AskSummary {
    /// The kind of ask.
    pub kind: AskTag,
    /// The tool use that it is about.
    pub tool_use: Option<ToolUseId>,
    /// True when the session was asked about the same tool use before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub repeated: bool,
    /// The tool's name. (Not serialized: clients of a host have it from `ask_opened`.)
    #[serde(skip)]
    pub tool: Option<String>,
}

/// What an answer granted beyond what was asked. If that is nothing, the JSON has none of these fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Grant {
    /// True when the tool ran with an input other than the one in [`Event::AskOpened`](super::Event::AskOpened).
    #[serde(default, skip_serializing_if = "is_false")]
    pub edited: bool,
    /// The complete input that the tool ran with, if it was edited; for a form, the submitted content.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub input: Option<RawJson>,
    /// The permission updates that the answer granted, in the CLI's format.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub permissions: Option<RawJson>,
}

impl Grant {
    /// Compares the input of an answer with the input of the ask. An input of the same value is not an edit.
    pub(crate) fn from_answer(
        asked: Option<&RawJson>,
        answered: Option<RawJson>,
        permissions: Option<RawJson>,
    ) -> Grant {
        let input = answered.filter(|answered| !asked.is_some_and(|asked| same_value(asked, answered)));
        let permissions = permissions.filter(|permissions| !matches!(permissions.as_str(), "[]" | "null"));
        Grant { edited: input.is_some(), input, permissions }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// The kind of an ask without its details: [`AskKind`] without fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum AskTag {
    /// A request for permission to use a tool.
    Permission,
    /// A question from the model to the user.
    Question,
    /// A plan of the model.
    Plan,
    /// A call of a hook that the program registered.
    Hook,
    /// An elicitation: a form of an MCP server.
    Elicitation,
    /// A call of a tool that the program or a client runs.
    ToolCall,
}

impl AskKind {
    /// Returns the tool use that needs permission, if the ask is about one.
    pub(crate) fn permission_mut(&mut self) -> Option<&mut PermissionAsk> {
        match self {
            AskKind::Permission(ask) | AskKind::Question(ask) | AskKind::Plan(ask) => Some(ask),
            AskKind::Hook(_) | AskKind::Elicitation(_) | AskKind::ToolCall(_) => None,
        }
    }

    /// Returns a summary of the ask.
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
            AskKind::Elicitation(_) => (AskTag::Elicitation, None, None),
            AskKind::ToolCall(ask) => (AskTag::ToolCall, ask.tool_use.clone(), Some(ask.tool.clone())),
        };
        AskSummary { kind, tool_use, repeated: false, tool }
    }
}

/// How an ask was resolved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum AskResolution {
    /// A client allowed it.
    Allowed,
    /// A client denied it; for a form, declined or dismissed it.
    Denied,
    /// A client gave another answer: the choices for a question, the output of a hook (also one that allows or denies),
    /// the content of a form, or the result of a tool.
    Answered,
    /// No client answered in time. Watari denied permissions, questions, plans, and hooks of `PreToolUse` and
    /// `UserPromptSubmit`; a tool call failed, a form was dismissed, and any other hook had no opinion.
    Expired,
    /// The CLI withdrew the ask.
    Withdrawn,
    /// Before an answer, the CLI exited or was being ended: by a close or an abort of a client, or by Watari because it
    /// did not react or refused its setup. (This may come before the exit.) What was asked does not run.
    CliExited,
}

impl AskResolution {
    /// Describes the resolution after the client's name, as in "client 2 allowed it".
    pub(crate) fn describe(self) -> &'static str {
        match self {
            AskResolution::Allowed => "allowed it",
            AskResolution::Denied => "denied it",
            AskResolution::Answered => "answered it",
            AskResolution::Expired | AskResolution::Withdrawn | AskResolution::CliExited => "ended it",
        }
    }
}
