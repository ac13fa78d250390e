//! A thread that copies from one descriptor to another, for what cannot be read or written without waiting.
//!
//! One of the two is a pipe of our own, which bounds what waits: the thread does not read on while it is full.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use watari_sdk::threads::{self, Beside};

use super::patient;

/// How much is copied at once: what a pipe holds.
const PIECE_BYTES: usize = 64 * 1024;

/// The thread, and what became of it.
pub(crate) struct Relay {
    copying: Beside<io::Result<()>>,
    has_ended: bool,
}

impl Relay {
    /// Copies until the end of what is read, or until one of the two fails.
    pub(super) fn start(from: OwnedFd, to: OwnedFd) -> io::Result<Relay> {
        Ok(Relay { copying: threads::spawn(move || copy(&from, &to))?, has_ended: false })
    }

    /// Waits until everything is copied. Cancel-safe: the thread goes on, and its end is taken only here.
    pub(super) async fn end(&mut self) -> io::Result<()> {
        if self.has_ended {
            return Ok(());
        }
        let copied = (&mut self.copying).await;
        self.has_ended = true;
        copied.unwrap_or_else(|| Err(io::Error::other("copying broke off; this is a mistake in watari")))
    }

    /// Waits until nothing can be copied any more, and says why. Cancel-safe like `end`.
    pub(super) async fn error(&mut self) -> io::Error {
        self.end().await.err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())
    }
}

fn copy(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        wait_for_either(from, to)?;
        match rustix::io::read(from, piece.as_mut_slice()) {
            Ok(0) => return Ok(()),
            Ok(count) => patient::write_all(to, &piece[..count])?,
            // Somebody made it non-blocking, and another reader was faster.
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until there is something to read; that nobody takes it any more is an error.
fn wait_for_either(from: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    let mut events = [PollFd::new(from, PollFlags::IN), PollFd::new(to, PollFlags::empty())];
    match poll(&mut events, None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let is_closed = events[1].revents().intersects(PollFlags::ERR | PollFlags::HUP);
    if is_closed { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
}
