//! The lines of the log that are too long to be told between two others: they are read and put into the client's words in
//! another thread, two at a time for all clients of a host.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use watari_hub::log::StoredLine;
use watari_sdk::threads;

use crate::dialect::speaker::Speaker;

/// What is said if reading a line panics.
const PANICKED: &str = "a line of the log could not be read; this is a mistake in watari";

/// A line that was read, and the turn to tell it.
pub(super) struct LoadedLine {
    line: Vec<u8>,
    _turn: Option<OwnedSemaphorePermit>,
}

/// The long line that a client is to be told next: at most one, and nothing is followed before it is told.
pub(super) struct LongLines {
    turns: Arc<Semaphore>,
    next: Option<StoredLine>,
    loading: JoinSet<Result<LoadedLine, String>>,
}

impl LongLines {
    pub(super) fn new(turns: Arc<Semaphore>) -> LongLines {
        LongLines { turns, next: None, loading: JoinSet::new() }
    }

    pub(super) fn push(&mut self, line: StoredLine) {
        self.next = Some(line);
    }

    /// Whether there is nothing to tell before following on.
    pub(super) fn is_empty(&self) -> bool {
        self.next.is_none() && self.loading.is_empty()
    }

    /// Nothing of it is told any more.
    pub(super) fn clear(&mut self) {
        self.next = None;
        self.loading = JoinSet::new();
    }

    /// Begins to read the line, if there is one. To be called only when the client has taken everything: to one that does
    /// not read, a line costs nothing but its place.
    pub(super) fn load(&mut self) {
        let Some(stored) = self.next.take() else { return };
        let turns = Arc::clone(&self.turns);
        self.loading.spawn(async move {
            // The semaphore is never closed.
            let turn = turns.acquire_owned().await.ok();
            // The thread has the turn: it cannot be stopped when the client goes.
            let read = threads::run(move || {
                let line = stored.read().map_err(|error| error.to_string())?;
                Ok(LoadedLine { line, _turn: turn })
            });
            read.await.unwrap_or_else(|| Err(PANICKED.to_owned()))
        });
    }

    /// Waits for the line that is being read; for ever if there is none. Dropping the future loses nothing.
    pub(super) async fn loaded(&mut self) -> Result<LoadedLine, String> {
        match self.loading.join_next().await {
            Some(Ok(loaded)) => loaded,
            // Nobody aborts it who still waits.
            Some(Err(_)) => Err(PANICKED.to_owned()),
            None => std::future::pending().await,
        }
    }
}

impl LoadedLine {
    /// Puts the line into the client's words, in another thread. None if that panicked, and then the dialect is lost with it.
    pub(super) async fn encode(self, mut speaker: Box<dyn Speaker>) -> Option<(Box<dyn Speaker>, Vec<u8>)> {
        let told = threads::run(move || {
            let mut out = Vec::new();
            speaker.encode(&self.line, &mut out);
            (speaker, out)
        });
        told.await
    }
}
