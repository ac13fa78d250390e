//! Encodes deltas, the hot path. The beginning of a block's lines is encoded once; deltas that wait for a slow client
//! are joined into one line.

use watari_sdk::BlockId;

use super::messages::{self, BridgeMessage, DeltaType};
use super::text;

/// The deltas of one block.
#[derive(Debug)]
pub(super) struct Deltas {
    block: BlockId,
    delta_type: DeltaType,
    /// The beginning of their lines, up to the text.
    head: Vec<u8>,
    /// The start and the end of the last line, while it can be extended.
    last: Option<(usize, usize)>,
}

/// The end of a line after its text.
const LINE_END: &[u8] = b"\"}\n";

impl Deltas {
    pub(super) fn of(block: BlockId, session_id: &str, index: u64, delta_type: DeltaType) -> Deltas {
        let mut head = Vec::new();
        messages::write(&BridgeMessage::StreamContentDelta { session_id, index, delta_type, text: "" }, &mut head);
        head.truncate(head.len() - LINE_END.len());
        Deltas { block, delta_type, head, last: None }
    }

    pub(super) fn are_of(&self, block: BlockId, delta_type: DeltaType) -> bool {
        self.block == block && self.delta_type == delta_type
    }

    /// The bytes of the outbox were moved or removed, so the last line cannot be extended.
    pub(super) fn lines_moved(&mut self) {
        self.last = None;
    }

    /// Appends a text: to the last line, if nothing follows it and the client has not begun to read it, otherwise as a
    /// separate line. `unwritten_offset` is the offset of the first unwritten byte, if the client is not reading at the
    /// moment.
    pub(super) fn write(&mut self, text: &str, unwritten_offset: Option<usize>, out: &mut Vec<u8>) {
        let open = self
            .last
            .filter(|(start, end)| *end == out.len() && unwritten_offset.is_some_and(|client| client <= *start));
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
