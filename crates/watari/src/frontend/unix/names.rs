//! The names of clients as shown to others.

use watari_hub::ClientIdentity;

/// The name of a client for others: `client 2`, or its own name with the number of its connection. A name that could be
/// misread is quoted, so that no client can impersonate another: `"client 2" (client 5)`.
pub(super) fn display_name(identity: &ClientIdentity, number: u64) -> String {
    let is_plain = |name: &str| {
        !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "-_.@/+#".contains(letter))
    };
    match identity {
        ClientIdentity::Connection(number) => format!("client {number}"),
        ClientIdentity::Named(name) if is_plain(name) => format!("{name} (client {number})"),
        // This also escapes characters that a terminal interprets or that hide others.
        ClientIdentity::Named(name) => format!("{name:?} (client {number})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_client_name_looks_like_another_client() {
        let named = |name: &str| display_name(&ClientIdentity::Named(name.to_owned()), 5);
        assert_eq!(display_name(&ClientIdentity::Connection(5), 5), "client 5");
        assert_eq!(named("web-1"), "web-1 (client 5)");
        assert_eq!(named("渡り"), "渡り (client 5)");
        assert_eq!(named("client 2"), "\"client 2\" (client 5)");
        assert_eq!(named("x (client 9)"), "\"x (client 9)\" (client 5)");
        assert_eq!(named("a\" (client 9)"), "\"a\\\" (client 9)\" (client 5)");
        assert_eq!(named("\u{1b}[2J\n\u{202e}"), "\"\\u{1b}[2J\\n\\u{202e}\" (client 5)");
        assert_eq!(named(""), "\"\" (client 5)");
    }
}
