//! A session of Claude Code that others can watch.
//!
//! What is on disk: the events it keeps ([`log`]), each at its [`Position`]; what is known of it without asking
//! ([`record`]); the locks that keep it one session ([`lock`]), and its socket ([`socket`]). A host has all of that
//! ([`SessionFiles`]) and runs the session ([`Host`]); whoever has its [`Handle`] can follow it and give it commands.

mod asked;
mod command_dedup;
mod host;
mod key;
pub mod lock;
pub mod log;
mod position;
mod published;
mod publisher;
pub mod record;
mod ring;
mod session_files;
mod settings;
mod snapshot;
pub mod socket;
mod subscription;

pub use command_dedup::{ClientIdentity, CommandOrigin, CommandOutcome, IdempotencyKey};
pub use host::{Given, Handle, Host, HostError, Stopper, host};
pub use key::{Key, NotAKey};
pub use position::{NotAPosition, Position};
pub use published::{EPHEMERAL_TYPES, HostEvent};
pub use publisher::HostState;
pub use session_files::{Conversation, OpenSessionError, SessionDirs, SessionFiles, inspect};
pub use subscription::{Attachment, Delivery, Since, Subscription};
pub use watari_sdk::files::folders;
