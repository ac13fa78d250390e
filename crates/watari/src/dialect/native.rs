//! Watari's own dialect: the events as they are stored, and the commands as the session knows them.
//!
//! Every line of an event begins with its place, `seq` or `after`, and is passed on as it is.

mod incoming;
mod line;
mod outgoing;
mod schema;

pub(super) use incoming::since;
pub(crate) use line::StoredLine;
pub(crate) use schema::schema;

use watari_hub::{Attachment, CommandOutcome, Since};

use super::speaker::{ClientMessage, HelloCause, ProtocolError, Reader, Speaker};
use outgoing::{Resume, ServerMessage};

/// The version of this dialect that is spoken here.
const PROTOCOL: u64 = 1;

/// A client that speaks it. Before it has said hello it hears nothing, and nothing that it wants is done.
#[derive(Debug, Default)]
pub(crate) struct Native {
    was_greeted: bool,
}

/// What a command is told that comes before `hello`.
const HELLO_FIRST: &str =
    "say hello first, such as {\"type\":\"hello\",\"protocol\":[1]}: before it no command is carried out";

impl Speaker for Native {
    fn begins_with(&self) -> Option<Since> {
        None
    }

    fn read(&mut self, line: &str) -> Result<ClientMessage, ProtocolError> {
        read(line, self.was_greeted)
    }

    fn reader(&self) -> Reader {
        let was_greeted = self.was_greeted;
        Box::new(move |line| read(line, was_greeted))
    }

    fn hello(&mut self, attached: &Attachment, _greeting: HelloCause, out: &mut Vec<u8>) {
        self.was_greeted = true;
        let resume = if attached.is_gap { Resume::Gap } else { Resume::Ok };
        let hello = ServerMessage::Hello {
            protocol: PROTOCOL,
            key: attached.key.as_str(),
            session_id: &attached.session_id,
            seq: attached.last,
            state: attached.state,
            resume,
        };
        outgoing::write(&hello, out);
        if let Some(message) = &attached.trouble {
            outgoing::write(&ServerMessage::Error { id: None, message }, out);
        }
    }

    fn encode(&mut self, line: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }

    fn has_word_for(&self, _head: &[u8]) -> bool {
        true
    }

    fn answer(&mut self, id: Option<&str>, outcome: &CommandOutcome, out: &mut Vec<u8>) {
        outgoing::write(&ServerMessage::outcome(id, outcome), out);
    }

    fn protocol_error(&mut self, problem: &ProtocolError, out: &mut Vec<u8>) {
        outgoing::write(&ServerMessage::Error { id: problem.id.as_deref(), message: &problem.message }, out);
    }
}

/// Reads a line. The client and Watari agree on a version of the dialect before anything is done.
fn read(line: &str, was_greeted: bool) -> Result<ClientMessage, ProtocolError> {
    match incoming::read(line)? {
        ClientMessage::Command { id, .. } if !was_greeted => {
            Ok(ClientMessage::Refused { id, message: HELLO_FIRST.to_owned() })
        }
        received @ (ClientMessage::Hello { .. } | ClientMessage::Command { .. } | ClientMessage::Refused { .. }) => {
            Ok(received)
        }
    }
}
