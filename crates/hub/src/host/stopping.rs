//! Stops a host: gracefully at the first request, immediately at the second.

use tokio::sync::{mpsc, oneshot, watch};

use super::Given;
use crate::publisher::PublisherRequest;
use watari_sdk::HostEvent;

/// The reason when a client has closed the session.
pub(super) const CLOSED: &str = "a client has closed the session";

/// Stops a host.
#[derive(Debug, Clone)]
pub struct Stopper {
    stop: watch::Sender<StopRequest>,
}

/// Whether a host is to stop.
#[derive(Debug, Default)]
pub(super) struct StopRequest {
    /// The reason, once it is to stop.
    reason: Option<String>,
    /// A second request: the host no longer waits for the CLI.
    is_abort: bool,
}

/// Returns a stopper and the receiver of its requests.
pub(super) fn stopper() -> (Stopper, watch::Receiver<StopRequest>) {
    let (stop, received) = watch::channel(StopRequest::default());
    (Stopper { stop }, received)
}

impl Stopper {
    /// Stops the session gracefully. All clients receive the reason. A further call has no effect.
    pub fn stop(&self, reason: &str) {
        self.stop.send_if_modified(|stop| {
            let is_first = stop.reason.is_none();
            stop.reason.get_or_insert_with(|| reason.to_owned());
            is_first
        });
    }

    /// Stops the session gracefully. If it is stopping already, for whatever reason, stops it immediately: the CLI has
    /// half a second to store its conversation and is then killed with its process tree.
    pub fn stop_or_abort(&self, reason: &str) {
        self.stop.send_modify(|stop| match stop.reason {
            Some(_) => stop.is_abort = true,
            None => stop.reason = Some(reason.to_owned()),
        });
    }
}

/// The reason to stop, if there is one.
pub(super) fn reason_of(stop: &watch::Receiver<StopRequest>) -> Option<String> {
    stop.borrow().reason.clone()
}

/// Waits until the host is to stop, and returns the reason.
pub(super) async fn stop_requested(stop: &mut watch::Receiver<StopRequest>) -> String {
    match stop.wait_for(|stop| stop.reason.is_some()).await.map(|stop| stop.reason.clone()) {
        Ok(reason) => reason.unwrap_or_default(),
        // All stoppers are dropped.
        Err(_) => std::future::pending().await,
    }
}

/// Waits until the host is to stop immediately.
pub(super) async fn abort_requested(mut stop: watch::Receiver<StopRequest>) {
    if stop.wait_for(|stop| stop.is_abort).await.is_err() {
        // All stoppers are dropped.
        std::future::pending().await
    }
}

/// A session that is ending.
pub(super) struct Stopping {
    /// Resolves when the reason is published.
    published: Option<oneshot::Receiver<()>>,
    /// The command that ends the session, if a client sent one.
    pub(super) closing_command: Option<Given>,
}

impl Stopping {
    /// Publishes the reason. The request goes through the publisher's queue, because the running session borrows the
    /// publisher.
    pub(super) fn begin(
        publisher_requests: &mpsc::Sender<PublisherRequest>,
        reason: &str,
        closing_command: Option<Given>,
    ) -> Stopping {
        let (done, is_published) = oneshot::channel();
        let event = HostEvent::HostStopping { reason: reason.to_owned() };
        // If the queue is full of waiting clients, they learn of the end from the end itself.
        let _full = publisher_requests.try_send(PublisherRequest::Publish { event, done });
        Stopping { published: Some(is_published), closing_command }
    }

    /// Like [`Stopping::begin`], for a command of a client. From now on a signal counts as the second request.
    pub(super) fn by_client(
        publisher_requests: &mpsc::Sender<PublisherRequest>,
        stopper: &Stopper,
        closing_command: Given,
    ) -> Stopping {
        stopper.stop(CLOSED);
        Stopping::begin(publisher_requests, CLOSED, Some(closing_command))
    }
}

/// Waits until the reason is published, or cannot be.
pub(super) async fn reason_published(stopping: &mut Option<Stopping>) {
    match stopping.as_mut().and_then(|stopping| stopping.published.as_mut()) {
        Some(is_published) => {
            let _cannot = is_published.await;
        }
        None => return std::future::pending().await,
    }
    stopping.iter_mut().for_each(|stopping| stopping.published = None);
}
