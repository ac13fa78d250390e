//! Repair of lines that are valid JSON but not valid Rust strings: they contain lone surrogates. (JSON can write a
//! character as two escapes, a surrogate pair; a surrogate without its partner is half a character.)

/// How to replace a lone surrogate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoneSurrogate {
    /// Replace it with U+FFFD.
    Replaced,
    /// Replace it with a placeholder, which [`SurrogateJoiner`] joins with a partner that arrives later.
    Retained,
}

/// The offset of the placeholders: each is `0x10_0000` above its surrogate, in the last private plane of Unicode.
const PLACEHOLDER: u32 = 0x10_0000;

/// Replaces the lone surrogates in a line. Returns none when there are none.
pub(crate) fn lone_surrogates(line: &str, how: LoneSurrogate) -> Option<String> {
    let bytes = line.as_bytes();
    let mut repaired = String::new();
    let mut copied = 0;
    let mut offset = 0;
    while offset < bytes.len() {
        if bytes[offset] != b'\\' {
            offset += 1;
            continue;
        }
        match escape_at(bytes, offset) {
            Some(0xD800..=0xDBFF) if matches!(escape_at(bytes, offset + 6), Some(0xDC00..=0xDFFF)) => offset += 12,
            Some(unit @ 0xD800..=0xDFFF) => {
                repaired.push_str(&line[copied..offset]);
                repaired.push_str(&replacement(unit, how));
                offset += 6;
                copied = offset;
            }
            // Any other escape: skip the character after the backslash, which does not start another escape.
            Some(_) | None => offset += 2,
        }
    }
    (copied > 0).then(|| repaired + &line[copied..])
}

fn replacement(unit: u16, how: LoneSurrogate) -> String {
    match how {
        LoneSurrogate::Replaced => "\\ufffd".to_owned(),
        LoneSurrogate::Retained => {
            let offset = PLACEHOLDER + u32::from(unit) - 0x1_0000;
            format!("\\u{:04x}\\u{:04x}", 0xD800 + (offset >> 10), 0xDC00 + (offset & 0x3FF))
        }
    }
}

/// Returns the value of the `\uXXXX` escape at this offset, if there is one.
fn escape_at(bytes: &[u8], offset: usize) -> Option<u16> {
    let escape = bytes.get(offset..offset + 6)?;
    let digits = escape.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Joins surrogates of one character that arrive in different pieces of a text.
#[derive(Debug, Default)]
pub(crate) struct SurrogateJoiner {
    first: Option<u16>,
}

impl SurrogateJoiner {
    /// Returns the next piece with its placeholders resolved. A first surrogate at its end is stored for the next
    /// piece; a surrogate without a partner becomes U+FFFD.
    pub(crate) fn join(&mut self, piece: &str) -> String {
        let mut joined = String::with_capacity(piece.len());
        for character in piece.chars() {
            let unit = u32::from(character).checked_sub(PLACEHOLDER).and_then(|unit| u16::try_from(unit).ok());
            let unit = unit.filter(|unit| (0xD800..=0xDFFF).contains(unit));
            match (self.first.take(), unit) {
                (Some(first), Some(second @ 0xDC00..)) => {
                    joined.extend(char::decode_utf16([first, second]).map(|joined| joined.unwrap_or('\u{fffd}')));
                    continue;
                }
                (Some(_), _) => joined.push('\u{fffd}'),
                (None, _) => {}
            }
            match unit {
                Some(first @ ..0xDC00) => self.first = Some(first),
                Some(_) => joined.push('\u{fffd}'),
                None => joined.push(character),
            }
        }
        joined
    }

    /// Returns whether a first surrogate waits for its partner.
    pub(crate) fn is_waiting(&self) -> bool {
        self.first.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lone_surrogates_are_replaced() {
        for (line, repaired) in [
            (r#"{"a":"plain \n \u0041"}"#, None),
            (r#"{"a":"\ud83d\ude00"}"#, None),
            (r#"{"a":"\\ud83d"}"#, None),
            (r#"{"a":"x\ud83d"}"#, Some(r#"{"a":"x\ufffd"}"#)),
            (r#"{"a":"\ude00y"}"#, Some(r#"{"a":"\ufffdy"}"#)),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, Some(r#"{"a":"\ufffd\ud83d\ude00"}"#)),
            (r#"{"a":"\\\ud83d"}"#, Some(r#"{"a":"\\\ufffd"}"#)),
        ] {
            assert_eq!(lone_surrogates(line, LoneSurrogate::Replaced).as_deref(), repaired, "{line}");
        }
    }

    #[test]
    fn surrogates_in_different_pieces_are_joined_and_others_replaced() {
        let mut joiner = SurrogateJoiner::default();
        let pieces = ["\"a\\ud83d\"", "\"\\ude00b\\ud83d\"", "\"c\\ude00\\ud83d\\ud83d\"", "\"\\ude00\""];
        let joined: Vec<String> = pieces
            .into_iter()
            .map(|piece| {
                let readable = lone_surrogates(piece, LoneSurrogate::Retained).unwrap();
                joiner.join(&serde_json::from_str::<String>(&readable).unwrap())
            })
            .collect();
        assert_eq!(joined, ["a", "😀b", "\u{fffd}c\u{fffd}\u{fffd}", "😀"]);
        assert!(!joiner.is_waiting());
    }
}
