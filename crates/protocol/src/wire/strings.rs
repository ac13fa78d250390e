//! Parsing of JSON strings with at most one allocation, for the hot path. `serde_json` builds a text with escapes in a
//! growing buffer, and then copies it.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::Text;

/// Parses a string. Returns none for any other value, and for a string with a lone surrogate.
pub(super) fn read(value: &RawValue) -> Option<Text<'_>> {
    let inside = value.get().strip_prefix('"')?.strip_suffix('"')?;
    match memchr::memchr(b'\\', inside.as_bytes()) {
        None => Some(Text(Cow::Borrowed(inside))),
        Some(first) => unescape(inside, first).map(|text| Text(Cow::Owned(text))),
    }
}

/// Replaces escapes. `first` is the position of the first one. All escapes are valid, because the line was parsed
/// before.
fn unescape(inside: &str, first: usize) -> Option<String> {
    let mut text = String::with_capacity(inside.len());
    let (plain, mut rest) = inside.split_at_checked(first)?;
    text.push_str(plain);
    while let Some(escape) = rest.strip_prefix('\\') {
        let mut behind = escape.chars();
        let character = match behind.next()? {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => unicode(&mut behind)?,
            itself => itself,
        };
        text.push(character);
        let escape = behind.as_str();
        let (plain, next) = escape.split_at_checked(escape.find('\\').unwrap_or(escape.len()))?;
        text.push_str(plain);
        rest = next;
    }
    Some(text)
}

/// Parses what follows `\u`: one number, or the two of a surrogate pair.
fn unicode(behind: &mut std::str::Chars<'_>) -> Option<char> {
    let first = number(behind)?;
    if let Some(character) = char::from_u32(first.into()) {
        return Some(character);
    }
    *behind = behind.as_str().strip_prefix("\\u")?.chars();
    let second = number(behind)?;
    char::decode_utf16([first, second]).next()?.ok()
}

fn number(behind: &mut std::str::Chars<'_>) -> Option<u16> {
    let (digits, rest) = behind.as_str().split_at_checked(4)?;
    *behind = rest.chars();
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_json(json: &str) -> Option<String> {
        read(serde_json::from_str::<&RawValue>(json).unwrap()).map(Text::into_string)
    }

    #[test]
    fn other_values_and_lone_surrogates_are_refused() {
        for json in ["5", "null", "{}", r#"["a"]"#, r#""\ud83d""#, r#""\ude00""#, r#""\ud83d\u0041""#, r#""\ud83dx""#] {
            assert_eq!(read_json(json), None, "{json}");
        }
        assert_eq!(read_json(r#""\ud83d\ude00\/\"\\\u0041\b\f""#).unwrap(), "😀/\"\\A\u{8}\u{c}");
    }

    proptest! {
        /// Pieces of JSON strings in any order, parsed by both.
        #[test]
        fn a_string_is_read_as_serde_reads_it(
            pieces in proptest::collection::vec(prop_oneof![
                Just("a".to_owned()), Just("渡".to_owned()), Just("\\n".to_owned()), Just("\\\\".to_owned()),
                Just("\\\"".to_owned()), Just("\\/".to_owned()), Just("\\ud83d".to_owned()), Just("\\ude00".to_owned()),
                Just("\\u00e9".to_owned()), Just("\\uFFFF".to_owned()), "[ -!#-\\[\\]-~]{0,9}",
            ], 0..12)
        ) {
            let json = format!("\"{}\"", pieces.concat());
            prop_assert_eq!(read_json(&json), serde_json::from_str::<String>(&json).ok());
        }
    }
}
