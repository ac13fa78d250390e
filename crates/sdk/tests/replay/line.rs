//! Describes events as lines without any text of the CLI or the model.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{AskKind, Event, MAY_BE_UNKNOWN, RequestId};
use watari_protocol::{Author, BlockKind, Delta, RequestFailure, RequestReply, TurnCause};

/// Describes events as lines, with each remark of a replay before its event.
pub(crate) fn lines(events: &[Event], remarks: &[(usize, String)]) -> Vec<String> {
    let places = events.iter().map(Some).chain([None]).enumerate();
    folded(places.flat_map(|(place, event)| {
        let remarks = remarks.iter().filter(move |(before, _)| *before == place);
        remarks.map(|(_, remark)| format!("# {remark}")).chain(event.map(line))
    }))
}

/// Merges equal consecutive lines into one, with their number.
pub(crate) fn folded(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut folded: Vec<(String, usize)> = Vec::new();
    for line in lines {
        match folded.last_mut() {
            Some((last, count)) if *last == line => *count += 1,
            _ => folded.push((line, 1)),
        }
    }
    folded.into_iter().map(|(line, count)| if count == 1 { line } else { format!("{line} ×{count}") }).collect()
}

/// What this version does not know. Without the feature `exhaustive`, the compiler asks for it.
#[cfg(not(feature = "exhaustive"))]
const NEWER: &str = "newer";

pub(crate) fn line(event: &Event) -> String {
    match event {
        Event::Ready { .. } => "ready".to_owned(),
        Event::SessionOpened { .. } => "session opened".to_owned(),
        Event::PromptAccepted { prompt, .. } => format!("prompt {prompt} accepted"),
        Event::TurnStarted { cause } => format!("turn started: {}", name(*cause)),
        Event::MessageStarted { .. } => "message started".to_owned(),
        Event::BlockStarted { block, kind, .. } => format!("block {block} started: {}", block_word(kind)),
        Event::BlockDelta { block, delta, .. } => format!("block {block} grew: {}", delta_word(delta)),
        Event::BlockFinished { block, parent, streamed, content, source, .. } => {
            let how = if *streamed { "" } else { ", not streamed" };
            let cut = if source.cut_short { ", cut short" } else { "" };
            let author = match source.author {
                Author::Model => "",
                Author::Command => ", by a command",
                Author::ApiError(_) => ", an API error",
                #[cfg(not(feature = "exhaustive"))]
                _ => NEWER,
            };
            let whose = whose(parent.is_some());
            format!("block {block} finished: {}{how}{cut}{author}{whose}", block_word(&content.kind))
        }
        Event::BlockDiscarded { block } => format!("block {block} discarded"),
        Event::MessageRetracted { .. } => "message retracted".to_owned(),
        Event::MessageFinished { blocks, .. } => {
            let blocks: String = blocks.iter().map(|block| format!(" {block}")).collect();
            format!("message finished:{blocks}")
        }
        Event::ToolReturned { parent, is_error, .. } => {
            format!("tool {}{}", if *is_error { "failed" } else { "returned" }, whose(parent.is_some()))
        }
        Event::ContextInjected { parent, synthetic, repeated, .. } => {
            let by = if *synthetic { ", by the CLI" } else { "" };
            let again = if *repeated { ", again" } else { "" };
            format!("context injected{by}{again}{}", whose(parent.is_some()))
        }
        Event::ToolProgressed { .. } => "tool progressed".to_owned(),
        Event::AskOpened { ask, kind } => format!("ask {ask} opened: {}", ask_word(kind)),
        Event::AskResolved { ask, resolution, .. } => format!("ask {ask} closed: {resolution:?}"),
        Event::TurnFinished { cause, outcome } => format!("turn finished: {}, {:?}", name(*cause), outcome.ending),
        Event::PromptDropped { prompt, reason } => format!("prompt {prompt} dropped: {reason:?}"),
        Event::BecameIdle => "became idle".to_owned(),
        Event::StatusChanged { .. } => "status changed".to_owned(),
        Event::ApiRetryScheduled { attempt, .. } => format!("API retried: {attempt}"),
        Event::TaskChanged { update, .. } => format!("task changed: {update:?}"),
        Event::TasksListed { .. } => "tasks listed".to_owned(),
        Event::HookChanged { update, .. } => format!("hook changed: {update:?}"),
        Event::PermissionDenied { .. } => "permission refused".to_owned(),
        Event::ThinkingCounted { .. } => "thinking counted".to_owned(),
        Event::Compacted { .. } => "compacted".to_owned(),
        Event::ConversationCleared { .. } => "conversation cleared".to_owned(),
        Event::TitleChanged { .. } => "title changed".to_owned(),
        Event::CommandsListed { .. } => "commands listed".to_owned(),
        Event::PromptSuggested { .. } => "prompt suggested".to_owned(),
        Event::TranscriptWritten { .. } => "transcript written".to_owned(),
        Event::NoticeReported { about, .. } => format!("noticed: {about:?}"),
        Event::RequestAnswered { request, reply } => format!("request {request} answered: {}", reply_word(reply)),
        Event::Unknown { .. } => {
            let (kind, subtype) = unknown(event).unwrap_or_default();
            format!("unknown: {kind} {subtype}")
        }
        Event::UnparsedLineSkipped { .. } => "noise skipped".to_owned(),
        Event::CliStalled { .. } => "stalled".to_owned(),
        Event::RequestSent { request, .. } => format!("request {request} sent"),
        Event::ResumedElsewhere { entrypoint, .. } => format!("resumed elsewhere by {entrypoint}"),
        Event::CliRecovered { .. } => "recovered".to_owned(),
        Event::EventsDropped { count } => format!("{count} events dropped"),
        Event::CliExited { exit } => match (exit.code, exit.signal) {
            (Some(code), _) => format!("ended: {:?}, code {code}", exit.reason),
            (None, Some(signal)) => format!("ended: {:?}, signal {signal}", exit.reason),
            (None, None) => format!("ended: {:?}", exit.reason),
        },
        #[cfg(not(feature = "exhaustive"))]
        _ => NEWER.to_owned(),
    }
}

