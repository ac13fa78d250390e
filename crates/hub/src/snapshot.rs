//! The current state of a session: what began and has not ended. A new client receives it. When a host was killed, the
//! next one closes it.

use std::collections::{BTreeMap, VecDeque};

use watari_sdk::native::NativeEvent;
use watari_sdk::{AskSummary, Event, TurnCause};

/// Something that begins and ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SnapshotItem {
    /// The CLI, once it is ready.
    Cli,
    /// The conversation, as the CLI last described it.
    Conversation,
    /// The background tasks, as last listed.
    Tasks,
    Prompt(u64),
    Turn,
    Message(String),
    Block(u64),
    Ask(u64),
}

impl SnapshotItem {
    /// The nesting depth.
    pub(crate) fn depth(&self) -> u8 {
        match self {
            SnapshotItem::Cli => 0,
            SnapshotItem::Conversation => 1,
            SnapshotItem::Tasks => 2,
            SnapshotItem::Prompt(_) => 3,
            SnapshotItem::Turn => 4,
            SnapshotItem::Message(_) => 5,
            SnapshotItem::Block(_) => 6,
            SnapshotItem::Ask(_) => 7,
        }
    }
}

/// What an event changes in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SnapshotChange {
    Begins(SnapshotItem),
    Ends(SnapshotItem),
    /// An ask was opened.
    OpensAsk(u64, AskSummary),
    /// A turn ended; with its prompt.
    EndsTurn(Option<u64>),
    /// The CLI exited, which ends everything that depends on it.
    EndsCli,
}

/// A stored event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoredEvent {
    pub(crate) seq: u64,
    /// The offset of its line and the length without the newline. None if unknown: the line must be searched for.
    pub(crate) span: Option<(u64, usize)>,
}

impl From<u64> for StoredEvent {
    fn from(seq: u64) -> StoredEvent {
        StoredEvent { seq, span: None }
    }
}

/// The open items, each with the event that began it.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    items: BTreeMap<SnapshotItem, StoredEvent>,
    asks: BTreeMap<u64, AskSummary>,
    /// Resolved asks, oldest first.
    resolved_asks: VecDeque<(u64, AskSummary)>,
}

/// How many resolved asks are remembered, for clients that answer late.
const RESOLVED_ASKS_MAX: usize = 64;

impl Snapshot {
    pub(crate) fn observe(&mut self, event: StoredEvent, change: SnapshotChange) {
        match change {
            SnapshotChange::Begins(item) => {
                self.items.insert(item, event);
            }
            SnapshotChange::Ends(item) => {
                self.items.remove(&item);
                if let SnapshotItem::Ask(ask) = item
                    && let Some(summary) = self.asks.remove(&ask)
                {
                    self.resolved_asks.push_back((ask, summary));
                    if self.resolved_asks.len() > RESOLVED_ASKS_MAX {
                        self.resolved_asks.pop_front();
                    }
                }
            }
            SnapshotChange::OpensAsk(ask, summary) => {
                self.items.insert(SnapshotItem::Ask(ask), event);
                self.asks.insert(ask, summary);
            }
            SnapshotChange::EndsTurn(prompt) => {
                self.items.remove(&SnapshotItem::Turn);
                prompt.map(|prompt| self.items.remove(&SnapshotItem::Prompt(prompt)));
            }
            // The conversation stays.
            SnapshotChange::EndsCli => {
                self.items.retain(|item, _| *item == SnapshotItem::Conversation);
                self.asks.clear();
            }
        }
    }

    /// The events that began the open items, in order.
    pub(crate) fn events(&self) -> VecDeque<StoredEvent> {
        let mut events: Vec<StoredEvent> = self.items.values().copied().collect();
        events.sort_unstable();
        events.into()
    }

    /// Forgets where the lines are in the file, because the log was restored.
    pub(crate) fn forget_spans(&mut self) {
        self.items.values_mut().for_each(|event| event.span = None);
    }

    /// The open asks.
    pub(crate) fn asks(&self) -> &BTreeMap<u64, AskSummary> {
        &self.asks
    }

