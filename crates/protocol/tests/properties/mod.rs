//! Random conversations, the machine's behaviour in them, and what must hold for each of them.
//!
//! The randomness is given as bytes, a few for each step: removing bytes removes steps, and smaller bytes are simpler
//! steps. The fuzz target `frame` reads the same bytes.

pub(crate) mod claims;
mod cli;
mod client;
mod dice;
mod record;
mod script;

pub(crate) use record::Record;
pub(crate) use script::{STEP_BYTES, Script};
