//! The asks of a client, by their names in the dialect.

use std::collections::{BTreeMap, VecDeque};

use serde_json::value::RawValue;
use watari_sdk::{Answer, AskId, AskSummary, AskTag, RawJson};

use crate::dialect::native::ParsedEvent;

/// The asks that were sent to a client: all open ones, and the last resolved ones.
#[derive(Debug, Default, Clone)]
pub(super) struct Asks {
    by_name: BTreeMap<String, AskRef>,
    /// The names of the resolved asks, oldest first.
    closed: VecDeque<String>,
}

/// A reference to an open or resolved ask, by the kind of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AskRef {
    /// A permission request for a tool.
    Tool(AskId),
    /// A form.
    Form(AskId),
}

impl AskRef {
    pub(super) fn id(self) -> AskId {
        let (AskRef::Tool(ask) | AskRef::Form(ask)) = self;
        ask
    }

    pub(super) fn approve(self, input: Option<RawJson>) -> Answer {
        match self {
            AskRef::Tool(_) => Answer::Allow { input, permissions: None },
            AskRef::Form(_) => Answer::Accept(input.unwrap_or_else(|| RawJson::from("{}"))),
        }
    }

    pub(super) fn deny(self, reason: String) -> Answer {
        match self {
            AskRef::Tool(_) => Answer::deny(reason),
            AskRef::Form(_) => Answer::Decline,
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
/// An ask has the same name for every client, whenever the client connects, because the name depends only on the event.
/// No two asks of a session have the same name. The first ask about a tool use has the tool use's id as its name, unless
/// that id begins with `ask_` or `form_`. Every other ask is `ask_N` or `form_N`, where N is the number of the ask.
pub(super) fn dialect_name(
    ask: AskId,
    kind: AskTag,
    tool_use: Option<&str>,
    repeated: bool,
) -> Option<(String, AskRef)> {
    match kind {
        AskTag::Permission | AskTag::Question | AskTag::Plan => {
            let is_free = |id: &&str| !repeated && !id.is_empty() && !id.starts_with(ASK) && !id.starts_with(FORM);
            let name = tool_use.filter(is_free).map_or_else(|| format!("{ASK}{ask}"), str::to_owned);
            Some((name, AskRef::Tool(ask)))
        }
        AskTag::Elicitation => Some((format!("{FORM}{ask}"), AskRef::Form(ask))),
        AskTag::Hook | AskTag::ToolCall => None,
    }
}

impl Asks {
    /// Adds asks that were opened before the client's position.
    pub(super) fn add_open(&mut self, open: &[(AskId, AskSummary)]) {
        for (ask, about) in open {
            let tool_use = about.tool_use.as_ref().map(|id| id.0.as_str());
            self.by_name.extend(dialect_name(*ask, about.kind, tool_use, about.repeated));
        }
    }

    /// The ask with this `request_id`.
    pub(super) fn of(&self, request_id: &str) -> Option<AskRef> {
        self.by_name.get(request_id).copied()
    }

    pub(super) fn open(&mut self, request_id: String, ask: AskRef) {
        self.by_name.insert(request_id, ask);
    }

    /// Marks an ask as resolved. It is remembered for a while, so that a client that answers too late learns which
    /// client answered first.
    pub(super) fn close(&mut self, request_id: String, ask: AskRef) {
        self.by_name.entry(request_id.clone()).or_insert(ask);
        self.closed.push_back(request_id);
        if self.closed.len() > CLOSED_MAX {
            self.closed.pop_front().map(|oldest| self.by_name.remove(&oldest));
        }
    }
}

/// The form of an MCP server, as the input of an approval request.
pub(super) fn form_of(line: &ParsedEvent<'_>) -> RawJson {
    #[derive(serde::Serialize)]
    struct Form<'a> {
        message: Option<&'a str>,
        schema: Option<&'a RawValue>,
        server: Option<&'a str>,
        /// What the user is asked to open: nobody approves what was not shown.
        #[serde(skip_serializing_if = "Option::is_none")]
        url: Option<&'a str>,
    }
    // Written unchanged: not every schema of a server can be held as a Rust value.
    RawJson::of(&Form {
        message: line.message.as_deref(),
        schema: line.schema,
        server: line.server.as_deref(),
        url: line.url.as_deref(),
    })
}
