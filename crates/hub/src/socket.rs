//! The socket of a session: for its user alone, in a place that is nobody else's.
//!
//! It is bound under another name beside its place, closed to others, and only then renamed: so it is never there half
//! made, and one that a killed process left behind is replaced without a moment in which there is none. (Who
//! connects is looked at by whoever accepts.)

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use watari_sdk::files::folders::{self, Trouble};
use watari_sdk::files::{is_this_user, sockets};

/// What the name of a socket gets while it is made.
const ASIDE: &str = "~";

/// How many bytes the path of a socket may have: what the system takes, with room for the name under which it is made.
pub const PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 } - ASIDE.len();

/// A socket that is listened on. It is removed when this is dropped, if it is still ours.
#[derive(Debug)]
pub struct HostSocket {
    listener: UnixListener,
    path: PathBuf,
    /// What it is for the system: another one may be in its place one day.
    identity: (u64, u64),
}

/// Why a socket cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path is too long for the system.
    #[error("the socket's path {} has {bytes} bytes, and may have {PATH_BYTES_MAX}: choose a shorter one", .path.display())]
    TooLong {
        /// The path.
        path: PathBuf,
        /// How long it is.
        bytes: usize,
    },
    /// Somebody listens there.
    #[error("somebody listens on {} already: end that first, or choose another path", .path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// Something else than a socket is there.
    #[error("{} is {what}, and is left alone: remove it, or choose another path", .path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Another user could put a socket of her own in its place.
    #[error("{what}: choose a path in a folder of this user's, to which no other user can write unless it is sticky")]
    Replaceable {
        /// What is wrong.
        what: String,
    },
    /// The system says no.
    #[error("cannot listen on {}: {source}", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl HostSocket {
    /// Listens at a path. Only one process may do this for a path at a time: it has a lock for it.
    pub fn bind(path: &Path) -> Result<HostSocket, SocketError> {
        let io = |source| SocketError::Io { path: path.to_owned(), source };
        let mut aside = path.as_os_str().to_owned();
        aside.push(ASIDE);
        let (aside, bytes) = (PathBuf::from(aside), path.as_os_str().len());
        if bytes > PATH_BYTES_MAX {
            return Err(SocketError::TooLong { path: path.to_owned(), bytes });
        }
        look_around(path)?;
        look_at(path)?;
        // One of ours that was killed in the middle; anything else is in the way.
        look_at(&aside)?;
        let _absent = fs::remove_file(&aside);
        let listener = sockets::listen_at(&aside).map_err(io)?;
        let placed = fs::symlink_metadata(&aside)
            .and_then(|metadata| fs::rename(&aside, path).map(|()| (metadata.dev(), metadata.ino())));
        match placed {
            Ok(identity) => Ok(HostSocket { listener, path: path.to_owned(), identity }),
            Err(source) => {
                let _removed = fs::remove_file(&aside);
                Err(io(source))
            }
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is still in its place: somebody may have removed it, and then nobody can connect any more.
    pub fn is_in_place(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == self.identity)
    }

    /// What is listened on.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for HostSocket {
    fn drop(&mut self) {
        if self.is_in_place() {
            // If it cannot be removed, the next one replaces it.
            let _removed = fs::remove_file(&self.path);
        }
    }
}

/// Checks that no other user can replace a socket, or the folder under it while it is made.
fn look_around(path: &Path) -> Result<(), SocketError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folders::check_unchangeable(folder).map_err(|trouble| match trouble {
        Trouble::Hidden { source, .. } => SocketError::Io { path: path.to_owned(), source },
        Trouble::NotAFolder { .. }
        | Trouble::LinkToNothing { .. }
        | Trouble::NotOurs { .. }
        | Trouble::OpenToOthers { .. }
        | Trouble::OwnedAbove { .. }
        | Trouble::Replaceable { .. }
        | Trouble::NotWritable { .. } => SocketError::Replaceable { what: trouble.describe(path, "").0 },
    })
}

/// That a place is free, or has a socket of ours on which nobody listens.
fn look_at(path: &Path) -> Result<(), SocketError> {
    let in_the_way = |what| Err(SocketError::InTheWay { path: path.to_owned(), what });
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(SocketError::Io { path: path.to_owned(), source }),
    };
    if metadata.is_symlink() {
        return in_the_way("a symbolic link");
    }
    if metadata.is_dir() {
        return in_the_way("a folder");
    }
    if !metadata.file_type().is_socket() {
        return in_the_way("a file");
    }
    if !is_this_user(metadata.uid()) {
        return in_the_way("another user's socket");
    }
    match sockets::is_listened_on(path) {
        Ok(false) => Ok(()),
        Ok(true) | Err(_) => Err(SocketError::InUse { path: path.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;

    fn refusal(path: &Path) -> String {
        let folder = path.parent().unwrap().to_str().unwrap();
        HostSocket::bind(path).unwrap_err().to_string().replace(folder, "F")
    }

    #[test]
    fn a_socket_is_for_its_user_and_goes_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        let socket = HostSocket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let _client = UnixStream::connect(&path).unwrap();
        socket.listener().accept().unwrap();
        assert_eq!(refusal(&path), "somebody listens on F/s.sock already: end that first, or choose another path");
        drop(socket);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn one_that_was_left_behind_is_replaced_also_when_it_was_half_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        // A listener that is dropped leaves its file, as a killed process does.
        drop(UnixListener::bind(&path).unwrap());
        drop(UnixListener::bind(folder.path().join("s.sock~")).unwrap());
        let _socket = HostSocket::bind(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_socket_of_ours_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "precious").unwrap();
        fs::create_dir(path("folder")).unwrap();
        std::os::unix::fs::symlink("file", path("link")).unwrap();
        assert_eq!(refusal(&path("file")), "F/file is a file, and is left alone: remove it, or choose another path");
        assert_eq!(
            refusal(&path("folder")),
            "F/folder is a folder, and is left alone: remove it, or choose another path"
        );
        assert_eq!(
            refusal(&path("link")),
            "F/link is a symbolic link, and is left alone: remove it, or choose another path"
        );
        assert_eq!(fs::read_to_string(path("file")).unwrap(), "precious");
        fs::write(path("s.sock~"), "precious").unwrap();
        assert!(refusal(&path("s.sock")).starts_with("F/s.sock~ is a file"));
        let long = folder.path().join("x".repeat(PATH_BYTES_MAX));
        assert!(refusal(&long).contains("and may have"), "{}", refusal(&long));
        assert!(refusal(&path("nowhere/s.sock")).starts_with("cannot listen on F/s.sock: "));
    }

    #[test]
    fn one_that_was_removed_is_noticed_and_another_in_its_place_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        let socket = HostSocket::bind(&path).unwrap();
        assert!(socket.is_in_place());
        fs::remove_file(&path).unwrap();
        assert!(!socket.is_in_place());
        let another = HostSocket::bind(&path).unwrap();
        drop(socket);
        assert!(another.is_in_place());
    }
}
