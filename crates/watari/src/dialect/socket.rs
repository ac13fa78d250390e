//! The socket dialect: JSON lines over a UNIX socket, for several clients. Clients of agent-socket, an earlier program,
//! speak it: existing fields do not change, and an *extension* is what Watari adds.
//!
//! Pure: parses a client's lines into commands, and encodes lines of the session's log for the client. Live and
//! replayed events take the same path.

mod asks;
mod encoder;
mod incoming;
mod messages;
mod schema;
mod turns;

pub(crate) use schema::schema;

use watari_hub::{Attachment, CommandOutcome, Since};
use watari_sdk::{Accepted, RefusalCode};

use super::speaker::{ClientMessage, CommandRef, HelloCause, LineParser, ProtocolError, Speaker};
use encoder::Encoder;
use messages::{ErrorKind, Resume, ServerMessage, write};

/// A client of this dialect.
#[derive(Debug, Default)]
pub(crate) struct SocketDialect {
    encoder: Encoder,
}

impl Speaker for SocketDialect {
    fn attach_on_connect(&self) -> Option<Since> {
        Some(Since::Now)
    }

    fn read(&mut self, line: &str) -> Result<ClientMessage, ProtocolError> {
        incoming::read(line, |request_id| self.encoder.asks.of(request_id))
    }

    fn detached_parser(&self) -> LineParser {
        let asks = self.encoder.asks.clone();
        Box::new(move |line| incoming::read(line, |request_id| asks.of(request_id)))
    }

    fn hello(&mut self, attached: &Attachment, cause: HelloCause, out: &mut Vec<u8>) {
        let session_id = attached.session_id.as_str();
        self.encoder = Encoder::new(attached, cause == HelloCause::Hello);
        self.encoder.asks.add_open(&attached.asks);
        match cause {
            HelloCause::Connected => write(&ServerMessage::Init { session_id }, None, out),
            HelloCause::Hello => {
                let resume = if attached.is_gap { Resume::Gap } else { Resume::Ok };
                let (key, seq, state) = (attached.key.as_str(), attached.last, attached.state);
                write(&ServerMessage::Hello { key, session_id, seq, state, resume }, None, out);
            }
        }
        if let Some(message) = &attached.storage_failure {
            write(&ServerMessage::Error { id: None, kind: ErrorKind::Storage, code: None, message }, None, out);
        }
    }

    fn encode(&mut self, line: &[u8], out: &mut Vec<u8>) {
        self.encoder.encode(line, out);
    }

    fn encodes(&self, head: &[u8]) -> bool {
        encoder::encodes(head)
    }

    fn answer(&mut self, command: &CommandRef, outcome: &CommandOutcome, out: &mut Vec<u8>) {
        let id = command.id.as_deref();
        match outcome {
            // A command without an id gets no reply, as agent-socket specifies.
            Ok(accepted) => {
                let message_id = match accepted {
                    Accepted::Prompt(prompt) => Some(prompt.0),
                    Accepted::Request(_) | Accepted::Done => None,
                };
                id.iter().for_each(|id| write(&ServerMessage::Accepted { id, message_id }, None, out));
            }
            Err(refusal) => {
                let (code, message) = (Some(refusal.code()), &command.describe(refusal));
                write(&ServerMessage::Error { id, kind: ErrorKind::Refused, code, message }, None, out);
            }
        }
    }

    fn protocol_error(&mut self, problem: &ProtocolError, out: &mut Vec<u8>) {
        let ProtocolError { id, code, message } = problem;
        let kind = if *code == RefusalCode::NotStored { ErrorKind::Storage } else { ErrorKind::Line };
        let code = Some(*code).filter(|_| kind == ErrorKind::Line);
        write(&ServerMessage::Error { id: id.as_deref(), kind, code, message }, None, out);
    }
}
