//! Drives Claude Code from Rust: starts the CLI (the program `claude`), exchanges prompts, events and answers with it,
//! and terminates its whole process tree.
//!
//! One prompt and its answer:
//!
//! ```no_run
//! use watari_sdk::{Delta, Event, Options, TurnCause, TurnEnding, query};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut events = query("What is in this folder?", Options::default()).await?;
//! while let Some(event) = events.next().await {
//!     match event {
//!         // Deltas of other kinds are the model's reasoning and the input of tools.
//!         Event::BlockDelta { delta: Delta::Text(text), .. } => print!("{text}"),
//!         // The CLI can also start turns by itself: `TurnCause::Cli`.
//!         Event::TurnFinished { cause: TurnCause::Prompt(_), outcome } if outcome.ending != TurnEnding::Completed => {
//!             return Err(outcome.error_text().into());
//!         }
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! This short form leaves processes behind if the program is killed (see *Orphaned processes* below), does not print
//! text that the CLI has not streamed, and does not answer the forms of MCP servers. The README has a whole program.
//!
//! A session with several turns, in which tools ask for permission:
//!
//! ```no_run
//! use watari_sdk::{Answer, AskKind, Client, Event, Options, PermissionPrompts, TurnCause};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let permission_prompts = PermissionPrompts::Ask { answer_timeout: None };
//! let (client, mut events) = Client::connect(Options { permission_prompts, ..Options::default() }).await?;
//! for prompt in ["Create notes.txt", "Now delete it"] {
//!     let sent = client.send(prompt).await?;
//!     while let Some(event) = events.next().await {
//!         match event {
//!             Event::AskOpened { ask, kind } => {
//!                 let answer = match kind {
//!                     AskKind::Elicitation(_) => Answer::Decline,
//!                     _ => Answer::deny("not today"),
//!                 };
//!                 if let Err(error) = client.answer(ask, answer).await {
//!                     // The CLI may have withdrawn the ask just before.
//!                     eprintln!("{error}");
//!                 }
//!             }
//!             // The CLI can also start turns by itself: wait for the end of this prompt.
//!             Event::TurnFinished { cause: TurnCause::Prompt(ended), .. } if ended == sent => break,
//!             Event::PromptDropped { prompt, .. } if prompt == sent => break,
//!             _ => {}
//!         }
//!     }
//! }
//! client.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! A tool and a hook that the program runs, and the answer as JSON:
//!
//! ```no_run
//! use serde_json::json;
//! use watari_sdk::{Answer, AskKind, Event, Hook, HookOutput, Options, ProgramTool, TurnCause, query};
//!
//! #[derive(serde::Deserialize)]
//! struct Numbers {
//!     a: f64,
//!     b: f64,
//! }
//!
//! #[derive(serde::Deserialize)]
//! struct Sum {
//!     sum: f64,
//! }
//!
//! fn add(numbers: Numbers) -> Answer {
//!     let text = (numbers.a + numbers.b).to_string();
//!     Answer::ToolResult { content: json!([{"type": "text", "text": text}]).into(), is_error: false }
//! }
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let number = json!({"type": "number"});
//! let options = Options {
//!     program_tools: vec![ProgramTool {
//!         name: "add".to_owned(),
//!         description: "Adds two numbers.".to_owned(),
//!         input_schema: json!({"type": "object", "properties": {"a": number, "b": number}}).into(),
//!     }],
//!     // Without this rule, each call of the tool needs permission.
//!     allowed_tools: vec!["mcp__client__add".to_owned()],
//!     hooks: vec![Hook { matcher: Some("Bash".to_owned()), ..Hook::on("PreToolUse") }],
//!     output_schema: Some(json!({"type": "object", "properties": {"sum": number}, "required": ["sum"]}).into()),
//!     ..Options::default()
//! };
//! let mut events = query("How much is 2 + 3?", options).await?;
//! while let Some(event) = events.next().await {
//!     match event {
//!         Event::AskOpened { ask, kind } => {
//!             let answer = match kind {
//!                 // The CLI does not check the input against the schema.
//!                 AskKind::ToolCall(call) => match call.input.parse() {
//!                     Ok(numbers) => add(numbers),
//!                     Err(error) => Answer::deny(error.to_string()),
//!                 },
//!                 AskKind::Hook(_) => Answer::Hook(HookOutput::Deny { reason: "no shell today".to_owned() }),
//!                 _ => Answer::Decline,
//!             };
//!             // An error means that the CLI has withdrawn the ask.
//!             let _withdrawn = events.answer(ask, answer).await;
//!         }
//!         Event::TurnFinished { cause: TurnCause::Prompt(_), outcome } => match outcome.structured::<Sum>() {
//!             Some(sum) => println!("{}", sum?.sum),
//!             None => return Err(outcome.error_text().into()),
//!         },
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # To do something, see
//!
//! | to | see |
//! |---|---|
//! | ask one question | [`query`] |
//! | run several turns | [`Client::connect`], [`Client::send`], [`Event::TurnFinished`] |
//! | decide what tools may do | [`Options::allowed_tools`], [`PermissionPrompts::Ask`], [`Client::answer`] |
//! | stop a turn | [`Client::interrupt`] |
//! | resume a conversation | the id in [`Event::SessionOpened`] (in the first turn), then [`StartFrom::Resume`] |
//! | offer the model tools of your own | [`Options::program_tools`], [`AskKind::ToolCall`], [`Answer::ToolResult`] |
//! | run code at certain points | [`Options::hooks`], [`AskKind::Hook`], [`Answer::Hook`] |
//! | get the answer as JSON | [`Options::output_schema`], [`TurnOutcome::structured`] |
//! | send images | [`Prompt::blocks`] |
//! | change a setting, or ask the CLI something | [`Client::request`] with a [`Request`] |
//! | restore files | [`Options::checkpoints`], [`Request::Rewind`] |
//! | know what a turn cost, or why it failed | [`TurnOutcome`] in [`Event::TurnFinished`] |
//! | know why a session did not start | [`ConnectError`] |
//! | check that Claude Code is installed and logged in | [`InstalledCli`] |
//!
//! # If you know the official Agent SDK
//!
//! Most other options have the same name, in snake case.
//!
//! | there | here |
//! |---|---|
//! | `query()` with a text | [`query`] |
//! | `query()` with a stream of messages, `ClaudeSDKClient` | [`Client`] |
//! | `canUseTool`, `can_use_tool` | [`PermissionPrompts::Ask`], [`AskKind::Permission`], [`Client::answer`] |
//! | the tool `AskUserQuestion` in `canUseTool` | [`AskKind::Question`], [`Answer::Choose`] |
//! | `createSdkMcpServer()`, `tool()` | [`Options::program_tools`], [`AskKind::ToolCall`] |
//! | a function in `hooks` | [`Options::hooks`], [`AskKind::Hook`] |
//! | `onElicitation` (without it: declined) | [`AskKind::Elicitation`] (without an answer: dismissed after ten minutes, or after the `answer_timeout` of [`PermissionPrompts::Ask`]) |
//! | `outputFormat` | [`Options::output_schema`], [`TurnOutcome::structured`] |
//! | `systemPrompt` (without it: an empty prompt) | [`Options::system_prompt`] (without it: Claude Code's own prompt) |
//! | `resume`, `continue`, `forkSession`, `resumeSessionAt`, `sessionId` | [`Options::start_from`] |
//! | `sessionStore` | [`Options::mirror_transcript`], [`Event::TranscriptWritten`] |
//! | `persistSession: false` | [`Options::no_persistence`] |
//! | `enableFileCheckpointing`, `rewindFiles()` | [`Options::checkpoints`], [`Request::Rewind`] |
//! | `allowDangerouslySkipPermissions` | [`Options::allow_bypass`] |
//! | `env` | [`Options::environment`] |
//! | `pathToClaudeCodeExecutable`, `cli_path` | [`Options::claude`] (no CLI comes with this crate) |
//! | `abortController` | [`Client::abort`] |
//! | `interrupt()`, `setModel()` | [`Client::interrupt`], [`Client::set_model`] |
//! | other methods of the query | [`Client::request`] |
//! | `includePartialMessages` | always: [`Event::BlockDelta`] |
//! | `SDKAssistantMessage`, `AssistantMessage` | one [`Event::BlockFinished`] for each block |
//! | `SDKResultMessage`, `ResultMessage` | [`TurnOutcome`] in [`Event::TurnFinished`] |
//! | the message `init` | [`Event::SessionOpened`] |
//!
//! # Words
//!
//! - **CLI**: the program `claude`. Each session starts one.
//! - **session**: one conversation with one CLI process, from [`Client::connect`] to [`Event::CliExited`]. Names that
//!   come from the CLI ([`SessionId`], [`SessionInfo`], [`Event::SessionOpened`]) call the *conversation* a session:
//!   the CLI stores it, and a later session can resume it.
//! - **turn**: what the CLI does from a prompt to its result. (The CLI can also start a turn by itself.)
//! - **event**: something that happened in the session: [`Event`].
//! - **ask**: a question that the CLI waits on, such as a permission request: [`AskKind`]. It is resolved once:
//!   answered, expired, withdrawn by the CLI, or closed with the process.
//! - **command**: something that the program wants, such as a prompt or an answer. The session accepts or refuses it.
//! - **request**: a command that the CLI answers, such as a change of the model: [`Request`].
//! - **supervisor**: a small process that terminates the CLI's process tree: [`Supervisor`].
//!
//! # Orphaned processes
//!
//! The CLI starts shells and MCP servers, many of them detached with `setsid`. With a [`Supervisor`] they all terminate
//! with the session, even when the program is killed with SIGKILL. The default is none. To have one, set
//! [`Options::supervisor`] to [`Supervisor::ThisProgram`], and begin `main` with [`Supervisor::run_if_supervisor`].
//!
//! If the supervisor itself is killed, this program terminates the processes that it finds by a variable in their
//! environment. One that has cleared its environment is found only by a program that calls [`adopt_orphans`].
//!
//! Without a supervisor, Watari terminates them when the session is closed or its client is dropped. It finds them by
//! their process group and by a variable in their environment. If the program itself is killed, even by Ctrl-C, the CLI
//! finishes its turn and its processes keep running. [`orphans()`] finds the processes that such a program left, and
//! [`terminate_orphans`] terminates them.
//!
//! A process that the program may not signal, because it became another user (with `sudo`, for example), cannot be
//! terminated. [`Exit::left_processes`] names it, and [`Exit::left_text`] says what to do. Without a supervisor it is
//! found only if it is in the CLI's process group, or was a descendant of the CLI when the session was aborted.
//!
//! # Features
//!
//! - `exhaustive` makes the public enums exhaustive, so that a match over all variants needs no wildcard, and the compiler
//!   asks for a new event. A new version of this crate can then break your program. It is off by default.
//!
//! # For hosts
//!
//! A program needs [`query`] or [`Client`]. The following are for hosts such as `watari socket`, and for Watari's own
//! tools. A host must store an event before Watari writes the lines to the CLI that the event causes.
//!
//! - the session: [`open`], [`Session`], [`command_queue`], [`CommandQueue`], [`Envelope`], [`Sink`], [`Work`],
//!   [`NextProcessRequest`], [`SettingChange`], [`AskedToolUses`], [`Phase`]
//! - what a host stores and sends to its clients: [`native`], [`HostEvent`], [`SessionState`], [`Key`], [`Position`]
//! - conversations: [`resolve_start_from`], [`conversations_folder`], [`session_id_as_stored`], [`CONFIG_DIR_VARIABLE`]
//! - what options and requests may contain: [`bypass_permission`], [`read_mcp_servers`], [`read_mcp_servers_file`],
//!   [`PROMPT_BLOCK_TYPES`], [`AMBIGUOUS_TOOL_NAME_MESSAGE`], [`TOOL_SERVER`], [`TOOL_SERVER_TAKEN_MESSAGE`]
//! - lines: [`LineSplitter`], [`RawLine`], [`RawProcess`], [`RawStart`], [`replace_lone_surrogates`],
//!   [`why_session_is_unusable`]
//! - the system: [`files`], [`threads`], [`unblock_signals`], [`is_signal_ignored`], [`keep_inherited_descriptors`],
//!   [`adopt_orphans`]

