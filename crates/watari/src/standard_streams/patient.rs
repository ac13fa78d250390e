//! Writing to a descriptor that others share: it may be full, and somebody may have made it non-blocking.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;
use watari_sdk::files;

use super::kind_of;

/// How much a pipe takes without waiting when it says that there is room.
const PIPE_PIECE_BYTES: usize = 512;

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
                // Without a limit it comes back only when there is.
                let _has_room = has_room(to.as_fd(), None)?;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Writes what goes within a limit, and gives up the rest.
pub(crate) fn write_within(limit: Duration, to: impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    let deadline = Instant::now() + limit;
    let way = Way::to(to.as_fd())?;
    while !bytes.is_empty() {
        if !has_room(to.as_fd(), Some(deadline))? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match way.write(to.as_fd(), bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Waits until there is something to read, or the end.
pub(crate) fn wait_for_input(from: impl AsFd) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(&from, PollFlags::IN)], None) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// How to write without waiting, though the descriptor may be a blocking one.
enum Way {
    Reopened(OwnedFd),
    Socket,
    /// A little at a time, when there is room. Another writer may be faster; nothing better can be done.
    Pieces,
}

impl Way {
    fn to(end: BorrowedFd<'_>) -> io::Result<Way> {
        let kind = kind_of(end)?;
        if kind == FileType::Socket {
            return Ok(Way::Socket);
        }
        let reopened = if kind == FileType::Fifo { files::reopened_output(end).ok() } else { None };
        Ok(reopened.map_or(Way::Pieces, Way::Reopened))
    }

    fn write(&self, end: BorrowedFd<'_>, bytes: &[u8]) -> Result<usize, Errno> {
        match self {
            Way::Reopened(pipe) => rustix::io::write(pipe, bytes),
            Way::Socket => rustix::net::send(end, bytes, SendFlags::DONTWAIT),
            Way::Pieces => rustix::io::write(end, &bytes[..bytes.len().min(PIPE_PIECE_BYTES)]),
        }
    }
}

/// Waits until there is room, or the time is over. That nobody reads counts as room: the write meets it.
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
