//! Lets somebody listen, between two events and in one step.

use std::collections::VecDeque;
use tokio::sync::oneshot;
use watari_sdk::AskId;

use super::Publisher;
use crate::follow::{Attached, Backlog, Follower, Since};
use crate::position::Position;
use crate::told::HostEvent;

/// Something that is wanted of a publisher.
#[derive(Debug)]
pub(crate) enum Wanted {
    Attach {
        since: Since,
        answer: oneshot::Sender<Attached>,
    },
    /// A client found that the log is damaged: it is written again.
    Restore {
        done: oneshot::Sender<()>,
    },
    /// Tell something of the host's own, and say when it is told.
    Tell {
        event: HostEvent,
        told: oneshot::Sender<()>,
    },
}

impl Publisher {
    pub(super) fn take_wanted(&mut self, wanted: Wanted) {
        match wanted {
            Wanted::Attach { since, answer } => {
                // What can be replayed is known only of a file that is whole.
                self.verify();
                // Whoever wanted it may have gone.
                let _unheard = answer.send(self.attach(since));
            }
            Wanted::Restore { done } => {
                self.kept.log.note_damage();
                self.verify();
                let _unheard = done.send(());
            }
            Wanted::Tell { event, told } => {
                self.publish(event);
                let _unheard = told.send(());
            }
        }
    }

    /// Lets somebody listen: what there was and what there will be, with nothing between. What this costs does not grow with
    /// how long the log, the events in it or the open blocks are: all that is read and written later, by the follower.
    fn attach(&self, since: Since) -> Attached {
        let last = self.kept.log.last();
        let (after, is_gap) = match since {
            Since::Elsewhere => (Some(0), true),
            Since::Now => (None, false),
            Since::After(position) | Since::AfterWithAsks(position) => {
                let has_gap = self.kept.record.has_gap(position, last);
                (Some(if has_gap { 0 } else { position.seq }), has_gap)
            }
            Since::Behind(position) => (Some(position.seq), false),
        };
        let known = match since {
            Since::Now => last,
            Since::After(position) | Since::AfterWithAsks(position) if !is_gap => position,
            Since::Behind(position) => position,
            Since::After(_) | Since::AfterWithAsks(_) | Since::Elsewhere => Position::default(),
        };
        let again = match since {
            Since::Now => self.standing.events(),
            Since::AfterWithAsks(_) => self.standing.asks_up_to(known.seq),
            Since::After(_) | Since::Behind(_) | Since::Elsewhere => VecDeque::new(),
        };
        let open_text =
            self.open_text.iter().flat_map(|(block, text)| text.pieces().map(|piece| (*block, piece))).collect();
        Attached {
            key: self.kept.record.key.clone(),
            session_id: self.kept.record.session_id.clone().unwrap_or_default(),
            state: *self.state.borrow(),
            last,
            known,
            is_gap,
            asks: self.standing.known_asks().map(|(ask, about)| (AskId(ask), about.clone())).collect(),
            trouble: self.trouble.as_ref().map(|(why, _)| why.clone()),
            follower: Follower::new(&self.kept.log, Backlog { after, again, open_text }, self.ring.reader()),
        }
    }
}
