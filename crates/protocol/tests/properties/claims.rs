//! The claims that must hold for every conversation.

pub(crate) mod asks;
pub(crate) mod messages;
pub(crate) mod prompts;
pub(crate) mod session;

use super::record::Record;

/// Checks a conversation and returns what is wrong with it.
pub(crate) type Claim = fn(&Record) -> Result<(), String>;

fn ensure(is_true: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if is_true { Ok(()) } else { Err(otherwise()) }
}
