//! What a dialect has to say for itself to be spoken with a host that others talk to too.

use watari_hub::{Attachment, CommandOutcome, Since};
use watari_sdk::{Answer, AskId, Command};

/// A client's language: lines in both directions. Pure.
pub(crate) trait Speaker: Send {
    /// From where a client that has said nothing yet is told what happens; none if it has to ask for it.
    fn begins_with(&self) -> Option<Since>;

    /// Reads a line that is not blank.
    fn read(&mut self, line: &str) -> Result<ClientMessage, ProtocolError>;

    /// What reads a line as `read` would now, elsewhere: for lines that take long.
    fn reader(&self) -> Reader;

    /// Says that the client is let in.
    fn hello(&mut self, attached: &Attachment, greeting: HelloCause, out: &mut Vec<u8>);

    /// Tells an event, which is a line of the log or one like it.
    fn encode(&mut self, line: &[u8], out: &mut Vec<u8>);

    /// Whether this dialect has a word for the event whose line begins so: if not, a long line need not be read.
    fn has_word_for(&self, head: &[u8]) -> bool;

    /// Tells what became of a command, by the client's own id of it.
    fn answer(&mut self, id: Option<&str>, outcome: &CommandOutcome, out: &mut Vec<u8>);

    /// Says what is wrong with something that the client said.
    fn protocol_error(&mut self, problem: &ProtocolError, out: &mut Vec<u8>);
}

/// Reads one line, on any thread.
pub(crate) type Reader = Box<dyn FnOnce(&str) -> Result<ClientMessage, ProtocolError> + Send>;

/// Why a client is let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HelloCause {
    /// It has connected.
    Connected,
    /// It has said hello.
    Hello,
}

/// What a client says.
#[derive(Debug)]
pub(crate) enum ClientMessage {
    /// Who it is, and from where it wants to follow, in which session.
    Hello { since: Since, key: Option<String>, client: Option<String> },
    /// What it wants. `about` is what it is said of when it is refused.
    Command { id: Option<String>, about: Option<String>, command: Command },
    /// What it wants cannot be done, as is known already.
    Refused { id: Option<String>, message: String },
}

/// What is wrong with what a client said.
#[derive(Debug)]
pub(crate) struct ProtocolError {
    /// The client's own id of it, if that could be read.
    pub(crate) id: Option<String>,
    pub(crate) message: String,
    /// Whether it is the log that is wrong, and not what the client said.
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
    /// An answer to an ask, which the client calls so.
    pub(crate) fn answer(id: Option<String>, about: Option<String>, ask: AskId, answer: Answer) -> ClientMessage {
        ClientMessage::Command { id, about, command: Command::Answer { ask, answer, by: None } }
    }
}
