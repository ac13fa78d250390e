//! What tests of Watari stand on: a stub of the Messages API, a fake CLI, a clean room for the real one,
//! and a look at processes.

pub mod claude;
pub mod fake_claude;
pub mod processes;
pub mod recorder;
pub mod sandbox;
pub mod stub_api;

pub use sandbox::Sandbox;
pub use stub_api::{RecordedRequest, Reply, Script, StartStubError, StubApi};
