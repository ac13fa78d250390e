//! How events and commands are spelled for one kind of client each.

pub(crate) mod bridge;
