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
//!     if let Event::BlockGrew { delta, .. } = event {
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
//! Claude Code starts shells and servers of its own, in sessions of their own. With a [`Keeper`] all of
//! them die with the session, also when the program is killed with SIGKILL. Without one, they die when
//! the session is closed or its client dropped, found by process group and by a mark in their environment;
//! but nobody is there to do it when the program itself is killed, also by Ctrl-C: the CLI then finishes its turn.
//! [`leftovers`] finds what such a program has left, and [`end_leftovers`] ends it.

mod argv;
mod client;
mod conversations;
mod driver;
pub mod files;
mod find;
mod inherited;
mod keeper;
mod latest;
mod leftovers;
mod lines;
mod opening;
mod options;
mod probe;
mod process;
mod query;
mod raw;
mod sink;
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
pub use keeper::Keeper;
pub use latest::resolve_continue;
pub use leftovers::{Leftover, LeftoversUnknown, end_leftovers, leftovers};
pub use lines::{LINE_BYTES_MAX, Line, Lines};
pub use opening::{Opening, OrderError, Orders, Receipt, open};
pub use options::{
    Effort, Environment, ExtraArgument, McpServers, Options, PermissionPrompts, Plugin, Session, SettingSource,
    Settings, Thinking, ThinkingDisplay, Tools,
};
pub use probe::{ClaudeProbe, ProbeError};
pub use process::StartError;
pub use query::{Query, query};
pub use raw::{RawProcess, RawStart};
pub use sink::{Events, Sink};
pub use version::CliVersion;
pub use watari_protocol::{
    Accepted, Allowed, Answer, AskAbout, AskEnding, AskId, AskKind, AskWord, AskedToolUses, BadId, Block, BlockId,
    BlockKind, BlockSource, BypassGate, CliInfo, Command, Delta, DropReason, EntryId, Event, Exit, ExitReason, Failure,
    FormAsk, Hook, HookAsk, HookId, HookNews, HookOutput, InterruptReceipt, Liveness, Login, MessageId,
    NextProcessRequest, NoticeKind, Outcome, PROMPT_BLOCKS, PermissionAsk, PermissionMode, Phase, Prompt,
    PromptContent, PromptId, Raw, Refused, Request, RequestFailed, RequestId, RequestReply, SessionId, SessionInfo,
    Setting, SystemPrompt, TOOL_NAME_SHARED, TOOL_SERVER, TOOL_SERVER_TAKEN, TaskNews, Tool, ToolCallAsk, ToolUseId,
    TurnCause, TurnEnding, Unanswered, UnknownPermissionMode, Usage, Writer, readable, unusable_session,
};

/// The program in the README is one that compiles.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
