//! The CLI's wire format: the names of its frames and requests, and their keys, are spelled in this folder.
//!
//! Other code may spell three kinds of names: those of content blocks, whose format is that of the Messages API; in
//! `bypass.rs`, those of the requests that it checks; and in `event/`, the members of the CLI's `raw` that a method
//! of an event returns. (The test `tidy` checks the names of frames.)
//!
//! Reading is tolerant. A frequent type of frame is recognized by the beginning of its line and read directly. Any
//! other line is first read as a flat [`FrameHead`], which shows its type. A frame that cannot be read is `Unknown` and
//! passed on unchanged. Writing is exact.

pub(crate) mod answers;
pub(crate) mod control;
pub(crate) mod login;
pub(crate) mod mcp;
pub(crate) mod message;
pub(crate) mod outgoing;
pub(crate) mod repair;
pub(crate) mod request_record;
pub(crate) mod result;
pub(crate) mod start_failure;
pub(crate) mod stream;
mod strings;
pub(crate) mod system;

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::event::NoticeKind;
use crate::json::keep_last_of_duplicate_keys;
use control::{ControlRequest, DefaultAnswer, Response};
use message::{AssistantFrame, PromptUpdate, ToolProgressFrame, UserFrame};
use repair::LoneSurrogate;
use result::ResultFrame;
use stream::StreamFrame;
use system::SystemFrame;

