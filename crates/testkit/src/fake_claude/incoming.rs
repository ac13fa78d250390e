//! Parses a line of the fake CLI's stdin.

use serde_json::Value;
use serde_json::value::RawValue;

use super::fields::Fields;

/// A line of a known kind, or one that is ignored as the real CLI does.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Incoming {
    Prompt(Prompt),
    Request { id: Option<String>, subtype: String },
    Answer { id: String, answer: Answer },
    Other,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Prompt {
    pub(super) text: String,
    pub(super) uuid: Option<String>,
}

/// The answer to a request of the fake CLI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The text of the JSON value, or `null` if there was none.
    Success(String),
    Error(String),
    /// No answer will come: stdin ended.
    Missing,
}

/// A line that makes the real CLI exit, and the fake too.
#[derive(Debug, thiserror::Error)]
pub(super) enum Malformed {
    #[error("a line on stdin is not UTF-8")]
    Encoding(#[from] std::str::Utf8Error),
    #[error("a line of {bytes} bytes on stdin is not JSON: {source}")]
    Json { bytes: usize, source: serde_json::Error },
    #[error("a user line on stdin does not have the role `user`")]
    Role,
    #[error("a control_request on stdin has no request")]
    NoRequest,
}

impl Incoming {
    pub(super) fn read(line: &[u8]) -> Result<Incoming, Malformed> {
        let text = std::str::from_utf8(line)?;
        let not_json = |source| Malformed::Json { bytes: line.len(), source };
        let whole: &RawValue = serde_json::from_str(text).map_err(not_json)?;
        // The real CLI ignores what is not an object.
        let Ok(fields) = Fields::parse(whole.get()) else { return Ok(Incoming::Other) };
        match fields.string("type").as_deref() {
            Some("user") => read_prompt(&fields),
            Some("control_request") => read_request(&fields),
            Some("control_response") => Ok(read_answer(&fields).unwrap_or(Incoming::Other)),
            Some(_) | None => Ok(Incoming::Other),
        }
    }
}

fn read_prompt(fields: &Fields) -> Result<Incoming, Malformed> {
    let message = fields.object("message").filter(|message| message.string("role").as_deref() == Some("user"));
    let message = message.ok_or(Malformed::Role)?;
    let content = message.get("content").and_then(|content| serde_json::from_str(content).ok());
    let text = match content {
        Some(Value::String(text)) => text,
        Some(Value::Array(blocks)) => blocks.iter().filter_map(|block| block.get("text")?.as_str()).collect(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => String::new(),
    };
    Ok(Incoming::Prompt(Prompt { text, uuid: fields.string("uuid") }))
}

fn read_request(fields: &Fields) -> Result<Incoming, Malformed> {
    let request = fields.object("request").ok_or(Malformed::NoRequest)?;
    let subtype = request.string("subtype").unwrap_or_default();
    Ok(Incoming::Request { id: fields.string("request_id"), subtype })
}

fn read_answer(fields: &Fields) -> Option<Incoming> {
    let response = fields.object("response")?;
    let answer = match response.string("subtype").as_deref() {
        Some("success") => Answer::Success(response.get("response").unwrap_or("null").to_owned()),
        Some(_) | None => Answer::Error(response.string("error").unwrap_or_default()),
    };
    Some(Incoming::Answer { id: response.string("request_id")?, answer })
}
