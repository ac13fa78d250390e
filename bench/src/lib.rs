//! Measures watari beside a bridge on Node and a plain copy of bytes, all over the same fake CLI, in one run.

pub mod figure;
pub mod host;
pub mod host_measure;
pub mod measure;
pub mod node;
pub mod page;
pub mod process;
pub mod session;
pub mod splice;
pub mod subject;
pub mod table;
