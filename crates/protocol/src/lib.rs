//! The wire format of the Claude Code CLI, Watari's events and commands, and the state machine between them.
//!
//! Everything here is pure: bytes and time are arguments, and [`Machine::poll_output`] returns events and lines to
//! write. There is no clock, no file, no lock, no process and no async runtime, so a test can simulate an hour of
//! conversation in no time.
//!
//! ```
//! use std::time::Instant;
//! use watari_protocol::{Config, Machine, Output};
//!
//! let mut machine = Machine::start(Config::default(), Instant::now());
//! // The first output is the line that opens the conversation with the CLI.
//! assert!(matches!(machine.poll_output(), Some(Output::Write(line)) if line.ends_with(b"\n")));
//! ```

mod answer;
mod asked;
mod bypass;
mod command;
mod event;
mod id;
mod initialize;
mod json;
mod key;
pub mod native;
mod next_process;
mod position;
mod refusal;
mod session;
mod wire;

pub use answer::{Answer, HookOutput};
pub use asked::AskedToolUses;
pub use bypass::{DISABLE_BYPASS, agent_names_bypass, names_bypass};
pub use command::{
    Accepted, Command, PROMPT_BLOCK_TYPES, ParsePermissionModeError, PermissionMode, Prompt, PromptContent, Request,
};
pub use event::{
    AskKind, AskResolution, AskSummary, AskTag, Author, Block, BlockKind, BlockSource, CliInfo, Delta, DropReason,
    ElicitationAsk, Event, Exit, ExitReason, Grant, HookAsk, HookUpdate, HostEvent, InterruptReceipt, LeftProcess,
    NoticeKind, PermissionAsk, RequestFailure, RequestReply, SessionInfo, SessionState, TaskUpdate, ToolCallAsk,
    TurnCause, TurnEnding, TurnFailure, TurnOutcome, UnresponsiveTo, Usage, WhyLeft,
};
pub use id::{AskId, BlockId, EntryId, HookId, MessageId, ParseIdError, PromptId, RequestId, SessionId, ToolUseId};
pub use initialize::{
    AMBIGUOUS_TOOL_NAME_MESSAGE, HOOK_EVENTS, Hook, Initialize, ProgramTool, SystemPrompt, TOOL_SERVER,
    TOOL_SERVER_TAKEN_MESSAGE,
};
pub use json::{RawJson, replace_lone_surrogates};
pub use key::{Key, NotAKey};
pub use next_process::{BypassPermission, NextProcessRequest};
pub use position::{NotAPosition, Position};
pub use refusal::{Refusal, RefusalCode};
pub use session::{
    Config, Machine, Output, Phase, ProcessEnd, Stop, TRANSITIONS, Trigger, WatchdogLimits, prompt_entry_prefix,
};
pub use wire::login::{Login, read_login};
pub use wire::request_record::{SettingChange, recorded_subtype};
pub use wire::start_failure::{StartFailure, start_failure};
pub use wire::system::why_session_is_unusable;
