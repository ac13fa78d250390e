//! The last bytes of the CLI's stderr.

/// How many bytes are stored. The CLI can write megabytes; the reason for an exit is at the end.
const KEPT_BYTES: usize = 8 * 1024;

/// The last bytes of everything that was pushed.
#[derive(Debug, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
        if self.0.len() > 2 * KEPT_BYTES {
            self.0.drain(..self.0.len() - KEPT_BYTES);
        }
    }

    /// Returns the stored bytes as text that a terminal can show: control characters other than line ends are escaped.
    pub(crate) fn text(&self) -> String {
        let start = self.0.len().saturating_sub(KEPT_BYTES);
        let text = String::from_utf8_lossy(&self.0[start..]);
        let visible = |character: char| match character {
            '\n' | '\t' => vec![character],
            '\r' => Vec::new(),
            control if control.is_control() => control.escape_default().collect(),
            other => vec![other],
        };
        text.trim().chars().flat_map(visible).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_end_is_kept_and_escapes_are_shown() {
        let mut tail = Tail::default();
        for _ in 0..10_000 {
            tail.push(b"0123456789\n");
        }
        tail.push(b"the \x1b[31mreason\n");
        let text = tail.text();
        assert!(text.len() <= KEPT_BYTES + 10, "{}", text.len());
        assert!(text.ends_with("the \\u{1b}[31mreason"), "{text}");
    }
}
