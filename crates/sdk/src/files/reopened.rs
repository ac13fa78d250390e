//! Pipes that this process inherited. Their flags are shared with every process that has them, so each pipe is opened
//! again: the new descriptor is non-blocking and not shared.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Opens the reading end of a pipe again. Fails if the system cannot do that or does not allow it (the pipe of another
/// user), and for a named pipe, which would never report its end if its writers had already closed it.
pub fn reopened_input(end: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    system::reopened_input(end)
}

/// Opens the writing end of a pipe again. Fails if the system cannot do that or does not allow it.
pub fn reopened_output(end: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    system::reopened_output(end)
}

#[cfg(all(target_os = "linux", not(watari_portable)))]
mod system {
    use std::io;
    use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
    use std::path::PathBuf;

    use rustix::fs::{FsWord, OFlags, fcntl_getfl, fstatfs};

    use crate::files::{FileRule, STANDARD_INPUT, STANDARD_OUTPUT};

    /// The file system of unnamed pipes.
    const PIPES: FsWord = 0x5049_5045;

    pub(super) fn reopened_input(end: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        if fstatfs(end)?.f_type != PIPES {
            return Err(io::ErrorKind::Unsupported.into());
        }
        reopened(end, &STANDARD_INPUT, OFlags::WRONLY)
    }

    pub(super) fn reopened_output(end: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        reopened(end, &STANDARD_OUTPUT, OFlags::RDONLY)
    }

    /// Refuses a descriptor of the other end: the system would open this end through it, which this process was not
    /// given.
    fn reopened(end: BorrowedFd<'_>, rule: &FileRule, other_end: OFlags) -> io::Result<OwnedFd> {
        if fcntl_getfl(end)? & OFlags::ACCMODE == other_end {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let path: PathBuf = ["/proc/self/fd", &end.as_raw_fd().to_string()].iter().collect();
        Ok(rule.open(&path)?.into())
    }
}

#[cfg(not(all(target_os = "linux", not(watari_portable))))]
mod system {
    use std::io;
    use std::os::fd::{BorrowedFd, OwnedFd};

    pub(super) fn reopened_input(_end: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(super) fn reopened_output(_end: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }
}
