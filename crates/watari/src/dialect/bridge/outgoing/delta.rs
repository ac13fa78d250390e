//! Deltas of a block that wait for a client which does not read are joined into one.

use watari_sdk::BlockId;

use super::line::DeltaType;

/// The last line that was added, if it is a delta.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LastDelta {
    pub(super) block: BlockId,
    pub(super) delta_type: DeltaType,
    /// Where the line begins and ends.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// How such a line ends, behind its text.
const LINE_END: &[u8] = b"\"}\n";

/// Adds a text to the last line, if that is a delta of the same block which the client has not begun to take; `behind`
/// is where the client is, if it takes nothing at the moment.
pub(super) fn join(
    last: &mut Option<LastDelta>,
    (block, delta_type): (BlockId, DeltaType),
    text: &str,
    out: &mut Vec<u8>,
    behind: Option<usize>,
) -> bool {
    let Some(last) = last.as_mut().filter(|last| last.block == block && last.delta_type == delta_type) else {
        return false;
    };
    let is_last = last.end == out.len() && out.ends_with(LINE_END);
    if !is_last || behind.is_none_or(|client| client > last.start) {
        return false;
    }
    out.truncate(out.len() - LINE_END.len());
    let quote = out.len();
    // Writing to memory does not fail. The text comes in quotes, of which the first is in the way.
    let _written = serde_json::to_writer(&mut *out, text);
    out.remove(quote);
    out.extend_from_slice(b"}\n");
    last.end = out.len();
    true
}
