//! Ends what a killed host has begun.

use watari_sdk::{AskId, Event};

use super::Publisher;
use crate::standing::{Item, Standing};
use crate::told::HostEvent;

impl Publisher {
    /// Ends what an earlier host was killed in the middle of.
    pub(crate) fn end_what_was_left_open(&mut self) {
        if let Some(message) = self.kept.damage.take() {
            tracing::error!("{message}");
            self.publish(HostEvent::LogRestored { message });
        }
        let left_open = std::mem::take(&mut self.kept.left_open);
        // The innermost first, and of one kind the oldest first: messages end in the order in which they came.
        let mut items: Vec<&Item> = left_open.items().collect();
        items.sort_by_key(|item| std::cmp::Reverse(item.depth()));
        for event in items.into_iter().filter_map(|item| ending_of(item, &left_open)) {
            self.publish(event);
        }
    }
}

/// The event that ends what a killed host has begun.
fn ending_of(item: &Item, left_open: &Standing) -> Option<Event> {
    use watari_sdk::{Allowed, AskEnding, BlockId, DropReason, Exit, ExitReason, MessageId, PromptId};
    Some(match item {
        Item::Block(block) => Event::BlockDiscarded { block: BlockId(*block) },
        Item::Message(message) => {
            Event::MessageFinished { message: MessageId(message.clone()), blocks: Vec::new(), stop_reason: None }
        }
        Item::Ask(ask) => {
            let about = left_open.asks().get(ask)?.clone();
            let (ask, ending, allowed) = (AskId(*ask), AskEnding::SessionEnded, Allowed::default());
            Event::AskClosed { ask, about, ending, by: None, allowed }
        }
        Item::Prompt(prompt) => Event::PromptDropped { prompt: PromptId(*prompt), reason: DropReason::SessionEnded },
        Item::Cli => Event::Ended { exit: Exit { reason: ExitReason::OwnerKilled, ..Exit::default() } },
        Item::Session | Item::Tasks | Item::Turn => return None,
    })
}
