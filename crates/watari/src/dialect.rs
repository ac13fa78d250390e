//! How events and commands are spelled for one kind of client each.

pub(crate) mod bridge;
mod content;
mod limits;
pub(crate) mod liveness;
mod members;
pub(crate) mod native;
mod schema;
mod shaped;
pub(crate) mod socket;
pub(crate) mod speaker;

// Tests of the whole program use it too, and they share no other code with those in here.
#[cfg(test)]
#[path = "../tests/judge/mod.rs"]
mod judge;

#[cfg(test)]
mod every_shape;
