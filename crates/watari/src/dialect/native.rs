//! The native dialect: events as they are stored, and all commands of the session.
//!
//! Every line of an event begins with its position, `seq` or `after`, and is passed on unchanged.

mod incoming;
mod messages;
mod parsed_event;
mod schema;

pub(super) use incoming::since;
pub(crate) use parsed_event::ParsedEvent;
pub(crate) use schema::schema;

use watari_hub::{Attachment, CommandOutcome, Since};

use super::speaker::{ClientMessage, HelloCause, LineParser, ProtocolError, Speaker};
use messages::{Resume, ServerMessage};

/// The version of this dialect.
const PROTOCOL: u64 = 1;

/// A client of this dialect. Before its `hello` it receives no events, and its commands are refused.
#[derive(Debug, Default)]
pub(crate) struct Native {
    has_hello: bool,
}

/// The refusal of a command that arrives before `hello`.
const HELLO_FIRST: &str =
    "send hello first, such as {\"type\":\"hello\",\"protocol\":[1]}: commands before it are refused";

impl Speaker for Native {
    fn attach_on_connect(&self) -> Option<Since> {
        None
    }

    fn read(&mut self, line: &str) -> Result<ClientMessage, ProtocolError> {
        read(line, self.has_hello)
    }

    fn detached_parser(&self) -> LineParser {
        let has_hello = self.has_hello;
        Box::new(move |line| read(line, has_hello))
    }

    fn hello(&mut self, attached: &Attachment, _cause: HelloCause, out: &mut Vec<u8>) {
        self.has_hello = true;
        let resume = if attached.is_gap { Resume::Gap } else { Resume::Ok };
        let hello = ServerMessage::Hello {
            protocol: PROTOCOL,
            key: attached.key.as_str(),
            session_id: &attached.session_id,
            seq: attached.last,
            state: attached.state,
            resume,
        };
        messages::write(&hello, out);
        if let Some(message) = &attached.storage_failure {
            messages::write(&ServerMessage::Error { id: None, message }, out);
        }
    }

    fn encode(&mut self, line: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }

    fn encodes(&self, _head: &[u8]) -> bool {
        true
    }

    fn answer(&mut self, id: Option<&str>, outcome: &CommandOutcome, out: &mut Vec<u8>) {
        messages::write(&ServerMessage::outcome(id, outcome), out);
    }

    fn protocol_error(&mut self, problem: &ProtocolError, out: &mut Vec<u8>) {
        messages::write(&ServerMessage::Error { id: problem.id.as_deref(), message: &problem.message }, out);
    }
}

/// Parses a line. Commands need a `hello` first, so that the client and Watari agree on a version of the dialect.
fn read(line: &str, has_hello: bool) -> Result<ClientMessage, ProtocolError> {
    match incoming::read(line)? {
        ClientMessage::Command { id, .. } if !has_hello => {
            Ok(ClientMessage::Refused { id, message: HELLO_FIRST.to_owned() })
        }
        received @ (ClientMessage::Hello { .. } | ClientMessage::Command { .. } | ClientMessage::Refused { .. }) => {
            Ok(received)
        }
    }
}
