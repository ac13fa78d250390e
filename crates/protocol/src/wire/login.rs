//! The CLI's login status, read from its output.

use super::Lenient;

/// The login status of the CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Whether the CLI is logged in.
    pub logged_in: bool,
    /// The login method, by the CLI's name, such as `api_key`; none when the CLI reports no such name.
    pub method: Option<String>,
}

/// Parses the output of the CLI's login status command; none when it is something else. The other fields are ignored,
/// because they may identify a person.
pub fn read_login(printed: &str) -> Option<Login> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Printed {
        logged_in: bool,
        #[serde(default)]
        auth_method: Lenient<String>,
    }
    // A warning may precede the object.
    let object = &printed[printed.find('{')?..];
    let printed: Printed = serde_json::Deserializer::from_str(object).into_iter().next()?.ok()?;
    let method = printed.auth_method.into_option().filter(|method| is_word(method));
    Some(Login { logged_in: printed.logged_in, method })
}

/// Returns whether a text looks like a method's name, and not like a person's name or address.
fn is_word(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (1..=WORD_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits)
}

const WORD_BYTES_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whether_and_by_what_is_read() {
        let yes = |method: Option<&str>| Some(Login { logged_in: true, method: method.map(str::to_owned) });
        let no = Some(Login { logged_in: false, method: Some("none".to_owned()) });
        for (printed, login) in [
            (r#"{"loggedIn": true, "authMethod": "api_key", "apiProvider": "x"}"#, yes(Some("api_key"))),
            (r#"{"loggedIn": true, "authMethod": "claude.ai", "email": "a@b.c"}"#, yes(Some("claude.ai"))),
            (r#"{"authMethod": "none", "loggedIn": false}"#, no),
            (r#"{"loggedIn": true}"#, yes(None)),
            (r#"{"loggedIn": true, "authMethod": 7}"#, yes(None)),
            (r#"{"loggedIn": true, "authMethod": "ann@example.com"}"#, yes(None)),
            ("beware\n{\"loggedIn\": true}\nof the dog", yes(None)),
            (r#"{"loggedIn": "maybe"}"#, None),
            (r#"{"authMethod": "api_key"}"#, None),
            ("not logged in", None),
            ("", None),
        ] {
            assert_eq!(read_login(printed), login, "{printed}");
        }
    }
}
