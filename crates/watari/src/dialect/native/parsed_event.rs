//! A line of the log, parsed for other dialects: one flat object of borrowed members for all events.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use watari_sdk::AskTag;

/// A parsed event. Members that the event does not have are none.
#[derive(Debug, Deserialize)]
pub(crate) struct ParsedEvent<'a> {
    #[serde(borrow)]
    pub(crate) seq: Option<&'a str>,
    #[serde(borrow)]
    pub(crate) r#type: &'a str,
    pub(crate) block: Option<u64>,
    pub(crate) at: Option<u64>,
    #[serde(borrow)]
    pub(crate) delta: Option<Delta<'a>>,
    #[serde(borrow)]
    pub(crate) parent: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) content: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) tool_use: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) tool: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) input: Option<&'a RawValue>,
    /// Whether an earlier ask was about the same tool use.
    pub(crate) repeated: Option<bool>,
    /// Whether a tool ran with an edited input.
    pub(crate) edited: Option<bool>,
    /// The permission updates that were granted with it.
    #[serde(borrow)]
    pub(crate) permissions: Option<&'a RawValue>,
    pub(crate) is_error: Option<bool>,
    pub(crate) ask: Option<u64>,
    #[serde(borrow)]
    pub(crate) kind: Option<&'a RawValue>,
    /// How an ask was resolved.
    #[serde(borrow)]
    pub(crate) resolution: Option<&'a str>,
    #[serde(borrow)]
    pub(crate) by: Option<Cow<'a, str>>,
    /// Of a form: the MCP server.
    #[serde(borrow)]
    pub(crate) server: Option<Cow<'a, str>>,
    /// The text of a form or of the host; elsewhere the id of a message.
    #[serde(borrow)]
    pub(crate) message: Option<Cow<'a, str>>,
    /// Of a form: its fields.
    #[serde(borrow)]
    pub(crate) schema: Option<&'a RawValue>,
    /// Of a form: the address that the user is asked to open.
    #[serde(borrow)]
    pub(crate) url: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) outcome: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) exit: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) session: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(crate) session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) reason: Option<Cow<'a, str>>,
    pub(crate) count: Option<u64>,
    #[serde(borrow)]
    pub(crate) about: Option<&'a str>,
    #[serde(borrow)]
    pub(crate) text: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) entrypoint: Option<Cow<'a, str>>,
    pub(crate) silent_seconds: Option<u64>,
    pub(crate) prompt: Option<u64>,
    #[serde(borrow)]
    pub(crate) cause: Option<&'a RawValue>,
}

/// The delta of a block.
#[derive(Debug, Deserialize)]
pub(crate) struct Delta<'a> {
    #[serde(borrow)]
    pub(crate) r#type: &'a str,
    #[serde(borrow)]
    pub(crate) text: Cow<'a, str>,
}

impl<'a> ParsedEvent<'a> {
    /// Parses a line; none if it is malformed, which only another program can have caused.
    pub(crate) fn read(line: &'a [u8]) -> Option<ParsedEvent<'a>> {
        serde_json::from_slice(line).ok()
    }

    /// The prompt of a turn; none if the CLI began the turn by itself.
    pub(crate) fn prompt_of_turn(&self) -> Option<u64> {
        #[derive(Deserialize)]
        struct Cause {
            prompt: u64,
        }
        let cause: Cause = serde_json::from_str(self.cause?.get()).ok()?;
        Some(cause.prompt)
    }

    /// The kind of an ask; none if it is an unknown kind of a newer host.
    pub(crate) fn ask_kind(&self) -> Option<AskTag> {
        serde_json::from_str(self.kind?.get()).ok()
    }
}
