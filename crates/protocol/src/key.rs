//! The key of a session, which names its files and its socket.

use std::fmt;
use std::str::FromStr;

/// A session's key: up to twelve letters and digits, short enough for the path of a socket.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(into = "String", try_from = "String")]
pub struct Key(String);

/// The text is not a session key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a session key: expected up to 12 letters and digits")]
pub struct NotAKey(String);

/// The maximum length: the path of a socket has at most 107 bytes.
const LENGTH_MAX: usize = 12;

/// Without letters that are easily mistaken for others.
const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstvwxyz0123456789";

impl Key {
    /// Makes a key of a random number; the same number gives the same key.
    pub fn from_random(random: u64) -> Key {
        let letter = |index: usize| char::from(LETTERS[(random >> (5 * index)) as usize % LETTERS.len()]);
        Key((0..LENGTH_MAX).map(letter).collect())
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl FromStr for Key {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Key, NotAKey> {
        // The key becomes the name of a folder and of a socket.
        let fits = (1..=LENGTH_MAX).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if fits { Ok(Key(text.to_owned())) } else { Err(NotAKey(text.chars().take(60).collect())) }
    }
}

impl From<Key> for String {
    fn from(key: Key) -> String {
        key.0
    }
}

impl TryFrom<String> for Key {
    type Error = NotAKey;

    fn try_from(text: String) -> Result<Key, NotAKey> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_different_numbers_differ_and_can_be_parsed() {
        let keys: std::collections::BTreeSet<Key> =
            (0..1000).map(|n| Key::from_random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(n))).collect();
        assert_eq!(keys.len(), 1000);
        for key in keys {
            assert_eq!(key.as_str().len(), 12);
            assert_eq!(key.to_string().parse(), Ok(key));
        }
        for text in ["", "..", "a/b", "a b", "ä", "thirteenchars"] {
            assert!(text.parse::<Key>().is_err(), "{text}");
        }
    }
}
