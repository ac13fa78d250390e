//! The tool uses that a session was asked about: a second ask for one of them must not share the name of the first.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::id::ToolUseId;

/// How many tool uses are remembered. From then on every ask counts as a repeated one, so that no name is given twice.
const REMEMBERED_MAX: usize = 65_536;

/// The tool uses that a session was asked about, over all its processes.
///
/// Only hashes are stored. Two ids with the same hash make a first ask look like a repeated one, which costs that ask its
/// plain name and nothing else; the reverse mistake is impossible.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AskedToolUses {
    hashes: BTreeSet<u64>,
}

impl AskedToolUses {
    /// Records that the session was asked about a tool use. Returns true when it was, or may have been, asked before.
    pub fn record(&mut self, tool_use: &ToolUseId) -> bool {
        if self.hashes.len() >= REMEMBERED_MAX {
            return true;
        }
        let mut hasher = DefaultHasher::new();
        tool_use.0.hash(&mut hasher);
        !self.hashes.insert(hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_use_is_new_once_and_none_is_new_when_no_more_can_be_remembered() {
        let mut asked = AskedToolUses::default();
        let of = |number: usize| ToolUseId(format!("toolu_{number}"));
        assert!((0..REMEMBERED_MAX).all(|number| !asked.record(&of(number))));
        assert!(asked.record(&of(7)));
        assert!(asked.record(&of(REMEMBERED_MAX)));
        assert_eq!(asked.hashes.len(), REMEMBERED_MAX);
    }
}
