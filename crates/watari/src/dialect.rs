//! The dialects: how events and commands are spelled for each kind of client.

pub(crate) mod bridge;
pub(crate) mod cli_trouble;
mod content;
mod limits;
mod members;
pub(crate) mod native;
mod schema;
mod shaped;
pub(crate) mod socket;
pub(crate) mod speaker;

// Integration tests use the same file; they share no other code with the unit tests.
#[cfg(test)]
#[path = "../tests/judge/mod.rs"]
mod judge;

#[cfg(test)]
mod every_shape;
