//! Turns: all clients of a host are served by one thread, so each does a bounded piece of work and then lets the others.

/// How many bytes a client may have read, told and written for it before the others have their turn.
const TURN_BYTES: usize = 64 * 1024;

/// What taking a line costs beside its bytes: a short one may be an error to be answered.
pub(super) const LINE_COST_BYTES: usize = 1024;

/// What a client has cost since the others had their turn.
#[derive(Debug, Default)]
pub(super) struct Turn {
    spent_bytes: usize,
}

impl Turn {
    pub(super) fn spend(&mut self, bytes: usize) {
        self.spent_bytes = self.spent_bytes.saturating_add(bytes);
    }

    /// Whether the others are to have their turn.
    pub(super) fn is_over(&self) -> bool {
        self.spent_bytes >= TURN_BYTES
    }

    /// Lets the others have their turn, if this one is over.
    pub(super) async fn pass_on(&mut self) {
        if self.is_over() {
            self.spent_bytes = 0;
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn a_client_with_endless_work_lets_the_others_have_their_turn_after_64_kib() {
        let (done, is_over) = (Cell::new(0_usize), Cell::new(false));
        let busy = async {
            let mut turn = Turn::default();
            for _ in 0..1000 {
                done.set(done.get() + 16 * 1024);
                turn.spend(16 * 1024);
                turn.pass_on().await;
            }
            is_over.set(true);
        };
        let other = async {
            let (mut before, mut most) = (0, 0);
            while !is_over.get() {
                most = most.max(done.get() - before);
                before = done.get();
                tokio::task::yield_now().await;
            }
            most
        };
        let ((), most) = tokio::join!(biased; busy, other);
        assert_eq!(most, TURN_BYTES);
    }
}
