//! Writes to a shared descriptor, which may be full and which another process may have made non-blocking.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use watari_sdk::files;

use super::kind_of;

/// How much a pipe accepts without blocking when it reports room.
const PIPE_CHUNK_BYTES: usize = 512;

/// Checks that a descriptor is open for writing.
pub(crate) fn check_writable(to: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(to)?;
    if flags & OFlags::RWMODE == OFlags::RDONLY {
        return Err(io::Error::other("it is open for reading only; redirect it with > instead of <"));
    }
    Ok(())
}

/// Writes everything, however long that takes.
pub(crate) fn write_all(to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(&to, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::AGAIN) => {
                // Without a deadline, this returns only when there is room.
                let _has_room = has_room(to.as_fd(), None)?;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes as much as possible within a time limit; an error if that is not everything.
pub(crate) fn write_within(limit: Duration, to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + limit;
    let method = WriteMethod::to(to.as_fd())?;
    while !bytes.is_empty() {
        if !has_room(to.as_fd(), Some(deadline))? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match method.write(to.as_fd(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits until there are bytes to read, or the end of the input.
pub(crate) fn wait_for_input(from: impl AsFd) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(&from, PollFlags::IN)], None) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// How to write to a descriptor without blocking, even if the descriptor is blocking.
enum WriteMethod {
    Reopened(OwnedFd),
    Socket,
    /// In small chunks, when there is room. It can still block if another process fills the pipe first.
    Chunks,
}

impl WriteMethod {
    fn to(end: BorrowedFd<'_>) -> io::Result<WriteMethod> {
        let kind = kind_of(end)?;
        if kind == FileType::Socket {
            return Ok(WriteMethod::Socket);
        }
        let reopened = if kind == FileType::Fifo { files::reopened_output(end).ok() } else { None };
        Ok(reopened.map_or(WriteMethod::Chunks, WriteMethod::Reopened))
    }

    fn write(&self, end: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            WriteMethod::Reopened(pipe) => rustix::io::write(pipe, bytes),
            WriteMethod::Socket => rustix::net::send(end, bytes, SendFlags::DONTWAIT),
            WriteMethod::Chunks => rustix::io::write(end, &bytes[..bytes.len().min(PIPE_CHUNK_BYTES)]),
        }
    }
}

/// Waits until there is room, or until the deadline. A pipe without a reader counts as room: the write then fails.
fn has_room(to: BorrowedFd<'_>, deadline: Option<Instant>) -> io::Result<bool> {
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let limit = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(&to, PollFlags::OUT)], limit.as_ref()) {
            Ok(count) => return Ok(count > 0),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
