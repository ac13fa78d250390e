//! What of a session still holds: what was begun and has not ended. Whoever comes late is told that, and when a host was
//! killed, the next one ends it.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use serde_json::value::RawValue;
use watari_sdk::{AskAbout, Event, ToolUseId, TurnCause};

/// Something that begins and ends.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    /// The CLI, from when it is ready.
    Cli,
    /// The conversation, as the CLI last described it.
    Session,
    /// What runs in the background, as it was last listed.
    Tasks,
    Prompt(u64),
    Turn,
    Message(String),
    Block(u64),
    Ask(u64),
}

impl Item {
    /// How deep within others it is.
    pub(crate) fn depth(&self) -> u8 {
        match self {
            Item::Cli => 0,
            Item::Session => 1,
            Item::Tasks => 2,
            Item::Prompt(_) => 3,
            Item::Turn => 4,
            Item::Message(_) => 5,
            Item::Block(_) => 6,
            Item::Ask(_) => 7,
        }
    }
}

/// What an event does to what holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Begins(Item),
    Ends(Item),
    /// An ask, and what it is about.
    Asks(u64, AskAbout),
    /// A turn, and the prompt it was for.
    EndsTurn(Option<u64>),
    /// The CLI, and all that hung on it.
    EndsCli,
}

/// An event that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StoredEvent {
    pub(crate) number: u64,
    /// Where its line begins and how long it is without its line end, if that is known: to look for it may take long.
    pub(crate) place: Option<(u64, usize)>,
}

impl From<u64> for StoredEvent {
    fn from(number: u64) -> StoredEvent {
        StoredEvent { number, place: None }
    }
}

/// What holds, and which event began it.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    items: BTreeMap<Item, StoredEvent>,
    asks: BTreeMap<u64, AskAbout>,
    /// Asks that were closed, the oldest first.
    closed_asks: VecDeque<(u64, AskAbout)>,
}

/// How many closed asks are remembered, for those who answer them late.
const CLOSED_ASKS_MAX: usize = 64;

impl Standing {
    pub(crate) fn note(&mut self, event: StoredEvent, change: Change) {
        match change {
            Change::Begins(item) => {
                self.items.insert(item, event);
            }
            Change::Ends(item) => {
                self.items.remove(&item);
                if let Item::Ask(ask) = item
                    && let Some(about) = self.asks.remove(&ask)
                {
                    self.closed_asks.push_back((ask, about));
                    if self.closed_asks.len() > CLOSED_ASKS_MAX {
                        self.closed_asks.pop_front();
                    }
                }
            }
            Change::Asks(ask, about) => {
                self.items.insert(Item::Ask(ask), event);
                self.asks.insert(ask, about);
            }
            Change::EndsTurn(prompt) => {
                self.items.remove(&Item::Turn);
                prompt.map(|prompt| self.items.remove(&Item::Prompt(prompt)));
            }
            // What the conversation is, stays.
            Change::EndsCli => {
                self.items.retain(|item, _| *item == Item::Session);
                self.asks.clear();
            }
        }
    }

    /// The events that began it, in their order.
    pub(crate) fn events(&self) -> VecDeque<StoredEvent> {
        let mut events: Vec<StoredEvent> = self.items.values().copied().collect();
        events.sort_unstable();
        events.into()
    }

    /// The log was written again: where its lines are is no longer known.
    pub(crate) fn forget_places(&mut self) {
        self.items.values_mut().for_each(|event| event.place = None);
    }

    /// The asks that are open.
    pub(crate) fn asks(&self) -> &BTreeMap<u64, AskAbout> {
        &self.asks
    }

    /// The events of open asks up to a number.
    pub(crate) fn asks_up_to(&self, number: u64) -> VecDeque<StoredEvent> {
        let asks = self.items.iter().filter(|(item, opened)| matches!(item, Item::Ask(_)) && opened.number <= number);
        asks.map(|(_, opened)| *opened).collect()
    }

    /// The asks that are open, and those that were closed last.
    pub(crate) fn known_asks(&self) -> impl Iterator<Item = (u64, &AskAbout)> {
        let closed = self.closed_asks.iter().map(|(ask, about)| (*ask, about));
        closed.chain(self.asks.iter().map(|(ask, about)| (*ask, about)))
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        self.items.keys()
    }
}

/// What an event changes.
pub(crate) fn change_of(event: &Event) -> Option<Change> {
    Some(match event {
        Event::Ready { .. } => Change::Begins(Item::Cli),
        Event::SessionOpened { .. } => Change::Begins(Item::Session),
        Event::TasksListed { .. } => Change::Begins(Item::Tasks),
        Event::PromptAccepted { prompt, .. } => Change::Begins(Item::Prompt(prompt.0)),
        Event::PromptDropped { prompt, .. } => Change::Ends(Item::Prompt(prompt.0)),
        Event::TurnStarted { .. } => Change::Begins(Item::Turn),
        Event::TurnFinished { cause: TurnCause::Prompt(prompt), .. } => Change::EndsTurn(Some(prompt.0)),
        Event::TurnFinished { cause: TurnCause::Cli, .. } | Event::BecameIdle => Change::EndsTurn(None),
        Event::MessageStarted { message, .. } => Change::Begins(Item::Message(message.0.clone())),
        Event::MessageFinished { message, .. } => Change::Ends(Item::Message(message.0.clone())),
        Event::BlockStarted { block, .. } => Change::Begins(Item::Block(block.0)),
        Event::BlockFinished { block, .. } | Event::BlockDiscarded { block } => Change::Ends(Item::Block(block.0)),
        Event::AskOpened { ask, kind } => Change::Asks(ask.0, kind.about()),
        Event::AskClosed { ask, .. } => Change::Ends(Item::Ask(ask.0)),
        Event::Ended { .. } => Change::EndsCli,
        Event::BlockGrew { .. }
        | Event::MessageRetracted { .. }
        | Event::ToolReturned { .. }
        | Event::ModelTold { .. }
        | Event::ToolProgressed { .. }
        | Event::StatusChanged { .. }
        | Event::ApiRetried { .. }
        | Event::TaskChanged { .. }
        | Event::HookChanged { .. }
        | Event::PermissionRefused { .. }
        | Event::ThinkingCounted { .. }
        | Event::Compacted { .. }
        | Event::ConversationCleared { .. }
        | Event::TitleChanged { .. }
        | Event::CommandsListed { .. }
        | Event::PromptSuggested { .. }
        | Event::TranscriptWritten { .. }
        | Event::Noticed { .. }
        | Event::RequestSent { .. }
        | Event::RequestAnswered { .. }
        | Event::Unknown { .. }
        | Event::NoiseSkipped { .. }
        | Event::CliStalled { .. }
        | Event::ResumedElsewhere { .. }
        | Event::CliRecovered { .. }
        | Event::EventsDropped { .. } => return None,
    })
}

