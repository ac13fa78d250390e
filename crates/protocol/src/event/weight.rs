//! The memory that an event takes, for queues that are bounded by bytes.

use crate::event::{AskKind, Event, HostEvent, RequestReply};
use crate::json::RawJson;

impl Event {
    /// Returns the approximate size of this event in bytes: its large parts, plus a constant for the rest.
    pub fn weight_bytes(&self) -> usize {
        size_of::<Event>() + self.large_bytes()
    }

    fn large_bytes(&self) -> usize {
        match self {
            Event::Ready { cli } => cli.raw.as_str().len(),
            // The tools are listed again in the raw.
            Event::SessionOpened { session } => 2 * session.raw.as_str().len(),
            Event::BlockStarted { content, .. } => content.as_str().len(),
            Event::ToolReturned { content, result, .. } => {
                content.as_str().len() + result.as_ref().map_or(0, |result| result.as_str().len())
            }
            Event::BlockDelta { delta, .. } => delta.text().len(),
            Event::BlockFinished { content, .. } => content.raw.as_str().len(),
            Event::AskOpened { kind, .. } => match kind {
                AskKind::Permission(ask) | AskKind::Question(ask) | AskKind::Plan(ask) => {
                    ask.raw.as_str().len() + ask.input.as_str().len()
                }
                AskKind::Hook(ask) => ask.input.as_str().len(),
                AskKind::Elicitation(ask) => ask.raw.as_str().len(),
                AskKind::ToolCall(ask) => ask.input.as_str().len(),
            },
            Event::AskResolved { grant, .. } => {
                let bytes = |raw: &Option<RawJson>| raw.as_ref().map_or(0, |raw| raw.as_str().len());
                bytes(&grant.input) + bytes(&grant.permissions)
            }
            Event::TurnFinished { outcome, .. } => {
                outcome.raw.as_str().len() + outcome.result.as_ref().map_or(0, String::len)
            }
            Event::TaskChanged { raw, .. }
            | Event::HookChanged { raw, .. }
            | Event::StatusChanged { raw, .. }
            | Event::PermissionDenied { raw, .. }
            | Event::Compacted { raw }
            | Event::ConversationCleared { raw }
            | Event::NoticeReported { raw, .. } => raw.as_str().len(),
            Event::PromptAccepted { content, .. } | Event::ContextInjected { content, .. } => content.as_str().len(),
            Event::TasksListed { tasks: list } | Event::CommandsListed { commands: list } => list.as_str().len(),
            Event::TranscriptWritten { entries, .. } => entries.as_str().len(),
            Event::TitleChanged { title: text } | Event::PromptSuggested { suggestion: text } => text.len(),
            Event::RequestAnswered { reply: RequestReply::Done(raw), .. } => raw.as_str().len(),
            Event::Unknown { frame } => frame.as_str().len(),
            Event::RequestSent { body, .. } => body.as_str().len(),
            Event::UnparsedLineSkipped { beginning, .. } => beginning.len(),
            Event::CliExited { exit } => {
                exit.stderr.len() + exit.left_processes.iter().map(|left| left.command.len()).sum::<usize>()
            }
            Event::TurnStarted { .. }
            | Event::MessageStarted { .. }
            | Event::BlockDiscarded { .. }
            | Event::MessageFinished { .. }
            | Event::ToolProgressed { .. }
            | Event::PromptDropped { .. }
            | Event::BecameIdle
            | Event::ThinkingCounted { .. }
            | Event::CliStalled { .. }
            | Event::CliRecovered { .. }
            | Event::ResumedElsewhere { .. }
            | Event::EventsDropped { .. }
            | Event::MessageRetracted { .. }
            | Event::ApiRetryScheduled { .. }
            | Event::RequestAnswered { reply: RequestReply::Interrupted(_) | RequestReply::Failed(_), .. } => 0,
        }
    }
}

impl HostEvent {
    /// Returns the approximate size of this event in bytes: its texts, plus a constant for the rest.
    pub fn weight_bytes(&self) -> usize {
        size_of::<HostEvent>() + self.large_bytes()
    }

    fn large_bytes(&self) -> usize {
        match self {
            HostEvent::HostStarted { cwd, .. } => cwd.len(),
            HostEvent::StartFailed { message: text }
            | HostEvent::LogRestored { message: text }
            | HostEvent::StorageFailed { message: text }
            | HostEvent::HostStopping { reason: text } => text.len(),
            HostEvent::ContextLost { .. }
            | HostEvent::EventsLost { .. }
            | HostEvent::UnparsedLinesOmitted { .. }
            | HostEvent::StorageRecovered
            | HostEvent::CaughtUp => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Event;

    #[test]
    fn an_event_is_small_so_that_a_queue_of_deltas_is() {
        assert!(size_of::<Event>() <= 136, "{}", size_of::<Event>());
    }
}
