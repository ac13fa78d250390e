//! Drives one Claude Code process from Rust: starts it, exchanges prompts, events and answers with it, and
//! terminates its whole process tree.
//!
//! A single prompt and its answer:
//!
//! ```no_run
//! use watari_sdk::{Event, Options, query};
//!
//! # async fn example() -> Result<(), watari_sdk::ConnectError> {
//! let mut answer = query("What is in this folder?", Options::default()).await?;
//! while let Some(event) = answer.next().await {
//!     if let Event::BlockDelta { delta, .. } = event {
//!         print!("{}", delta.text());
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! For a live session with permission requests, see [`Client`] and the programs in `examples/`.
//!
//! # Orphaned processes
//!
//! Claude Code starts shells and MCP servers, many of them in process sessions of their own. With a
//! [`Supervisor`] they all terminate with the session, even when the program is killed with SIGKILL. Without a
//! supervisor they terminate when the session is closed or its client is dropped; they are found by process
//! group and by a variable in their environment. When the program itself is killed, also by Ctrl-C, no process
//! is left to terminate them, and the CLI finishes its turn. [`orphans`] finds the processes that such a program
//! left, and [`terminate_orphans`] terminates them.

mod argv;
mod client;
mod conversations;
mod driver;
pub mod files;
mod find;
mod inherited;
mod latest;
mod lines;
mod opening;
mod options;
mod orphans;
mod probe;
mod process;
mod query;
mod raw;
mod sink;
mod supervisor;
mod sweep;
mod tail;
pub mod threads;
mod transcript;
mod version;
mod without_git;

pub use argv::{BadOption, BadServers, CONFIG_VARIABLE, bypass_gate, read_mcp_servers, read_mcp_servers_file};
pub use client::{Client, CommandError, ConnectError, MINIMUM_CLI_VERSION, RequestError};
pub use conversations::{conversations_folder, stored_spelling};
pub use find::FindError;
pub use inherited::{is_signal_ignored, unblock_signals};
pub use latest::resolve_continue;
pub use lines::{LINE_BYTES_MAX, Lines, RawLine};
pub use opening::{Opening, OrderError, Orders, Receipt, open};
pub use options::{
    Effort, Environment, ExtraArgument, McpServers, Options, PermissionPrompts, Plugin, SettingSource, Settings,
    StartFrom, Thinking, ThinkingDisplay, Tools,
};
pub use orphans::{Orphan, OrphansUnknown, orphans, terminate_orphans};
pub use probe::{ClaudeProbe, ProbeError};
pub use process::StartError;
pub use query::{Query, query};
pub use raw::{RawProcess, RawStart};
pub use sink::{Events, Sink};
pub use supervisor::Supervisor;
pub use version::CliVersion;
pub use watari_protocol::{
    AMBIGUOUS_TOOL_NAME, Accepted, Answer, AskId, AskKind, AskResolution, AskSummary, AskTag, AskedToolUses, BadId,
    Block, BlockId, BlockKind, BlockSource, BypassGate, CliInfo, Command, Delta, DropReason, EntryId, Event, Exit,
    ExitReason, Failure, FormAsk, Grant, Hook, HookAsk, HookId, HookOutput, HookUpdate, InterruptReceipt, Liveness,
    Login, MessageId, NextProcessRequest, NoticeKind, PROMPT_BLOCKS, PermissionAsk, PermissionMode, Phase, Prompt,
    PromptContent, PromptId, RawJson, Refusal, Request, RequestFailure, RequestId, RequestReply, SessionId,
    SessionInfo, Setting, SystemPrompt, TOOL_SERVER, TOOL_SERVER_TAKEN, TaskUpdate, Tool, ToolCallAsk, ToolUseId,
    TurnCause, TurnEnding, TurnOutcome, Unanswered, UnknownPermissionMode, Usage, Writer, readable, unusable_session,
};

/// Compiles the program in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
