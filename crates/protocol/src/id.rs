//! Ids: each kind of id has its own type, so that one cannot be passed for another.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, de};

/// A text that is not a valid id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{input:?} is not {what}: expected a UUID such as 3447b64d-2090-41fe-b1dc-65114ad62db4")]
pub struct ParseIdError {
    what: &'static str,
    input: String,
}

/// Ids that are UUIDs, which can never be taken for a flag or a path.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Parses a UUID in its usual form, in upper or lower case.
            pub fn parse(text: &str) -> Result<$name, ParseIdError> {
                if is_uuid(text) {
                    Ok($name(text.to_owned()))
                } else {
                    // The text may be anything, even a whole prompt: quote only its start.
                    Err(ParseIdError { what: $what, input: text.chars().take(60).collect() })
                }
            }

            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = ParseIdError;

            fn from_str(text: &str) -> Result<$name, ParseIdError> {
                $name::parse(text)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = String::deserialize(deserializer)?;
                $name::parse(&text).map_err(de::Error::custom)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

uuid_id! {
    /// The CLI's id of a conversation.
    SessionId, "a session id"
}
uuid_id! {
    /// The id of one entry of a stored conversation.
    EntryId, "an entry id"
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(index, byte)| match index {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

impl EntryId {
    /// Wraps a UUID that was generated here.
    pub(crate) fn generated(text: String) -> EntryId {
        EntryId(text)
    }
}

/// Ids that the CLI or the API generated. They may be any text, so they are only compared and passed on.
macro_rules! foreign_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str(&self.0)
            }
        }
    };
}

foreign_id! {
    /// The API's id of one assistant message.
    MessageId
}
foreign_id! {
    /// The API's id of one tool use.
    ToolUseId
}

/// Ids that a session generates by counting from 1.
macro_rules! counted_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    };
}

counted_id! {
    /// The id of a prompt, from its acceptance to its outcome.
    PromptId
}
counted_id! {
    /// The id of an ask.
    AskId
}
counted_id! {
    /// The id of a hook that this program registered.
    HookId
}
counted_id! {
    /// The id of a block of an assistant message.
    BlockId
}
counted_id! {
    /// The id of a request to the CLI.
    RequestId
}

/// Generates counted ids.
#[derive(Debug, Default)]
pub(crate) struct Counter(u64);

impl Counter {
    /// Creates a counter that continues after a number.
    pub(crate) fn after(last: u64) -> Counter {
        Counter(last)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_uuid_is_a_session_id() {
        assert!(SessionId::parse("3447b64d-2090-41fe-b1dc-65114ad62db4").is_ok());
        assert!(SessionId::parse("3447B64D-2090-41FE-B1DC-65114AD62DB4").is_ok());
        for bad in
            ["", "x", "--settings={}", "3447b64d-2090-41fe-b1dc-65114ad62db", "3447b64d_2090_41fe_b1dc_65114ad62db4"]
        {
            let refused = SessionId::parse(bad).unwrap_err().to_string();
            assert!(refused.contains("is not a session id"), "{refused}");
        }
    }
}
