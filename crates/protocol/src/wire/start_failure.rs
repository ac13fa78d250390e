//! Why a CLI ended before it was ready, read from what it said.

use crate::event::Exit;

/// Why the CLI would not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartFailure {
    /// The session id of a new session exists already.
    SessionIdInUse,
    /// There is no stored session with the id to resume.
    UnknownSession,
    /// The CLI does not know a flag that was passed: it is too old or too new.
    UnknownFlag,
    /// The CLI will not bypass permissions for root.
    BypassAsRoot,
    /// Anything else; its own words say what.
    Other,
}

/// Tells why the CLI would not start, from what it said when it ended.
pub fn start_failure(exit: &Exit) -> StartFailure {
    let table = [
        ("is already in use", StartFailure::SessionIdInUse),
        ("No conversation found", StartFailure::UnknownSession),
        ("unknown option", StartFailure::UnknownFlag),
        ("cannot be used with root", StartFailure::BypassAsRoot),
    ];
    let said = |words: &str| exit.stderr.contains(words) || exit.errors.iter().any(|error| error.contains(words));
    table.into_iter().find(|(words, _)| said(words)).map_or(StartFailure::Other, |(_, failure)| failure)
}
