//! Attaches clients, in one step between two events.

use std::collections::VecDeque;

use tokio::sync::oneshot;
use watari_sdk::{AskId, Position};

use super::Publisher;
use crate::subscription::{Attachment, Backlog, Since, Subscription};

/// A request to the publisher.
#[derive(Debug)]
pub(crate) enum PublisherRequest {
    Attach {
        since: Since,
        answer: oneshot::Sender<Attachment>,
    },
    /// Restore the log: a client found it damaged.
    Restore {
        done: oneshot::Sender<()>,
    },
}

impl Publisher {
    pub(super) fn handle_request(&mut self, request: PublisherRequest) {
        match request {
            PublisherRequest::Attach { since, answer } => {
                // What can be replayed is known only of an intact file.
                self.verify();
                // The client may have disconnected.
                let _sent = answer.send(self.attach(since));
            }
            PublisherRequest::Restore { done } => {
                self.files.log.note_damage();
                self.verify();
                let _sent = done.send(());
            }
        }
    }

    /// Attaches a client: past events and live ones, without a gap. The cost does not depend on the size of the log, of
    /// its events or of open blocks: the subscription reads and writes all that later.
    fn attach(&self, since: Since) -> Attachment {
        let last = self.files.log.last();
        let (after, is_gap) = match since {
            Since::OtherSession => (Some(0), true),
            Since::Now => (None, false),
            Since::After(position) | Since::AfterWithAsks(position) => {
                let has_gap = self.files.record.has_gap(position, last);
                (Some(if has_gap { 0 } else { position.seq }), has_gap)
            }
            Since::Lagged(position) => (Some(position.seq), false),
        };
        let client_position = match since {
            Since::Now => last,
            Since::After(position) | Since::AfterWithAsks(position) if !is_gap => position,
            Since::Lagged(position) => position,
            Since::After(_) | Since::AfterWithAsks(_) | Since::OtherSession => Position::default(),
        };
        let snapshot_events = match since {
            Since::Now => self.snapshot.events(),
            Since::AfterWithAsks(_) => self.snapshot.asks_up_to(client_position.seq),
            Since::After(_) | Since::Lagged(_) | Since::OtherSession => VecDeque::new(),
        };
        let open_text =
            self.open_text.iter().flat_map(|(block, text)| text.pieces().map(|piece| (*block, piece))).collect();
        Attachment {
            key: self.files.record.key.clone(),
            session_id: self.files.record.session_id.clone().unwrap_or_default(),
            state: *self.state.borrow(),
            last,
            client_position,
            is_gap,
            asks: self.snapshot.known_asks().map(|(ask, summary)| (AskId(ask), summary.clone())).collect(),
            storage_failure: self.storage_failure.as_ref().map(|(why, _)| why.clone()),
            subscription: Subscription::new(
                &self.files.log,
                Backlog { after, snapshot_events, open_text },
                self.ring.reader(),
            ),
        }
    }
}
