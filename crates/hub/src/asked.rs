//! The tool uses that a session was asked about, and lines for the host's log: resolved asks and requests of clients.

use watari_sdk::native::{self, NativeEvent};
use watari_sdk::{AskSummary, AskTag, AskedToolUses, Event, Position, ToolUseId, recorded_subtype};

use crate::log::{Log, ReadError};

/// How many characters of a tool's or a request's name are logged.
const NAME_CHARACTERS_MAX: usize = 80;

/// Returns the tool uses that a session's log has asks about.
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

/// Returns the tool use that a stored line asks about. The beginning of a line shows whether it can be an ask; most
/// cannot, and are not read.
fn asked_in_line(line: &[u8]) -> Option<ToolUseId> {
    const TYPE: &[u8] = br#""type":"ask_opened""#;
    // The position comes first, and is short.
    let beginning = line.get(..64.min(line.len()))?;
    beginning.windows(TYPE.len()).any(|window| window == TYPE).then_some(())?;
    // Another program wrote what cannot be read, and a newer host what is not known.
    match native::read(line).ok()?.event {
        NativeEvent::Session(event) => asked_about(&event),
        NativeEvent::Host(_) | NativeEvent::Foreign(_) => None,
    }
}

/// Returns the tool use that an event asks about, if clients may refer to the ask by it.
fn asked_about(event: &Event) -> Option<ToolUseId> {
    let Event::AskOpened { kind, .. } = event else { return None };
    let AskSummary { kind, tool_use, .. } = kind.summary();
    tool_use.filter(|_| is_named_by_tool_use(kind))
}

/// Whether clients may refer to an ask by the id of its tool use.
fn is_named_by_tool_use(kind: AskTag) -> bool {
    match kind {
        AskTag::Permission | AskTag::Question | AskTag::Plan => true,
        AskTag::Hook | AskTag::Elicitation | AskTag::ToolCall => false,
    }
}

/// Records an ask's tool use, and logs resolved asks and requests of clients: who and what, without the content.
pub(crate) fn observe(event: &Event, asked: &mut AskedToolUses) {
    if let Some(tool_use) = asked_about(event) {
        asked.record(&tool_use);
    } else if let Event::RequestSent { request, body, by } = event {
        let subtype = recorded_subtype(body).map(|subtype| shortened(&subtype));
        tracing::info!(%request, ?subtype, ?by, "request sent");
    } else if let Event::AskResolved { ask, summary, resolution, by, grant } = event {
        let tool = summary.tool.as_deref().map(shortened);
        let permission_updates = grant.permissions.is_some();
        let (kind, edited) = (summary.kind, grant.edited);
        // Debug formatting escapes control characters in names that come from clients and from the CLI.
        tracing::info!(%ask, ?kind, ?tool, ?resolution, ?by, edited, permission_updates, "ask resolved");
    }
}

/// The beginning of a name, for the log.
fn shortened(name: &str) -> String {
    name.chars().take(NAME_CHARACTERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_use_that_an_earlier_host_was_asked_about_is_found_in_the_log() {
        let of = |line: &str| asked_in_line(line.as_bytes()).map(|tool_use| tool_use.0);
        // It has the members of every kind of ask.
        let asked = |kind: &str| {
            format!(
                r#"{{"seq":"1:8","type":"ask_opened","ask":5,"kind":"{kind}","tool":"Bash","hook":1,"event":"Stop","server":"s","message":"","input":{{}},"tool_use":"t","needs_person":false,"raw":{{}}}}"#
            )
        };
        for kind in ["permission", "question", "plan"] {
            assert_eq!(of(&asked(kind)).as_deref(), Some("t"), "{kind}");
        }
        for kind in ["hook", "elicitation", "tool_call", "something_newer"] {
            assert_eq!(of(&asked(kind)), None, "{kind}");
        }
        assert_eq!(of(r#"{"seq":"1:8","type":"ask_resolved","kind":"permission","tool_use":"t"}"#), None);
        assert_eq!(of(r#"{"seq":"1:8","type":"unknown","frame":{"type":"ask_opened"},"tool_use":"t"}"#), None);
    }
}
