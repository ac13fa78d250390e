//! The questions that are open, by whom they can be answered, and until when.

use std::collections::VecDeque;
use std::time::Instant;

use crate::asked::AskedToolUses;
use crate::event::{Allowed, AskKind, AskResolution, Event};
use crate::id::{AskId, Counter};
use crate::json::RawJson;

/// How many asks may be open at once. The CLI opens one for each tool and each hook that runs at the same time;
/// more than this is a fault of the CLI, and the newest are refused.
const OPEN_ASKS_MAX: usize = 1024;

/// Of how many asks it is remembered who answered them, for those who come too late. The oldest is forgotten.
const ANSWERED_MAX: usize = 64;

/// The open asks of a session. Each leaves exactly once.
#[derive(Debug)]
pub(super) struct Asks {
    ids: Counter,
    /// The tool uses that the session was asked about, also by its earlier processes.
    tool_uses: AskedToolUses,
    open: Vec<OpenAsk>,
    answered: VecDeque<ResolvedAsk>,
}

/// An ask that somebody answered who has a name.
#[derive(Debug)]
pub(super) struct ResolvedAsk {
    pub(super) ask: AskId,
    pub(super) by: String,
    pub(super) resolution: AskResolution,
}

#[derive(Debug)]
pub(super) struct OpenAsk {
    pub(super) id: AskId,
    /// The CLI's own id, to answer it by.
    pub(super) request_id: String,
    pub(super) kind: AskKind,
    deadline: Option<Instant>,
}

impl OpenAsk {
    /// The event of its end, when no answer ended it.
    pub(super) fn resolved(&self, resolution: AskResolution) -> Event {
        self.answered(resolution, None, Allowed::default())
    }

    /// The event of its end by an answer.
    pub(super) fn answered(&self, resolution: AskResolution, by: Option<String>, allowed: Allowed) -> Event {
        Event::AskResolved { ask: self.id, summary: self.kind.summary(), resolution, by, allowed }
    }
}

impl Asks {
    pub(super) fn new(ids: Counter, tool_uses: AskedToolUses) -> Asks {
        Asks { ids, tool_uses, open: Vec::new(), answered: VecDeque::new() }
    }

    /// Remembers who answered an ask.
    pub(super) fn note_answer(&mut self, answered: ResolvedAsk) {
        if self.answered.len() >= ANSWERED_MAX {
            self.answered.pop_front();
        }
        self.answered.push_back(answered);
    }

    /// Who answered an ask, if that is still known.
    pub(super) fn answer_to(&self, ask: AskId) -> Option<&ResolvedAsk> {
        self.answered.iter().find(|answered| answered.ask == ask)
    }

    /// Opens an ask and returns the event that reports it; none when too many are open.
    pub(super) fn open(&mut self, request_id: &str, mut kind: AskKind, deadline: Option<Instant>) -> Option<Event> {
        if self.open.len() >= OPEN_ASKS_MAX {
            return None;
        }
        if let Some(permission) = kind.permission_mut() {
            let tool_uses = &mut self.tool_uses;
            permission.repeated = permission.tool_use.as_ref().is_some_and(|tool_use| tool_uses.record(tool_use));
        }
        let ask = AskId(self.ids.next());
        self.open.push(OpenAsk { id: ask, request_id: request_id.to_owned(), kind: kind.clone(), deadline });
        Some(Event::AskOpened { ask, kind })
    }

    pub(super) fn get(&self, id: AskId) -> Option<&OpenAsk> {
        self.open.iter().find(|ask| ask.id == id)
    }

    /// Whether an ask with this id of the CLI's is open.
    pub(super) fn is_asked(&self, request_id: &str) -> bool {
        self.open.iter().any(|ask| ask.request_id == request_id)
    }

    /// Takes an ask out by our id.
    pub(super) fn take(&mut self, id: AskId) -> Option<OpenAsk> {
        let place = self.open.iter().position(|ask| ask.id == id)?;
        Some(self.open.remove(place))
    }

    /// Takes an ask out by the CLI's id.
    pub(super) fn take_withdrawn(&mut self, request_id: &str) -> Option<OpenAsk> {
        let place = self.open.iter().position(|ask| ask.request_id == request_id)?;
        Some(self.open.remove(place))
    }

    /// Takes out the call of a tool that the CLI has cancelled, by the CLI's own number of it. A server that connects again
    /// counts anew, so the newest is meant.
    pub(super) fn take_cancelled_call(&mut self, cancelled: &RawJson) -> Option<OpenAsk> {
        let is_meant = |ask: &OpenAsk| matches!(&ask.kind, AskKind::ToolCall(asked) if asked.call == *cancelled);
        let place = self.open.iter().rposition(is_meant)?;
        Some(self.open.remove(place))
    }

    /// Takes out an ask whose time is over.
    pub(super) fn take_expired(&mut self, now: Instant) -> Option<OpenAsk> {
        let place = self.open.iter().position(|ask| ask.deadline.is_some_and(|deadline| deadline <= now))?;
        Some(self.open.remove(place))
    }

    /// Takes out any ask, the oldest first.
    pub(super) fn take_oldest(&mut self) -> Option<OpenAsk> {
        (!self.open.is_empty()).then(|| self.open.remove(0))
    }

    /// Whether the CLI waits for an answer.
    pub(super) fn is_any_open(&self) -> bool {
        !self.open.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.open.iter().filter_map(|ask| ask.deadline).min()
    }
}
