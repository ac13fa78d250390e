//! Why a CLI ended before it was ready, read from what it said.

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

/// Tells why the CLI would not start from the end of what it wrote to stderr.
pub fn start_failure(stderr: &str) -> StartFailure {
    let table = [
        ("is already in use", StartFailure::SessionIdInUse),
        ("No conversation found", StartFailure::UnknownSession),
        ("unknown option", StartFailure::UnknownFlag),
        ("cannot be used with root", StartFailure::BypassAsRoot),
    ];
    table.into_iter().find(|(words, _)| stderr.contains(words)).map_or(StartFailure::Other, |(_, failure)| failure)
}
