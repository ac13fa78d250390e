//! What tests of Watari stand on: a stub of the Messages API, a fake CLI, a clean room for the real one,
//! and a look at processes.

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
