//! Deltas: nearly all of what is written. The beginning of a block's lines is made once; those that wait for a client
//! which does not read are joined into one.

use watari_sdk::BlockId;

use super::line::{self, BridgeMessage, DeltaType};
use super::text;

/// The deltas of one block, one after the other.
#[derive(Debug)]
pub(super) struct Deltas {
    block: BlockId,
    delta_type: DeltaType,
    /// How their lines begin, up to the text.
    head: Vec<u8>,
    /// Where the last line begins and ends, while it can be added to.
    last: Option<(usize, usize)>,
}

/// How such a line ends, behind its text.
const LINE_END: &[u8] = b"\"}\n";

impl Deltas {
    pub(super) fn of(block: BlockId, session_id: &str, index: u64, delta_type: DeltaType) -> Deltas {
        let mut head = Vec::new();
        line::write(&BridgeMessage::StreamContentDelta { session_id, index, delta_type, text: "" }, &mut head);
        head.truncate(head.len() - LINE_END.len());
        Deltas { block, delta_type, head, last: None }
    }

    pub(super) fn are_of(&self, block: BlockId, delta_type: DeltaType) -> bool {
        self.block == block && self.delta_type == delta_type
    }

    /// What was written is now elsewhere, or gone.
    pub(super) fn lines_moved(&mut self) {
        self.last = None;
    }

    /// Adds a text: to the last line, if nothing was written after it and the client has not begun to take it, else as
    /// a line of its own. `behind` is where the client is, if it takes nothing at the moment.
    pub(super) fn write(&mut self, text: &str, behind: Option<usize>, out: &mut Vec<u8>) {
        let open = self.last.filter(|(start, end)| *end == out.len() && behind.is_some_and(|client| client <= *start));
        let start = match open {
            Some((start, end)) => {
                out.truncate(end - LINE_END.len());
                start
            }
            None => {
                let start = out.len();
                out.extend_from_slice(&self.head);
                start
            }
        };
        text::write(text, out);
        out.extend_from_slice(LINE_END);
        self.last = Some((start, out.len()));
    }
}
