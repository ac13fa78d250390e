//! Encodes the ends of turns and of the CLI.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;
use watari_sdk::{Exit, LeftProcess, RawJson, TOOL_SERVER_TAKEN_MESSAGE, UnresponsiveTo};

use super::messages::{ErrorKind, ServerMessage, write, write_error};
use crate::dialect::cli_trouble;
use crate::dialect::native::ParsedEvent;
use crate::dialect::shaped::Object;

/// The tokens of a message that was never answered.
const NO_USAGE: &str = r#"{"input_tokens":0,"output_tokens":0}"#;

pub(super) fn encode_turn_end(line: &ParsedEvent<'_>, seq: Option<&str>, out: &mut Vec<u8>) {
    #[derive(Deserialize)]
    struct Outcome<'a> {
        #[serde(borrow)]
        ending: Option<&'a RawValue>,
        result: Option<String>,
        #[serde(default)]
        errors: Vec<String>,
        #[serde(borrow)]
        raw: Option<&'a RawValue>,
    }
    let Some(outcome) = line.outcome.and_then(|outcome| serde_json::from_str::<Outcome<'_>>(outcome.get()).ok()) else {
        return write_done(None, line.prompt_of_turn(), seq, out);
    };
    let ending = outcome.ending.map(RawValue::get).unwrap_or_default();
    if ending != "\"completed\"" {
        let reason = if outcome.errors.is_empty() { outcome.result } else { Some(outcome.errors.join("; ")) };
        let message = match reason.filter(|reason| !reason.is_empty()) {
            _ if ending == "\"interrupted\"" => "the turn was interrupted".to_owned(),
            Some(reason) => reason,
            None => "the turn failed, and the CLI gave no reason".to_owned(),
        };
        write_error(ErrorKind::Turn, &message, None, out);
    }
    // A map and not a struct: if the CLI repeats a key, the last value counts.
    let raw = outcome.raw.and_then(|raw| serde_json::from_str::<BTreeMap<Cow<'_, str>, &RawValue>>(raw.get()).ok());
    let usage = raw.and_then(|raw| serde_json::from_str(raw.get("usage")?.get()).ok());
    write_done(usage, line.prompt_of_turn(), seq, out);
}

/// Reports why the CLI does not handle a message or stops handling it. Other notices are not encoded.
pub(super) fn encode_stop_notice(line: &ParsedEvent<'_>, seq: Option<&str>, out: &mut Vec<u8>) {
    if line.about == Some("blocked") {
        write_error(
            ErrorKind::Turn,
            line.text.as_deref().unwrap_or("Claude Code stopped handling this message"),
            seq,
            out,
        );
    }
}

/// Describes an unexpected exit of the CLI; none if the exit was requested.
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
        Some("\"requested\"") => return None,
        Some("\"server_name_conflict\"") => return Some(TOOL_SERVER_TAKEN_MESSAGE.to_owned()),
        Some("\"owner_killed\"") => {
            return Some("the host of this session was killed, and Claude Code with it".to_owned());
        }
        _ => {}
    }
    let how = cli_trouble::ended(exit.code, exit.signal);
    let stderr = if exit.stderr.is_empty() { String::new() } else { format!("; stderr: {}", exit.stderr) };
    Some(format!("{how}{stderr}; the next message starts it again"))
}

/// Describes the processes of the CLI that could not be ended; none if there are none.
pub(super) fn describe_left(exit: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Left {
        #[serde(default)]
        left: u32,
        #[serde(default)]
        left_processes: Vec<LeftProcess>,
    }
    let Left { left, left_processes } = serde_json::from_str(exit.get()).ok()?;
    Exit { left, left_processes, ..Exit::default() }.left_text()
}

/// Describes why an unresponsive CLI was terminated; none if it exited for another reason.
fn describe_unresponsive(reason: &RawValue) -> Option<String> {
    #[derive(Deserialize)]
    struct Reason {
        unresponsive: Unresponsive,
    }
    #[derive(Deserialize)]
    struct Unresponsive {
        to: UnresponsiveTo,
        seconds: u64,
    }
    let Reason { unresponsive } = serde_json::from_str(reason.get()).ok()?;
    Some(cli_trouble::unresponsive(unresponsive.to, unresponsive.seconds))
}

pub(super) fn write_done(usage: Option<&RawValue>, message_id: Option<u64>, seq: Option<&str>, out: &mut Vec<u8>) {
    let none = RawJson::from(NO_USAGE);
    let usage = usage.and_then(Object::of).or(Object::of(none.as_ref())).unwrap_or(Object::empty());
    write(&ServerMessage::Done { usage, message_id }, seq, out);
}
