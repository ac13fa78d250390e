//! A stub of the Anthropic Messages API on the loopback, which answers by a script and records what it was asked.

mod desk;
mod fault;
mod inspect;
mod ledger;
mod message;
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
use watari_sdk::files::WANTED_RECORD;

use crate::hand_written::BadFile;
use desk::Desk;
pub use fault::{Fault, Point};
use ledger::Ledger;
pub use ledger::{Call, RecordedRequest};
pub use script::{Reply, Script};
pub(crate) use script_file::ScriptFile;
use secrets::STUB_KEY;

/// A running stub. Dropping it stops the server and cuts every open answer.
#[derive(Debug)]
pub struct StubApi {
    address: SocketAddr,
    /// What those know who may ask the stub itself.
    secret: Option<String>,
    ledger: Arc<watch::Sender<Ledger>>,
    // Dropping the sender is the signal to stop.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The variables by which a CLI speaks with a stub at `base_url` and nobody else. A failed request is not tried again,
/// so that a test does not wait for minutes.
pub(crate) fn stub_environment(base_url: &str) -> BTreeMap<String, String> {
    let variables = [
        ("ANTHROPIC_BASE_URL", base_url),
        ("ANTHROPIC_API_KEY", STUB_KEY),
        ("DISABLE_TELEMETRY", "1"),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
        ("CLAUDE_CODE_MAX_RETRIES", "0"),
        // A proxy would get to see every prompt.
        ("NO_PROXY", "127.0.0.1"),
        ("no_proxy", "127.0.0.1"),
    ];
    variables.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

/// How a stub is started.
#[derive(Debug, Default)]
pub struct StubOptions {
    /// What it answers.
    pub script: Script,
    /// The port of 127.0.0.1 to listen on; zero means a free one.
    pub port: u16,
    /// A file to which every request is written, one JSON object a line. It is emptied, and only this user can read it.
    pub record: Option<PathBuf>,
    /// Whether the stub can be asked over HTTP what it was asked, and be given another script, by those who know where.
    pub can_be_asked: bool,
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
    /// The file for the requests cannot be written.
    #[error("cannot write to {}: {source}; give another file", .path.display())]
    Record {
        /// Its path.
        path: PathBuf,
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

        // Only now: the record of a stub that has the port must not be emptied.
        let record =
            options.record.map(|path| open_record(&path).map_err(|source| StartStubError::Record { path, source }));
        let record = record.transpose()?;
        let ledger = Arc::new(watch::Sender::new(Ledger::new(options.script)));
        let desk = Desk::new(Arc::clone(&ledger), record);
        let secret = options.can_be_asked.then(secret);
        let routes = server::routes(desk, secret.as_deref());
        let (stop, stopped) = oneshot::channel();
        let (started, start) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("stub-api".to_owned())
            .spawn(move || server::run(listener, routes, started, stopped))
            .map_err(StartStubError::Thread)?;
        let stub = Self { address, secret, ledger, stop: Some(stop), thread: Some(thread) };
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

    /// What a program needs in its environment so that the CLI it starts speaks with this stub and nobody else; and, if
    /// there is one, where the stub itself can be asked.
    ///
    /// Variables that lead the CLI elsewhere, such as those for Bedrock or Vertex, must not be set.
    pub fn environment(&self) -> BTreeMap<String, String> {
        let mut environment = stub_environment(&self.base_url());
        environment.extend(self.control_url().map(|url| ("WATARI_STUB_URL".to_owned(), url)));
        environment
    }

    /// Where `requests` and `script` are, if the stub can be asked: a path that nobody can guess.
    pub fn control_url(&self) -> Option<String> {
        self.secret.as_ref().map(|secret| format!("{}/stub/{secret}", self.base_url()))
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

/// The requests may hold what is nobody else's business: a new file is for this user alone. One that the user already has
/// keeps the mode that the user gave it.
fn open_record(path: &Path) -> Result<File, io::Error> {
    let file = WANTED_RECORD.open(path)?;
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(file)
}

/// A word that nobody can guess: the standard library seeds its hash maps with numbers of the system's.
fn secret() -> String {
    let draw = || RandomState::new().hash_one(std::process::id());
    format!("{:016x}{:016x}", draw(), draw())
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
