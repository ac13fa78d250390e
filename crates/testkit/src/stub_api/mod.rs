//! A stub of the Anthropic Messages API on the loopback, which answers by a script and records what it was asked.

mod desk;
mod fault;
mod inspect;
mod ledger;
mod message;
mod script;
mod script_file;
mod server;
mod sse;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use crate::hand_written::BadFile;
use desk::Desk;
pub use fault::{Fault, Point};
pub use ledger::{Call, RecordedRequest};
use ledger::{Ledger, STUB_KEY};
pub use script::{Reply, Script};
pub(crate) use script_file::ScriptFile;

/// A running stub. Dropping it stops the server and cuts every open answer.
#[derive(Debug)]
pub struct StubApi {
    address: SocketAddr,
    ledger: Arc<watch::Sender<Ledger>>,
    // Dropping the sender is the signal to stop.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How a stub is started.
#[derive(Debug, Default)]
pub struct StubOptions {
    /// What it answers.
    pub script: Script,
    /// The port of 127.0.0.1 to listen on; zero means a free one.
    pub port: u16,
    /// A file to which every request is written, one JSON object a line.
    pub record: Option<File>,
}

/// Why a stub did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartStubError {
    /// Something else listens on the port.
    #[error("port {port} of 127.0.0.1 is in use; choose another, or none for a free one")]
    PortInUse {
        /// The port.
        port: u16,
    },
    /// There is no port to listen on.
    #[error("cannot listen on port {port} of 127.0.0.1: {source}")]
    Listen {
        /// The port; zero means any.
        port: u16,
        /// What the system said.
        source: io::Error,
    },
    /// The system gives no thread, or the thread no runtime.
    #[error("cannot start the thread of the stub: {0}")]
    Thread(#[source] io::Error),
}

impl Script {
    /// Reads a script that somebody wrote; [`stub_script_schema`] says how.
    pub fn load(path: &Path) -> Result<Script, BadFile> {
        script_file::load_script(path)
    }
}

/// The JSON Schema of script files.
pub fn stub_script_schema() -> Value {
    schemars::schema_for!(ScriptFile).into()
}

impl StubApi {
    /// Starts a stub on a free port of 127.0.0.1 that answers by `script`.
    pub async fn start(script: Script) -> Result<Self, StartStubError> {
        Self::start_with(StubOptions { script, ..StubOptions::default() }).await
    }

    /// Starts a stub.
    pub async fn start_with(options: StubOptions) -> Result<Self, StartStubError> {
        let port = options.port;
        let cannot_listen = |source: io::Error| {
            let is_in_use = source.kind() == io::ErrorKind::AddrInUse;
            if is_in_use { StartStubError::PortInUse { port } } else { StartStubError::Listen { port, source } }
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        let listener = listener.into_std().map_err(cannot_listen)?;

        let ledger = Arc::new(watch::Sender::new(Ledger::new(options.script)));
        let desk = Desk::new(Arc::clone(&ledger), options.record);
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

    /// What a program needs in its environment so that the CLI it starts speaks with this stub and nobody else.
    /// A failed request is not tried again, so that a test does not wait for minutes.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let base_url = self.base_url();
        let variables = [
            ("ANTHROPIC_BASE_URL", base_url.as_str()),
            ("ANTHROPIC_API_KEY", STUB_KEY),
            ("DISABLE_TELEMETRY", "1"),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
            ("CLAUDE_CODE_MAX_RETRIES", "0"),
        ];
        variables.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    /// Begins again with another script, as if nothing had been asked yet.
    pub fn replace_script(&self, script: Script) {
        self.ledger.send_modify(|ledger| ledger.begin_again(script));
    }

    /// All requests so far, in the order in which they came; of very many, the newest.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.ledger.borrow().requests().cloned().collect()
    }

    /// The bodies of all model calls so far, those of subagents included: messages asked for with tools.
    pub fn model_calls(&self) -> Vec<Value> {
        self.ledger.borrow().model_calls().cloned().collect()
    }

    /// Waits until at least `count` model calls have come.
    pub async fn wait_for_model_calls(&self, count: usize) {
        let mut changes = self.ledger.subscribe();
        // The sender lives in this stub, so this ends only by the count being reached.
        drop(changes.wait_for(|ledger| ledger.model_call_count() >= count).await);
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
