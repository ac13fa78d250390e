//! Reads the line of an event back into the event that was written.
//!
//! A newer host may write more than this version knows. A field that is not known is ignored. An event that is not
//! known, or has a value that is not known where this version expects one of a few words, is passed on whole.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde::de::Error as _;
use serde_json::value::RawValue;

use super::{AFTER, EventLine, EventPlace, ForeignEvent, NativeEvent, SEQ};
use crate::event::{AskKind, AskResolution, AskTag, Event, HostEvent};
use crate::id::AskId;
use crate::json::{RawJson, TaggedObject};
use crate::position::Position;
use crate::wire::Text;

/// Why a line cannot be read as an event.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum ReadEventError {
    /// The line does not begin with the place of an event.
    #[error("the line does not begin with the position of an event")]
    NoPlace,
    /// The line is not a JSON object.
    #[error("the line is not a JSON object: {0}")]
    NotAnObject(serde_json::Error),
    /// The line has no type.
    #[error("the line has no type, or one that is not a string")]
    NoType,
    /// The line does not have the form of its event.
    #[error("cannot read the event {event}{}: {source}", in_member(member.as_deref()))]
    Malformed {
        /// The type of the event.
        event: String,
        /// The member of the event that cannot be read; none if a member is missing, which `source` names.
        member: Option<String>,
        /// What is wrong.
        source: serde_json::Error,
    },
}

fn in_member(member: Option<&str>) -> String {
    member.map_or_else(String::new, |member| format!(", in {member}"))
}

/// Reads the line of an event, without its newline.
pub fn read(line: &[u8]) -> Result<EventLine, ReadEventError> {
    let not_an_object = ReadEventError::NotAnObject;
    let line = str::from_utf8(line).map_err(|error| not_an_object(serde_json::Error::custom(error)))?;
    let (place, rest) = read_place(line).ok_or(ReadEventError::NoPlace)?;
    let name = match first_type(rest) {
        Some(name) => Cow::Borrowed(name),
        None => find_type(line)?,
    };
    let event = match read_known(&name, line) {
        Ok(Some(event)) => event,
        Ok(None) => {
            // The event without its place, which is the first member.
            let members = rest.strip_prefix(',').unwrap_or(rest);
            let object = RawJson::read(format!("{{{members}")).map_err(not_an_object)?;
            let is_ephemeral = matches!(place, EventPlace::After(_));
            NativeEvent::Foreign(ForeignEvent { name: name.into_owned(), object, is_ephemeral })
        }
        Err(error) if !error.is_data() => return Err(not_an_object(error)),
        Err(source) => {
            let member = member_of(&source, line);
            return Err(ReadEventError::Malformed { event: name.into_owned(), member, source });
        }
    };
    Ok(EventLine { place, event })
}

/// The place at the beginning of a line, and what follows it.
fn read_place(line: &str) -> Option<(EventPlace, &str)> {
    let (name, rest) = line.strip_prefix("{\"")?.split_once("\":\"")?;
    let (position, rest) = rest.split_once('"')?;
    let position = Position::read(position.as_bytes())?;
    match name {
        SEQ => Some((EventPlace::At(position), rest)),
        AFTER => Some((EventPlace::After(position), rest)),
        _ => None,
    }
}

/// The type of an event, if it follows the place immediately, as in all lines that Watari writes.
fn first_type(rest: &str) -> Option<&str> {
    let (name, _) = rest.strip_prefix(",\"type\":\"")?.split_once('"')?;
    (!name.contains('\\')).then_some(name)
}

/// The type of an event, wherever it is.
fn find_type(line: &str) -> Result<Cow<'_, str>, ReadEventError> {
    #[derive(Deserialize)]
    struct Head<'a> {
        #[serde(borrow)]
        r#type: Text<'a>,
    }
    match serde_json::from_str::<Head<'_>>(line) {
        Ok(head) => Ok(Cow::Owned(head.r#type.into_string())),
        Err(error) if error.is_data() => Err(ReadEventError::NoType),
        Err(error) => Err(ReadEventError::NotAnObject(error)),
    }
}

/// Reads an event; none if this version does not know it, or a value in it.
fn read_known(name: &str, line: &str) -> Result<Option<NativeEvent>, serde_json::Error> {
    let object = TaggedObject { tag: name, object: line };
    let event = match name {
        "ask_opened" => read_ask_opened(line),
        "ask_resolved" => read_ask_resolved(line),
        _ => Event::deserialize(object),
    };
    Ok(match known(event)? {
        Some(event) => Some(NativeEvent::Session(event)),
        None => known(HostEvent::deserialize(object))?.map(NativeEvent::Host),
    })
}

/// The event of an ask, whose kind determines its other members. (Serde would read flattened members from a buffer that
/// cannot hold a raw value.)
fn read_ask_opened(line: &str) -> Result<Event, serde_json::Error> {
    #[derive(Deserialize)]
    struct Opened {
        ask: AskId,
        kind: AskTag,
    }
    let Opened { ask, kind } = serde_json::from_str(line)?;
    let kind = match kind {
        AskTag::Permission => AskKind::Permission(serde_json::from_str(line)?),
        AskTag::Question => AskKind::Question(serde_json::from_str(line)?),
        AskTag::Plan => AskKind::Plan(serde_json::from_str(line)?),
        AskTag::Hook => AskKind::Hook(serde_json::from_str(line)?),
        AskTag::Elicitation => AskKind::Elicitation(serde_json::from_str(line)?),
        AskTag::ToolCall => AskKind::ToolCall(serde_json::from_str(line)?),
    };
    Ok(Event::AskOpened { ask, kind })
}

/// The resolution of an ask, with the members of its summary and of its grant.
fn read_ask_resolved(line: &str) -> Result<Event, serde_json::Error> {
    #[derive(Deserialize)]
    struct Resolved {
        ask: AskId,
        resolution: AskResolution,
        by: Option<String>,
    }
    let Resolved { ask, resolution, by } = serde_json::from_str(line)?;
    let (summary, grant) = (serde_json::from_str(line)?, serde_json::from_str(line)?);
    Ok(Event::AskResolved { ask, summary, resolution, by, grant })
}

/// Returns none for the name of a variant that an enum of this version does not have. (Serde has no kind of error for
/// it: its text is the same for all enums, and a test asserts it.)
fn known<T>(read: Result<T, serde_json::Error>) -> Result<Option<T>, serde_json::Error> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.to_string().starts_with("unknown variant `") => Ok(None),
        Err(error) => Err(error),
    }
}

/// The member of a line in which reading failed: the last one that begins before the place of the error. None if a
/// member is missing.
fn member_of(error: &serde_json::Error, line: &str) -> Option<String> {
    if error.to_string().starts_with("missing field `") {
        return None;
    }
    let members: HashMap<String, &RawValue> = serde_json::from_str(line).ok()?;
    // The values are borrowed from the line.
    let start = |value: &RawValue| value.get().as_ptr().addr() - line.as_ptr().addr();
    let begun = members.into_iter().filter(|(_, value)| start(value) <= error.column());
    begun.max_by_key(|(_, value)| start(value)).map(|(name, _)| name)
}
