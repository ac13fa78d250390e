//! How events and commands are spelled for one kind of client each.

pub(crate) mod bridge;
mod content;
mod members;
pub(crate) mod native;
pub(crate) mod socket;
pub(crate) mod speaker;
