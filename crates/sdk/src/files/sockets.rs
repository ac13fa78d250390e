//! Sockets: created for this user alone, and tested without blocking.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;

use rustix::fs::{Mode, fchmod};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, listen, socket_with};

use super::modes::set_mode;

/// How many connections may wait to be accepted. The system refuses further ones until there is room.
const BACKLOG: i32 = 128;

/// The mode of every socket, whatever the umask.
const SOCKET_MODE: u32 = 0o600;

/// Listens at a path where nothing exists. The socket is closed to other users from its creation on, and accepting
/// from it never blocks.
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
pub fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let socket = stream_socket()?;
    let address = SocketAddrUnix::new(path)?;
    // On Linux the file gets the mode of the socket, reduced by the umask.
    let _elsewhere = fchmod(&socket, Mode::RUSR | Mode::WUSR);
    bind(&socket, &address)?;
    set_mode(path, SOCKET_MODE)?;
    listen(&socket, BACKLOG)?;
    Ok(UnixListener::from(socket))
}

/// Whether a process listens on a socket. Never blocks: a full queue means that a process listens.
#[expect(clippy::disallowed_methods, reason = "this is the place for it")]
pub fn is_listened_on(path: &Path) -> io::Result<bool> {
    let socket = stream_socket()?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS) => Ok(true),
        // No process listens any more, or the socket was removed meanwhile.
        Err(Errno::CONNREFUSED | Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A socket that never blocks and is not inherited.
fn stream_socket() -> io::Result<OwnedFd> {
    #[cfg(target_os = "linux")]
    {
        use rustix::net::SocketFlags;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
    }
    #[cfg(not(target_os = "linux"))]
    {
        use rustix::net::SocketFlags;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None)?;
        rustix::io::fcntl_setfd(&socket, rustix::io::FdFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(socket)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_is_closed_to_others_from_its_first_moment_whatever_the_umask() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        // The umask of the whole process; every test is a process of its own.
        for umask in [0o000, 0o177, 0o777] {
            rustix::process::umask(Mode::from_raw_mode(umask));
            let _listener = listen_at(&path).unwrap();
            assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
            std::fs::remove_file(&path).unwrap();
        }
    }

    #[test]
    fn a_listener_whose_queue_is_full_is_recognised_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let socket = stream_socket().unwrap();
        bind(&socket, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        listen(&socket, 0).unwrap();
        let _waiting = UnixStream::connect(&path).unwrap();
        assert!(is_listened_on(&path).unwrap());
        drop(socket);
        assert!(!is_listened_on(&path).unwrap());
    }
}
