//! Lines of the log that are too long to be handled between two others: another thread reads and encodes them, two at a
//! time for all clients of a host.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use watari_hub::log::StoredLine;
use watari_sdk::threads;

use crate::dialect::speaker::Speaker;

/// The error if reading a line panics.
const PANICKED: &str = "a line of the log could not be read; this is a bug in watari";

/// A line that was read, and the permit to encode it.
pub(super) struct LoadedLine {
    line: Vec<u8>,
    _permit: Option<OwnedSemaphorePermit>,
}

/// The next long line for a client: at most one. The subscription pauses until it is sent.
pub(super) struct PendingLongLine {
    permits: Arc<Semaphore>,
    next: Option<StoredLine>,
    loading: JoinSet<Result<LoadedLine, String>>,
}

impl PendingLongLine {
    pub(super) fn new(permits: Arc<Semaphore>) -> PendingLongLine {
        PendingLongLine { permits, next: None, loading: JoinSet::new() }
    }

    pub(super) fn set(&mut self, line: StoredLine) {
        self.next = Some(line);
    }

    /// Whether no long line is pending.
    pub(super) fn is_empty(&self) -> bool {
        self.next.is_none() && self.loading.is_empty()
    }

    /// Discards the pending line.
    pub(super) fn clear(&mut self) {
        self.next = None;
        self.loading = JoinSet::new();
    }

    /// Begins to read the line, if there is one. Call it only when the client has read everything, so that a line costs
    /// no memory while its client does not read.
    pub(super) fn load(&mut self) {
        let Some(stored) = self.next.take() else { return };
        let permits = Arc::clone(&self.permits);
        self.loading.spawn(async move {
            // The semaphore is never closed.
            let permit = permits.acquire_owned().await.ok();
            // The thread holds the permit, because it cannot be stopped when the client disconnects.
            let read = threads::run(move || {
                let line = stored.read().map_err(|error| error.to_string())?;
                Ok(LoadedLine { line, _permit: permit })
            });
            read.await.unwrap_or_else(|| Err(PANICKED.to_owned()))
        });
    }

    /// Waits for the line that is being read; forever if there is none. Cancel-safe: dropping the future loses nothing.
    pub(super) async fn loaded(&mut self) -> Result<LoadedLine, String> {
        match self.loading.join_next().await {
            Some(Ok(loaded)) => loaded,
            // The task is never aborted while this waits.
            Some(Err(_)) => Err(PANICKED.to_owned()),
            None => std::future::pending().await,
        }
    }
}

impl LoadedLine {
    /// Encodes the line in another thread. None if that panicked, in which case the dialect is lost, too.
    pub(super) async fn encode(self, mut speaker: Box<dyn Speaker>) -> Option<(Box<dyn Speaker>, Vec<u8>)> {
        let encoded = threads::run(move || {
            let mut out = Vec::new();
            speaker.encode(&self.line, &mut out);
            (speaker, out)
        });
        encoded.await
    }
}
