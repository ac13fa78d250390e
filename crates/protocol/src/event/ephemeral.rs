//! Which events are stored, and which are only broadcast.

use super::{Event, HostEvent};

impl Event {
    /// Returns whether the event is ephemeral: broadcast, but not stored. What it reports is over soon, or comes again
    /// with a durable event.
    pub fn is_ephemeral(&self) -> bool {
        match self {
            Event::BlockDelta { .. } | Event::ToolProgressed { .. } | Event::ThinkingCounted { .. } => true,
            Event::Ready { .. }
            | Event::SessionOpened { .. }
            | Event::PromptAccepted { .. }
            | Event::TurnStarted { .. }
            | Event::MessageStarted { .. }
            | Event::BlockStarted { .. }
            | Event::BlockFinished { .. }
            | Event::BlockDiscarded { .. }
            | Event::MessageFinished { .. }
            | Event::MessageRetracted { .. }
            | Event::ToolReturned { .. }
            | Event::ContextInjected { .. }
            | Event::AskOpened { .. }
            | Event::AskResolved { .. }
            | Event::TurnFinished { .. }
            | Event::PromptDropped { .. }
            | Event::BecameIdle
            | Event::StatusChanged { .. }
            | Event::ApiRetryScheduled { .. }
            | Event::TaskChanged { .. }
            | Event::TasksListed { .. }
            | Event::HookChanged { .. }
            | Event::PermissionDenied { .. }
            | Event::Compacted { .. }
            | Event::ConversationCleared { .. }
            | Event::TitleChanged { .. }
            | Event::CommandsListed { .. }
            | Event::PromptSuggested { .. }
            | Event::TranscriptWritten { .. }
            | Event::NoticeReported { .. }
            | Event::RequestSent { .. }
            | Event::RequestAnswered { .. }
            | Event::Unknown { .. }
            | Event::UnparsedLineSkipped { .. }
            | Event::CliStalled { .. }
            | Event::CliRecovered { .. }
            | Event::ResumedElsewhere { .. }
            | Event::EventsDropped { .. }
            | Event::CliExited { .. } => false,
        }
    }
}

impl HostEvent {
    /// Returns whether the event is ephemeral: broadcast, but not stored.
    pub fn is_ephemeral(&self) -> bool {
        match self {
            HostEvent::StorageFailed { .. } | HostEvent::StorageRecovered | HostEvent::CaughtUp => true,
            HostEvent::HostStarted { .. }
            | HostEvent::StartFailed { .. }
            | HostEvent::ContextLost { .. }
            | HostEvent::HostStopping { .. }
            | HostEvent::LogRestored { .. }
            | HostEvent::EventsLost { .. }
            | HostEvent::UnparsedLinesOmitted { .. } => false,
        }
    }
}
