//! Whether the CLI is logged in, read from what it prints when it is asked.

use super::Lenient;

/// Whether the CLI is logged in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// Whether it is.
    pub logged_in: bool,
    /// By what, in the CLI's own word, such as `api_key`; none when it says nothing that is such a word.
    pub method: Option<String>,
}

/// Reads what the CLI prints when it is asked for its login; none when it printed something else. Nothing else is
/// taken from it, because the rest may name a person.
pub fn read_login(printed: &str) -> Option<Login> {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Printed {
        logged_in: bool,
        #[serde(default)]
        auth_method: Lenient<String>,
    }
    // There may be a warning above it.
    let object = &printed[printed.find('{')?..];
    let printed: Printed = serde_json::Deserializer::from_str(object).into_iter().next()?.ok()?;
    let method = printed.auth_method.into_option().filter(|method| is_word(method));
    Some(Login { logged_in: printed.logged_in, method })
}

/// A name or an address is none.
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
