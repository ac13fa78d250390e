//! Text of others on its way to a terminal: what a terminal would obey is shown instead.
//!
//! The text of the CLI, of paths and of clients may hold anything. It is escaped where it is printed, and nowhere before.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a terminal would obey the character, or it would hide or reorder what is there.
pub(crate) fn is_applied(character: char) -> bool {
    let reorders_or_hides = matches!(
        character,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    );
    character.is_control() || reorders_or_hides
}

/// The same text with such characters escaped, but for line ends and tabs: `\u{1b}[31m`.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |character| is_applied(character) && !matches!(character, '\n' | '\t'))
}

/// The same on one line: line ends within it are escaped too, the one at its end is not.
pub(crate) fn printable_line(line: &str) -> Cow<'_, str> {
    match line.strip_suffix('\n') {
        None => escaped(line, is_applied),
        Some(content) => match escaped(content, is_applied) {
            Cow::Borrowed(_) => Cow::Borrowed(line),
            Cow::Owned(escaped) => Cow::Owned(escaped + "\n"),
        },
    }
}

fn escaped(text: &str, is_bad: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_bad) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_bad(character) {
            false => shown.push(character),
            // A string takes everything that is written to it.
            true => drop(write!(shown, "{}", character.escape_default())),
        }
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
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
