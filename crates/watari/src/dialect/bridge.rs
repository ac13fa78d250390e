//! The bridge dialect: JSON lines for one session. Clients of the Node bridge, an earlier program, speak it: existing
//! fields do not change, and an *extension* is what Watari adds.
//!
//! Pure: parses a client's lines, and encodes events. Unknown members are ignored; a member of the wrong type is an
//! error.

mod encoder;
mod incoming;
mod options;
mod schema;

pub(crate) use encoder::{Encoder, error, fatal_error, message_cancelled, ready, session_error};
pub(crate) use incoming::{Incoming, read};
pub(crate) use options::StartOptions;
pub(crate) use schema::schema;
