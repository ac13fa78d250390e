//! The socket of a session: for its user alone, at a path that no other user can replace.
//!
//! It is bound under a temporary name, closed to other users, and then renamed. So clients never see it half made, and
//! a socket that a killed process left behind is replaced without a gap. (The user of a connection is checked when it
//! is accepted.)

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use watari_sdk::files::folders::{self, FolderError};
use watari_sdk::files::{is_this_user, sockets};

/// The suffix of a socket's temporary name.
const TEMPORARY_SUFFIX: &str = "~";

/// The maximum length of a socket's path in bytes: the system's limit, minus the suffix of the temporary name.
pub const PATH_BYTES_MAX: usize = if cfg!(target_os = "linux") { 107 } else { 103 } - TEMPORARY_SUFFIX.len();

/// A listening socket. The drop removes its file, if it is still the same.
#[derive(Debug)]
pub struct HostSocket {
    listener: UnixListener,
    path: PathBuf,
    /// The device and inode: another socket may take its place later.
    identity: (u64, u64),
}

/// Why a socket cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// The path is too long for the system.
    #[error(
        "the socket path {} has {bytes} bytes (maximum {PATH_BYTES_MAX}): choose a shorter one with --socket, or a \
         shorter XDG_RUNTIME_DIR",
        .path.display()
    )]
    TooLong {
        /// The path.
        path: PathBuf,
        /// Its length.
        bytes: usize,
    },
    /// Another process listens there.
    #[error("another process is listening on {}: stop it, or choose another path", .path.display())]
    InUse {
        /// The path.
        path: PathBuf,
    },
    /// The folder of the path does not exist.
    #[error("cannot listen on {}: its folder does not exist; create it", .path.display())]
    NoFolder {
        /// The path.
        path: PathBuf,
    },
    /// The path names something other than a socket.
    #[error("{} is {what} and is not replaced: remove it, or choose another path", .path.display())]
    InTheWay {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// Another user could replace the socket.
    #[error("{what}: choose a path in a folder of this user's, to which no other user can write unless it is sticky")]
    Replaceable {
        /// What is wrong.
        what: String,
    },
    /// The system refused.
    #[error("cannot listen on {}: {source}", .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

impl HostSocket {
    /// Listens at a path. The caller holds a lock, so that only one process at a time does this for a path.
    pub fn bind(path: &Path) -> Result<HostSocket, SocketError> {
        let io = |source| SocketError::Io { path: path.to_owned(), source };
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(TEMPORARY_SUFFIX);
        let (temporary, bytes) = (PathBuf::from(temporary), path.as_os_str().len());
        if bytes > PATH_BYTES_MAX {
            return Err(SocketError::TooLong { path: path.to_owned(), bytes });
        }
        check_folder(path)?;
        check_replaceable(path)?;
        // It may be the socket of a host that was killed here; anything else is not touched.
        check_replaceable(&temporary)?;
        let _absent = fs::remove_file(&temporary);
        let listener = sockets::listen_at(&temporary).map_err(io)?;
        let placed = fs::symlink_metadata(&temporary)
            .and_then(|metadata| fs::rename(&temporary, path).map(|()| (metadata.dev(), metadata.ino())));
        match placed {
            Ok(identity) => Ok(HostSocket { listener, path: path.to_owned(), identity }),
            Err(source) => {
                let _removed = fs::remove_file(&temporary);
                Err(io(source))
            }
        }
    }

    /// The socket's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the socket is still at its path. If it was removed, clients can no longer connect.
    pub fn is_in_place(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|there| (there.dev(), there.ino()) == self.identity)
    }

    /// The listener.
    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }
}

impl Drop for HostSocket {
    fn drop(&mut self) {
        if self.is_in_place() {
            // If it cannot be removed, the next host replaces it.
            let _removed = fs::remove_file(&self.path);
        }
    }
}

/// Checks that no other user can replace the socket or its folder.
fn check_folder(path: &Path) -> Result<(), SocketError> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folders::check_unchangeable(folder).map_err(|trouble| match trouble {
        FolderError::Hidden { source, .. } if source.kind() == io::ErrorKind::NotFound => {
            SocketError::NoFolder { path: path.to_owned() }
        }
        FolderError::Hidden { source, .. } => SocketError::Io { path: path.to_owned(), source },
        FolderError::NotAFolder { .. }
        | FolderError::LinkToNothing { .. }
        | FolderError::NotOurs { .. }
        | FolderError::OpenToOthers { .. }
        | FolderError::OwnedAbove { .. }
        | FolderError::Replaceable { .. }
        | FolderError::NotWritable { .. } => SocketError::Replaceable { what: trouble.describe(path, "").0 },
    })
}

/// Checks that a path is free, or is this user's socket without a listener.
fn check_replaceable(path: &Path) -> Result<(), SocketError> {
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
        assert_eq!(refusal(&path), "another process is listening on F/s.sock: stop it, or choose another path");
        drop(socket);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn one_that_was_left_behind_is_replaced_also_when_it_was_half_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.sock");
        // A dropped listener leaves its file, as a killed process does.
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
        assert_eq!(refusal(&path("file")), "F/file is a file and is not replaced: remove it, or choose another path");
        assert_eq!(
            refusal(&path("folder")),
            "F/folder is a folder and is not replaced: remove it, or choose another path"
        );
        assert_eq!(
            refusal(&path("link")),
            "F/link is a symbolic link and is not replaced: remove it, or choose another path"
        );
        assert_eq!(fs::read_to_string(path("file")).unwrap(), "precious");
        fs::write(path("s.sock~"), "precious").unwrap();
        assert!(refusal(&path("s.sock")).starts_with("F/s.sock~ is a file"));
        let long = folder.path().join("x".repeat(PATH_BYTES_MAX));
        assert!(refusal(&long).contains("(maximum "), "{}", refusal(&long));
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
