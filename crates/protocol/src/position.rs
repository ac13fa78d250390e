//! The position of an event in a session's log.

use std::fmt;
use std::str::FromStr;

/// The position of a durable event, `EPOCH:NUMBER`: the value of the field `seq`. Numbers continue across epochs. Each
/// opening of the log begins an epoch, so that a client can learn that events it has seen were lost in a crash of the
/// machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend("pattern" = "^[0-9]{1,19}:[0-9]{1,19}$")))]
#[serde(into = "String", try_from = "String")]
pub struct Position {
    /// The number of times the log was opened, from 1; 0 before the first event.
    pub epoch: u64,
    /// The number of the event, from 1; 0 before the first event.
    pub seq: u64,
}

/// The maximum number of digits: every number of so many digits is valid, so that a pattern can describe it.
const DIGITS_MAX: usize = 19;

/// The text is not a position.
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
    /// Parses a position. Every line of a log begins with one, so this is fast.
    pub fn read(text: &[u8]) -> Option<Position> {
        let colon = text.iter().position(|byte| *byte == b':')?;
        Some(Position { epoch: number(&text[..colon])?, seq: number(&text[colon + 1..])? })
    }
}

/// Rust also parses "+3" as a number, which is not valid in a position.
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
