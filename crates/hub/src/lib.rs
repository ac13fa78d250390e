//! A session of Claude Code that others can watch.
//!
//! So far, what is on disk: the events it keeps ([`log`]), each at its [`Position`]; what is known of it without asking
//! ([`record`]); the locks that keep it one session ([`lock`]), and its socket. The host that serves it follows.

pub mod folders;
mod key;
pub mod lock;
pub mod log;
mod position;
pub mod record;
pub mod socket;

pub use key::{Key, NotAKey};
pub use position::{NotAPosition, Position};