    /// The events of open asks up to a sequence number.
    pub(crate) fn asks_up_to(&self, seq: u64) -> VecDeque<StoredEvent> {
        let asks = self.items.iter().filter(|(item, opened)| matches!(item, SnapshotItem::Ask(_)) && opened.seq <= seq);
        asks.map(|(_, opened)| *opened).collect()
    }

    /// The open asks, and the latest resolved ones.
    pub(crate) fn known_asks(&self) -> impl Iterator<Item = (u64, &AskSummary)> {
        let closed = self.resolved_asks.iter().map(|(ask, summary)| (*ask, summary));
        closed.chain(self.asks.iter().map(|(ask, summary)| (*ask, summary)))
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &SnapshotItem> {
        self.items.keys()
    }
}

/// Returns what an event changes.
pub(crate) fn snapshot_change(event: &Event) -> Option<SnapshotChange> {
    Some(match event {
        Event::Ready { .. } => SnapshotChange::Begins(SnapshotItem::Cli),
        Event::SessionOpened { .. } => SnapshotChange::Begins(SnapshotItem::Conversation),
        Event::TasksListed { .. } => SnapshotChange::Begins(SnapshotItem::Tasks),
        Event::PromptAccepted { prompt, .. } => SnapshotChange::Begins(SnapshotItem::Prompt(prompt.0)),
        Event::PromptDropped { prompt, .. } => SnapshotChange::Ends(SnapshotItem::Prompt(prompt.0)),
        Event::TurnStarted { .. } => SnapshotChange::Begins(SnapshotItem::Turn),
        Event::TurnFinished { cause: TurnCause::Prompt(prompt), .. } => SnapshotChange::EndsTurn(Some(prompt.0)),
        Event::TurnFinished { cause: TurnCause::Cli, .. } | Event::BecameIdle => SnapshotChange::EndsTurn(None),
        Event::MessageStarted { message, .. } => SnapshotChange::Begins(SnapshotItem::Message(message.0.clone())),
        Event::MessageFinished { message, .. } => SnapshotChange::Ends(SnapshotItem::Message(message.0.clone())),
        Event::BlockStarted { block, .. } => SnapshotChange::Begins(SnapshotItem::Block(block.0)),
        Event::BlockFinished { block, .. } | Event::BlockDiscarded { block } => {
            SnapshotChange::Ends(SnapshotItem::Block(block.0))
        }
        Event::AskOpened { ask, kind } => SnapshotChange::OpensAsk(ask.0, kind.summary()),
        Event::AskResolved { ask, .. } => SnapshotChange::Ends(SnapshotItem::Ask(ask.0)),
        Event::CliExited { .. } => SnapshotChange::EndsCli,
        Event::BlockDelta { .. }
        | Event::MessageRetracted { .. }
        | Event::ToolReturned { .. }
        | Event::ContextInjected { .. }
        | Event::ToolProgressed { .. }
        | Event::StatusChanged { .. }
        | Event::ApiRetryScheduled { .. }
        | Event::TaskChanged { .. }
        | Event::HookChanged { .. }
        | Event::PermissionDenied { .. }
        | Event::ThinkingCounted { .. }
        | Event::Compacted { .. }
        | Event::ConversationCleared { .. }
        | Event::TitleChanged { .. }
        | Event::CommandsListed { .. }
        | Event::PromptSuggested { .. }
        | Event::TranscriptWritten { .. }
        | Event::NoticeReported { .. }
        | Event::RequestSent { .. }
        | Event::RequestAnswered { .. }
        | Event::Unknown { .. }
        | Event::UnparsedLineSkipped { .. }
        | Event::CliStalled { .. }
        | Event::ResumedElsewhere { .. }
        | Event::CliRecovered { .. }
        | Event::EventsDropped { .. } => return None,
    })
}

/// Returns what a stored event changes. Events of the host change nothing, nor do those of a newer version.
pub(crate) fn stored_snapshot_change(event: &NativeEvent) -> Option<SnapshotChange> {
    match event {
        NativeEvent::Session(event) => snapshot_change(event),
        NativeEvent::Host(_) | NativeEvent::Foreign(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use watari_sdk::native::{self, EventLine, EventPlace};
    use watari_sdk::{
        AskId, AskResolution, AskTag, BlockId, DropReason, Grant, MessageId, Position, PromptId, RawJson, ToolUseId,
    };

    use super::*;

    fn summary() -> AskSummary {
        let (tool_use, tool) = (Some(ToolUseId("t".into())), Some("Bash".to_owned()));
        AskSummary { kind: AskTag::Permission, tool_use, repeated: true, tool }
    }

    /// Events of each kind that changes a snapshot, except those that need much setup.
    fn events() -> Vec<Event> {
        let message = || MessageId("m".into());
        vec![
            Event::TasksListed { tasks: RawJson::from("[]") },
            Event::TurnStarted { cause: TurnCause::Prompt(PromptId(4)) },
            Event::BecameIdle,
            Event::PromptDropped { prompt: PromptId(4), reason: DropReason::Lost },
            Event::MessageStarted { message: message(), model: "x".into() },
            Event::MessageFinished { message: message(), blocks: vec![BlockId(1)], stop_reason: None },
            Event::BlockStarted {
                block: BlockId(2),
                message: message(),
                index: 0,
                kind: watari_sdk::BlockKind::Text,
                content: RawJson::from("{}"),
            },
            Event::BlockDiscarded { block: BlockId(2) },
            Event::AskResolved {
                ask: AskId(5),
                summary: summary(),
                resolution: AskResolution::Allowed,
                by: None,
                grant: Grant::default(),
            },
            Event::CliExited { exit: Box::default() },
            Event::TitleChanged { title: "prompt".into() },
        ]
    }

    #[test]
    fn a_stored_event_changes_the_same_as_the_published_one() {
        let stored = |line: &str| stored_snapshot_change(&native::read(line.as_bytes()).unwrap().event);
        for event in events() {
            let change = snapshot_change(&event);
            let mut line = Vec::new();
            EventLine { place: EventPlace::At(Position { epoch: 1, seq: 7 }), event: event.into() }.write(&mut line);
            let line = String::from_utf8(line).unwrap();
            assert_eq!(stored(&line), change, "{line}");
        }
        let asked = r#"{"seq":"1:7","type":"ask_opened","ask":9,"kind":"permission","tool":"Bash","input":{},"tool_use":"t","repeated":true,"needs_person":false,"raw":{}}"#;
        assert_eq!(stored(asked), Some(SnapshotChange::OpensAsk(9, summary())));
        assert_eq!(stored(r#"{"seq":"1:7","type":"host_stopping","reason":""}"#), None);
        assert_eq!(stored(r#"{"seq":"1:7","type":"ask_opened","ask":9,"kind":"of_a_newer_version"}"#), None);
    }

    #[test]
    fn what_has_ended_is_not_in_the_snapshot() {
        let mut snapshot = Snapshot::default();
        let numbers = |snapshot: &Snapshot| snapshot.events().iter().map(|event| event.seq).collect::<Vec<_>>();
        for (seq, item) in [SnapshotItem::Conversation, SnapshotItem::Cli, SnapshotItem::Prompt(1), SnapshotItem::Turn]
            .into_iter()
            .enumerate()
        {
            snapshot.observe((seq as u64).into(), SnapshotChange::Begins(item));
        }
        snapshot.observe(4.into(), SnapshotChange::OpensAsk(9, summary()));
        snapshot.observe(7.into(), SnapshotChange::Begins(SnapshotItem::Prompt(2)));
        snapshot.observe(8.into(), SnapshotChange::EndsTurn(Some(1)));
        assert_eq!(numbers(&snapshot), [0, 1, 4, 7]);
        snapshot.observe(9.into(), SnapshotChange::EndsCli);
        assert_eq!(numbers(&snapshot), [0]);
    }
}
