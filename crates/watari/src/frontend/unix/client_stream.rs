//! The connection to a client.
//!
//! `socket` is registered for READABLE and `write_readiness` for WRITABLE. Each clears only its own readiness.
//! `write_readiness` exists only while bytes are unwritten: otherwise the host would wake up each time the client reads.

use std::io;
use std::os::unix::net::UnixStream;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A connection that never blocks.
pub(super) struct ClientStream {
    /// Registered for READABLE, and so also for the end of the connection.
    socket: AsyncFd<UnixStream>,
    /// A duplicate of the socket, registered for WRITABLE. None if every byte is written.
    write_readiness: Option<AsyncFd<UnixStream>>,
}

impl ClientStream {
    pub(super) fn new(stream: tokio::net::UnixStream) -> io::Result<ClientStream> {
        Ok(ClientStream { socket: watched_for(Interest::READABLE, stream.into_std()?)?, write_readiness: None })
    }

    /// Reads the available bytes, up to the capacity of the buffer; zero means the end of the client's input.
    pub(super) fn try_read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.socket.try_io(Interest::READABLE, |socket| read(socket, buffer))
    }

    /// Reads regardless of the known readiness: the remaining input of a client that has disconnected.
    pub(super) fn read_rest(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        read(self.socket.get_ref(), buffer)
    }

    /// Writes without blocking. If the socket's buffer is full, later calls wait for WRITABLE.
    pub(super) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let write = |socket: &UnixStream| Ok(send(socket, bytes, SendFlags::NOSIGNAL)?);
        match &self.write_readiness {
            Some(write_readiness) => write_readiness.try_io(Interest::WRITABLE, write),
            None => {
                let written = write(self.socket.get_ref());
                if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                    self.watch_writability()?;
                }
                written
            }
        }
    }

    /// Everything is written, so the host no longer waits for WRITABLE.
    pub(super) fn all_is_written(&mut self) {
        self.write_readiness = None;
    }

    /// Waits until there are bytes to read, or the end of the input.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await.map(drop)
    }

    /// Waits until more bytes can probably be written.
    pub(super) async fn writable(&mut self) -> io::Result<()> {
        match self.watch_writability()? {
            Some(write_readiness) => write_readiness.writable().await.map(drop),
            None => std::future::pending().await,
        }
    }

    /// Waits until bytes can be read (true) or written (false).
    pub(super) async fn either(&mut self) -> io::Result<bool> {
        self.watch_writability()?;
        let ClientStream { socket, write_readiness } = self;
        let Some(write_readiness) = write_readiness else { return socket.readable().await.map(|_| true) };
        tokio::select! {
            // Both may be dropped half-way: readiness is only observed.
            ready = socket.readable() => ready.map(|_| true),
            ready = write_readiness.writable() => ready.map(|_| false),
        }
    }

    /// Waits until the client has closed the connection in both directions; a client that has only ended its input may
    /// still read.
    ///
    /// `socket` is registered only for READABLE. Therefore tokio reports it as WRITABLE only when the connection is
    /// closed in both directions. The readiness is not cleared.
    #[cfg(target_os = "linux")]
    pub(super) async fn closed(&self) -> io::Result<()> {
        self.socket.ready(Interest::WRITABLE).await.map(drop)
    }

    /// Waits until the client has closed the connection. On systems that report it only to writers, the next write
    /// notices it.
    #[cfg(not(target_os = "linux"))]
    pub(super) async fn closed(&self) -> io::Result<()> {
        std::future::pending().await
    }

    fn watch_writability(&mut self) -> io::Result<Option<&AsyncFd<UnixStream>>> {
        if self.write_readiness.is_none() {
            let same = self.socket.get_ref().try_clone()?;
            self.write_readiness = Some(watched_for(Interest::WRITABLE, same)?);
        }
        Ok(self.write_readiness.as_ref())
    }
}

fn read(socket: &UnixStream, buffer: &mut Vec<u8>) -> io::Result<usize> {
    match rustix::io::read(socket, spare_capacity(buffer)) {
        // The client has closed without reading everything. This is reported once; the bytes it sent can still be read.
        Err(Errno::CONNRESET) => Ok(rustix::io::read(socket, spare_capacity(buffer))?),
        read => Ok(read?),
    }
}

#[expect(
    deprecated,
    reason = "its replacement is unsafe, because a type might change its descriptor; a stream never does"
)]
fn watched_for(interest: Interest, stream: UnixStream) -> io::Result<AsyncFd<UnixStream>> {
    AsyncFd::with_interest(stream, interest)
}