/// The same, of an event that was stored.
pub(crate) fn change_of_line(line: &[u8]) -> Option<Change> {
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
        prompt: Option<u64>,
        block: Option<u64>,
        ask: Option<u64>,
        message: Option<String>,
        #[serde(borrow)]
        kind: Option<&'a RawValue>,
        tool_use: Option<String>,
        repeated: Option<bool>,
        tool: Option<String>,
        cause: Option<Cause>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Cause {
        Prompt(u64),
        Cli,
    }
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    Some(match &*line.r#type {
        "ready" => Change::Begins(Item::Cli),
        "session_opened" => Change::Begins(Item::Session),
        "tasks_listed" => Change::Begins(Item::Tasks),
        "prompt_accepted" => Change::Begins(Item::Prompt(line.prompt?)),
        "prompt_dropped" => Change::Ends(Item::Prompt(line.prompt?)),
        "turn_started" => Change::Begins(Item::Turn),
        "turn_finished" => Change::EndsTurn(match line.cause? {
            Cause::Prompt(prompt) => Some(prompt),
            Cause::Cli => None,
        }),
        "became_idle" => Change::EndsTurn(None),
        "message_started" => Change::Begins(Item::Message(line.message?)),
        "message_finished" => Change::Ends(Item::Message(line.message?)),
        "block_started" => Change::Begins(Item::Block(line.block?)),
        "block_finished" | "block_discarded" => Change::Ends(Item::Block(line.block?)),
        "ask_opened" => {
            let kind = serde_json::from_str(line.kind?.get()).ok()?;
            let (tool_use, repeated) = (line.tool_use.map(ToolUseId), line.repeated.unwrap_or(false));
            Change::Asks(line.ask?, AskAbout { kind, tool_use, repeated, tool: line.tool })
        }
        "ask_closed" => Change::Ends(Item::Ask(line.ask?)),
        "ended" => Change::EndsCli,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use watari_sdk::{Allowed, AskEnding, AskId, AskWord, BlockId, DropReason, Exit, MessageId, PromptId, Raw};

    use super::*;

    fn about() -> AskAbout {
        let (tool_use, tool) = (Some(ToolUseId("t".into())), Some("Bash".to_owned()));
        AskAbout { kind: AskWord::Permission, tool_use, repeated: true, tool }
    }

    /// Events of each kind that changes what holds, but for those that need half a session to be made.
    fn events() -> Vec<Event> {
        let message = || MessageId("m".into());
        vec![
            Event::TasksListed { tasks: Raw::from("[]") },
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
                content: Raw::from("{}"),
            },
            Event::BlockDiscarded { block: BlockId(2) },
            Event::AskClosed {
                ask: AskId(5),
                about: about(),
                ending: AskEnding::Allowed,
                by: None,
                allowed: Allowed::default(),
            },
            Event::Ended { exit: Exit::default() },
            Event::TitleChanged { title: "prompt".into() },
        ]
    }

    #[test]
    fn an_event_that_was_stored_changes_the_same_as_when_it_was_told() {
        for event in events() {
            let line = serde_json::to_string(&event).unwrap();
            assert_eq!(change_of_line(line.as_bytes()), change_of(&event), "{line}");
        }
        let finished = br#"{"seq":"1:7","type":"turn_finished","cause":{"prompt":4},"outcome":{}}"#;
        assert_eq!(change_of_line(finished), Some(Change::EndsTurn(Some(4))));
        let asked = br#"{"seq":"1:7","type":"ask_opened","ask":9,"kind":"permission","tool":"Bash","tool_use":"t","repeated":true}"#;
        assert_eq!(change_of_line(asked), Some(Change::Asks(9, about())));
        let finished = br#"{"seq":"1:7","type":"turn_finished","cause":"cli","outcome":{}}"#;
        assert_eq!(change_of_line(finished), Some(Change::EndsTurn(None)));
    }

    #[test]
    fn what_has_ended_does_not_hold() {
        let mut standing = Standing::default();
        let numbers = |standing: &Standing| standing.events().iter().map(|event| event.number).collect::<Vec<_>>();
        for (number, item) in [Item::Session, Item::Cli, Item::Prompt(1), Item::Turn].into_iter().enumerate() {
            standing.note((number as u64).into(), Change::Begins(item));
        }
        standing.note(4.into(), Change::Asks(9, about()));
        standing.note(7.into(), Change::Begins(Item::Prompt(2)));
        standing.note(8.into(), Change::EndsTurn(Some(1)));
        assert_eq!(numbers(&standing), [0, 1, 4, 7]);
        standing.note(9.into(), Change::EndsCli);
        assert_eq!(numbers(&standing), [0]);
    }
}
