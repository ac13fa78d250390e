//! Checks the limits of the system: the length of a socket's path and the number of open files.

use std::ffi::OsString;
use std::path::Path;

use rustix::process::{Resource, getrlimit};
use watari_hub::folders::runtime_folder;
use watari_hub::socket::PATH_BYTES_MAX;

use super::report::{Check, Finding};

/// The part of a session's socket path after the runtime folder: a slash, a key of twelve characters, `.sock`.
const SOCKET_NAME_BYTES: usize = 1 + 12 + 5;

/// With fewer open files, a program with a few sessions runs out of them: each session takes about ten.
const OPEN_FILES_MIN: u64 = 256;

pub(super) fn examine(variable: impl Fn(&str) -> Option<OsString>) -> Vec<Finding> {
    // A missing runtime folder is reported by the check of the folders.
    let socket = runtime_folder(variable).map(|runtime| socket_path(&runtime));
    socket.into_iter().chain([open_files(getrlimit(Resource::Nofile).current)]).collect()
}

fn socket_path(runtime: &Path) -> Finding {
    let bytes = runtime.as_os_str().len() + SOCKET_NAME_BYTES;
    if bytes <= PATH_BYTES_MAX {
        return Finding::ok(Check::SocketPath, format!("{bytes} bytes of at most {PATH_BYTES_MAX}"));
    }
    let found = format!("a socket's path would have {bytes} bytes, but at most {PATH_BYTES_MAX} are allowed");
    let room = PATH_BYTES_MAX - SOCKET_NAME_BYTES - "/watari".len();
    Finding::problem(Check::SocketPath, found, format!("set XDG_RUNTIME_DIR to a path of at most {room} bytes"))
}

/// Checks the limit for open files; `None` is no limit.
fn open_files(limit: Option<u64>) -> Finding {
    match limit {
        None => Finding::ok(Check::OpenFiles, "no limit"),
        Some(limit) if limit >= OPEN_FILES_MIN => Finding::ok(Check::OpenFiles, format!("at most {limit}")),
        Some(limit) => {
            let found = format!("at most {limit}, which is few for several sessions");
            Finding::warning(Check::OpenFiles, found, "raise it with `ulimit -n 1024` in the shell that starts watari")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::doctor::report::Level;

    #[test]
    fn the_longest_path_that_fits_is_fine_and_one_byte_more_is_not() {
        let level = |bytes: usize| socket_path(Path::new(&"x".repeat(bytes))).level;
        let longest = PATH_BYTES_MAX - "/0123456789ab.sock".len();
        assert_eq!((level(longest), level(longest + 1)), (Level::Ok, Level::Problem));
    }

    #[test]
    fn few_open_files_are_a_warning() {
        let level = |limit: Option<u64>| open_files(limit).level;
        assert_eq!([level(Some(255)), level(Some(256)), level(None)], [Level::Warning, Level::Ok, Level::Ok]);
    }
}
