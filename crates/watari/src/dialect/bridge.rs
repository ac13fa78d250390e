//! The dialect of the bridge: JSON lines for one session, as a client of the Node bridge knows them.
//!
//! Pure: lines to commands, events to lines. Reading is tolerant, writing is exact.

mod incoming;
mod options;
mod outgoing;
mod schema;

pub(crate) use incoming::{Incoming, read};
pub(crate) use options::StartOptions;
pub(crate) use outgoing::{Encoder, Fatal, error, message_cancelled, ready};
pub(crate) use schema::schema;
