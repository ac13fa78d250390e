//! The ways in.

pub(crate) mod stdio;
