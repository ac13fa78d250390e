//! The connection to a client. Each kind of readiness has one owner, which waits for it and clears it: `socket` for
//! reading, `room` for writing. The readiness that reports a closed connection is only observed and never cleared.
//!
//! Room to write is watched only while bytes are unwritten: otherwise the host would wake up each time the client
//! reads.

use std::io;
use std::os::unix::net::UnixStream;

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A connection that never blocks.
pub(super) struct Wire {
    /// Watched for readability, and so for the end of the connection.
    socket: AsyncFd<UnixStream>,
    /// The same connection, watched for room to write while bytes are unwritten.
    room: Option<AsyncFd<UnixStream>>,
}

impl Wire {
    pub(super) fn new(stream: tokio::net::UnixStream) -> io::Result<Wire> {
        Ok(Wire { socket: watched_for(Interest::READABLE, stream.into_std()?)?, room: None })
    }

    /// Reads the available bytes, up to the capacity of the buffer; zero means the end of the client's input.
    pub(super) fn try_read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        self.socket.try_io(Interest::READABLE, |socket| read(socket, buffer))
    }

    /// Reads regardless of the known readiness: the remaining input of a client that has disconnected.
    pub(super) fn read_rest(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        read(self.socket.get_ref(), buffer)
    }

    /// Writes without blocking. If the buffer is full, room to write is watched from now on.
    pub(super) fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let write = |socket: &UnixStream| Ok(send(socket, bytes, SendFlags::NOSIGNAL)?);
        match &self.room {
            Some(room) => room.try_io(Interest::WRITABLE, write),
            None => {
                let written = write(self.socket.get_ref());
                if written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
                    self.watch_room()?;
                }
                written
            }
        }
    }

    /// Stops watching for room to write, because everything is written.
    pub(super) fn all_is_written(&mut self) {
        self.room = None;
    }

    /// Waits until there are bytes to read, or the end of the input.
    pub(super) async fn readable(&self) -> io::Result<()> {
        self.socket.readable().await.map(drop)
    }

    /// Waits until there may be room to write.
    pub(super) async fn writable(&mut self) -> io::Result<()> {
        match self.watch_room()? {
            Some(room) => room.writable().await.map(drop),
            None => std::future::pending().await,
        }
    }

    /// Waits until there are bytes to read (true) or room to write (false).
    pub(super) async fn either(&mut self) -> io::Result<bool> {
        self.watch_room()?;
        let Wire { socket, room } = self;
        let Some(room) = room else { return socket.readable().await.map(|_| true) };
        tokio::select! {
            // Both may be dropped half-way: readiness is only observed.
            ready = socket.readable() => ready.map(|_| true),
            ready = room.writable() => ready.map(|_| false),
        }
    }

    /// Waits until the client has closed the connection in both directions; a client that has only ended its input may
    /// still read.
    ///
    /// The socket is registered for reading only, so the only thing it reports about writing is that nothing more can
    /// be written. Room to write is not reported here, and nothing is cleared.
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

    fn watch_room(&mut self) -> io::Result<Option<&AsyncFd<UnixStream>>> {
        if self.room.is_none() {
            let same = self.socket.get_ref().try_clone()?;
            self.room = Some(watched_for(Interest::WRITABLE, same)?);
        }
        Ok(self.room.as_ref())
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
    reason = "the one in its place is unsafe, because a type might change its descriptor; a stream never does"
)]
fn watched_for(interest: Interest, stream: UnixStream) -> io::Result<AsyncFd<UnixStream>> {
    AsyncFd::with_interest(stream, interest)
}
