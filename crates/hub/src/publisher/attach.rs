//! Lets somebody listen, between two events and in one step.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::oneshot;
use watari_sdk::{AskId, Event};

use super::Publisher;
use crate::follow::{Attached, Beginning, Follower, Since};
use crate::log::fleeting;
use crate::position::Position;
use crate::told::{HostEvent, Told};

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

    /// Lets somebody listen: what there was and what there will be, with nothing between.
    fn attach(&self, since: Since) -> Attached {
        let last = self.kept.log.last();
        let (beginning, is_gap) = match since {
            Since::Elsewhere => (Beginning::After(0), true),
            Since::Now => (Beginning::Standing(self.standing.numbers().into()), false),
            Since::After(position) | Since::AfterWithAsks(position) => {
                let has_gap = self.kept.record.has_gap(position, last);
                (Beginning::After(if has_gap { 0 } else { position.seq }), has_gap)
            }
            Since::Behind(position) => (Beginning::After(position.seq), false),
        };
        let known = match since {
            Since::Now => last,
            Since::After(position) | Since::AfterWithAsks(position) if !is_gap => position,
            Since::Behind(position) => position,
            Since::After(_) | Since::AfterWithAsks(_) | Since::Elsewhere => Position::default(),
        };
        let asks_before = match since {
            Since::AfterWithAsks(_) => self.standing.asks_up_to(known.seq),
            Since::Now | Since::After(_) | Since::Behind(_) | Since::Elsewhere => VecDeque::new(),
        };
        let grown = self.open_text.iter().map(|(block, delta)| {
            let text = Event::BlockGrew { block: watari_sdk::BlockId(*block), at: 0, delta: delta.clone() };
            let mut json = Vec::new();
            Told::Event(text).write(&mut json);
            fleeting(last, json)
        });
        let mut caught_up = Vec::new();
        Told::Host(HostEvent::CaughtUp).write(&mut caught_up);
        let grown = grown.chain([fleeting(last, caught_up)]);
        Attached {
            key: self.kept.record.key.clone(),
            session_id: self.kept.record.session_id.clone().unwrap_or_default(),
            state: *self.state.borrow(),
            last,
            known,
            is_gap,
            asks: self.standing.known_asks().map(|(ask, about)| (AskId(ask), about.clone())).collect(),
            trouble: self.trouble.as_ref().map(|(why, _)| why.clone()),
            follower: Follower::new(
                Arc::clone(self.kept.log.storage()),
                self.kept.log.bytes(),
                beginning,
                asks_before,
                grown.collect(),
                self.ring.reader(),
            ),
        }
    }
}
