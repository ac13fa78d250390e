//! Answers: what a client replies to an ask.

use std::collections::BTreeMap;

use crate::json::RawJson;

/// The answer to an ask. The kind of ask determines which answers it accepts: permissions and plans accept `Allow` and
/// `Deny`, questions also `Choose`, hooks `Hook`, forms `Accept`, `Decline` and `Cancel`, and calls of a tool
/// `ToolResult` and `Deny`.
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum Answer {
    /// Run the tool.
    Allow {
        /// Run it with this input instead: a JSON object with the complete input, not a change to it. An empty object
        /// counts as none: the tool runs with the input that was asked.
        input: Option<RawJson>,
        /// Permission updates (rules, directories, the mode) in the CLI's format; usually the ask's suggestions.
        permissions: Option<RawJson>,
    },
    /// Do not run the tool.
    Deny {
        /// The message for the model.
        message: String,
        /// Also end the turn.
        interrupt: bool,
    },
    /// The user's choices, by the text of each question, as in `{"Which colour?": "Blue"}`. A choice is the label of an
    /// option, labels joined with `, `, or the user's own text.
    Choose(BTreeMap<String, String>),
    /// A hook's output.
    Hook(HookOutput),
    /// The content of a form that the user filled in.
    Accept(RawJson),
    /// The user declined to fill in the form.
    Decline,
    /// The user dismissed the form without a decision.
    Cancel,
    /// The result of a tool that this program runs.
    ToolResult {
        /// Blocks in MCP's format, such as `[{"type": "text", "text": "5"}]`.
        content: RawJson,
        /// Whether the tool failed; the blocks then say why.
        is_error: bool,
    },
}

impl Answer {
    /// Allows the tool to run as asked.
    pub fn allow() -> Answer {
        Answer::Allow { input: None, permissions: None }
    }

    /// Allows the tool to run with another input; see [`Answer::Allow`].
    pub fn allow_with(input: impl Into<RawJson>) -> Answer {
        Answer::Allow { input: Some(input.into()), permissions: None }
    }

    /// Denies the tool and gives the model the reason.
    pub fn deny(message: impl Into<String>) -> Answer {
        Answer::Deny { message: message.into(), interrupt: false }
    }
}

/// The output of a hook. The doc of each variant begins with the hook events that accept it; if it names none, all do.
/// An output that the event does not accept is refused with [`crate::Refusal::WrongAnswer`].
#[derive(Debug, Clone)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum HookOutput {
    /// Continue as if there were no hook.
    NoOpinion,
    /// `PreToolUse`, `PermissionRequest`: run the tool without asking further.
    Allow {
        /// Run it with this input instead.
        input: Option<RawJson>,
    },
    /// `PreToolUse`, `PermissionRequest`: do not run the tool, and give the model the reason.
    Deny {
        /// The reason.
        reason: String,
    },
    /// `PreToolUse`: ask for permission, even if a rule decides otherwise.
    Ask {
        /// The reason.
        reason: String,
    },
    /// `PreToolUse`: end the turn and defer the tool use. When the conversation is resumed, the hook is called again
    /// for it, before any prompt. Use it only when no other tool of the same message is waiting: of several deferred
    /// tool uses the CLI stores only the last.
    Defer,
    /// All events except `PreToolUse` and `PermissionRequest`: for `UserPromptSubmit`, the CLI does not send the
    /// prompt; for `Stop`, it does not stop yet; for the others, see Claude Code's documentation.
    Block {
        /// The reason, or what to do instead.
        reason: String,
    },
    /// Add text to the model's context.
    Context {
        /// The text.
        text: String,
    },
    /// End the turn.
    Halt {
        /// The reason.
        reason: String,
    },
    /// Any other output, in the CLI's format.
    Other(RawJson),
}
