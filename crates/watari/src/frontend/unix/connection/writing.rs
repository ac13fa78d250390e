//! Writing to a client: as much as it takes, and no longer than its turn.

use std::io;
use std::time::Duration;

use tokio::time::Instant;
use watari_hub::Subscription;

use super::{Connection, Disconnect};
use crate::frontend::outbox::Outbox;

/// A client that takes no byte for so long, and is so far behind, is let go.
pub(super) const SLOW_AFTER: Duration = Duration::from_secs(10);
const SLOW_BYTES: u64 = 4 * 1024 * 1024;

impl Connection {
    /// Writes what the client takes, as far as its turn goes.
    pub(super) fn write_what_goes(&mut self) {
        if self.unwritable.is_some() {
            self.outbox = Outbox::default();
        }
        while !self.outbox.is_empty() {
            if self.turn.is_over() {
                return;
            }
            match self.wire.try_write(self.outbox.unwritten()) {
                Ok(count) => {
                    self.turn.spend(count);
                    self.outbox.written(count);
                    self.stuck_since = None;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.stuck_since.get_or_insert_with(Instant::now);
                    return;
                }
                Err(error) => {
                    // Nothing is followed for it any more, but a client may send its commands and close at once.
                    self.unwritable = Some(format!("cannot write to the client: {error}"));
                    (self.outbox, self.stuck_since) = (Outbox::default(), None);
                    self.subscription = None;
                    self.long_lines.clear();
                }
            }
        }
        self.wire.all_is_written();
    }

    /// A client that takes nothing is waited for as long as it costs little.
    pub(super) fn look_if_slow(&mut self) -> Result<(), Disconnect> {
        let behind =
            self.subscription.as_ref().map_or(0, Subscription::behind_bytes) + self.outbox.unwritten().len() as u64;
        // One that takes no replies is not read either, so it has to be let go, or both would wait for ever.
        if behind <= SLOW_BYTES && self.outbox.takes_replies() {
            self.stuck_since = Some(Instant::now());
            return Ok(());
        }
        let why = format!("it has taken nothing for {SLOW_AFTER:?} and is {behind} bytes behind");
        tracing::warn!(client = self.name, "a client is let go: {why}");
        Err(Disconnect(why))
    }

    pub(super) async fn write_last_lines(&mut self) {
        while !self.outbox.is_empty() {
            self.turn.pass_on().await;
            self.write_what_goes();
            if self.outbox.is_empty() {
                return;
            }
            // Whoever waits for us has a limit for it.
            let _ready = self.wire.writable().await;
        }
    }
}
