//! Lines that are valid JSON but not valid Rust strings: lone surrogates.

/// Replaces every `\uD800`…`\uDFFF` escape that has no partner by `\ufffd`. None when there is none.
pub(crate) fn lone_surrogates(line: &str) -> Option<String> {
    let bytes = line.as_bytes();
    let mut lone = Vec::new();
    let mut place = 0;
    while place < bytes.len() {
        if bytes[place] != b'\\' {
            place += 1;
            continue;
        }
        match escape_at(bytes, place) {
            Some(0xD800..=0xDBFF) if matches!(escape_at(bytes, place + 6), Some(0xDC00..=0xDFFF)) => place += 12,
            Some(0xD800..=0xDFFF) => {
                lone.push(place);
                place += 6;
            }
            // Any other escape: the character after the backslash is not the start of one.
            Some(_) | None => place += 2,
        }
    }
    if lone.is_empty() {
        return None;
    }
    let mut repaired = line.to_owned();
    for place in lone {
        repaired.replace_range(place..place + 6, "\\ufffd");
    }
    Some(repaired)
}

/// The number of the `\uXXXX` escape at this place, if there is one.
fn escape_at(bytes: &[u8], place: usize) -> Option<u16> {
    let escape = bytes.get(place..place + 6)?;
    let digits = escape.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::lone_surrogates;

    #[test]
    fn only_halves_without_a_partner_are_replaced() {
        for (line, repaired) in [
            (r#"{"a":"plain \n \u0041"}"#, None),
            (r#"{"a":"\ud83d\ude00"}"#, None),
            (r#"{"a":"\\ud83d"}"#, None),
            (r#"{"a":"x\ud83d"}"#, Some(r#"{"a":"x\ufffd"}"#)),
            (r#"{"a":"\ude00y"}"#, Some(r#"{"a":"\ufffdy"}"#)),
            (r#"{"a":"\ud83d\ud83d\ude00"}"#, Some(r#"{"a":"\ufffd\ud83d\ude00"}"#)),
            (r#"{"a":"\\\ud83d"}"#, Some(r#"{"a":"\\\ufffd"}"#)),
        ] {
            assert_eq!(lone_surrogates(line).as_deref(), repaired, "{line}");
        }
    }
}
