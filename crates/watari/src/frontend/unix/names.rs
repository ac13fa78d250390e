//! How clients are shown to others.

use watari_hub::ClientIdentity;

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
