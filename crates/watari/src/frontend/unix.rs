//! The sockets of a host. Clients connect and disconnect while the session continues.

mod client_stream;
mod connection;
mod input;
mod long_line;
mod names;
mod work_slice;

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use watari_hub::lock::{Lock, LockError, SOCKET_PREFIX};
use watari_hub::socket::{HostSocket, SocketError};
use watari_hub::{Handle, Key, SessionDirs, SessionState, Stopper};
use watari_sdk::files::{folders, is_this_user};

use crate::dialect::native::Native;
use crate::dialect::socket::SocketDialect;
use crate::dialect::speaker::Speaker;
use client_stream::ClientStream;
use connection::Connection;
use input::LineBudget;

/// How many clients a host accepts. Further clients are disconnected immediately.
const CLIENTS_MAX: usize = 4096;

/// How many descriptors are reserved for the session itself.
const RESERVED_DESCRIPTORS: usize = 64;

/// How often the host checks that its sockets still exist.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// How long clients have to read their last lines when the host ends.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(2);

/// How long to wait after a failed accept, for example for lack of descriptors.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// The dialect of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DialectName {
    Native,
    Socket,
}

/// A listening socket.
struct Listener {
    dialect: DialectName,
    bound: HostSocket,
    listener: UnixListener,
    /// The lock of its path. The native socket has none: its path follows from the session's key.
    lock: Option<Lock>,
}

/// Why a socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListenerError {
    #[error(transparent)]
    HostSocket(#[from] SocketError),
    #[error("the socket {path} is in use by {holder}: choose another path, or end that first")]
    InUse { path: String, holder: String },
    #[error(transparent)]
    Lock(LockError),
    #[error("cannot listen on {path}: {source}")]
    Listen { path: String, source: io::Error },
}

/// The sockets of a host.
pub(crate) struct Listeners {
    listeners: [Listener; 2],
    /// The folders of Watari. The folder for sockets is created again when it was removed.
    home: SessionDirs,
    /// Ends the session when no client is connected and nothing runs for this long.
    idle_exit: Option<Duration>,
}

impl Listeners {
    /// Listens on `KEY.sock` in the native dialect, and on `socket` in the socket dialect. The caller holds the lock of
    /// `socket`, so that no other host listens there.
    pub(crate) fn open(
        home: &SessionDirs,
        key: &Key,
        socket: &Path,
        lock: Lock,
        idle_exit: Option<Duration>,
    ) -> Result<Listeners, ListenerError> {
        let native = Listener::open(DialectName::Native, &home.socket(key), None)?;
        let socket = Listener::open(DialectName::Socket, socket, Some(lock))?;
        Ok(Listeners { listeners: [native, socket], home: home.clone(), idle_exit })
    }

    /// Serves clients until the host has ended and they have read their last lines.
    pub(crate) async fn serve(mut self, handle: Handle, stopper: Stopper) {
        let mut clients = JoinSet::new();
        let clients_max = clients_max();
        let budget = LineBudget::new();
        let mut number = 0_u64;
        let mut checks = check_interval();
        let (mut state, mut background) = (handle.state(), handle.background());
        let mut idle_since = Some(Instant::now());
        loop {
            let runs = !matches!(*state.borrow(), SessionState::Idle | SessionState::Down) || *background.borrow();
            let is_idle = clients.is_empty() && !runs;
            idle_since = if is_idle { idle_since.or_else(|| Some(Instant::now())) } else { None };
            let deadline = self.idle_exit.zip(idle_since).map(|(limit, since)| since + limit);
            let [native, socket] = &mut self.listeners;
            let (accepted, dialect) = tokio::select! {
                // Each may be dropped half-way: a client that was not accepted waits, and a change stays visible.
                accepted = native.listener.accept() => (accepted, DialectName::Native),
                accepted = socket.listener.accept() => (accepted, DialectName::Socket),
                Some(_) = clients.join_next() => continue,
                changed = state.changed() => match changed {
                    Ok(()) => continue,
                    // The host has ended.
                    Err(_) => break,
                },
                // When the host has ended, the state reports it too.
                Ok(()) = background.changed() => continue,
                () = until(deadline) => {
                    stopper.stop("no client was connected and nothing ran for the time of --idle-exit");
                    self.idle_exit = None;
                    continue;
                }
                _ = checks.tick() => {
                    self.listeners.iter_mut().for_each(|listener| listener.restore(&self.home));
                    continue;
                }
            };
            match accepted {
                Ok((stream, _)) if clients.len() < clients_max => {
                    number += 1;
                    if let Some(client) = accept_client(stream, dialect, number, &handle, &budget) {
                        clients.spawn(client);
                    }
                }
                Ok(_) => tracing::warn!("rejected a client: {clients_max} clients are connected"),
                Err(error) => {
                    tracing::warn!("cannot accept a client: {error}");
                    tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                }
            }
        }
        // The sockets are removed first, so that no client connects to a session that has ended.
        drop(self);
        let all_disconnected = async { while clients.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_LINES_WITHIN, all_disconnected).await.is_err() {
            tracing::warn!("a client did not read its last lines in time");
        }
    }
}

