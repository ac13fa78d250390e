//! How much memory an event holds, for queues that are bounded by bytes.

use crate::event::{AskKind, Event, RequestReply};

impl Event {
    /// About how many bytes this event holds: what is large in it, and a little for the rest.
    pub fn weight_bytes(&self) -> usize {
        size_of::<Event>() + self.large_bytes()
    }

    fn large_bytes(&self) -> usize {
        match self {
            Event::Ready { cli } => cli.detail.as_str().len(),
            // The tools are listed again in the detail.
            Event::SessionOpened { session } => 2 * session.detail.as_str().len(),
            Event::BlockStarted { content, .. } | Event::ToolReturned { content, .. } => content.as_str().len(),
            Event::BlockGrew { delta, .. } => delta.text().len(),
            Event::BlockFinished { content, .. } => content.raw.as_str().len(),
            Event::AskOpened { kind: AskKind::Permission(ask), .. } => {
                ask.detail.as_str().len() + ask.input.as_str().len()
            }
            Event::TurnFinished { outcome, .. } => {
                outcome.detail.as_str().len() + outcome.result.as_ref().map_or(0, String::len)
            }
            Event::TaskChanged { detail, .. } => detail.as_str().len(),
            Event::RequestAnswered { reply: Ok(RequestReply::Done(detail)), .. } => detail.as_str().len(),
            Event::Unknown { frame } => frame.as_str().len(),
            Event::NoiseSkipped { beginning, .. } => beginning.len(),
            Event::Ended { exit } => exit.stderr.len(),
            Event::TurnStarted { .. }
            | Event::MessageStarted { .. }
            | Event::BlockDiscarded { .. }
            | Event::MessageFinished { .. }
            | Event::ToolProgressed { .. }
            | Event::AskClosed { .. }
            | Event::PromptDropped { .. }
            | Event::BecameIdle
            | Event::StatusChanged { .. }
            | Event::ApiRetried { .. }
            | Event::RequestAnswered { .. } => 0,
        }
    }
}