/// A decoded line of the CLI.
#[derive(Debug)]
pub(crate) enum Incoming<'a> {
    Stream(StreamFrame<'a>),
    Assistant(AssistantFrame<'a>),
    User(UserFrame),
    Result(Box<ResultFrame>),
    System(SystemFrame<'a>),
    ToolProgress(ToolProgressFrame<'a>),
    /// The conversation was cleared.
    Cleared(&'a RawValue),
    /// The CLI suggests a next prompt.
    Suggestion(Text<'a>),
    /// The CLI stored entries of the conversation.
    Mirror {
        path: Text<'a>,
        entries: &'a RawValue,
    },
    /// A request of the CLI, which waits for the answer; most are asks.
    Request(ControlRequest<'a>),
    /// The CLI withdraws one of its requests.
    Cancel {
        request_id: Text<'a>,
    },
    /// The CLI answers one of our requests.
    Response(Response<'a>),
    /// The CLI reports on a prompt that was handed over, by the id that we sent with it.
    Prompt {
        uuid: Text<'a>,
        update: PromptUpdate,
    },
    /// A frame without information for clients: a keep-alive, or bookkeeping of the CLI.
    Ignored,
    /// A JSON object that this version does not know.
    Unknown(&'a RawValue),
}

/// Decodes a line; none when it is not a JSON object. Lone surrogates, which JSON allows and Rust strings do not, and
/// repeated keys are repaired only when the line cannot be read otherwise; `repaired` then holds the repaired line.
pub(crate) fn decode<'a>(line: &'a str, repaired: &'a mut String) -> Option<Incoming<'a>> {
    if let Some(known) = read(line) {
        return Some(known);
    }
    // Only in a stream can the other half of a character arrive later, with the next delta.
    let how = if line.contains("\"stream_event\"") { LoneSurrogate::Retained } else { LoneSurrogate::Replaced };
    if let Some(readable) = repair::lone_surrogates(line, how)
        && read(&readable).is_some()
    {
        *repaired = readable;
        return read(repaired).map(with_lone_surrogates);
    }
    match keep_last_of_duplicate_keys(line) {
        Some(readable) => {
            *repaired = readable;
            read(repaired).or_else(|| unknown(line))
        }
        None => unknown(line),
    }
}

fn with_lone_surrogates(mut frame: Incoming<'_>) -> Incoming<'_> {
    if let Incoming::Stream(StreamFrame::BlockDelta { has_lone_surrogate, .. }) = &mut frame {
        *has_lone_surrogate = true;
    }
    frame
}

fn read(line: &str) -> Option<Incoming<'_>> {
    // A list is not a frame, although serde would read its items as members.
    if !line.starts_with('{') {
        return None;
    }
    let read = match first_type(line) {
        Some("stream_event") => stream::read(line).map(Incoming::Stream),
        Some("assistant") => message::read_assistant(line).map(Incoming::Assistant),
        Some("user") => message::read_user(line).map(Incoming::User),
        Some(_) | None => None,
    };
    read.or_else(|| read_by_frame(line))
}

/// Returns the type of a line that begins with it, as most lines do. This saves a pass over the line just to find its
/// type.
fn first_type(line: &str) -> Option<&str> {
    let (kind, _) = line.strip_prefix(r#"{"type":""#)?.split_once('"')?;
    Some(kind)
}

fn read_by_frame(line: &str) -> Option<Incoming<'_>> {
    let frame = serde_json::from_str::<FrameHead<'_>>(line).ok().or_else(|| FrameHead::leniently(line))?;
    match frame.kind.as_deref()? {
        "stream_event" => stream::read(line).map(Incoming::Stream),
        "assistant" => message::read_assistant(line).map(Incoming::Assistant),
        "user" => message::read_user(line).map(Incoming::User),
        "result" => result::read(line).map(|frame| Incoming::Result(Box::new(frame))),
        "system" => system::read(&frame, line).map(Incoming::System),
        "tool_progress" => message::read_tool_progress(line).map(Incoming::ToolProgress),
        "control_request" => control::read_request(&frame, line).map(Incoming::Request),
        "control_response" => control::read_response(&frame).map(Incoming::Response),
        "control_cancel_request" => frame.request_id.map(|request_id| Incoming::Cancel { request_id }),
        "command_lifecycle" => message::read_lifecycle(line),
        "conversation_reset" => serde_json::from_str(line).ok().map(Incoming::Cleared),
        "prompt_suggestion" => message::read_suggestion(line).map(Incoming::Suggestion),
        "transcript_mirror" => message::read_mirror(line),
        "auth_status" => system::read_notice(line, NoticeKind::Authentication).map(Incoming::System),
        "rate_limit_event" => system::read_notice(line, NoticeKind::RateLimit).map(Incoming::System),
        "tool_use_summary" => system::read_notice(line, NoticeKind::ToolSummary).map(Incoming::System),
        "active_goal" => system::read_notice(line, NoticeKind::Goal).map(Incoming::System),
        "keep_alive" => Some(Incoming::Ignored),
        _ => None,
    }
}

/// What the start of a line that is longer than the limit shows about it.
#[derive(Debug, PartialEq)]
pub(crate) enum Overlong {
    /// An ask: the CLI waits for an answer.
    Ask { request_id: String, default_answer: DefaultAnswer },
    /// The answer to one of our requests.
    Reply { request_id: String },
    /// Any other line.
    Other,
}

pub(crate) fn overlong(beginning: &str) -> Overlong {
    let member = |name: &str| {
        let (_, rest) = beginning.split_once(&format!("\"{name}\":\""))?;
        rest.split_once('"').map(|(value, _)| value.to_owned())
    };
    match (member("type").as_deref(), member("request_id")) {
        (Some("control_request"), Some(request_id)) => {
            let default_answer = match member("subtype").as_deref() {
                Some("hook_callback") => DefaultAnswer::Hook { event: member("hook_event_name").unwrap_or_default() },
                Some("elicitation") => DefaultAnswer::Elicitation,
                Some(_) | None => DefaultAnswer::Permission,
            };
            Overlong::Ask { request_id, default_answer }
        }
        (Some("control_response"), Some(request_id)) => Overlong::Reply { request_id },
        _ => Overlong::Other,
    }
}

fn unknown(line: &str) -> Option<Incoming<'_>> {
    let value: &RawValue = serde_json::from_str(line).ok()?;
    value.get().starts_with('{').then_some(Incoming::Unknown(value))
}

/// The members that several types of frames have in common. Structured members stay raw until they are needed.
#[derive(Debug, serde::Deserialize)]
pub(crate) struct FrameHead<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<Text<'a>>,
    #[serde(borrow, default)]
    subtype: Option<Text<'a>>,
    #[serde(borrow, default)]
    request_id: Option<Text<'a>>,
    #[serde(borrow, default)]
    request: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response: Option<&'a RawValue>,
}

impl<'a> FrameHead<'a> {
    /// Reads a frame in which a member has the wrong type. That member counts as absent, so that the rest of the frame
    /// is not lost.
    fn leniently(line: &'a str) -> Option<FrameHead<'a>> {
        #[derive(serde::Deserialize)]
        struct RawMembers<'a> {
            #[serde(borrow, default, rename = "type")]
            kind: Option<&'a RawValue>,
            #[serde(borrow, default)]
            subtype: Option<&'a RawValue>,
            #[serde(borrow, default)]
            request_id: Option<&'a RawValue>,
            #[serde(borrow, default)]
            request: Option<&'a RawValue>,
            #[serde(borrow, default)]
            response: Option<&'a RawValue>,
        }
        fn read<'a, T: Deserialize<'a>>(member: Option<&'a RawValue>) -> Option<T> {
            member.and_then(|raw| serde_json::from_str(raw.get()).ok())
        }
        let members: RawMembers<'a> = serde_json::from_str(line).ok()?;
        Some(FrameHead {
            kind: read(members.kind),
            subtype: read(members.subtype),
            request_id: read(members.request_id),
            request: members.request,
            response: members.response,
        })
    }
}

/// Text that is borrowed from the line if it has no escapes. (Serde borrows a bare `Cow`, but not a `Cow` in an
/// `Option`.)
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Text<'a>(Cow<'a, str>);

impl Text<'_> {
    pub(crate) fn into_string(self) -> String {
        self.0.into_owned()
    }
}

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<'a>, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(TextVisitor)
    }
}

/// The members of an object. A list is refused: serde would read its items as the members, in order.
#[derive(Debug)]
pub(crate) struct Members<T>(pub(crate) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Members<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members<T>, D::Error> {
        struct MembersVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for MembersVisitor<T> {
            type Value = Members<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Members<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Members)
            }
        }
        deserializer.deserialize_map(MembersVisitor(PhantomData))
    }
}

/// An optional member. A value of the wrong type counts as absent, so that the rest of the frame is not lost.
#[derive(Debug)]
pub(crate) struct Lenient<T>(Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Lenient<T> {
        Lenient(None)
    }
}

impl<T> Lenient<T> {
    pub(crate) fn into_option(self) -> Option<T> {
        self.0
    }
}

impl<T: Default> Lenient<T> {
    pub(crate) fn or_default(self) -> T {
        self.0.unwrap_or_default()
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Lenient<T>, D::Error> {
        let raw = <&'de RawValue>::deserialize(deserializer)?.get();
        let read = serde_json::from_str(raw).ok();
        Ok(Lenient(read.or_else(|| serde_json::from_str(&repair::lone_surrogates(raw, LoneSurrogate::Replaced)?).ok())))
    }
}
