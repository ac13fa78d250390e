//! A stub of the Anthropic Messages API on the loopback, which answers by a script and records what it was asked.

mod ledger;
mod message;
mod script;
mod server;
mod sse;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use ledger::Ledger;
pub use ledger::RecordedRequest;
pub use script::{Reply, Script};
use server::Desk;

/// A running stub. Dropping it stops the server and cuts every open answer.
#[derive(Debug)]
pub struct StubApi {
    address: SocketAddr,
    ledger: Arc<watch::Sender<Ledger>>,
    // Dropping the sender is the signal to stop.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Why a stub did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartStubError {
    /// There is no port to listen on.
    #[error("cannot listen on the loopback")]
    Listen(#[source] io::Error),
    /// The system gives no thread, or the thread no runtime.
    #[error("cannot start the thread of the stub")]
    Thread(#[source] io::Error),
}

impl StubApi {
    /// Starts a stub on a free port of 127.0.0.1 that answers by `script`.
    pub async fn start(script: Script) -> Result<Self, StartStubError> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.map_err(StartStubError::Listen)?;
        let address = listener.local_addr().map_err(StartStubError::Listen)?;
        let listener = listener.into_std().map_err(StartStubError::Listen)?;

        let ledger = Arc::new(watch::Sender::new(Ledger::default()));
        let desk = Desk::new(script, Arc::clone(&ledger));
        let (stop, stopped) = oneshot::channel();
        let (started, start) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("stub-api".to_owned())
            .spawn(move || server::run(listener, desk, started, stopped))
            .map_err(StartStubError::Thread)?;
        let stub = Self { address, ledger, stop: Some(stop), thread: Some(thread) };
        match start.await {
            Ok(Ok(())) => Ok(stub),
            Ok(Err(error)) => Err(StartStubError::Thread(error)),
            Err(_) => Err(StartStubError::Thread(io::Error::other("it ended at once"))),
        }
    }

    /// What to give the CLI as `ANTHROPIC_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All requests so far, in the order in which they came.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.ledger.borrow().requests().to_vec()
    }

    /// The bodies of all model calls so far, those of subagents included: messages asked for with tools.
    pub fn model_calls(&self) -> Vec<Value> {
        self.ledger.borrow().model_calls().cloned().collect()
    }

    /// Waits until at least `count` model calls have come.
    pub async fn wait_for_model_calls(&self, count: usize) {
        let mut changes = self.ledger.subscribe();
        // The sender lives in this stub, so this ends only by the count being reached.
        drop(changes.wait_for(|ledger| ledger.model_calls().count() >= count).await);
    }
}

impl Drop for StubApi {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread never waits for the one that drops, so this takes no longer than closing its sockets.
            // If it panicked, the panic was already printed and the test has seen a closed connection.
            drop(thread.join());
        }
    }
}
