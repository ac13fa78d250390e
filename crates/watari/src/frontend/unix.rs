//! The sockets of a host: clients come and go, and the session goes on.

mod connection;
mod input;
mod long_lines;
mod names;
mod turn;
mod wire;

use std::io;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use watari_hub::lock::{Lock, LockError, SOCKET_PREFIX};
use watari_hub::socket::{HostSocket as BoundSocket, SocketError};
use watari_hub::{Handle, HostState, Key, SessionDirs, Stopper};
use watari_sdk::files::{folders, is_this_user};

use crate::dialect::native::Native;
use crate::dialect::socket::SocketDialect;
use crate::dialect::speaker::Speaker;
use connection::Connection;
use input::LineBudget;
use wire::Wire;

/// How many clients a host may have. A further one is let go at once.
const CLIENTS_MAX: usize = 4096;

/// How many descriptors the session itself may need.
const DESCRIPTORS_KEPT: usize = 64;

/// How often it is looked whether the sockets are still in their place.
const LOOKED_EVERY: Duration = Duration::from_secs(2);

/// How long clients have to take what they were told when the host ends.
const LAST_LINES_WITHIN: Duration = Duration::from_secs(2);

/// How long a failed accept, as for want of descriptors, is waited out.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Which dialect is spoken on a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DialectName {
    Native,
    Socket,
}

/// A socket that is listened on.
struct Listener {
    spoken: DialectName,
    bound: BoundSocket,
    listener: UnixListener,
    _lock: Option<Lock>,
}

/// Why there is no socket.
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
    /// Our own folder for sockets, which is made again when it is gone.
    home: SessionDirs,
    /// Ends the session when nobody is there and nothing runs for so long.
    idle_exit: Option<Duration>,
}

impl Listeners {
    /// Listens on the native socket and on that of the document, for which a lock is taken: nobody else may listen there.
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

    /// Serves clients until the session has ended, and they know.
    pub(crate) async fn serve(mut self, handle: Handle, stopper: Stopper) {
        let mut clients = JoinSet::new();
        let clients_max = clients_max();
        let budget = LineBudget::new();
        let mut number = 0_u64;
        let mut looks = looks();
        let (mut state, mut background) = (handle.state(), handle.background());
        let mut idle_since = Some(Instant::now());
        loop {
            let runs = !matches!(*state.borrow(), HostState::Idle | HostState::Down) || *background.borrow();
            let is_idle = clients.is_empty() && !runs;
            idle_since = if is_idle { idle_since.or_else(|| Some(Instant::now())) } else { None };
            let deadline = self.idle_exit.zip(idle_since).map(|(limit, since)| since + limit);
            let [native, socket] = &mut self.listeners;
            let (accepted, spoken) = tokio::select! {
                // All may be dropped half-way: who was not accepted waits, and what has changed stays changed.
                accepted = native.listener.accept() => (accepted, DialectName::Native),
                accepted = socket.listener.accept() => (accepted, DialectName::Socket),
                Some(_) = clients.join_next() => continue,
                changed = state.changed() => match changed {
                    Ok(()) => continue,
                    // The session has ended.
                    Err(_) => break,
                },
                // When there is none any more, the state says so too.
                Ok(()) = background.changed() => continue,
                () = until(deadline) => {
                    stopper.stop("nobody was connected and nothing ran for the time of --idle-exit");
                    self.idle_exit = None;
                    continue;
                }
                _ = looks.tick() => {
                    self.listeners.iter_mut().for_each(|listener| listener.look(&self.home));
                    continue;
                }
            };
            match accepted {
                Ok((stream, _)) if clients.len() < clients_max => {
                    number += 1;
                    if let Some(client) = accept_client(stream, spoken, number, &handle, &budget) {
                        clients.spawn(client);
                    }
                }
                Ok(_) => tracing::warn!("{clients_max} clients are connected: a further one was let go"),
                Err(error) => {
                    tracing::warn!("a client could not be accepted: {error}");
                    tokio::time::sleep(ACCEPT_AGAIN_AFTER).await;
                }
            }
        }
        // The sockets go first, so that nobody comes to a session that is no more.
        drop(self);
        let all_gone = async { while clients.join_next().await.is_some() {} };
        if tokio::time::timeout(LAST_LINES_WITHIN, all_gone).await.is_err() {
            tracing::warn!("a client did not take its last lines in time");
        }
    }
}

/// As many clients as there are descriptors for, with some for the session itself.
fn clients_max() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.and_then(|limit| usize::try_from(limit).ok());
    // A client that does not read has two.
    descriptors.map_or(CLIENTS_MAX, |limit| (limit.saturating_sub(DESCRIPTORS_KEPT) / 2).clamp(1, CLIENTS_MAX))
}

fn looks() -> Interval {
    let mut looks = interval(LOOKED_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Begins to serve a client, if it is one of this user's.
fn accept_client(
    stream: UnixStream,
    spoken: DialectName,
    number: u64,
    handle: &Handle,
    budget: &LineBudget,
) -> Option<impl Future<Output = ()> + Send + use<>> {
    // One of whom the system does not tell who it is, is somebody else.
    let peer = stream.peer_cred().ok().filter(|peer| is_this_user(peer.uid()));
    let Some(peer) = peer else {
        tracing::warn!("rejected a client of another user");
        return None;
    };
    tracing::info!(client = number, process = peer.pid(), ?spoken, "a client connected");
    let speaker: Box<dyn Speaker> = match spoken {
        DialectName::Native => Box::new(Native::default()),
        DialectName::Socket => Box::new(SocketDialect::default()),
    };
    let wire = match Wire::new(stream) {
        Ok(wire) => wire,
        Err(error) => {
            tracing::warn!(client = number, "a client cannot be served: {error}");
            return None;
        }
    };
    let connection = Connection::new(wire, speaker, number, handle.clone(), budget.clone());
    Some(async move {
        let why = connection.serve().await;
        tracing::info!(client = number, "a client disconnected: {why}");
    })
}

impl Listener {
    fn open(spoken: DialectName, path: &Path, lock: Option<Lock>) -> Result<Listener, ListenerError> {
        let (bound, listener) = listen(path)?;
        Ok(Listener { spoken, bound, listener, _lock: lock })
    }

    /// Sees to it that the socket is in its place. Nothing here waits for anybody: clients are served by the same task.
    fn look(&mut self, home: &SessionDirs) {
        if self.bound.is_in_place() {
            return;
        }
        let path = self.bound.path().to_owned();
        if path.parent() == Some(&home.runtime)
            && let Err(trouble) = folders::make(&home.runtime)
        {
            let (what, remedy) = trouble.describe(&home.runtime, home.runtime_variable());
            tracing::error!(spoken = ?self.spoken, "the socket was removed and cannot be created again: {what}; {remedy}");
            return;
        }
        match listen(&path) {
            Ok((bound, listener)) => {
                tracing::warn!(path = %path.display(), "the socket was removed and has been created again");
                (self.bound, self.listener) = (bound, listener);
            }
            Err(error) => {
                tracing::error!(spoken = ?self.spoken, "the socket was removed and cannot be created again: {error}");
            }
        }
    }
}

fn listen(path: &Path) -> Result<(BoundSocket, UnixListener), ListenerError> {
    let bound = BoundSocket::bind(path)?;
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

/// A number for bytes, always the same (FNV-1a): two that differ have the same only by a rare chance.
pub(crate) fn fingerprint(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
