//! The names that clients choose: how long they may be, and how they are shown to others.

use watari_hub::ClientIdentity;

use crate::dialect::speaker::{Heard, Problem};

/// How long the name of a client and the id of a command may be: both are stored for long.
const NAME_BYTES_MAX: usize = 256;

/// How a client is shown to others: `client 2`, or its name with the number of its connection. A name that could be read
/// as something else than one name is quoted, so no client can pass for another: `"client 2" (client 5)`.
pub(super) fn shown(identity: &ClientIdentity, number: u64) -> String {
    let is_plain = |name: &str| {
        !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "-_.@/+#".contains(letter))
    };
    match identity {
        ClientIdentity::Connection(number) => format!("client {number}"),
        ClientIdentity::Named(name) if is_plain(name) => format!("{name} (client {number})"),
        // Characters that a terminal obeys or that hide others are escaped with it.
        ClientIdentity::Named(name) => format!("{name:?} (client {number})"),
    }
}

/// Rejects a name or an id that is too long.
pub(super) fn short(heard: Heard) -> Result<Heard, Problem> {
    let (what, name) = match &heard {
        Heard::Hello { client, .. } => ("client", client),
        Heard::Command { id, .. } | Heard::Refused { id, .. } => ("id", id),
    };
    if name.as_ref().is_some_and(|name| name.len() > NAME_BYTES_MAX) {
        return Err(Problem::new(format!("{what} may have {NAME_BYTES_MAX} bytes at most")));
    }
    Ok(heard)
}

/// An error does not repeat an id that is too long.
pub(super) fn short_id(mut problem: Problem) -> Problem {
    problem.id = problem.id.filter(|id| id.len() <= NAME_BYTES_MAX);
    problem
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_passes_for_another_client() {
        let named = |name: &str| shown(&ClientIdentity::Named(name.to_owned()), 5);
        assert_eq!(shown(&ClientIdentity::Connection(5), 5), "client 5");
        assert_eq!(named("web-1"), "web-1 (client 5)");
        assert_eq!(named("渡り"), "渡り (client 5)");
        assert_eq!(named("client 2"), "\"client 2\" (client 5)");
        assert_eq!(named("x (client 9)"), "\"x (client 9)\" (client 5)");
        assert_eq!(named("a\" (client 9)"), "\"a\\\" (client 9)\" (client 5)");
        assert_eq!(named("\u{1b}[2J\n\u{202e}"), "\"\\u{1b}[2J\\n\\u{202e}\" (client 5)");
        assert_eq!(named(""), "\"\" (client 5)");
    }
}
