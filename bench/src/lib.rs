//! Measures watari beside a bridge on Node and a plain copy of bytes, all over the same fake CLI, in one run.
//! Not part of the product: the files it makes are its own.

#![allow(clippy::disallowed_methods, reason = "what the bench makes is for the bench")]

pub mod figure;
pub mod host;
mod host_lines;
pub mod host_measure;
pub mod measure;
pub mod node;
pub mod page;
pub mod process;
pub mod session;
pub mod splice;
pub mod subject;
pub mod table;