mod adoption;
mod argv;
mod client;
mod commands;
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

pub use adoption::adopt_orphans;
pub use argv::{
    CONFIG_DIR_VARIABLE, McpServersError, OptionError, bypass_permission, read_mcp_servers, read_mcp_servers_file,
};
pub use client::{Client, CommandError, ConnectError, MINIMUM_CLI_VERSION, RequestError};
pub use commands::{CommandQueue, Envelope, command_queue};
pub use conversations::{conversations_folder, session_id_as_stored};
pub use find::FindError;
pub use inherited::{is_signal_ignored, keep_inherited_descriptors, unblock_signals};
pub use latest::resolve_start_from;
pub use lines::{LINE_BYTES_MAX, LineSplitter, RawLine};
pub use opening::{Session, open};
pub use options::{
    Effort, Environment, ExtraArgument, McpServers, Options, PermissionPrompts, Plugin, SettingSource, Settings,
    StartFrom, Thinking, ThinkingDisplay, ToolSet,
};
pub use orphans::{Orphan, OrphansError, orphans, terminate_orphans};
pub use probe::{InspectError, InstalledCli};
pub use process::StartError;
pub use query::{Query, query};
pub use raw::{RawProcess, RawStart};
pub use sink::{Events, Sink, Work};
pub use supervisor::Supervisor;
pub use version::CliVersion;
pub use watari_protocol::{
    AMBIGUOUS_TOOL_NAME_MESSAGE, Accepted, Answer, AskId, AskKind, AskResolution, AskSummary, AskTag, AskedToolUses,
    Author, Block, BlockId, BlockKind, BlockSource, BypassPermission, CliInfo, Command, Delta, DropReason,
    ElicitationAsk, EntryId, Event, Exit, ExitReason, Grant, Hook, HookAsk, HookId, HookOutput, HookUpdate, HostEvent,
    InterruptReceipt, Key, LeftProcess, Login, MessageId, NextProcessRequest, NotAKey, NotAPosition, NoticeKind,
    PROMPT_BLOCK_TYPES, ParseIdError, ParsePermissionModeError, PermissionAsk, PermissionMode, Phase, Position,
    ProgramTool, Prompt, PromptContent, PromptId, RawJson, Refusal, RefusalCode, Request, RequestFailure, RequestId,
    RequestReply, SessionId, SessionInfo, SessionState, SettingChange, SystemPrompt, TOOL_SERVER,
    TOOL_SERVER_TAKEN_MESSAGE, TaskUpdate, ToolCallAsk, ToolUseId, TurnCause, TurnEnding, TurnFailure, TurnOutcome,
    UnresponsiveTo, Usage, WatchdogLimits, WhyLeft, native, recorded_subtype, replace_lone_surrogates,
    why_session_is_unusable,
};

/// Compiles the program in the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
