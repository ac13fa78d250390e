//! The interface of a dialect for clients of a host.

use watari_hub::{Attachment, CommandOutcome, Since};
use watari_sdk::{Answer, AskId, Command, Refusal, RefusalCode};

/// The dialect of one client: decodes its lines and encodes lines for it. Pure.
pub(crate) trait Speaker: Send {
    /// The position at which a client is attached when it connects; none if the client has to send `hello` first.
    fn attach_on_connect(&self) -> Option<Since>;

    /// Parses a line that is not blank.
    fn read(&mut self, line: &str) -> Result<ClientMessage, ProtocolError>;

    /// Returns a function that parses one line like `read`, but on another thread: for a long line.
    fn detached_parser(&self) -> LineParser;

    /// Writes the first line for a client that was attached.
    fn hello(&mut self, attached: &Attachment, cause: HelloCause, out: &mut Vec<u8>);

    /// Encodes an event: a line of the log, or an ephemeral line of the same form.
    fn encode(&mut self, line: &[u8], out: &mut Vec<u8>);

    /// Whether this dialect encodes the event whose line begins with `head`: if not, a long line need not be read.
    fn encodes(&self, head: &[u8]) -> bool;

    /// Writes the outcome of a command.
    fn answer(&mut self, command: &CommandRef, outcome: &CommandOutcome, out: &mut Vec<u8>);

    /// Writes an error about a line of the client.
    fn protocol_error(&mut self, problem: &ProtocolError, out: &mut Vec<u8>);
}

/// Parses one line, on any thread.
pub(crate) type LineParser = Box<dyn FnOnce(&str) -> Result<ClientMessage, ProtocolError> + Send>;

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
    /// A command.
    Command(CommandRef, Command),
    /// A command that is refused without asking the session.
    Refused(CommandRef, Refusal),
}

/// How a client refers to a command.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandRef {
    /// The client's id of the command.
    pub(crate) id: Option<String>,
    /// The ask that the command is about, as the client names it, such as `request_id "x"`.
    pub(crate) ask: Option<String>,
}

impl CommandRef {
    pub(crate) fn new(id: Option<String>) -> CommandRef {
        CommandRef { id, ask: None }
    }

    /// The text of a refusal, which begins with the ask.
    pub(crate) fn describe(&self, refusal: &Refusal) -> String {
        match &self.ask {
            Some(ask) => format!("{ask}: {refusal}"),
            None => refusal.to_string(),
        }
    }
}

/// An error about a line of a client, or about the log.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProtocolError {
    /// The client's id of the line, if it could be read.
    pub(crate) id: Option<String>,
    pub(crate) code: RefusalCode,
    pub(crate) message: String,
}

impl ProtocolError {
    /// An error about a line of the client.
    pub(crate) fn new(message: impl Into<String>) -> ProtocolError {
        ProtocolError { id: None, code: RefusalCode::InvalidLine, message: message.into() }
    }

    /// A refusal.
    pub(crate) fn refused(code: RefusalCode, message: impl Into<String>) -> ProtocolError {
        ProtocolError { code, ..ProtocolError::new(message) }
    }

    pub(crate) fn about_log(message: impl Into<String>) -> ProtocolError {
        ProtocolError { code: RefusalCode::NotStored, ..ProtocolError::new(message) }
    }
}

impl ClientMessage {
    /// An answer to an ask.
    pub(crate) fn answer(command: CommandRef, ask: AskId, answer: Answer) -> ClientMessage {
        ClientMessage::Command(command, Command::Answer { ask, answer, by: None })
    }
}
