//! Makes untrusted text safe to print on a terminal.

use crate::printable::is_interpreted;

/// The same text on one line, without characters that a terminal would interpret or that would hide text.
pub(super) fn plain(text: &str) -> String {
    let shown = |character: char| match character {
        '\n' | '\t' => ' ',
        interpreted if is_interpreted(interpreted) => char::REPLACEMENT_CHARACTER,
        other => other,
    };
    text.chars().map(shown).collect()
}

/// The beginning of a text, at most `characters_max` characters, plain and with single spaces.
pub(super) fn shortened(text: &str, characters_max: usize) -> String {
    let whole = plain(&text.split_whitespace().collect::<Vec<_>>().join(" "));
    match whole.char_indices().nth(characters_max) {
        None => whole,
        Some(_) => whole.chars().take(characters_max.saturating_sub(1)).chain(['…']).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_a_terminal_interprets_are_replaced() {
        assert_eq!(plain("a\x1b[31mb\r\n\u{9b}c\u{202e}d\u{7f}"), "a\u{fffd}[31mb\u{fffd} \u{fffd}c\u{fffd}d\u{fffd}");
        assert_eq!(plain("/a  b/渡り"), "/a  b/渡り");
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        assert_eq!(shortened("  one\n  two  ", 7), "one two");
        assert_eq!(shortened("one two three", 8), "one two…");
        assert_eq!(shortened("渡り渡り", 3), "渡り…");
    }
}
