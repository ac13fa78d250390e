//! The prompts of a session: one is with the CLI, the others wait here.
//!
//! Only one is handed over at a time, because the CLI joins messages that wait with it into one prompt.

use std::collections::VecDeque;

use crate::command::PromptContent;
use crate::id::{Counter, EntryId, PromptId};

/// How many prompts may wait. One more is refused.
pub(super) const PROMPTS_WAITING_MAX: usize = 1024;

/// How long a prompt may be. The CLI ends itself on a line of more than 256 million characters.
pub(super) const PROMPT_BYTES_MAX: usize = 200 * 1024 * 1024;

/// How long all prompts that wait may be. One that would make them longer is refused.
pub(super) const PROMPTS_WAITING_BYTES_MAX: usize = 256 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct Prompts {
    ids: Counter,
    /// What makes the ids we give to the CLI unlike those of any other session.
    uuid_seed: u128,
    waiting: VecDeque<(PromptId, PromptContent)>,
    with_cli: Option<PromptId>,
}

impl Prompts {
    pub(super) fn new(uuid_seed: u128, ids: Counter) -> Prompts {
        Prompts { ids, uuid_seed, waiting: VecDeque::new(), with_cli: None }
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = PromptId> {
        self.waiting.iter().map(|(id, _)| *id)
    }

    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting.iter().map(|(_, content)| content.bytes()).sum()
    }

    pub(super) fn with_cli(&self) -> Option<PromptId> {
        self.with_cli
    }

    pub(super) fn queue(&mut self, content: PromptContent) -> PromptId {
        let id = PromptId(self.ids.next());
        self.waiting.push_back((id, content));
        id
    }

    /// The next prompt to hand over, if the CLI has none.
    pub(super) fn hand_over(&mut self) -> Option<(PromptId, PromptContent)> {
        if self.with_cli.is_some() {
            return None;
        }
        let (id, content) = self.waiting.pop_front()?;
        self.with_cli = Some(id);
        Some((id, content))
    }

    /// The prompt that the CLI has is done.
    pub(super) fn finish(&mut self) -> Option<PromptId> {
        self.with_cli.take()
    }

    /// Takes out the prompt that waits longest.
    pub(super) fn drop_next(&mut self) -> Option<PromptId> {
        self.waiting.pop_front().map(|(id, _)| id)
    }

    /// The id that the CLI knows a prompt by: a UUID whose last part is our number. It must be unlike
    /// every other, because the CLI stores it in the conversation.
    pub(super) fn entry(&self, id: PromptId) -> EntryId {
        EntryId::made(format!("{}{:012x}", prompt_entry_prefix(self.uuid_seed), id.0 & 0xffff_ffff_ffff))
    }
}

/// What the entry id of every prompt of one process begins with, and that of no other process.
pub fn prompt_entry_prefix(uuid_seed: u128) -> String {
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-",
        (uuid_seed >> 96) as u32,
        (uuid_seed >> 80) as u16,
        (uuid_seed >> 68) as u16 & 0xfff,
        (uuid_seed >> 56) as u16 & 0xfff,
    )
}
