//! What a client was asked, by the names it knows.

use std::collections::{BTreeMap, VecDeque};

use watari_sdk::{Answer, AskId, AskSummary, AskTag, RawJson};

/// The requests of a client.
#[derive(Debug, Default, Clone)]
pub(super) struct Asks {
    named: BTreeMap<String, OpenAsk>,
    /// Those of them that are closed, the oldest first.
    closed: VecDeque<String>,
}

/// Something that the client was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenAsk {
    /// May a tool be used?
    Tool(AskId),
    /// A form.
    Form(AskId),
}

impl OpenAsk {
    pub(super) fn id(self) -> AskId {
        let (OpenAsk::Tool(ask) | OpenAsk::Form(ask)) = self;
        ask
    }

    pub(super) fn yes(self, input: Option<RawJson>) -> Answer {
        match self {
            OpenAsk::Tool(_) => Answer::Allow { input, permissions: None },
            OpenAsk::Form(_) => Answer::Submit(input.unwrap_or_else(|| RawJson::from("{}"))),
        }
    }

    pub(super) fn no(self, reason: String) -> Answer {
        match self {
            OpenAsk::Tool(_) => Answer::deny(reason),
            OpenAsk::Form(_) => Answer::Decline,
        }
    }
}

/// How many requests that are closed are remembered.
const CLOSED_MAX: usize = 64;

/// How the names begin that are made of the number of an ask.
const ASK: &str = "ask_";
const FORM: &str = "form_";

/// The name that clients know an ask by, and what it is for them; none if this dialect does not show it.
///
/// A name stands for one ask in the whole session, for every client and whenever it connects: it is made of nothing but
/// what the event itself says. The id of a tool use names only the first ask about it, and only if it does not look like
/// a name that is made of a number. Every other ask is named by its number.
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
    /// Asks that were opened before what the client is told.
    pub(super) fn know(&mut self, open: &[(AskId, AskSummary)]) {
        for (ask, about) in open {
            let tool_use = about.tool_use.as_ref().map(|id| id.0.as_str());
            self.named.extend(named(*ask, about.kind, tool_use, about.repeated));
        }
    }

    /// What a client means by a `request_id`.
    pub(super) fn of(&self, request_id: &str) -> Option<OpenAsk> {
        self.named.get(request_id).copied()
    }

    pub(super) fn open(&mut self, request_id: String, ask: OpenAsk) {
        self.named.insert(request_id, ask);
    }

    /// It is remembered for a while: the session tells whoever answers too late who was faster.
    pub(super) fn close(&mut self, request_id: String, ask: OpenAsk) {
        self.named.entry(request_id.clone()).or_insert(ask);
        self.closed.push_back(request_id);
        if self.closed.len() > CLOSED_MAX {
            self.closed.pop_front().map(|oldest| self.named.remove(&oldest));
        }
    }
}
