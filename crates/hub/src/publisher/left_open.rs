//! Closes what a killed host left open.

use watari_sdk::{AskId, Event, HostEvent};

use super::Publisher;
use crate::snapshot::{Snapshot, SnapshotItem};

impl Publisher {
    /// Publishes the events that close what a killed host left open: blocks, messages, asks, prompts, the CLI. Before
    /// them, reports damage of the record or the log, if there is any.
    pub(crate) fn close_left_open(&mut self) {
        if let Some(message) = self.files.damage.take() {
            tracing::error!("{message}");
            self.publish(HostEvent::LogRestored { message });
        }
        let left_open = std::mem::take(&mut self.files.left_open);
        // Innermost first, and of one kind oldest first: messages end in the order in which they began.
        let mut items: Vec<&SnapshotItem> = left_open.items().collect();
        items.sort_by_key(|item| std::cmp::Reverse(item.depth()));
        for event in items.into_iter().filter_map(|item| ending_of(item, &left_open)) {
            self.publish(event);
        }
    }
}

/// The event that ends an item.
fn ending_of(item: &SnapshotItem, left_open: &Snapshot) -> Option<Event> {
    use watari_sdk::{AskResolution, BlockId, DropReason, Exit, ExitReason, Grant, MessageId, PromptId};
    Some(match item {
        SnapshotItem::Block(block) => Event::BlockDiscarded { block: BlockId(*block) },
        SnapshotItem::Message(message) => {
            Event::MessageFinished { message: MessageId(message.clone()), blocks: Vec::new(), stop_reason: None }
        }
        SnapshotItem::Ask(ask) => {
            let summary = left_open.asks().get(ask)?.clone();
            let (ask, resolution, grant) = (AskId(*ask), AskResolution::CliExited, Grant::default());
            Event::AskResolved { ask, summary, resolution, by: None, grant }
        }
        SnapshotItem::Prompt(prompt) => {
            Event::PromptDropped { prompt: PromptId(*prompt), reason: DropReason::CliExited }
        }
        SnapshotItem::Cli => {
            Event::CliExited { exit: Box::new(Exit { reason: ExitReason::OwnerKilled, ..Exit::default() }) }
        }
        SnapshotItem::Conversation | SnapshotItem::Tasks | SnapshotItem::Turn => return None,
    })
}
