//! Lets somebody listen, between two events and in one step.

use std::collections::VecDeque;
use tokio::sync::oneshot;
use watari_sdk::AskId;

use super::Publisher;
use crate::position::Position;
use crate::published::HostEvent;
use crate::subscription::{Attachment, Backlog, Since, Subscription};

/// Something that is wanted of a publisher.
#[derive(Debug)]
pub(crate) enum PublisherRequest {
    Attach {
        since: Since,
        answer: oneshot::Sender<Attachment>,
    },
    /// A client found that the log is damaged: it is written again.
    Restore {
        done: oneshot::Sender<()>,
    },
    /// Tell something of the host's own, and say when it is told.
    Publish {
        event: HostEvent,
        published: oneshot::Sender<()>,
    },
}

impl Publisher {
    pub(super) fn handle_request(&mut self, wanted: PublisherRequest) {
        match wanted {
            PublisherRequest::Attach { since, answer } => {
                // What can be replayed is known only of a file that is whole.
                self.verify();
                // Whoever wanted it may have gone.
                let _unheard = answer.send(self.attach(since));
            }
            PublisherRequest::Restore { done } => {
                self.files.log.note_damage();
                self.verify();
                let _unheard = done.send(());
            }
            PublisherRequest::Publish { event, published } => {
                self.publish(event);
                let _unheard = published.send(());
            }
        }
    }

    /// Lets somebody listen: what there was and what there will be, with nothing between. What this costs does not grow with
    /// how long the log, the events in it or the open blocks are: all that is read and written later, by the follower.
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
        let known = match since {
            Since::Now => last,
            Since::After(position) | Since::AfterWithAsks(position) if !is_gap => position,
            Since::Lagged(position) => position,
            Since::After(_) | Since::AfterWithAsks(_) | Since::OtherSession => Position::default(),
        };
        let again = match since {
            Since::Now => self.snapshot.events(),
            Since::AfterWithAsks(_) => self.snapshot.asks_up_to(known.seq),
            Since::After(_) | Since::Lagged(_) | Since::OtherSession => VecDeque::new(),
        };
        let open_text =
            self.open_text.iter().flat_map(|(block, text)| text.pieces().map(|piece| (*block, piece))).collect();
        Attachment {
            key: self.files.record.key.clone(),
            session_id: self.files.record.session_id.clone().unwrap_or_default(),
            state: *self.state.borrow(),
            last,
            known,
            is_gap,
            asks: self.snapshot.known_asks().map(|(ask, summary)| (AskId(ask), summary.clone())).collect(),
            trouble: self.trouble.as_ref().map(|(why, _)| why.clone()),
            subscription: Subscription::new(&self.files.log, Backlog { after, again, open_text }, self.ring.reader()),
        }
    }
}
