//! Text of others, made so that a terminal only shows it.

use crate::printable::is_applied;

/// The same text on one line, with everything replaced that a terminal would obey or that would hide what is there.
pub(super) fn plain(text: &str) -> String {
    let shown = |character: char| match character {
        '\n' | '\t' => ' ',
        obeyed if is_applied(obeyed) => char::REPLACEMENT_CHARACTER,
        other => other,
    };
    text.chars().map(shown).collect()
}

/// The beginning of a text, plain and with single blanks: at most so many characters.
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
    fn nothing_is_left_that_a_terminal_obeys() {
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
