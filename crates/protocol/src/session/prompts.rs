//! The prompts of a session: the CLI holds one, the others wait here.
//!
//! Only one prompt is handed over at a time, because the CLI merges waiting messages into one prompt.

use std::collections::VecDeque;

use crate::command::PromptContent;
use crate::id::{Counter, EntryId, PromptId};

/// How many prompts may wait. One more is refused.
pub(super) const PROMPTS_WAITING_MAX: usize = 1024;

/// The maximum length of a prompt: well below 256 million characters, because the CLI exits on a longer line.
pub(super) const PROMPT_BYTES_MAX: usize = 200 * 1024 * 1024;

/// The maximum total length of the waiting prompts. A prompt that would exceed it is refused.
pub(super) const PROMPTS_WAITING_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The prompts that have no result yet.
#[derive(Debug)]
pub(super) struct Prompts {
    ids: Counter,
    /// Makes the ids that the CLI receives different from those of any other process.
    uuid_seed: u128,
    waiting: VecDeque<(PromptId, PromptContent)>,
    /// The prompt that the CLI holds: handed over, and without a result.
    in_flight: Option<PromptId>,
}

impl Prompts {
    pub(super) fn new(uuid_seed: u128, ids: Counter) -> Prompts {
        Prompts { ids, uuid_seed, waiting: VecDeque::new(), in_flight: None }
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = PromptId> {
        self.waiting.iter().map(|(id, _)| *id)
    }

    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting.iter().map(|(_, content)| content.bytes()).sum()
    }

    pub(super) fn in_flight(&self) -> Option<PromptId> {
        self.in_flight
    }

    pub(super) fn queue(&mut self, content: PromptContent) -> PromptId {
        let id = PromptId(self.ids.next());
        self.waiting.push_back((id, content));
        id
    }

    /// Returns the next prompt to hand over, if the CLI holds none.
    pub(super) fn hand_over(&mut self) -> Option<(PromptId, PromptContent)> {
        if self.in_flight.is_some() {
            return None;
        }
        let (id, content) = self.waiting.pop_front()?;
        self.in_flight = Some(id);
        Some((id, content))
    }

    /// Removes and returns the prompt in flight: it ended, was lost, cancelled or dropped.
    pub(super) fn take_in_flight(&mut self) -> Option<PromptId> {
        self.in_flight.take()
    }

    /// Removes the prompt that has waited longest.
    pub(super) fn drop_next(&mut self) -> Option<PromptId> {
        self.waiting.pop_front().map(|(id, _)| id)
    }

    /// Returns the id of a prompt for the CLI: a UUID whose last part is our number. It must be unique, because the CLI
    /// stores it in the conversation.
    pub(super) fn entry(&self, id: PromptId) -> EntryId {
        EntryId::generated(format!("{}{:012x}", prompt_entry_prefix(self.uuid_seed), id.0 & 0xffff_ffff_ffff))
    }
}

/// Returns the prefix of the entry ids of all prompts of one process. No other process has the same prefix.
pub fn prompt_entry_prefix(uuid_seed: u128) -> String {
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-",
        (uuid_seed >> 96) as u32,
        (uuid_seed >> 80) as u16,
        (uuid_seed >> 68) as u16 & 0xfff,
        (uuid_seed >> 56) as u16 & 0xfff,
    )
}
