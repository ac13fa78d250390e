//! Pipes that this program was given. Their flags belong to everybody who has them, so each is opened anew: the new descriptor
//! is non-blocking, and nobody else has it.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Opens the reading end of a pipe anew. It fails where the system cannot do that or does not allow it (the pipe of
/// another user), and for a pipe with a name: one whose writers have gone would then never tell its end.
pub fn reopened_input(end: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    system::reopened_input(end)
}

/// Opens the writing end of a pipe anew. It fails where the system cannot do that or does not allow it.
pub fn reopened_output(end: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    system::reopened_output(end)
}

#[cfg(all(target_os = "linux", not(watari_portable)))]
mod system {
    use std::io;
    use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
    use std::path::PathBuf;

    use rustix::fs::{FsWord, OFlags, fcntl_getfl, fstatfs};

    use crate::files::{FileRule, GIVEN_INPUT, GIVEN_OUTPUT};

    /// The file system of pipes without a name.
    const PIPES: FsWord = 0x5049_5045;

    pub(super) fn reopened_input(end: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        if fstatfs(end)?.f_type != PIPES {
            return Err(io::ErrorKind::Unsupported.into());
        }
        reopened(end, &GIVEN_INPUT, OFlags::WRONLY)
    }

    pub(super) fn reopened_output(end: BorrowedFd<'_>) -> io::Result<OwnedFd> {
        reopened(end, &GIVEN_OUTPUT, OFlags::RDONLY)
    }

    /// The system would open the other end as well, which is not what was given.
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
