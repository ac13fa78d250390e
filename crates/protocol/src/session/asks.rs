//! The open asks of a session and their deadlines.

use std::collections::VecDeque;
use std::time::Instant;

use crate::asked::AskedToolUses;
use crate::event::{AskKind, AskResolution, Event, Grant};
use crate::id::{AskId, Counter};
use crate::json::RawJson;

/// How many asks may be open at the same time. The CLI opens one for each tool and each hook that runs at the same
/// time; more than this is a fault of the CLI, and further asks are denied.
const OPEN_ASKS_MAX: usize = 1024;

/// How many answered asks are remembered, so that a client that answers too late learns who answered first. The oldest
/// is forgotten.
const ANSWERED_MAX: usize = 64;

/// The open asks of a session. Each is taken out exactly once.
#[derive(Debug)]
pub(super) struct Asks {
    ids: Counter,
    /// The tool uses that the session was asked about, including those of its earlier processes.
    tool_uses: AskedToolUses,
    open: Vec<OpenAsk>,
    answered: VecDeque<AnsweredAsk>,
}

/// An ask that a named client answered.
#[derive(Debug)]
pub(super) struct AnsweredAsk {
    pub(super) ask: AskId,
    pub(super) by: String,
    pub(super) resolution: AskResolution,
}

#[derive(Debug)]
pub(super) struct OpenAsk {
    pub(super) id: AskId,
    /// The CLI's id of the ask, for the answer.
    pub(super) cli_request_id: String,
    pub(super) kind: AskKind,
    deadline: Option<Instant>,
}

impl OpenAsk {
    /// Returns the event for an ask that was resolved without an answer.
    pub(super) fn resolved_event(&self, resolution: AskResolution) -> Event {
        self.answered_event(resolution, None, Grant::default())
    }

    /// Returns the event for an ask that was resolved by an answer.
    pub(super) fn answered_event(&self, resolution: AskResolution, by: Option<String>, grant: Grant) -> Event {
        Event::AskResolved { ask: self.id, summary: self.kind.summary(), resolution, by, grant }
    }
}

impl Asks {
    pub(super) fn new(ids: Counter, tool_uses: AskedToolUses) -> Asks {
        Asks { ids, tool_uses, open: Vec::new(), answered: VecDeque::new() }
    }

    /// Stores who answered an ask.
    pub(super) fn record_answer(&mut self, answered: AnsweredAsk) {
        if self.answered.len() >= ANSWERED_MAX {
            self.answered.pop_front();
        }
        self.answered.push_back(answered);
    }

    /// Returns who answered an ask, if that is still stored.
    pub(super) fn answer_to(&self, ask: AskId) -> Option<&AnsweredAsk> {
        self.answered.iter().find(|answered| answered.ask == ask)
    }

    /// Opens an ask and returns its event; none when too many asks are open.
    pub(super) fn open(&mut self, cli_request_id: &str, mut kind: AskKind, deadline: Option<Instant>) -> Option<Event> {
        if self.open.len() >= OPEN_ASKS_MAX {
            return None;
        }
        if let Some(permission) = kind.permission_mut() {
            let tool_uses = &mut self.tool_uses;
            permission.repeated = permission.tool_use.as_ref().is_some_and(|tool_use| tool_uses.record(tool_use));
        }
        let ask = AskId(self.ids.next());
        self.open.push(OpenAsk { id: ask, cli_request_id: cli_request_id.to_owned(), kind: kind.clone(), deadline });
        Some(Event::AskOpened { ask, kind })
    }

    pub(super) fn get(&self, id: AskId) -> Option<&OpenAsk> {
        self.open.iter().find(|ask| ask.id == id)
    }

    /// Returns whether an ask with this id of the CLI is open.
    pub(super) fn is_open(&self, cli_request_id: &str) -> bool {
        self.open.iter().any(|ask| ask.cli_request_id == cli_request_id)
    }

    /// Removes and returns an ask by our id.
    pub(super) fn take(&mut self, id: AskId) -> Option<OpenAsk> {
        let index = self.open.iter().position(|ask| ask.id == id)?;
        Some(self.open.remove(index))
    }

    /// Removes and returns an ask by the CLI's id.
    pub(super) fn take_by_cli_id(&mut self, cli_request_id: &str) -> Option<OpenAsk> {
        let index = self.open.iter().position(|ask| ask.cli_request_id == cli_request_id)?;
        Some(self.open.remove(index))
    }

    /// Removes and returns the tool call that the CLI cancelled, by the CLI's id of the call. A server that reconnects
    /// counts from the start again, so the newest call with the id is the cancelled one.
    pub(super) fn take_cancelled_call(&mut self, cancelled: &RawJson) -> Option<OpenAsk> {
        let is_cancelled = |ask: &OpenAsk| matches!(&ask.kind, AskKind::ToolCall(asked) if asked.call == *cancelled);
        let index = self.open.iter().rposition(is_cancelled)?;
        Some(self.open.remove(index))
    }

    /// Removes and returns an ask whose deadline has passed.
    pub(super) fn take_expired(&mut self, now: Instant) -> Option<OpenAsk> {
        let index = self.open.iter().position(|ask| ask.deadline.is_some_and(|deadline| deadline <= now))?;
        Some(self.open.remove(index))
    }

    /// Removes and returns the oldest ask.
    pub(super) fn take_oldest(&mut self) -> Option<OpenAsk> {
        (!self.open.is_empty()).then(|| self.open.remove(0))
    }

    /// Returns whether the CLI waits for an answer.
    pub(super) fn is_any_open(&self) -> bool {
        !self.open.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.open.iter().filter_map(|ask| ask.deadline).min()
    }
}
