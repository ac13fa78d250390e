//! A session of Claude Code with several clients.
//!
//! On disk: the event log ([`log`]), in which each event has a [`Position`]; the record, a summary of the session
//! ([`record`]); the locks that give a session one owner ([`lock`]); and its socket ([`socket`]). A host owns all of
//! them ([`SessionFiles`]) and runs the session ([`Host`]). Clients attach and submit commands through its [`Handle`].

mod asked;
mod command_dedup;
mod host;
pub mod lock;
pub mod log;
mod publisher;
pub mod record;
mod ring;
mod session_files;
mod settings;
mod snapshot;
pub mod socket;
mod subscription;
mod ticket;

pub use command_dedup::{ClientIdentity, IdempotencyKey};
pub use host::{Handle, Host, HostError, Stopper, host};
pub use session_files::{Conversation, OpenSessionError, SessionDirs, SessionFiles, read_and_mark_killed};
pub use subscription::{Attachment, Delivery, Since, Subscription};
pub use ticket::{Acknowledgement, CommandOutcome, ReplyTo, Ticket};
pub use watari_sdk::files::folders;
pub use watari_sdk::{HostEvent, Key, NotAKey, NotAPosition, Position, SessionState};
