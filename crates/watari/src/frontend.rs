//! The ways in.

mod outbox;
pub(crate) mod stdio;
pub(crate) mod unix;
