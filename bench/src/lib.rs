//! Measures watari beside a bridge on Node and a plain copy of bytes, all with the same fake CLI, in one run. It is not
//! part of the product: the files it creates are its own.

#![allow(clippy::disallowed_methods, reason = "the bench creates only files of its own")]

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