/// The number of clients for which there are descriptors, apart from those reserved for the session.
fn clients_max() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    // A client that does not read takes two descriptors.
    descriptors.map_or(CLIENTS_MAX, |limit| (limit.saturating_sub(RESERVED_DESCRIPTORS) / 2).clamp(1, CLIENTS_MAX))
}

fn check_interval() -> Interval {
    let mut checks = interval(CHECK_INTERVAL);
    checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    checks
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Begins to serve a client, if it belongs to this user.
fn accept_client(
    stream: UnixStream,
    dialect: DialectName,
    number: u64,
    handle: &Handle,
    budget: &LineBudget,
) -> Option<impl Future<Output = ()> + Send + use<>> {
    // A client whose user the system does not report counts as another user's.
    let peer = stream.peer_cred().ok().filter(|peer| is_this_user(peer.uid()));
    let Some(peer) = peer else {
        tracing::warn!("rejected a client of another user");
        return None;
    };
    tracing::info!(client = number, process = peer.pid(), ?dialect, "a client connected");
    let speaker: Box<dyn Speaker> = match dialect {
        DialectName::Native => Box::new(Native::default()),
        DialectName::Socket => Box::new(SocketDialect::default()),
    };
    let client_stream = match ClientStream::new(stream) {
        Ok(client_stream) => client_stream,
        Err(error) => {
            tracing::warn!(client = number, "cannot serve a client: {error}");
            return None;
        }
    };
    let connection = Connection::new(client_stream, speaker, number, handle.clone(), budget.clone());
    Some(async move {
        let why = connection.serve().await;
        tracing::info!(client = number, "a client disconnected: {why}");
    })
}

impl Listener {
    fn open(dialect: DialectName, path: &Path, lock: Option<Lock>) -> Result<Listener, ListenerError> {
        let (bound, listener) = listen(path)?;
        Ok(Listener { dialect, bound, listener, lock })
    }

    /// Restores the lock of the path if another program removed it. If another process has taken it, that does not
    /// listen here either, as long as this one does.
    fn restore_lock(&mut self, home: &SessionDirs) {
        let Some(lock) = &mut self.lock else { return };
        // If this fails, so does the next step, which says why.
        let _made = folders::make(&home.locks());
        match lock.restore(&home.locks()) {
            Ok(false) => {}
            Ok(true) => tracing::warn!("another program removed the lock of the socket's path, which was restored"),
            Err(error) => tracing::error!("another program removed the lock of the socket's path: {error}"),
        }
    }

    /// Creates the socket again if it was removed. Nothing here may block: the same task serves the clients.
    fn restore(&mut self, home: &SessionDirs) {
        self.restore_lock(home);
        if self.bound.is_in_place() {
            return;
        }
        let path = self.bound.path().to_owned();
        if path.parent() == Some(&home.runtime)
            && let Err(trouble) = folders::make(&home.runtime)
        {
            let (what, remedy) = trouble.describe(&home.runtime, home.runtime_variable());
            tracing::error!(dialect = ?self.dialect, "the socket was removed and cannot be created again: {what}; {remedy}");
            return;
        }
        match listen(&path) {
            Ok((bound, listener)) => {
                tracing::warn!(path = %path.display(), "the socket was removed and has been created again");
                (self.bound, self.listener) = (bound, listener);
            }
            Err(error) => {
                tracing::error!(dialect = ?self.dialect, "the socket was removed and cannot be created again: {error}");
            }
        }
    }
}

fn listen(path: &Path) -> Result<(HostSocket, UnixListener), ListenerError> {
    let bound = HostSocket::bind(path)?;
    let listener = bound.listener().try_clone().and_then(|listener| {
        listener.set_nonblocking(true)?;
        UnixListener::from_std(listener)
    });
    match listener {
        Ok(listener) => Ok((bound, listener)),
        Err(source) => Err(ListenerError::Listen { path: path.display().to_string(), source }),
    }
}

/// Takes the lock for the path of a socket.
pub(crate) fn lock(locks: &Path, socket: &Path, holder: &str) -> Result<Lock, ListenerError> {
    let name = format!("{SOCKET_PREFIX}{:016x}", fingerprint(socket.as_os_str().as_encoded_bytes()));
    Lock::take(&locks.join(name), holder).map_err(|error| match error {
        LockError::Held { holder } => ListenerError::InUse { path: socket.display().to_string(), holder },
        LockError::Io { .. } => ListenerError::Lock(error),
    })
}

/// The FNV-1a hash of bytes, which is stable across processes.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
