//! The text of an open block so far, in pieces shared with subscriptions: what an attach copies does not grow with the
//! text.

use std::sync::Arc;

use watari_sdk::{BlockId, Delta, Event};

/// The maximum size of a piece.
const PIECE_BYTES: usize = 64 * 1024;

/// A part of the text of a block.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    /// How many characters of the block come before it.
    at: u64,
    delta: Delta,
}

impl Piece {
    /// The piece as a delta of its block.
    pub(crate) fn event(&self, block: u64) -> Event {
        Event::BlockDelta { block: BlockId(block), at: self.at, delta: self.delta.clone() }
    }
}

/// The text of a block so far.
#[derive(Debug)]
pub(super) struct OpenText {
    complete: Vec<Arc<Piece>>,
    /// The piece that is growing.
    last: Piece,
}

impl OpenText {
    pub(super) fn new(delta: &Delta) -> OpenText {
        let mut text = OpenText { complete: Vec::new(), last: Piece { at: 0, delta: empty_like(delta) } };
        text.push(delta.text());
        text
    }

    pub(super) fn push(&mut self, mut more: &str) {
        while text_of(&mut self.last.delta).len() + more.len() > PIECE_BYTES {
            let text = text_of(&mut self.last.delta);
            let fits = more.floor_char_boundary(PIECE_BYTES.saturating_sub(text.len()));
            text.push_str(&more[..fits]);
            more = &more[fits..];
            let next = Piece { at: self.last.at + text.chars().count() as u64, delta: empty_like(&self.last.delta) };
            self.complete.push(Arc::new(std::mem::replace(&mut self.last, next)));
        }
        text_of(&mut self.last.delta).push_str(more);
    }

    /// All pieces, of which only the last is copied.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Arc<Piece>> {
        let last = (!self.last.delta.text().is_empty()).then(|| Arc::new(self.last.clone()));
        self.complete.iter().cloned().chain(last)
    }
}

fn empty_like(delta: &Delta) -> Delta {
    match delta {
        Delta::Text(_) => Delta::Text(String::new()),
        Delta::Thinking(_) => Delta::Thinking(String::new()),
        Delta::Input(_) => Delta::Input(String::new()),
    }
}

fn text_of(delta: &mut Delta) -> &mut String {
    match delta {
        Delta::Text(text) | Delta::Thinking(text) | Delta::Input(text) => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_into_bounded_pieces_that_follow_each_other_to_the_character() {
        for more in [1, 7, 5_000, 70_000, 1_000_000] {
            let mut text = OpenText::new(&Delta::Thinking("渡".repeat(more)));
            (0..20).for_each(|_| text.push(&"りx".repeat(more / 3)));
            let whole = format!("{}{}", "渡".repeat(more), "りx".repeat(20 * (more / 3)));
            let mut found = String::new();
            for piece in text.pieces() {
                assert_eq!(piece.at, found.chars().count() as u64);
                assert!(piece.delta.text().len() <= PIECE_BYTES && matches!(piece.delta, Delta::Thinking(_)));
                found.push_str(piece.delta.text());
            }
            assert!(found == whole, "{more}");
        }
    }
}
