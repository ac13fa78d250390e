//! Escapes texts for JSON strings: the hot path of writing.

use std::io::Write;

/// How many bytes are examined in one step, so that the compiler can use vector instructions.
const STRIDE: usize = 32;

/// Appends a text without quotes, escaped as `serde_json` does, which examines every byte separately.
pub(super) fn write(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    while let Some(place) = first_to_escape(rest) {
        out.extend_from_slice(&rest[..place]);
        write_escape(rest[place], out);
        rest = &rest[place + 1..];
    }
    out.extend_from_slice(rest);
}

fn first_to_escape(bytes: &[u8]) -> Option<usize> {
    let mut strides = bytes.chunks(STRIDE).enumerate();
    let (number, found) = strides.find(|(_, stride)| stride.iter().fold(false, |any, byte| any | escapes(*byte)))?;
    found.iter().position(|byte| escapes(*byte)).map(|place| number * STRIDE + place)
}

fn escapes(byte: u8) -> bool {
    byte < b' ' || byte == b'"' || byte == b'\\'
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        b'\n' => b'n',
        b'\r' => b'r',
        b'\t' => b't',
        0x08 => b'b',
        0x0c => b'f',
        _ => {
            // Writing to memory does not fail.
            let _written = write!(out, "\\u{byte:04x}");
            return;
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_text_is_written_as_serde_writes_it(text in "[\\x00-\\x7f\u{80}-\u{10ffff}]{0,100}", plain in "[a-z]{0,70}") {
            for text in [text.clone(), plain.clone() + &text, text + &plain] {
                let mut out = b"\"".to_vec();
                write(&text, &mut out);
                out.push(b'"');
                prop_assert_eq!(String::from_utf8(out).unwrap(), serde_json::to_string(&text).unwrap());
            }
        }
    }
}
