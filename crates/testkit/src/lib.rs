//! Tests programs that drive Claude Code, without an API key and without a network. `examples/test_an_agent.rs` tests a
//! program that uses `watari-sdk`.
//!
//! | to | see |
//! |---|---|
//! | answer in place of the model | [`StubApi`], [`Script`], [`Reply`] |
//! | make the API fail | [`Reply::status`], [`Reply::stream_error`], [`Reply::fault`] |
//! | see what the CLI has sent to the API | [`StubApi::requests`], [`StubApi::model_calls`] |
//! | run the real CLI without the user's files and settings | [`Sandbox`] |
//! | replace the CLI by a scripted program | [`fake_claude`] |
//! | check that no process is left | [`processes::none_marked_within`] |
//!
//! The modules [`claude`], [`fetch`], [`recorder`] and [`scenario`] are for Watari's own tests.

pub mod claude;
pub mod fake_claude;
pub mod fetch;
mod hand_written;
pub mod processes;
pub mod recorder;
pub mod sandbox;
pub mod scenario;
pub mod stub_api;

pub use hand_written::InputFileError;
pub use sandbox::{Sandbox, SandboxError};
pub use stub_api::{Fault, FaultPoint, RecordedRequest, Reply, Script, StartStubError, StubApi, StubOptions};
