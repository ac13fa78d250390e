//! The interface of a dialect for clients of a host.

use watari_hub::{Attachment, CommandOutcome, Since};
use watari_sdk::{Answer, AskId, Command};

/// The dialect of one client: decodes its lines and encodes lines for it. Pure.
pub(crate) trait Speaker: Send {
    /// The position from which a client receives events when it connects; none if it has to send `hello` first.
    fn begins_with(&self) -> Option<Since>;

    /// Parses a line that is not blank.
    fn read(&mut self, line: &str) -> Result<ClientMessage, ProtocolError>;

    /// A function that parses a line like `read`, but on another thread: for long lines.
    fn reader(&self) -> Reader;

    /// Writes the greeting of an attached client.
    fn hello(&mut self, attached: &Attachment, cause: HelloCause, out: &mut Vec<u8>);

    /// Encodes an event: a line of the log, or an ephemeral line of the same form.
    fn encode(&mut self, line: &[u8], out: &mut Vec<u8>);

    /// Whether this dialect encodes the event whose line begins with `head`: if not, a long line need not be read.
    fn encodes(&self, head: &[u8]) -> bool;

    /// Writes the outcome of a command, with the client's id of it.
    fn answer(&mut self, id: Option<&str>, outcome: &CommandOutcome, out: &mut Vec<u8>);

    /// Writes an error about a line of the client.
    fn protocol_error(&mut self, problem: &ProtocolError, out: &mut Vec<u8>);
}

/// Parses one line, on any thread.
pub(crate) type Reader = Box<dyn FnOnce(&str) -> Result<ClientMessage, ProtocolError> + Send>;

/// Why a client is attached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HelloCause {
    /// It has connected.
    Connected,
    /// It has sent `hello`.
    Hello,
}

/// A message of a client.
#[derive(Debug)]
pub(crate) enum ClientMessage {
    /// The client's name, and the session and position from which it wants events.
    Hello { since: Since, key: Option<String>, client: Option<String> },
    /// A command. A refusal begins with `about`.
    Command { id: Option<String>, about: Option<String>, command: Command },
    /// A command that is refused without asking the session.
    Refused { id: Option<String>, message: String },
}

/// An error about a line of a client, or about the log.
#[derive(Debug)]
pub(crate) struct ProtocolError {
    /// The client's id of the line, if it could be read.
    pub(crate) id: Option<String>,
    pub(crate) message: String,
    /// Whether the error is about the log and not about the client's line.
    pub(crate) is_of_storage: bool,
}

impl ProtocolError {
    pub(crate) fn new(message: impl Into<String>) -> ProtocolError {
        ProtocolError { id: None, message: message.into(), is_of_storage: false }
    }

    pub(crate) fn of_storage(message: impl Into<String>) -> ProtocolError {
        ProtocolError { is_of_storage: true, ..ProtocolError::new(message) }
    }
}

impl ClientMessage {
    /// An answer to an ask; `about` is the client's name of the ask.
    pub(crate) fn answer(id: Option<String>, about: Option<String>, ask: AskId, answer: Answer) -> ClientMessage {
        ClientMessage::Command { id, about, command: Command::Answer { ask, answer, by: None } }
    }
}
