//! How turns end, in the words of the document.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use watari_sdk::{RawJson, TOOL_SERVER_TAKEN, Unanswered};

use super::line::{ErrorKind, ServerMessage, write, write_error};
use crate::dialect::liveness;
use crate::dialect::native::StoredLine;
use crate::dialect::shaped::Object;

/// The tokens of a message that was never answered.
const NO_USAGE: &str = r#"{"input_tokens":0,"output_tokens":0}"#;

pub(super) fn turn_finished(line: &StoredLine<'_>, seq: Option<&str>, out: &mut Vec<u8>) {
    #[derive(Deserialize)]
    struct Outcome<'a> {
        #[serde(borrow)]
        ending: Option<&'a RawValue>,
        result: Option<String>,
        #[serde(default)]
        errors: Vec<String>,
        #[serde(borrow)]
        detail: Option<&'a RawValue>,
    }
    let Some(outcome) = line.outcome.and_then(|outcome| serde_json::from_str::<Outcome<'_>>(outcome.get()).ok()) else {
        return write_done(None, line.prompt_of_turn(), seq, out);
    };
    let ending = outcome.ending.map(RawValue::get).unwrap_or_default();
    if ending != "\"completed\"" {
        let said = if outcome.errors.is_empty() { outcome.result } else { Some(outcome.errors.join("; ")) };
        let message = match said.filter(|said| !said.is_empty()) {
            _ if ending == "\"interrupted\"" => "the turn was interrupted".to_owned(),
            Some(said) => said,
            None => "the turn failed, and the CLI does not say why".to_owned(),
        };
        write_error(ErrorKind::Turn, &message, None, out);
    }
    // A map and not a struct: the CLI may say a thing twice, and then the last counts.
    let detail =
        outcome.detail.and_then(|detail| serde_json::from_str::<BTreeMap<Cow<'_, str>, &RawValue>>(detail.get()).ok());
    let usage = detail.and_then(|detail| serde_json::from_str(detail.get("usage")?.get()).ok());
    write_done(usage, line.prompt_of_turn(), seq, out);
}

/// Why the CLI does nothing for a message, or goes no further with it. Other notices have no word here.
pub(super) fn stopped(line: &StoredLine<'_>, seq: Option<&str>, out: &mut Vec<u8>) {
    if line.about == Some("stopped") {
        write_error(
            ErrorKind::Turn,
            line.text.as_deref().unwrap_or("Claude Code goes no further with this message"),
            seq,
            out,
        );
    }
}

/// How a CLI went that nobody had told to; none if somebody had.
pub(super) fn describe_end(exit: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Exit<'a> {
        code: Option<i32>,
        signal: Option<i32>,
        #[serde(default)]
        stderr: String,
        #[serde(borrow)]
        reason: Option<&'a RawValue>,
    }
    let exit: Exit<'_> = serde_json::from_str(exit.get()).ok()?;
    if let Some(why) = exit.reason.and_then(describe_unresponsive) {
        return Some(format!("{why}; the next message starts it again"));
    }
    match exit.reason.map(RawValue::get) {
        Some("\"asked\"") => return None,
        Some("\"tool_server_taken\"") => return Some(TOOL_SERVER_TAKEN.to_owned()),
        Some("\"owner_killed\"") => {
            return Some("the host of this session was killed, and Claude Code with it".to_owned());
        }
        _ => {}
    }
    let how = liveness::ended(exit.code, exit.signal);
    let said = if exit.stderr.is_empty() { String::new() } else { format!("; it said: {}", exit.stderr) };
    Some(format!("{how}{said}; the next message starts it again"))
}

/// Why a CLI was ended that did not react; none if it ended for another reason.
fn describe_unresponsive(reason: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Reason {
        unresponsive: Unresponsive,
    }
    #[derive(Deserialize)]
    struct Unresponsive {
        to: Unanswered,
        seconds: u64,
    }
    let Reason { unresponsive } = serde_json::from_str(reason.get()).ok()?;
    Some(liveness::unresponsive(unresponsive.to, unresponsive.seconds))
}

pub(super) fn write_done(usage: Option<&RawValue>, message_id: Option<u64>, seq: Option<&str>, out: &mut Vec<u8>) {
    let none = RawJson::from(NO_USAGE);
    let usage = usage.and_then(Object::of).or(Object::of(none.as_ref())).unwrap_or(Object::empty());
    write(&ServerMessage::Done { usage, message_id }, seq, out);
}
