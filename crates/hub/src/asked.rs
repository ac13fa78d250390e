//! The asks of a session: which tool uses they were about, and what became of each, for the host's log.

use std::borrow::Cow;

use serde::Deserialize;
use watari_sdk::{AskSummary, AskTag, AskedToolUses, Event, RawJson, ToolUseId};

use crate::log::{Log, ReadError};
use crate::position::Position;

/// How much of a tool's name is logged.
const TOOL_SHOWN_CHARACTERS: usize = 80;

/// The tool uses that a session was asked about, from the beginning of its log on.
pub(crate) fn read_asked(log: &Log) -> Result<AskedToolUses, ReadError> {
    let mut asked = AskedToolUses::default();
    let mut lines = log.after(Position::default())?;
    while let Some(line) = lines.next_whole()? {
        if let Some(tool_use) = asked_in_line(line) {
            asked.record(&tool_use);
        }
    }
    Ok(asked)
}

/// The tool use that a stored event asks consent for. Most lines are of other events: their beginning tells.
fn asked_in_line(line: &[u8]) -> Option<ToolUseId> {
    #[derive(Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
        kind: AskTag,
        tool_use: Option<String>,
    }
    const TYPE: &[u8] = br#""type":"ask_opened""#;
    // The position stands first, and is short.
    let beginning = line.get(..64.min(line.len()))?;
    beginning.windows(TYPE.len()).any(|window| window == TYPE).then_some(())?;
    let line: Line<'_> = serde_json::from_slice(line).ok()?;
    let is_named = line.r#type == "ask_opened" && is_named_by_tool_use(line.kind);
    line.tool_use.filter(|_| is_named).map(ToolUseId)
}

/// Whether clients may know an ask by the id of its tool use.
fn is_named_by_tool_use(kind: AskTag) -> bool {
    match kind {
        AskTag::Permission | AskTag::Question | AskTag::Plan => true,
        AskTag::Hook | AskTag::Form | AskTag::ToolCall => false,
    }
}

/// Remembers what was asked, and logs what became of it: who decided what, without its content.
pub(crate) fn note(event: &Event, asked: &mut AskedToolUses) {
    if let Event::AskOpened { kind, .. } = event {
        let AskSummary { kind, tool_use, .. } = kind.summary();
        tool_use.filter(|_| is_named_by_tool_use(kind)).map(|tool_use| asked.record(&tool_use));
    } else if let Event::RequestSent { request, body, by } = event {
        let subtype = subtype_of(body);
        tracing::info!(%request, ?subtype, ?by, "request sent");
    } else if let Event::AskResolved { ask, summary, resolution, by, allowed } = event {
        let tool: Option<String> = summary.tool.as_ref().map(|tool| tool.chars().take(TOOL_SHOWN_CHARACTERS).collect());
        let rules = allowed.permissions.is_some();
        let (kind, edited) = (summary.kind, allowed.edited);
        // What clients and the CLI have named is written with its control characters escaped.
        tracing::info!(%ask, ?kind, ?tool, ?resolution, ?by, edited, rules, "ask resolved");
    }
}

/// What a request is called.
fn subtype_of(body: &RawJson) -> Option<String> {
    #[derive(Deserialize)]
    struct Body {
        subtype: String,
    }
    body.parse::<Body>().ok().map(|body| body.subtype.chars().take(TOOL_SHOWN_CHARACTERS).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_use_that_an_earlier_host_was_asked_about_is_found_in_the_log() {
        let of = |line: &str| asked_in_line(line.as_bytes()).map(|tool_use| tool_use.0);
        let asked =
            |kind: &str| format!(r#"{{"seq":"1:8","type":"ask_opened","ask":5,"kind":"{kind}","tool_use":"t"}}"#);
        for kind in ["permission", "question", "plan"] {
            assert_eq!(of(&asked(kind)).as_deref(), Some("t"), "{kind}");
        }
        for kind in ["hook", "form", "tool_call", "something_newer"] {
            assert_eq!(of(&asked(kind)), None, "{kind}");
        }
        assert_eq!(of(r#"{"seq":"1:8","type":"ask_resolved","kind":"permission","tool_use":"t"}"#), None);
        assert_eq!(of(r#"{"seq":"1:8","type":"unknown","frame":{"type":"ask_opened"},"tool_use":"t"}"#), None);
    }
}
