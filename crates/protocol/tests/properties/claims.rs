//! What must be true of every conversation, claim by claim.

pub(crate) mod asks;
pub(crate) mod messages;
pub(crate) mod prompts;
pub(crate) mod session;

use super::record::Record;

/// Looks whether something is true of a conversation, and says what is not.
pub(crate) type Claim = fn(&Record) -> Result<(), String>;

fn ensure(is_true: bool, otherwise: impl FnOnce() -> String) -> Result<(), String> {
    if is_true { Ok(()) } else { Err(otherwise()) }
}
