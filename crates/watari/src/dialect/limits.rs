//! Limits for the depth and length of clients' values. Every value that reaches the CLI is checked here.
//!
//! The reader forwards some values without parsing them, so nothing else bounds their depth, and a CLI that has once
//! received 100,000 levels fails in every later turn. The check scans bytes, so that no depth can exhaust the stack.

use std::fmt;

/// How many levels of objects and lists a client's line may have, including its own. Most parsers have this limit.
pub(crate) const LEVELS_MAX: usize = 128;

/// How long a field may be that is not content: an input, a schema, settings, a reason.
pub(crate) const FIELD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How long content may be: a text, images, documents, the result of a tool. The API rejects longer requests.
pub(crate) const CONTENT_BYTES_MAX: usize = 32 * 1024 * 1024;

/// How many members an object may have, and how many elements a list of objects or blocks.
pub(crate) const MEMBERS_MAX: usize = 1000;

/// How long the name of a client or the id of its line may be.
pub(crate) const NAME_CHARACTERS_MAX: usize = 256;

/// The largest whole number: every language represents numbers up to this one exactly.
pub(crate) const INTEGER_MAX: u64 = 9_007_199_254_740_991;

/// How long an error that quotes a client may be.
const ERROR_CHARACTERS_MAX: usize = 500;

/// The limit that a value exceeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Excess {
    Bytes { bytes: usize, most: usize },
    Levels,
    Members { count: usize },
}

impl fmt::Display for Excess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Excess::Bytes { bytes, most } => write!(formatter, "has {bytes} bytes; the limit is {most}"),
            Excess::Levels => write!(formatter, "is nested too deep: the limit is {LEVELS_MAX} levels per line"),
            Excess::Members { count } => write!(formatter, "has {count} members; the limit is {MEMBERS_MAX}"),
        }
    }
}

/// Checks JSON text that is nested in `levels_above` levels of its line.
pub(crate) fn check(json: &str, levels_above: usize, bytes_max: usize) -> Result<(), Excess> {
    if json.len() > bytes_max {
        return Err(Excess::Bytes { bytes: json.len(), most: bytes_max });
    }
    match is_deeper_than(json, LEVELS_MAX.saturating_sub(levels_above)) {
        true => Err(Excess::Levels),
        false => Ok(()),
    }
}

/// Truncates an error that quotes a long text of the client.
pub(crate) fn short(mut error: String) -> String {
    if let Some((place, _)) = error.char_indices().nth(ERROR_CHARACTERS_MAX) {
        error.truncate(place);
        error.push('…');
    }
    error
}

fn is_deeper_than(json: &str, levels_max: usize) -> bool {
    // A level takes at least two bytes.
    if json.len() < 2 * levels_max {
        return false;
    }
    let mut levels = 0_usize;
    let mut bytes = json.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => skip_string(&mut bytes),
            b'{' | b'[' => levels += 1,
            b'}' | b']' => levels = levels.saturating_sub(1),
            _ => {}
        }
        if levels > levels_max {
            return true;
        }
    }
    false
}

/// Skips a string and its closing quote.
fn skip_string(bytes: &mut std::str::Bytes<'_>) {
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(levels: usize) -> String {
        format!("{}{}", "[".repeat(levels), "]".repeat(levels))
    }

    #[test]
    fn levels_are_counted_without_brackets_in_strings() {
        assert_eq!(check(&nested(LEVELS_MAX - 1), 1, FIELD_BYTES_MAX), Ok(()));
        assert_eq!(check(&nested(LEVELS_MAX), 1, FIELD_BYTES_MAX), Err(Excess::Levels));
        assert_eq!(check(&nested(1_000_000), 1, FIELD_BYTES_MAX), Err(Excess::Levels));
        let wide = format!("[{}0]", "{\"a\":[]},".repeat(1000));
        assert_eq!(check(&wide, 1, FIELD_BYTES_MAX), Ok(()));
        let quoted = format!(r#"["\\","a\"{}","[[["]"#, "[".repeat(1000));
        assert_eq!(check(&quoted, 1, FIELD_BYTES_MAX), Ok(()));
        let behind = format!(r#"{{"a\\":{}}}"#, nested(1000));
        assert_eq!(check(&behind, 1, FIELD_BYTES_MAX), Err(Excess::Levels));
    }

    #[test]
    fn bytes_are_counted_and_errors_say_the_limit() {
        let long = format!("{:?}", "x".repeat(100));
        assert_eq!(check(&long, 1, 102), Ok(()));
        assert_eq!(check(&long, 1, 101).unwrap_err().to_string(), "has 102 bytes; the limit is 101");
        assert_eq!(short("渡".repeat(600)).chars().count(), ERROR_CHARACTERS_MAX + 1);
        assert_eq!(short("short".to_owned()), "short");
    }
}
