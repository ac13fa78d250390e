//! How a host ends: in good order when it is stopped, and at once when it is stopped again.

use tokio::sync::{mpsc, oneshot, watch};

use super::Given;
use crate::published::HostEvent;
use crate::publisher::PublisherRequest;

/// Why a host ends that a client has closed.
pub(super) const CLOSED: &str = "a client has closed the session";

/// Ends a host.
#[derive(Debug, Clone)]
pub struct Stopper {
    stop: watch::Sender<Stop>,
}

/// Whether a host is to end.
#[derive(Debug, Default)]
pub(super) struct Stop {
    /// Why, once it is.
    reason: Option<String>,
    /// It was asked for again: nobody waits for the CLI any more.
    at_once: bool,
}

/// A stopper, and where its wish is heard.
pub(super) fn stopper() -> (Stopper, watch::Receiver<Stop>) {
    let (stop, received) = watch::channel(Stop::default());
    (Stopper { stop }, received)
}

impl Stopper {
    /// Ends the session in good order. The reason is told to everybody. Stopping again changes nothing.
    pub fn stop(&self, reason: &str) {
        self.stop.send_if_modified(|stop| {
            let is_first = stop.reason.is_none();
            stop.reason.get_or_insert_with(|| reason.to_owned());
            is_first
        });
    }

    /// Ends the session in good order; if it is ending already, whoever asked for it, at once: the CLI has half a second
    /// to store its conversation and is then killed with everything it has started.
    pub fn insist(&self, reason: &str) {
        self.stop.send_modify(|stop| match stop.reason {
            Some(_) => stop.at_once = true,
            None => stop.reason = Some(reason.to_owned()),
        });
    }
}

/// Why the host is to end, if it is.
pub(super) fn reason_of(stop: &watch::Receiver<Stop>) -> Option<String> {
    stop.borrow().reason.clone()
}

/// Waits until the host is to end, and says why.
pub(super) async fn stopped(stop: &mut watch::Receiver<Stop>) -> String {
    match stop.wait_for(|stop| stop.reason.is_some()).await.map(|stop| stop.reason.clone()) {
        Ok(reason) => reason.unwrap_or_default(),
        // Nobody is left who could stop it.
        Err(_) => std::future::pending().await,
    }
}

/// Waits until the host is to end at once.
pub(super) async fn hurried(mut stop: watch::Receiver<Stop>) {
    if stop.wait_for(|stop| stop.at_once).await.is_err() {
        // Nobody is left who could hurry it.
        std::future::pending().await
    }
}

/// A session that is being ended.
pub(super) struct Stopping {
    /// Until everybody was told why.
    published: Option<oneshot::Receiver<()>>,
    /// The command that ends it, if it was one.
    pub(super) ending: Option<Given>,
}

impl Stopping {
    /// Tells why. It goes the way of everything that is wanted of the publisher, which the session has at the moment.
    pub(super) fn begin(
        publisher_requests: &mpsc::Sender<PublisherRequest>,
        reason: &str,
        ending: Option<Given>,
    ) -> Stopping {
        let (published, is_published) = oneshot::channel();
        let event = HostEvent::HostStopping { reason: reason.to_owned() };
        // If so many wait to be let in that there is no room, the end itself tells them.
        let _full = publisher_requests.try_send(PublisherRequest::Publish { event, published });
        Stopping { published: Some(is_published), ending }
    }

    /// The same for a command of a client. From now on a signal is the second wish.
    pub(super) fn by_client(
        publisher_requests: &mpsc::Sender<PublisherRequest>,
        stopper: &Stopper,
        ending: Given,
    ) -> Stopping {
        stopper.stop(CLOSED);
        Stopping::begin(publisher_requests, CLOSED, Some(ending))
    }
}

/// Waits until everybody was told why a session is being ended, or that cannot be.
pub(super) async fn published(stopping: &mut Option<Stopping>) {
    match stopping.as_mut().and_then(|stopping| stopping.published.as_mut()) {
        Some(is_published) => {
            let _cannot = is_published.await;
        }
        None => return std::future::pending().await,
    }
    stopping.iter_mut().for_each(|stopping| stopping.published = None);
}