/// Returns the types and subtypes of unknown frames that are not in [`MAY_BE_UNKNOWN`].
pub(crate) fn unlisted(events: &[Event]) -> Vec<(String, String)> {
    let listed = |names: &(String, String)| {
        let names = (names.0.as_str(), names.1.as_str());
        MAY_BE_UNKNOWN.iter().any(|(kind, subtype, _)| (*kind, *subtype) == names)
    };
    events.iter().filter_map(unknown).filter(|names| !listed(names)).collect()
}

/// Returns the type and the subtype of an unknown frame.
fn unknown(event: &Event) -> Option<(String, String)> {
    #[derive(serde::Deserialize)]
    struct Names {
        #[serde(rename = "type", default)]
        kind: String,
        #[serde(default)]
        subtype: String,
    }
    let Event::Unknown { frame } = event else { return None };
    let names = frame.parse::<Names>().map(|names| (names.kind, names.subtype));
    Some(names.unwrap_or_default())
}

/// Compares lines with a snapshot, or writes it on request. Returns the difference, if there is one.
pub(crate) fn compared(name: &str, found: &[String]) -> Option<String> {
    let snapshot = snapshots().join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_CAPTURES").is_some() {
        std::fs::write(&snapshot, found.join("\n") + "\n").unwrap();
    }
    let expected = std::fs::read_to_string(&snapshot).unwrap_or_default();
    let expected: Vec<String> = expected.lines().map(str::to_owned).collect();
    let how = "it differs from its snapshot, which UPDATE_CAPTURES=1 writes again";
    (expected != found).then(|| format!("{name}: {how}:\n{}", difference(&expected, found)))
}

pub(crate) fn snapshots() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/captures")
}

/// Returns the difference between two lists of lines, with some context.
pub(crate) fn difference(expected: &[String], found: &[String]) -> String {
    const AROUND: usize = 3;
    let same = expected.iter().zip(found).take_while(|(one, other)| one == other).count();
    let short = expected.len().min(found.len()) - same;
    let reversed = expected.iter().rev().zip(found.iter().rev());
    let same_end = reversed.take(short).take_while(|(one, other)| one == other).count();
    let show =
        |lines: &[String], sign: &str| -> String { lines.iter().map(|line| format!("{sign}{line}\n")).collect() };
    let (expected, after) = expected.split_at(expected.len() - same_end);
    let found = &found[..found.len() - same_end];
    [
        show(&expected[same.saturating_sub(AROUND)..same], "  "),
        show(&expected[same..], "- "),
        show(&found[same..], "+ "),
        show(&after[..after.len().min(AROUND)], "  "),
    ]
    .concat()
}

