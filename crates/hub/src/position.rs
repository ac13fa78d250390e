//! Where in a session's log something stands.

use std::fmt;
use std::str::FromStr;

/// The place of a numbered event: `epoch:seq`. Numbers go on from one epoch to the next; each opening of the log begins an
/// epoch, so that a client that saw what a crash of the machine has lost is told so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend("pattern" = "^[0-9]{1,19}:[0-9]{1,19}$")))]
#[serde(into = "String", try_from = "String")]
pub struct Position {
    /// How often the log was opened, from 1; 0 before everything.
    pub epoch: u64,
    /// Which event it is, from 1; 0 before everything.
    pub seq: u64,
}

/// How many digits each number of a position may have: every such number can be one, so that a pattern can say it.
const DIGITS_MAX: usize = 19;

/// A text is not a position.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a position such as \"3:17\"")]
pub struct NotAPosition(String);

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.epoch, self.seq)
    }
}

impl FromStr for Position {
    type Err = NotAPosition;

    fn from_str(text: &str) -> Result<Position, NotAPosition> {
        Position::read(text.as_bytes()).ok_or_else(|| NotAPosition(text.chars().take(60).collect()))
    }
}

impl Position {
    /// Reads a position: every line that is told again begins with one, so this is quick.
    pub(crate) fn read(text: &[u8]) -> Option<Position> {
        let colon = text.iter().position(|byte| *byte == b':')?;
        Some(Position { epoch: number(&text[..colon])?, seq: number(&text[colon + 1..])? })
    }
}

/// Rust also reads "+3" as a number; nobody writes a position so.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > DIGITS_MAX {
        return None;
    }
    // So many digits always fit.
    digits.iter().try_fold(0, |number, digit| digit.is_ascii_digit().then(|| number * 10 + u64::from(digit - b'0')))
}

impl From<Position> for String {
    fn from(position: Position) -> String {
        position.to_string()
    }
}

impl TryFrom<String> for Position {
    type Error = NotAPosition;

    fn try_from(text: String) -> Result<Position, NotAPosition> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_read_as_it_is_written_and_nothing_else_is() {
        let position = Position { epoch: 3, seq: 17 };
        assert_eq!(position.to_string(), "3:17");
        assert_eq!("3:17".parse(), Ok(position));
        assert!("9999999999999999999:9999999999999999999".parse::<Position>().is_ok());
        for text in ["", "3", "3:", ":17", "+3:17", "3:-1", "3:17:1", " 3:17", "3:10000000000000000000"] {
            assert!(text.parse::<Position>().is_err(), "{text}");
        }
    }
}
