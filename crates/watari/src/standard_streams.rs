//! Standard input, output and error. Other processes may share them, so their flags are never changed: a flag applies
//! to every process that shares the open file, even after this program is killed.
//!
//! A pipe is reopened, and the new descriptor is non-blocking. A socket is read and written with MSG_DONTWAIT. For
//! everything else (files, terminals, pipes that cannot be reopened) a thread copies between it and our own pipe.

mod patient;
mod relay;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

pub(crate) use patient::{check_writable, wait_for_input, write_all, write_within};
use relay::Relay;
use rustix::buffer::spare_capacity;
use rustix::fs::FileType;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::unix::pipe;
use watari_sdk::files;

/// The source of the client's lines.
pub(crate) enum Input {
    Pipe(pipe::Receiver),
    Socket(AsyncFd<OwnedFd>),
    Other(pipe::Receiver, Relay),
}

/// The destination of the lines for the client.
pub(crate) enum Output {
    Pipe(pipe::Sender),
    Socket {
        socket: AsyncFd<OwnedFd>,
        /// A second descriptor of the same socket, only to wait until the client closes it.
        watched: AsyncFd<OwnedFd>,
    },
    /// The pipe is none once it is closed, so that the thread ends.
    Other(Option<pipe::Sender>, Relay),
}

impl Input {
    pub(crate) fn open() -> io::Result<Input> {
        Input::of(io::stdin().as_fd())
    }

    fn of(stdin: BorrowedFd<'_>) -> io::Result<Input> {
        let kind = kind_of(stdin)?;
        if kind == FileType::Socket {
            let socket = stdin.try_clone_to_owned()?;
            return Ok(Input::Socket(watched_for(Interest::READABLE, socket)?));
        }
        if kind == FileType::Fifo
            && let Ok(pipe) = files::reopened_input(stdin)
        {
            return Ok(Input::Pipe(pipe::Receiver::from_owned_fd(pipe)?));
        }
        let (reader, writer) = io::pipe()?;
        let relay = Relay::start(stdin.try_clone_to_owned()?, writer.into())?;
        Ok(Input::Other(pipe::Receiver::from_owned_fd(reader.into())?, relay))
    }

    /// Appends the available bytes to `bytes`; returns zero at the end. Cancel-safe: dropping the future loses nothing.
    pub(crate) async fn read(&mut self, bytes: &mut Vec<u8>) -> io::Result<usize> {
        match self {
            Input::Pipe(pipe) => pipe.read_buf(bytes).await,
            Input::Socket(socket) => {
                let receive = |socket: &OwnedFd| {
                    Ok(rustix::net::recv(socket, spare_capacity(bytes), RecvFlags::DONTWAIT).map(|(count, _)| count)?)
                };
                socket.async_io(Interest::READABLE, receive).await
            }
            Input::Other(pipe, relay) => match pipe.read_buf(bytes).await? {
                0 => relay.end().await.map(|()| 0),
                count => Ok(count),
            },
        }
    }
}

impl Output {
    pub(crate) fn open() -> io::Result<Output> {
        Output::of(io::stdout().as_fd())
    }

    fn of(stdout: BorrowedFd<'_>) -> io::Result<Output> {
        let kind = kind_of(stdout)?;
        if kind == FileType::Socket {
            let [socket, watched] = [stdout.try_clone_to_owned()?, stdout.try_clone_to_owned()?];
            return Ok(Output::Socket {
                socket: watched_for(Interest::WRITABLE, socket)?,
                watched: watched_for(Interest::WRITABLE, watched)?,
            });
        }
        if kind == FileType::Fifo
            && let Ok(pipe) = files::reopened_output(stdout)
        {
            return Ok(Output::Pipe(pipe::Sender::from_owned_fd(pipe)?));
        }
        let (reader, writer) = io::pipe()?;
        let relay = Relay::start(reader.into(), stdout.try_clone_to_owned()?)?;
        Ok(Output::Other(Some(pipe::Sender::from_owned_fd(writer.into())?), relay))
    }

    /// Writes as many bytes as possible now. With nothing to write, waits until the client has closed its end, which is
    /// an error. Cancel-safe: dropping the future loses nothing.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Err(self.closed().await);
        }
        match self {
            Output::Pipe(pipe) => pipe.write(bytes).await,
            Output::Socket { socket, .. } => {
                let send = |socket: &OwnedFd| Ok(rustix::net::send(socket, bytes, SendFlags::DONTWAIT)?);
                socket.async_io(Interest::WRITABLE, send).await
            }
            Output::Other(pipe, relay) => {
                let written = match pipe {
                    Some(pipe) => pipe.write(bytes).await.ok(),
                    None => None,
                };
                match written {
                    Some(count) => Ok(count),
                    // The thread has ended, and returns the reason.
                    None => Err(relay.error().await),
                }
            }
        }
    }

    /// Waits until everything is written. Nothing can be written after that.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        match self {
            Output::Pipe(_) | Output::Socket { .. } => Ok(()),
            Output::Other(pipe, relay) => {
                *pipe = None;
                relay.end().await
            }
        }
    }

    /// Waits until the client can read nothing more. A pipe reports that it has no reader. A socket reports that its
    /// peer has closed it or shut it down in both directions; a peer that shuts down only its writing side ends just
    /// the input. A peer that shuts down only its reading side is noticed by the next write, like the end of a
    /// terminal.
    async fn closed(&mut self) -> io::Error {
        match self {
            Output::Pipe(pipe) => {
                #[cfg(target_os = "linux")]
                let closed = pipe.ready(Interest::ERROR).await.map(drop);
                #[cfg(not(target_os = "linux"))]
                let closed = { std::future::pending::<io::Result<()>>().await };
                closed.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
            }
            Output::Socket { watched, .. } => {
                #[cfg(target_os = "linux")]
                let closed = end_of(watched).await;
                #[cfg(not(target_os = "linux"))]
                let closed = { std::future::pending::<io::Result<()>>().await };
                closed.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
            }
            Output::Other(_, relay) => relay.error().await,
        }
    }
}

/// Waits until a socket is closed in both directions.
#[cfg(target_os = "linux")]
async fn end_of(socket: &AsyncFd<OwnedFd>) -> io::Result<()> {
    loop {
        let mut guard = socket.ready(Interest::WRITABLE).await?;
        if guard.ready().is_write_closed() {
            return Ok(());
        }
        // The socket is writable but not closed: clear this readiness, and wait for the next change.
        guard.clear_ready();
    }
}

/// Registers a descriptor for polling, which changes none of its flags.
#[expect(deprecated, reason = "it is unsound for types that lend a descriptor they do not own; this one owns its own")]
fn watched_for(interest: Interest, end: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(end, interest)
}

fn kind_of(end: impl AsFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(end)?.st_mode))
}
