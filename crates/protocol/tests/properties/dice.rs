//! Randomness as an argument: bytes that are read as choices.

/// The bytes of one step. When none are left, every choice is the first one.
pub(super) struct Dice<'a>(pub(super) &'a [u8]);

impl Dice<'_> {
    /// A number below `sides`.
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        u64::from(*byte) % sides
    }

    /// A number from 1 to `count + 1`, so that nearly all of them exist.
    pub(super) fn one_of(&mut self, count: u64) -> u64 {
        1 + self.roll(count + 1)
    }

    pub(super) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.roll(choices.len() as u64) as usize]
    }

    pub(super) fn is_heads(&mut self) -> bool {
        self.roll(2) == 1
    }
}

/// Texts that have caused errors before.
pub(super) const TEXTS: &[&str] = &["a", "", "ñ😀", "two\nlines\r", "\u{2028}\0", "a \"quoted\" \\", "\":"];

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
