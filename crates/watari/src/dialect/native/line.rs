//! A line of the log as other dialects need it: one flat object of borrowed members, whatever the event.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use watari_sdk::AskTag;

/// An event as it is stored. What an event does not have is none.
#[derive(Debug, Deserialize)]
pub(crate) struct StoredLine<'a> {
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
    /// Whether the session was asked about the same tool use before.
    pub(crate) repeated: Option<bool>,
    /// Whether a tool ran with another input than was asked, and the rules that were granted with it.
    pub(crate) edited: Option<bool>,
    #[serde(borrow)]
    pub(crate) permissions: Option<&'a RawValue>,
    pub(crate) is_error: Option<bool>,
    pub(crate) ask: Option<u64>,
    #[serde(borrow)]
    pub(crate) kind: Option<&'a RawValue>,
    /// How an ask ended.
    #[serde(borrow)]
    pub(crate) resolution: Option<&'a str>,
    #[serde(borrow)]
    pub(crate) by: Option<Cow<'a, str>>,
    /// Of a form: what the server says, and the fields.
    #[serde(borrow)]
    pub(crate) server: Option<Cow<'a, str>>,
    /// The words of a form or of the host; elsewhere the id of a message.
    #[serde(borrow)]
    pub(crate) message: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(crate) schema: Option<&'a RawValue>,
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

/// What a block has grown by.
#[derive(Debug, Deserialize)]
pub(crate) struct Delta<'a> {
    #[serde(borrow)]
    pub(crate) r#type: &'a str,
    #[serde(borrow)]
    pub(crate) text: Cow<'a, str>,
}

impl<'a> StoredLine<'a> {
    /// Reads a line; none if it is not one, which only another program could have written.
    pub(crate) fn read(line: &'a [u8]) -> Option<StoredLine<'a>> {
        serde_json::from_slice(line).ok()
    }

    /// The prompt that a turn was for; none if the CLI began it by itself.
    pub(crate) fn prompt_of_turn(&self) -> Option<u64> {
        #[derive(Deserialize)]
        struct Cause {
            prompt: u64,
        }
        let cause: Cause = serde_json::from_str(self.cause?.get()).ok()?;
        Some(cause.prompt)
    }

    /// The kind of an ask; none if a newer host has one that is not known here.
    pub(crate) fn ask_kind(&self) -> Option<AskTag> {
        serde_json::from_str(self.kind?.get()).ok()
    }
}
