//! What is done while events cannot be stored: they wait in their order, and it is tried again.

use std::time::Duration;

use watari_sdk::Event;

use super::Publisher;
use crate::log::{AppendError, fleeting};
use crate::told::{HostEvent, Told};

/// How often it is tried to store what could not be stored.
const TRIED_EVERY: Duration = Duration::from_secs(1);

/// How much may wait to be stored when the session is being closed. What does not fit is dropped and counted.
const UNSTORED_BYTES_MAX: usize = 8 * 1024 * 1024;

impl Publisher {
    /// Something waits until it can be stored. The host's own events always have room: they are few, and one of them says
    /// why the session ends.
    pub(super) fn let_wait(&mut self, told: Told) {
        let is_full = self.hurries && self.unstored_bytes >= UNSTORED_BYTES_MAX;
        if is_full && matches!(told, Told::Event(_)) {
            self.dropped += 1;
        } else {
            self.unstored_bytes += told.weight_bytes();
            self.unstored.push_back(told);
        }
    }

    pub(super) fn storage_failed(&mut self, error: &AppendError) {
        let message = format!("{error}; it is tried again every second: make room, or end the session");
        tracing::error!("{message}");
        self.trouble = Some((message.clone(), Box::pin(tokio::time::sleep(TRIED_EVERY))));
        // It is not stored, so nothing can be wrong with it.
        let _told = self.store_and_tell(&Told::Host(HostEvent::StorageFull { message }));
    }

    /// The session ends: it is tried for the last time to store what waits. What cannot be is lost, and nobody hears of
    /// it but for why the host ends.
    pub(crate) fn finish(&mut self) -> Result<(), AppendError> {
        if self.trouble.is_none() {
            return Ok(());
        }
        self.store_what_waits().inspect_err(|_| {
            for told in std::mem::take(&mut self.unstored) {
                if let Told::Host(HostEvent::HostStopping { .. }) = told {
                    self.text.clear();
                    told.write(&mut self.text);
                    self.ring.push(&fleeting(self.kept.log.last(), &self.text), None);
                }
            }
        })
    }

    /// Stores what waits, as far as it goes.
    pub(super) fn store_what_waits(&mut self) -> Result<(), AppendError> {
        while let Some(told) = self.unstored.pop_front() {
            if let Err(error) = self.store_and_tell(&told) {
                self.unstored.push_front(told);
                let again = Box::pin(tokio::time::sleep(TRIED_EVERY));
                self.trouble = self.trouble.take().map(|(why, _)| (why, again));
                return Err(error);
            }
            self.unstored_bytes = self.unstored_bytes.saturating_sub(told.weight_bytes());
        }
        self.trouble = None;
        tracing::info!("events can be stored again");
        self.publish(HostEvent::StorageRecovered);
        if self.dropped > 0 {
            let count = std::mem::take(&mut self.dropped);
            self.publish(Event::EventsDropped { count });
        }
        Ok(())
    }
}
