//! What happens while events cannot be stored: they wait in order, and storing is retried.

use std::future::Future;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use watari_sdk::native::NativeEvent;
use watari_sdk::{Event, HostEvent, Refusal};

use super::Publisher;
use crate::log::{AppendError, ephemeral_line};
use crate::session_files::restore::describe_loss;

/// How often storing is retried.
const RETRIED_EVERY: Duration = Duration::from_secs(1);

/// How often the log's file and the locks are verified.
const VERIFIED_EVERY: Duration = Duration::from_secs(1);

/// How much may wait to be stored while the session closes. Events beyond that are dropped and counted.
const UNSTORED_BYTES_MAX: usize = 8 * 1024 * 1024;

impl Publisher {
    /// Queues an event until it can be stored. The host's own events always fit: they are few, and one of them says why
    /// the host ends.
    pub(super) fn queue_unstored(&mut self, event: NativeEvent) {
        let is_full = self.is_closing && self.unstored_bytes >= UNSTORED_BYTES_MAX;
        if is_full && matches!(event, NativeEvent::Session(_)) {
            self.dropped += 1;
        } else {
            self.unstored_bytes += event.weight_bytes();
            self.unstored.push_back(event);
        }
    }

    /// Records that events cannot be stored, and reports it to the clients.
    pub(super) fn report_storage_failure(&mut self, error: &AppendError) {
        let message = self.record_storage_failure(error);
        tracing::error!("{message}");
        // An ephemeral event is not stored, so this cannot fail.
        let _published = self.store_and_publish(&NativeEvent::Host(HostEvent::StorageFailed { message }));
    }

    /// Publishes an event if it can be stored now. Otherwise refuses it, and does not queue it.
    pub(crate) fn publish_if_stored(&mut self, event: Event) -> Result<(), Refusal> {
        if self.storage_failure.is_none()
            && let Err(error) = self.store_and_publish(&event.into())
        {
            self.report_storage_failure(&error);
        }
        match &self.storage_failure {
            Some((why, _)) => Err(Refusal::LogUnavailable { why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Records why events cannot be stored, and when to try again. Returns the message for the clients.
    fn record_storage_failure(&mut self, error: &AppendError) -> String {
        let message = format!("{error}; retrying every second: {}", remedy(error));
        self.storage_failure = Some((message.clone(), Box::pin(tokio::time::sleep(RETRIED_EVERY))));
        self.storage_failure_sender.send_replace(Some(error.to_string()));
        message
    }

    /// Checks that the log's file is under its name and complete and that the locks are in place, and restores them if
    /// not. This runs before a command is acknowledged: if the file was deleted, its events exist only as long as the
    /// host has it open; if a lock was, another process may drive the session already.
    pub(crate) fn verify(&mut self) {
        self.verify_at = None;
        if self.storage_failure.is_none()
            && let Err(error) = self.restore_if_damaged()
        {
            self.report_storage_failure(&error);
        }
    }

    /// Verifies the log and the locks every second. Never ends while they are intact.
    pub(super) fn poll_verify(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            let verify_at = self.verify_at.get_or_insert_with(|| Box::pin(tokio::time::sleep(VERIFIED_EVERY)));
            ready!(verify_at.as_mut().poll(context));
            let last = self.files.log.last();
            self.verify();
            if self.storage_failure.is_some() || self.files.log.last() != last {
                return Poll::Ready(());
            }
        }
    }

    fn restore_if_damaged(&mut self) -> Result<(), AppendError> {
        // First of all: only the holder of the session's lock may write to the log.
        let mut was_removed = self.files.restore_lock()?;
        // The end of the session is stored whoever drives the conversation.
        if !self.is_closing {
            was_removed |= self.files.restore_conversation_lock()?;
        }
        if was_removed {
            tracing::warn!("another program removed a lock of this session, which was restored");
        }
        let Some(damage) = self.files.log.examine()? else { return Ok(()) };
        let lost = self.files.restore(&self.ring.durable_lines())?;
        self.snapshot.forget_spans();
        let path = self.files.log.storage().path().display();
        let outcome = describe_loss(lost);
        let message = format!("the log {path} {damage} while the host was running, and was restored: {outcome}");
        tracing::error!("{message}");
        self.publish_or_queue(HostEvent::LogRestored { message }.into());
        Ok(())
    }

    /// Stores the waiting events now, or fails. The host calls this when it has closed what its predecessor left open,
    /// and when the host ends. After a failure the waiting events are lost; of them, clients receive only the one
    /// that says why the host stops.
    pub(crate) fn flush(&mut self) -> Result<(), AppendError> {
        // The rest is small, and may exceed the log's limit. (`process_starting` resets this.)
        self.is_closing = true;
        self.verify();
        if self.storage_failure.is_none() {
            return Ok(());
        }
        self.store_waiting().inspect_err(|_| {
            for event in std::mem::take(&mut self.unstored) {
                if let NativeEvent::Host(HostEvent::HostStopping { .. }) = event {
                    self.text.clear();
                    event.write(&mut self.text);
                    self.ring.push(&ephemeral_line(self.files.log.last(), &self.text), None);
                }
            }
        })
    }

    /// Stores the waiting events, as far as possible.
    pub(super) fn store_waiting(&mut self) -> Result<(), AppendError> {
        self.restore_if_damaged().and_then(|()| self.store_in_order()).inspect_err(|error| {
            let _known = self.record_storage_failure(error);
        })?;
        self.storage_failure = None;
        self.storage_failure_sender.send_replace(None);
        self.acknowledge_commands();
        tracing::info!("events can be stored again");
        self.publish(HostEvent::StorageRecovered);
        if self.dropped > 0 {
            let count = std::mem::take(&mut self.dropped);
            self.publish(Event::EventsDropped { count });
        }
        Ok(())
    }

    fn store_in_order(&mut self) -> Result<(), AppendError> {
        while let Some(event) = self.unstored.pop_front() {
            if let Err(error) = self.store_and_publish(&event) {
                self.unstored.push_front(event);
                return Err(error);
            }
            self.unstored_bytes = self.unstored_bytes.saturating_sub(event.weight_bytes());
        }
        Ok(())
    }
}

/// What to do so that events can be stored again.
fn remedy(error: &AppendError) -> &'static str {
    match error {
        AppendError::Full { .. } => "free some space, or end the session",
        AppendError::Limit { .. } => "end the session, and resume it with a higher limit or begin a new one",
        AppendError::Replaced { .. }
        | AppendError::NotRestored { .. }
        | AppendError::NotLocked { .. }
        | AppendError::Io { .. } => "fix that, or end the session",
    }
}
