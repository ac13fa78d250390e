//! The native dialect: events as they are stored, and all commands of the session.
//!
//! Every line of an event begins with its position, `seq` or `after`, and is passed on unchanged.

mod incoming;
mod parsed_event;
mod schema;
#[cfg(test)]
mod tests;

pub(super) use incoming::since;
pub(crate) use parsed_event::ParsedEvent;
pub(crate) use schema::schema;

use watari_hub::{Attachment, CommandOutcome, Since};
use watari_sdk::native::{PROTOCOL, Resume, ServerMessage};
use watari_sdk::{Refusal, RefusalCode};

use super::speaker::{ClientMessage, CommandRef, HelloCause, LineParser, ProtocolError, Speaker};

/// A client of this dialect. Before its `hello` it receives no events, and its commands are refused.
#[derive(Debug, Default)]
pub(crate) struct Native {
    has_hello: bool,
}

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
            key: attached.key.to_string(),
            session_id: attached.session_id.clone(),
            seq: attached.last,
            state: attached.state,
            resume,
        };
        hello.write(out);
        if let Some(message) = attached.storage_failure.clone() {
            ServerMessage::Error { id: None, code: RefusalCode::NotStored, message }.write(out);
        }
    }

    fn encode(&mut self, line: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }

    fn encodes(&self, _head: &[u8]) -> bool {
        true
    }

    fn answer(&mut self, command: &CommandRef, outcome: &CommandOutcome, out: &mut Vec<u8>) {
        let id = command.id.clone();
        let reply = match outcome {
            Ok(accepted) => ServerMessage::accepted(id, *accepted),
            Err(refusal) => ServerMessage::Refused { id, code: refusal.code(), message: command.describe(refusal) },
        };
        reply.write(out);
    }

    fn protocol_error(&mut self, problem: &ProtocolError, out: &mut Vec<u8>) {
        let ProtocolError { id, code, message } = problem;
        ServerMessage::Error { id: id.clone(), code: *code, message: message.clone() }.write(out);
    }
}

/// Parses a line. Commands need a `hello` first, so that the client and Watari agree on a version of the dialect.
fn read(line: &str, has_hello: bool) -> Result<ClientMessage, ProtocolError> {
    match incoming::read(line)? {
        ClientMessage::Command(command, _) if !has_hello => Ok(ClientMessage::Refused(command, Refusal::HelloRequired)),
        received @ (ClientMessage::Hello { .. } | ClientMessage::Command(..) | ClientMessage::Refused(..)) => {
            Ok(received)
        }
    }
}
