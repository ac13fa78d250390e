//! Escapes untrusted text that is printed to a terminal.
//!
//! The text of the CLI, of paths and of clients may contain anything. It is escaped where it is printed, and nowhere
//! else.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal would interpret the character, or the character would hide or reorder text.
pub(crate) fn is_interpreted(character: char) -> bool {
    let reorders_or_hides = matches!(
        character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    character.is_control() || reorders_or_hides
}

/// The text with such characters escaped (`\u{1b}[31m`), except line ends and tabs.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |character| is_interpreted(character) && !matches!(character, '\n' | '\t'))
}

/// The same for one line: line ends within it are escaped, too, but not the one at its end.
pub(crate) fn printable_line(line: &str) -> Cow<'_, str> {
    match line.strip_suffix('\n') {
        None => escaped(line, is_interpreted),
        Some(content) => match escaped(content, is_interpreted) {
            Cow::Borrowed(_) => Cow::Borrowed(line),
            Cow::Owned(escaped) => Cow::Owned(escaped + "\n"),
        },
    }
}

fn escaped(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_bad(character) {
            false => escaped.push(character),
            // Writing to a string cannot fail.
            true => drop(write!(escaped, "{}", character.escape_default())),
        }
    }
    Cow::Owned(escaped)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_a_terminal_would_interpret_are_escaped() {
        assert_eq!(
            printable("a\x1b[31mb\r\n\tc\u{9b}d\u{202e}e\u{7f}\0"),
            "a\\u{1b}[31mb\\r\n\tc\\u{9b}d\\u{202e}e\\u{7f}\\u{0}"
        );
        assert!(matches!(printable("/a  b/渡り\n"), Cow::Borrowed("/a  b/渡り\n")));
    }

    #[test]
    fn a_line_stays_one_line() {
        assert_eq!(printable_line("one\ntwo\t\x1b[2J\n"), "one\\ntwo\\t\\u{1b}[2J\n");
        assert_eq!(printable_line("one\ntwo"), "one\\ntwo");
        assert!(matches!(printable_line("one\n"), Cow::Borrowed("one\n")));
    }
}
