//! Drives one Claude Code process from Rust: starts it, holds a conversation with it, and leaves nothing
//! behind when it ends.
//!
//! One question, one answer:
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
//! A live session, in which tools ask before they run: see [`Client`], and the programs in `examples/`.
//!
//! # What is left behind when a program ends
//!
//! Claude Code starts shells and servers of its own, in sessions of their own. With a [`Supervisor`] all of
//! them die with the session, also when the program is killed with SIGKILL. Without one, they die when
//! the session is closed or its client dropped, found by process group and by a mark in their environment;
//! but nobody is there to do it when the program itself is killed, also by Ctrl-C: the CLI then finishes its turn.
//! [`orphans`] finds what such a program has left, and [`terminate_orphans`] ends it.

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
    Effort, Environment, ExtraArgument, McpServers, Options, PermissionPrompts, Plugin, Session, SettingSource,
    Settings, Thinking, ThinkingDisplay, Tools,
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
    Accepted, Allowed, Answer, AskId, AskKind, AskResolution, AskSummary, AskTag, AskedToolUses, BadId, Block, BlockId,
    BlockKind, BlockSource, BypassGate, CliInfo, Command, Delta, DropReason, EntryId, Event, Exit, ExitReason, Failure,
    FormAsk, Hook, HookAsk, HookId, HookOutput, HookUpdate, InterruptReceipt, Liveness, Login, MessageId,
    NextProcessRequest, NoticeKind, PROMPT_BLOCKS, PermissionAsk, PermissionMode, Phase, Prompt, PromptContent,
    PromptId, RawJson, Refusal, Request, RequestFailure, RequestId, RequestReply, SessionId, SessionInfo, Setting,
    SystemPrompt, TOOL_NAME_SHARED, TOOL_SERVER, TOOL_SERVER_TAKEN, TaskUpdate, Tool, ToolCallAsk, ToolUseId,
    TurnCause, TurnEnding, TurnOutcome, Unanswered, UnknownPermissionMode, Usage, Writer, readable, unusable_session,
};

/// The program in the README is one that compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
