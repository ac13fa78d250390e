//! Slices of work: one thread serves all clients of a host, so each client yields after a bounded amount of work.

/// How many bytes are read, encoded and written for a client before it yields to the others.
const SLICE_BYTES: usize = 64 * 1024;

/// The cost of handling a line in addition to its bytes: even a short line may cause an error reply.
pub(super) const LINE_COST_BYTES: usize = 1024;

/// The work done for a client since it last yielded.
#[derive(Debug, Default)]
pub(super) struct WorkSlice {
    spent_bytes: usize,
}

impl WorkSlice {
    pub(super) fn spend(&mut self, bytes: usize) {
        self.spent_bytes = self.spent_bytes.saturating_add(bytes);
    }

    /// Whether it is time to yield.
    pub(super) fn is_over(&self) -> bool {
        self.spent_bytes >= SLICE_BYTES
    }

    /// Yields to the other clients, if this slice is used up.
    pub(super) async fn yield_if_over(&mut self) {
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
    async fn a_client_with_endless_work_yields_after_64_kib() {
        let (done, is_over) = (Cell::new(0_usize), Cell::new(false));
        let busy = async {
            let mut slice = WorkSlice::default();
            for _ in 0..1000 {
                done.set(done.get() + 16 * 1024);
                slice.spend(16 * 1024);
                slice.yield_if_over().await;
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
        assert_eq!(most, SLICE_BYTES);
    }
}
