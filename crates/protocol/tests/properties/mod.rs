//! Conversations made of chance, what the machine did in them, and what must be true of every one.
//!
//! Chance comes in as bytes: a few for each step, so that leaving some out leaves steps out, and smaller bytes
//! are simpler steps. The fuzz target `frame` reads the same bytes.

pub(crate) mod claims;
mod cli;
mod client;
mod dice;
mod record;
mod script;

pub(crate) use record::Record;
pub(crate) use script::{STEP_BYTES, Script};