/// Returns the violations of the rules for every session: every prompt, ask, request, message and block ends once, and
/// so does the session.
pub(super) fn faults(events: &[Event], mut requests: BTreeMap<RequestId, usize>) -> Vec<String> {
    let mut open: BTreeMap<String, i32> = BTreeMap::new();
    let mut faults = Vec::new();
    for event in events {
        let change = match event {
            Event::PromptAccepted { prompt, .. } => (format!("prompt {prompt}"), 1),
            Event::TurnFinished { cause: TurnCause::Prompt(prompt), .. } | Event::PromptDropped { prompt, .. } => {
                (format!("prompt {prompt}"), -1)
            }
            Event::AskOpened { ask, .. } => (format!("ask {ask}"), 1),
            Event::AskResolved { ask, .. } => (format!("ask {ask}"), -1),
            Event::MessageStarted { .. } => ("message".to_owned(), 1),
            Event::MessageFinished { .. } => ("message".to_owned(), -1),
            Event::BlockStarted { block, .. } => (format!("block {block}"), 1),
            Event::BlockFinished { block, streamed: true, .. } | Event::BlockDiscarded { block } => {
                (format!("block {block}"), -1)
            }
            Event::RequestAnswered { request, .. } => {
                *requests.entry(*request).or_default() += 1;
                continue;
            }
            _ => continue,
        };
        let count = open.entry(change.0.clone()).or_default();
        *count += change.1;
        if !(0..=1).contains(count) {
            faults.push(format!("{} was begun or ended twice", change.0));
        }
    }
    faults.extend(open.iter().filter(|(_, count)| **count != 0).map(|(what, _)| format!("{what} has no end")));
    let unanswered = requests.iter().filter(|(_, count)| **count != 1);
    faults.extend(unanswered.map(|(request, count)| format!("request {request} was answered {count} times")));
    let ends = events.iter().filter(|event| matches!(event, Event::CliExited { .. })).count();
    if ends != 1 || !matches!(events.last(), Some(Event::CliExited { .. })) {
        faults.push(format!("the session has {ends} ends"));
    }
    faults
}

fn name(cause: TurnCause) -> String {
    match cause {
        TurnCause::Prompt(prompt) => format!("prompt {prompt}"),
        TurnCause::Cli => "the CLI".to_owned(),
        #[cfg(not(feature = "exhaustive"))]
        _ => NEWER.to_owned(),
    }
}

fn whose(of_subagent: bool) -> &'static str {
    if of_subagent { ", of a subagent" } else { "" }
}

fn block_word(kind: &BlockKind) -> &'static str {
    match kind {
        BlockKind::Text => "text",
        BlockKind::Thinking => "thinking",
        BlockKind::ToolUse { .. } => "tool use",
        BlockKind::Other { .. } => "other",
    }
}

fn delta_word(delta: &Delta) -> &'static str {
    match delta {
        Delta::Text(_) => "text",
        Delta::Thinking(_) => "thinking",
        Delta::Input(_) => "input",
        #[cfg(not(feature = "exhaustive"))]
        _ => NEWER,
    }
}

fn ask_word(kind: &AskKind) -> String {
    match kind {
        AskKind::Permission(_) => "permission".to_owned(),
        AskKind::Question(_) => "question".to_owned(),
        AskKind::Plan(_) => "plan".to_owned(),
        AskKind::Hook(ask) => format!("hook {}", ask.hook),
        AskKind::Elicitation(_) => "form".to_owned(),
        AskKind::ToolCall(call) => format!("call of {}", call.tool),
        #[cfg(not(feature = "exhaustive"))]
        _ => NEWER.to_owned(),
    }
}

fn reply_word(reply: &RequestReply) -> &'static str {
    match reply {
        RequestReply::Interrupted(_) => "interrupted",
        RequestReply::Done(_) => "done",
        RequestReply::Failed(RequestFailure::Refused { .. }) => "refused",
        RequestReply::Failed(RequestFailure::CliExited) => "session ended",
        RequestReply::Failed(RequestFailure::TimedOut) => "timed out",
        RequestReply::Failed(RequestFailure::TooLong) => "too long",
        #[cfg(not(feature = "exhaustive"))]
        _ => NEWER,
    }
}
