//! A thread that copies from one descriptor to another, for descriptors that cannot be used without blocking.
//!
//! One of the two is our own pipe, which bounds the buffered bytes: the thread does not read while the pipe is full.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use watari_sdk::threads::{self, ThreadTask};

use super::patient;

/// How many bytes are copied in one step: the capacity of a pipe.
const CHUNK_BYTES: usize = 64 * 1024;

/// The copying thread.
pub(crate) struct Relay {
    copying: ThreadTask<io::Result<()>>,
    has_ended: bool,
}

impl Relay {
    /// Copies until the end of `from`, or until one of the two descriptors fails.
    pub(super) fn start(from: OwnedFd, to: OwnedFd) -> io::Result<Relay> {
        Ok(Relay { copying: threads::spawn(move || copy(&from, &to))?, has_ended: false })
    }

    /// Waits until everything is copied. Cancel-safe: the thread continues, and only this method takes its result.
    pub(super) async fn end(&mut self) -> io::Result<()> {
        if self.has_ended {
            return Ok(());
        }
        let copied = (&mut self.copying).await;
        self.has_ended = true;
        copied.unwrap_or_else(|| Err(io::Error::other("copying stopped unexpectedly; this is a bug in watari")))
    }

    /// Waits until copying has ended, and returns the reason. Cancel-safe like `end`.
    pub(super) async fn error(&mut self) -> io::Error {
        self.end().await.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

fn copy(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        wait_for_either(from, to)?;
        match rustix::io::read(from, chunk.as_mut_slice()) {
            Ok(0) => return Ok(()),
            Ok(count) => patient::write_all(to, &chunk[..count])?,
            // Another process made it non-blocking, and another reader was faster.
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until there are bytes to read; an error if the destination has no reader any more.
fn wait_for_either(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    let mut events = [PollFd::new(from, PollFlags::IN), PollFd::new(to, PollFlags::empty())];
    match poll(&mut events, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let is_closed = events[1].revents().intersects(PollFlags::ERR | PollFlags::HUP);
    if is_closed { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
}
