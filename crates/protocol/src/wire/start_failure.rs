//! Why the CLI exited before it was ready, read from its messages.

use crate::event::Exit;

/// Why the CLI did not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum StartFailure {
    /// The session id of a new session exists already.
    SessionIdInUse,
    /// There is no stored session with the id to resume.
    UnknownSession,
    /// The CLI does not know a flag that was passed: it is too old or too new.
    UnknownFlag,
    /// The CLI will not bypass permissions for root.
    BypassAsRoot,
    /// Any other reason; the CLI's messages have it.
    Other,
}

/// Returns why the CLI did not start, from its stderr and its error messages.
pub fn start_failure(exit: &Exit) -> StartFailure {
    let table = [
        ("is already in use", StartFailure::SessionIdInUse),
        ("No conversation found", StartFailure::UnknownSession),
        ("unknown option", StartFailure::UnknownFlag),
        ("cannot be used with root", StartFailure::BypassAsRoot),
    ];
    let reported = |text: &str| exit.stderr.contains(text) || exit.errors.iter().any(|error| error.contains(text));
    table.into_iter().find(|(text, _)| reported(text)).map_or(StartFailure::Other, |(_, failure)| failure)
}
