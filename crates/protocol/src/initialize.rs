//! What a session is set up with over stdin rather than on the command line: long or private things.

use std::collections::BTreeMap;

use crate::json::Raw;

/// The settings that open a conversation with the CLI.
#[derive(Debug, Clone, Default)]
pub struct Initialize {
    /// Who the model is told to be.
    pub system_prompt: SystemPrompt,
    /// A JSON Schema the final answer must fit.
    pub json_schema: Option<Raw>,
    /// Subagents by name, in the CLI's shape.
    pub agents: BTreeMap<String, Raw>,
    /// Also pass on what subagents say.
    pub forward_subagent_text: bool,
    /// Any further field, by the CLI's own name.
    pub more: BTreeMap<String, Raw>,
}

/// Who the model is told to be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SystemPrompt {
    /// Claude Code's own prompt.
    #[default]
    ClaudeCode,
    /// Claude Code's own prompt and this after it.
    ClaudeCodeAnd(String),
    /// No prompt at all.
    Empty,
    /// This and nothing else.
    Only(String),
}
