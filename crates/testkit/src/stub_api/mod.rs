//! A stub of the Anthropic Messages API on 127.0.0.1, which answers by a script and records its requests.

mod fault;
mod handler;
mod inspect;
mod message;
mod request_log;
mod script;
mod script_file;
mod secrets;
mod server;
mod sse;

use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use watari_sdk::files::STUB_RECORDING;

use crate::hand_written::InputFileError;
pub use fault::{Fault, FaultPoint};
use handler::RequestHandler;
use request_log::RequestLog;
pub use request_log::{Call, RecordedRequest};
pub use script::{Reply, Script};
pub(crate) use script_file::ScriptFile;
use secrets::STUB_KEY;

/// A running stub. Dropping it stops the server and cuts every open answer.
#[derive(Debug)]
pub struct StubApi {
    address: SocketAddr,
    /// The secret part of the control URL.
    secret: Option<String>,
    request_log: Arc<watch::Sender<RequestLog>>,
    // Dropping the sender is the signal to stop.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The variables with which a CLI connects to a stub at `base_url` and nowhere else. A failed request is not retried,
/// so that a test does not wait for minutes.
pub(crate) fn stub_environment(base_url: &str) -> BTreeMap<String, String> {
    let variables = [
        ("ANTHROPIC_BASE_URL", base_url),
        ("ANTHROPIC_API_KEY", STUB_KEY),
        ("DISABLE_TELEMETRY", "1"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "0"),
        // A proxy would see every prompt.
        ("NO_PROXY", "127.0.0.1"),
        ("no_proxy", "127.0.0.1"),
    ];
    variables.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// The options of a stub.
#[derive(Debug, Default)]
pub struct StubOptions {
    /// Its replies.
    pub script: Script,
    /// The port of 127.0.0.1 to listen on; zero means a free one.
    pub port: u16,
    /// A file that receives every request, as one JSON object per line. It is truncated, and only this user can read
    /// it.
    pub record: Option<PathBuf>,
    /// Whether the stub's requests can be read and its script replaced over HTTP, at a secret URL.
    pub control_over_http: bool,
}

/// Why a stub did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartStubError {
    /// Another process listens on the port.
    #[error("port {port} of 127.0.0.1 is in use; choose another, or none for a free one")]
    PortInUse {
        /// The port.
        port: u16,
    },
    /// The stub cannot listen on the port.
    #[error("cannot listen on port {port} of 127.0.0.1: {source}")]
    Listen {
        /// The port; zero means any.
        port: u16,
        /// The system's error.
        source: io::Error,
    },
    /// The record file cannot be written.
    #[error("cannot write to {}: {source}; give another file", .path.display())]
    Record {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The thread or its runtime cannot be started.
    #[error("cannot start the thread of the stub: {0}")]
    Thread(#[source] io::Error),
}

impl Script {
    /// Reads a hand-written script; see [`stub_script_schema`].
    pub fn load(path: &Path) -> Result<Script, InputFileError> {
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

        // Only now: the record of a stub that has the port must not be emptied.
        let record =
            options.record.map(|path| open_record(&path).map_err(|source| StartStubError::Record { path, source }));
        let record = record.transpose()?;
        let request_log = Arc::new(watch::Sender::new(RequestLog::new(options.script)));
        let handler = RequestHandler::new(Arc::clone(&request_log), record);
        let secret = options.control_over_http.then(secret);
        let routes = server::routes(handler, secret.as_deref());
        let (stop, stopped) = oneshot::channel();
        let (started, start) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("stub-api".to_owned())
            .spawn(move || server::run(listener, routes, started, stopped))
            .map_err(StartStubError::Thread)?;
        let stub = Self { address, secret, request_log, stop: Some(stop), thread: Some(thread) };
        match start.await {
            Ok(Ok(())) => Ok(stub),
            Ok(Err(error)) => Err(StartStubError::Thread(error)),
            Err(_) => Err(StartStubError::Thread(io::Error::other("it ended immediately"))),
        }
    }

    /// The value for the CLI's `ANTHROPIC_BASE_URL`.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The variables that a program needs in its environment so that its CLI connects to this stub and nowhere else;
    /// and the control URL, if there is one.
    ///
    /// Variables that lead the CLI elsewhere, such as those for Bedrock or Vertex, must not be set.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let mut environment = stub_environment(&self.base_url());
        environment.extend(self.control_url().map(|url| ("WATARI_STUB_URL".to_owned(), url)));
        environment
    }

    /// The URL of `requests` and `script`, if enabled: its path cannot be guessed.
    pub fn control_url(&self) -> Option<String> {
        self.secret.as_ref().map(|secret| format!("{}/stub/{secret}", self.base_url()))
    }

    /// Starts over with another script, as if there had been no request yet.
    pub fn replace_script(&self, script: Script) {
        self.request_log.send_modify(|request_log| request_log.begin_again(script));
    }

    /// All requests so far, in order; of very many, the newest.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.request_log.borrow().requests().cloned().collect()
    }

    /// The bodies of all model calls so far, including those of subagents: requests for messages with tools.
    pub fn model_calls(&self) -> Vec<Value> {
        self.request_log.borrow().model_calls().cloned().collect()
    }

    /// Waits until at least `count` model calls have arrived.
    pub async fn wait_for_model_calls(&self, count: usize) {
        let mut changes = self.request_log.subscribe();
        // The sender lives in this stub, so this ends only when the count is reached.
        drop(changes.wait_for(|request_log| request_log.model_call_count() >= count).await);
    }
}

/// The requests may be private: a new file is for this user alone. An existing file keeps its mode.
fn open_record(path: &Path) -> Result<File, io::Error> {
    let file = STUB_RECORDING.open(path)?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// A random word that cannot be guessed: the standard library seeds its hash maps with random numbers of the system.
fn secret() -> String {
    let draw = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", draw(), draw())
}

impl Drop for StubApi {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // The thread never waits for this one, so this takes no longer than closing its sockets. If it panicked,
            // the panic was already printed and the test has seen a closed connection.
            drop(thread.join());
        }
    }
}
