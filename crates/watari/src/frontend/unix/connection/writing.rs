//! Writes to a client, as much as it reads and as its slice of work allows.

use std::io;
use std::time::Duration;

use tokio::time::Instant;
use watari_hub::Subscription;

use super::{Connection, Disconnect};
use crate::frontend::outbox::Outbox;

/// A client that reads nothing for this long and is this far behind is disconnected.
pub(super) const SLOW_AFTER: Duration = Duration::from_secs(10);
const SLOW_BYTES: u64 = 4 * 1024 * 1024;

impl Connection {
    /// Writes as much as the client reads and its slice of work allows, without waiting.
    pub(super) fn try_write(&mut self) {
        if self.unwritable.is_some() {
            self.outbox = Outbox::default();
        }
        while !self.outbox.is_empty() {
            if self.slice.is_over() {
                return;
            }
            match self.stream.try_write(self.outbox.unwritten()) {
                Ok(count) => {
                    self.slice.spend(count);
                    self.outbox.written(count);
                    self.stuck_since = None;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stuck_since.get_or_insert_with(Instant::now);
                    return;
                }
                Err(error) => {
                    // Events end, but commands are still read: a client may send them and disconnect immediately.
                    self.unwritable = Some(format!("cannot write to the client: {error}"));
                    (self.outbox, self.stuck_since) = (Outbox::default(), None);
                    self.subscription = None;
                    self.pending_long_line.clear();
                }
            }
        }
        self.stream.all_is_written();
    }

    /// Disconnects a client that reads nothing, if it costs too much.
    pub(super) fn disconnect_if_slow(&mut self) -> Result<(), Disconnect> {
        let behind =
            self.subscription.as_ref().map_or(0, Subscription::behind_bytes) + self.outbox.unwritten().len() as u64;
        // A client without room for replies is not read either. It must be disconnected, or both would wait forever.
        if behind <= SLOW_BYTES && self.outbox.has_room_for_replies() {
            self.stuck_since = Some(Instant::now());
            return Ok(());
        }
        let why = format!("it read nothing for {SLOW_AFTER:?} and is {behind} bytes behind");
        tracing::warn!(client = self.name, "disconnecting a slow client: {why}");
        Err(Disconnect(why))
    }

    /// Writes everything that is buffered for the client. The caller sets a time limit: the client might not read.
    pub(super) async fn write_last_lines(&mut self) {
        while !self.outbox.is_empty() {
            self.slice.yield_if_over().await;
            self.try_write();
            if self.outbox.is_empty() {
                return;
            }
            let _ready = self.stream.writable().await;
        }
    }
}
