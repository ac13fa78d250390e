//! Stops a host: gracefully at the first request, at once at the second.

use tokio::sync::{mpsc, oneshot, watch};

use super::Given;
use crate::publication::HostEvent;
use crate::publisher::PublisherRequest;

/// The reason when a client has closed the session.
pub(super) const CLOSED: &str = "a client has closed the session";

/// Stops a host.
#[derive(Debug, Clone)]
pub struct Stopper {
    stop: watch::Sender<Stop>,
}

/// Whether a host is to stop.
#[derive(Debug, Default)]
pub(super) struct Stop {
    /// The reason, once it is to stop.
    reason: Option<String>,
    /// A second request: the host no longer waits for the CLI.
    at_once: bool,
}

/// Returns a stopper and the receiver of its requests.
pub(super) fn stopper() -> (Stopper, watch::Receiver<Stop>) {
    let (stop, received) = watch::channel(Stop::default());
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

    /// Stops the session gracefully. If it is stopping already, for whatever reason, stops it at once: the CLI has half
    /// a second to store its conversation and is then killed with its process tree.
    pub fn insist(&self, reason: &str) {
        self.stop.send_modify(|stop| match stop.reason {
            Some(_) => stop.at_once = true,
            None => stop.reason = Some(reason.to_owned()),
        });
    }
}

/// The reason to stop, if there is one.
pub(super) fn reason_of(stop: &watch::Receiver<Stop>) -> Option<String> {
    stop.borrow().reason.clone()
}

/// Waits until the host is to stop, and returns the reason.
pub(super) async fn stopped(stop: &mut watch::Receiver<Stop>) -> String {
    match stop.wait_for(|stop| stop.reason.is_some()).await.map(|stop| stop.reason.clone()) {
        Ok(reason) => reason.unwrap_or_default(),
        // All stoppers are dropped.
        Err(_) => std::future::pending().await,
    }
}

/// Waits until the host is to stop at once.
pub(super) async fn hurried(mut stop: watch::Receiver<Stop>) {
    if stop.wait_for(|stop| stop.at_once).await.is_err() {
        // All stoppers are dropped.
        std::future::pending().await
    }
}

/// A session that is ending.
pub(super) struct Stopping {
    /// Resolves when the reason is published.
    published: Option<oneshot::Receiver<()>>,
    /// The command that ends the session, if a client sent one.
    pub(super) ending: Option<Given>,
}

impl Stopping {
    /// Publishes the reason. The request goes through the publisher's queue, because the running session borrows the
    /// publisher.
    pub(super) fn begin(
        publisher_requests: &mpsc::Sender<PublisherRequest>,
        reason: &str,
        ending: Option<Given>,
    ) -> Stopping {
        let (published, is_published) = oneshot::channel();
        let event = HostEvent::HostStopping { reason: reason.to_owned() };
        // If the queue is full of waiting clients, they learn of the end from the end itself.
        let _full = publisher_requests.try_send(PublisherRequest::Publish { event, published });
        Stopping { published: Some(is_published), ending }
    }

    /// Does the same for a client's command. From now on a signal counts as the second request.
    pub(super) fn by_client(
        publisher_requests: &mpsc::Sender<PublisherRequest>,
        stopper: &Stopper,
        ending: Given,
    ) -> Stopping {
        stopper.stop(CLOSED);
        Stopping::begin(publisher_requests, CLOSED, Some(ending))
    }
}

/// Waits until the reason is published, or cannot be.
pub(super) async fn published(stopping: &mut Option<Stopping>) {
    match stopping.as_mut().and_then(|stopping| stopping.published.as_mut()) {
        Some(is_published) => {
            let _cannot = is_published.await;
        }
        None => return std::future::pending().await,
    }
    stopping.iter_mut().for_each(|stopping| stopping.published = None);
}
