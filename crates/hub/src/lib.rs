//! A session of Claude Code that others can watch.
//!
//! What is on disk: the events it keeps ([`log`]), each at its [`Position`]; what is known of it without asking
//! ([`record`]); the locks that keep it one session ([`lock`]), and its socket ([`socket`]). A host has all of that
//! ([`Kept`]) and runs the session ([`Host`]); whoever has its [`Handle`] can follow it and give it commands.

mod asked;
mod follow;
mod host;
mod kept;
mod key;
mod ledger;
pub mod lock;
pub mod log;
mod position;
mod publisher;
pub mod record;
mod ring;
mod settings;
pub mod socket;
mod standing;
mod told;

pub use follow::{Attached, Followed, Follower, Since};
pub use host::{Given, Handle, Host, HostError, Stopper, host};
pub use kept::{Conversation, Home, KeepError, Kept, look};
pub use key::{Key, NotAKey};
pub use ledger::{ClientIdentity, Once, Outcome, Sender};
pub use position::{NotAPosition, Position};
pub use publisher::HostState;
pub use told::{FLEETING, HostEvent};
pub use watari_sdk::files::folders;
