//! Stops a host: gracefully at the first request, immediately at the second.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;

/// The reason when a client has closed the session.
const CLOSED: &str = "a client has closed the session";

/// Stops a host.
#[derive(Debug, Clone)]
pub struct Stopper {
    stop: watch::Sender<StopRequest>,
}

/// Whether a host is to stop.
#[derive(Debug, Default)]
struct StopRequest {
    /// The reason, once it is to stop.
    reason: Option<String>,
    /// A second request: the host no longer waits for the CLI.
    is_abort: bool,
}

impl Stopper {
    pub(crate) fn new() -> Stopper {
        Stopper { stop: watch::Sender::new(StopRequest::default()) }
    }

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

/// What the host has to do next to stop.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum StopStep {
    /// Close the session, for this reason.
    Close(String),
    /// End the session immediately.
    Abort,
}

/// How far a host has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Running,
    Closing,
    Aborting,
}

/// The publisher's view of the requests to stop: each step is taken once.
pub(crate) struct StopWatch {
    stopper: Stopper,
    changed: Pin<Box<dyn Future<Output = watch::Receiver<StopRequest>> + Send>>,
    progress: Progress,
}

impl StopWatch {
    pub(crate) fn new(stopper: Stopper) -> StopWatch {
        let changed = Box::pin(changed(stopper.stop.subscribe()));
        StopWatch { stopper, changed, progress: Progress::Running }
    }

    /// The reason why the host stops, if it does.
    pub(crate) fn reason(&self) -> Option<String> {
        self.stopper.stop.borrow().reason.clone()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.progress != Progress::Running
    }

    /// Records that a client ends the session. From now on, a signal is the second request. Returns the reason for the
    /// clients; `None` if the session is ending already.
    pub(crate) fn closed_by_client(&mut self) -> Option<String> {
        if self.is_stopping() {
            return None;
        }
        self.progress = Progress::Closing;
        self.stopper.stop(CLOSED);
        self.reason()
    }

    /// Ready with the next step.
    pub(crate) fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<StopStep> {
        loop {
            if let Some(step) = self.next_step() {
                return Poll::Ready(step);
            }
            let received = std::task::ready!(self.changed.as_mut().poll(context));
            self.changed = Box::pin(changed(received));
        }
    }

    fn next_step(&mut self) -> Option<StopStep> {
        let stop = self.stopper.stop.borrow();
        match (self.progress, &stop.reason) {
            (Progress::Running, Some(reason)) => {
                self.progress = Progress::Closing;
                Some(StopStep::Close(reason.clone()))
            }
            (Progress::Closing, _) if stop.is_abort => {
                self.progress = Progress::Aborting;
                Some(StopStep::Abort)
            }
            (Progress::Running | Progress::Closing | Progress::Aborting, _) => None,
        }
    }
}

/// Waits for the next change. The sender is never dropped, because the watch holds it too.
async fn changed(mut received: watch::Receiver<StopRequest>) -> watch::Receiver<StopRequest> {
    let _dropped = received.changed().await;
    received
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    #[test]
    fn a_host_closes_at_the_first_request_and_aborts_at_the_second_whoever_sends_them() {
        let step = |watch: &mut StopWatch| match watch.poll_step(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(step) => Some(step),
            Poll::Pending => None,
        };
        let stopper = Stopper::new();
        let mut watch = StopWatch::new(stopper.clone());
        assert_eq!(step(&mut watch), None);
        stopper.stop_or_abort("SIGTERM");
        stopper.stop_or_abort("SIGTERM");
        assert_eq!(step(&mut watch), Some(StopStep::Close("SIGTERM".into())));
        assert_eq!(watch.closed_by_client(), None);
        assert_eq!(step(&mut watch), Some(StopStep::Abort));
        stopper.stop_or_abort("SIGTERM");
        assert_eq!(step(&mut watch), None);

        let stopper = Stopper::new();
        let mut watch = StopWatch::new(stopper.clone());
        assert_eq!(watch.closed_by_client().as_deref(), Some(CLOSED));
        stopper.stop("idle");
        assert_eq!(step(&mut watch), None);
        stopper.stop_or_abort("SIGTERM");
        assert_eq!(step(&mut watch), Some(StopStep::Abort));
    }
}
