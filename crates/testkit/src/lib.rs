//! Tools for tests of Watari: a stub of the Messages API, a fake CLI, a sandbox for the real CLI, and queries of the
//! process table. `examples/test_an_agent.rs` shows how a program that uses `watari-sdk` is tested with them.

pub mod claude;
pub mod fake_claude;
pub mod fetch;
mod hand_written;
pub mod processes;
pub mod recorder;
pub mod sandbox;
pub mod scenario;
pub mod stub_api;

pub use hand_written::BadFile;
pub use sandbox::{Sandbox, SandboxError};
pub use stub_api::{Fault, Point, RecordedRequest, Reply, Script, StartStubError, StubApi, StubOptions};
