//! What a client says to an ask.

use std::collections::BTreeMap;

use crate::json::RawJson;

/// The answer to an ask. Which ones an ask takes is told by its kind: permissions and plans take a yes or a no,
/// questions also a choice, hooks a hook's output, forms a submission or a refusal, calls of a tool its result or a no.
#[derive(Debug, Clone)]
pub enum Answer {
    /// Run the tool.
    Allow {
        /// Run it with this input instead: the whole input, not a change to it.
        input: Option<RawJson>,
        /// Rules to add, in the CLI's shape; usually the ask's own suggestions.
        permissions: Option<RawJson>,
    },
    /// Do not run it.
    Deny {
        /// What the model is told.
        message: String,
        /// Also end the turn.
        interrupt: bool,
    },
    /// What the user chose, by the text of each question.
    Choose(BTreeMap<String, String>),
    /// What a hook says.
    Hook(HookOutput),
    /// A form that was filled in: its content.
    Submit(RawJson),
    /// A form that the user does not want to fill in.
    Decline,
    /// A form that was put away without a decision.
    Dismiss,
    /// What a tool of this program gives back.
    ToolResult {
        /// Blocks in MCP's shape, such as `[{"type": "text", "text": "5"}]`.
        content: RawJson,
        /// Whether the tool failed: then the blocks say why.
        is_error: bool,
    },
}

impl Answer {
    /// Run the tool as asked.
    pub fn allow() -> Answer {
        Answer::Allow { input: None, permissions: None }
    }

    /// Run the tool with another input.
    pub fn allow_with(input: impl Into<RawJson>) -> Answer {
        Answer::Allow { input: Some(input.into()), permissions: None }
    }

    /// Do not run the tool, and tell the model why.
    pub fn deny(message: impl Into<String>) -> Answer {
        Answer::Deny { message: message.into(), interrupt: false }
    }
}

/// What a hook says.
#[derive(Debug, Clone)]
pub enum HookOutput {
    /// Nothing: go on as if there were no hook.
    NoOpinion,
    /// `PreToolUse`, `PermissionRequest`: run the tool, without asking anybody else.
    Allow {
        /// Run it with this input instead.
        input: Option<RawJson>,
    },
    /// `PreToolUse`, `PermissionRequest`: do not run the tool, and tell the model why.
    Deny {
        /// Why.
        reason: String,
    },
    /// `PreToolUse`: ask somebody, whatever the rules say.
    Ask {
        /// Why.
        reason: String,
    },
    /// `PreToolUse`: end the turn and keep the use of the tool for later; a session that resumes this one is
    /// asked again at once. Only when no other tool of the same message waits: of several that are deferred, the CLI
    /// keeps the last.
    Defer,
    /// `UserPromptSubmit`: do not send the prompt. `Stop`: do not stop yet.
    Block {
        /// Why, or what to do instead.
        reason: String,
    },
    /// Tell the model something.
    Context {
        /// What.
        text: String,
    },
    /// End the turn.
    Halt {
        /// Why.
        reason: String,
    },
    /// Anything else, in the CLI's shape.
    Other(RawJson),
}
