//! The tool uses that a session was asked about. Some clients name an ask by its tool use, so a second ask about the same
//! tool use must be marked: it needs another name.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::id::ToolUseId;

/// How many tool uses are stored. After that, every ask counts as repeated, so that no name is used twice.
const TOOL_USES_MAX: usize = 65_536;

/// The tool uses that a host's session was asked about, over all its processes.
///
/// Only hashes are stored. If two ids have the same hash, a first ask is marked as repeated by mistake, which is
/// harmless. A repeated ask is never taken for a first one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AskedToolUses {
    hashes: BTreeSet<u64>,
}

impl AskedToolUses {
    /// Records that the session was asked about a tool use. Returns true if it was, or may have been, asked before.
    pub fn record(&mut self, tool_use: &ToolUseId) -> bool {
        if self.hashes.len() >= TOOL_USES_MAX {
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
    fn a_tool_use_is_new_once_and_none_is_new_when_no_more_can_be_stored() {
        let mut asked = AskedToolUses::default();
        let of = |number: usize| ToolUseId(format!("toolu_{number}"));
        assert!((0..TOOL_USES_MAX).all(|number| !asked.record(&of(number))));
        assert!(asked.record(&of(7)));
        assert!(asked.record(&of(TOOL_USES_MAX)));
        assert_eq!(asked.hashes.len(), TOOL_USES_MAX);
    }
}
