//! The asks of a client, by their names in the dialect.

use std::collections::{BTreeMap, VecDeque};

use watari_sdk::{Answer, AskId, AskSummary, AskTag, RawJson};

/// The asks that were sent to a client.
#[derive(Debug, Default, Clone)]
pub(super) struct Asks {
    named: BTreeMap<String, OpenAsk>,
    /// The names of the resolved asks, oldest first.
    closed: VecDeque<String>,
}

/// An ask, by the kind of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenAsk {
    /// A permission request for a tool.
    Tool(AskId),
    /// A form.
    Form(AskId),
}

impl OpenAsk {
    pub(super) fn id(self) -> AskId {
        let (OpenAsk::Tool(ask) | OpenAsk::Form(ask)) = self;
        ask
    }

    pub(super) fn approve(self, input: Option<RawJson>) -> Answer {
        match self {
            OpenAsk::Tool(_) => Answer::Allow { input, permissions: None },
            OpenAsk::Form(_) => Answer::Submit(input.unwrap_or_else(|| RawJson::from("{}"))),
        }
    }

    pub(super) fn deny(self, reason: String) -> Answer {
        match self {
            OpenAsk::Tool(_) => Answer::deny(reason),
            OpenAsk::Form(_) => Answer::Decline,
        }
    }
}

/// How many resolved asks are remembered.
const CLOSED_MAX: usize = 64;

/// The prefixes of names that contain the number of an ask.
const ASK: &str = "ask_";
const FORM: &str = "form_";

/// The name and kind of an ask in this dialect; none if this dialect does not show it.
///
/// A name is unique and stable in the whole session, for every client and whenever it connects: it depends only on the
/// event. The id of a tool use names only the first ask about it, and only if it does not look like a name with a
/// number. Every other ask is named by its number.
pub(super) fn named(ask: AskId, kind: AskTag, tool_use: Option<&str>, repeated: bool) -> Option<(String, OpenAsk)> {
    match kind {
        AskTag::Permission | AskTag::Question | AskTag::Plan => {
            let is_free = |id: &&str| !repeated && !id.is_empty() && !id.starts_with(ASK) && !id.starts_with(FORM);
            let name = tool_use.filter(is_free).map_or_else(|| format!("{ASK}{ask}"), str::to_owned);
            Some((name, OpenAsk::Tool(ask)))
        }
        AskTag::Form => Some((format!("{FORM}{ask}"), OpenAsk::Form(ask))),
        AskTag::Hook | AskTag::ToolCall => None,
    }
}

impl Asks {
    /// Adds asks that were opened before the client's position.
    pub(super) fn add_open(&mut self, open: &[(AskId, AskSummary)]) {
        for (ask, about) in open {
            let tool_use = about.tool_use.as_ref().map(|id| id.0.as_str());
            self.named.extend(named(*ask, about.kind, tool_use, about.repeated));
        }
    }

    /// The ask with this `request_id`.
    pub(super) fn of(&self, request_id: &str) -> Option<OpenAsk> {
        self.named.get(request_id).copied()
    }

    pub(super) fn open(&mut self, request_id: String, ask: OpenAsk) {
        self.named.insert(request_id, ask);
    }

    /// Marks an ask as resolved. It is remembered for a while, so that the session can reply to a late answer with the
    /// name of the client that was faster.
    pub(super) fn close(&mut self, request_id: String, ask: OpenAsk) {
        self.named.entry(request_id.clone()).or_insert(ask);
        self.closed.push_back(request_id);
        if self.closed.len() > CLOSED_MAX {
            self.closed.pop_front().map(|oldest| self.named.remove(&oldest));
        }
    }
}
