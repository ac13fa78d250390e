//! Finds the CLI.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::files::PROGRAM;
use crate::options::Options;

/// Why no CLI was found.
#[derive(Debug, thiserror::Error)]
#[cfg_attr(not(feature = "exhaustive"), non_exhaustive)]
pub enum FindError {
    /// It is in none of the usual places.
    #[error(
        "Claude Code CLI not found: looked for `claude` in {}; \
         install it with `npm install -g @anthropic-ai/claude-code`, or set its path (--claude, or Options::claude in Rust)",
        list(.looked)
    )]
    NotInstalled {
        /// The directories that were searched.
        looked: Vec<PathBuf>,
    },
    /// The given path does not exist.
    #[error("Claude Code CLI not found: there is nothing at {}; check the path", .path.display())]
    PathDoesNotExist {
        /// The path.
        path: PathBuf,
    },
    /// The given path is a directory.
    #[error("{} is a directory, not the Claude Code CLI; give the path of the program itself", .path.display())]
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// The file is not executable.
    #[error("{} is not executable; run `chmod +x` on it, or give another path", .path.display())]
    NotExecutable {
        /// The path.
        path: PathBuf,
    },
    /// It is not a regular file, or does not begin like a program or a script.
    #[error("{} is not a program; it may be damaged or only half installed, so install it again", .path.display())]
    NotAProgram {
        /// The path.
        path: PathBuf,
    },
    /// The file cannot be inspected.
    #[error("cannot inspect {}: {source}", .path.display())]
    Unreadable {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// A search for the CLI: at the given path, or in the search path and the usual directories.
#[derive(Debug, Default)]
pub(crate) struct Search<'a> {
    path: Option<&'a Path>,
    search_path: Option<&'a OsStr>,
    home: Option<&'a Path>,
}

impl<'a> Search<'a> {
    /// Builds the search for a session with these options and the environment of its CLI.
    pub(crate) fn of(options: &'a Options, environment: &'a BTreeMap<OsString, OsString>) -> Search<'a> {
        let variable = |name: &str| environment.get(OsStr::new(name)).map(OsString::as_os_str);
        Search { path: options.claude.as_deref(), search_path: variable("PATH"), home: variable("HOME").map(Path::new) }
    }

    /// Returns the given path, or the first `claude` that can be run.
    pub(crate) fn find(&self) -> Result<PathBuf, FindError> {
        match self.path {
            Some(path) => check(path),
            None => self.search(),
        }
    }

    /// Returns the first candidate that can be run; otherwise the error of the first one that exists.
    fn search(&self) -> Result<PathBuf, FindError> {
        let mut wrong = None;
        for candidate in self.candidates() {
            match check(&candidate) {
                Ok(program) => return Ok(program),
                // A shell skips these too.
                Err(
                    FindError::PathDoesNotExist { .. } | FindError::Unreadable { .. } | FindError::Directory { .. },
                ) => {}
                Err(error) => wrong = wrong.or(Some(error)),
            }
        }
        Err(wrong.unwrap_or_else(|| FindError::NotInstalled { looked: self.places() }))
    }

    /// Returns the files to try, in order.
    pub(crate) fn candidates(&self) -> Vec<PathBuf> {
        match self.path {
            Some(path) => vec![path.to_owned()],
            None => self.places().into_iter().map(|place| place.join("claude")).collect(),
        }
    }

    fn places(&self) -> Vec<PathBuf> {
        let searched = self.search_path.map(std::env::split_paths).into_iter().flatten();
        // A relative entry would depend on the working directory, which may belong to another user.
        let searched = searched.filter(|place| place.is_absolute());
        let in_home = [".local/bin", ".claude/local", ".npm-global/bin", "node_modules/.bin", ".yarn/bin"];
        let in_home = self.home.into_iter().flat_map(|home| in_home.map(|place| home.join(place)));
        let usual = ["/usr/local/bin", "/opt/homebrew/bin"].map(PathBuf::from);
        let mut places = Vec::new();
        for place in searched.chain(in_home).chain(usual) {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places
    }
}

/// Checks that a path can be run, and makes it absolute.
pub(crate) fn check(path: &Path) -> Result<PathBuf, FindError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(FindError::PathDoesNotExist { path: path.to_owned() });
        }
        Err(source) => {
            return Err(FindError::Unreadable { path: path.to_owned(), source });
        }
    };
    if metadata.is_dir() {
        return Err(FindError::Directory { path: path.to_owned() });
    }
    if !metadata.is_file() {
        return Err(FindError::NotAProgram { path: path.to_owned() });
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err(FindError::NotExecutable { path: path.to_owned() });
    }
    if is_surely_no_program(path) {
        return Err(FindError::NotAProgram { path: path.to_owned() });
    }
    // Absolute, because the CLI is started in another directory; not resolved, because the name of a link
    // may be what the user updates.
    std::path::absolute(path).map_err(|source| FindError::Unreadable { path: path.to_owned(), source })
}

/// Whether a file is certainly not a program. If the kernel cannot run a file, the C library runs it as a shell script
/// instead. To prevent that, a file must begin with `#!` or with the complete header of a binary.
fn is_surely_no_program(path: &Path) -> bool {
    let mut beginning = Vec::new();
    let read = PROGRAM.open(path).and_then(|file| file.take(HEADER_BYTES).read_to_end(&mut beginning));
    let is_script = beginning.starts_with(b"#!");
    let is_whole = beginning.len() as u64 == HEADER_BYTES && PROGRAMS.iter().any(|magic| beginning.starts_with(magic));
    // A file that can be run but not read is left to the system.
    read.is_ok() && !is_script && !is_whole
}

/// The length of a program's header.
const HEADER_BYTES: u64 = 32;

/// The first bytes of programs on Linux and macOS.
const PROGRAMS: [&[u8]; 4] = [b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe", b"\xca\xfe\xba\xbe"];

fn list(places: &[PathBuf]) -> String {
    places.iter().map(|place| place.display().to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn the_search_path_comes_before_the_usual_places_and_what_cannot_run_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        file(folder.path(), "a/claude", 0o644);
        let second = file(folder.path(), "b/claude", 0o755);
        file(folder.path(), "home/.local/bin/claude", 0o755);
        let search_path = std::env::join_paths([folder.path().join("a"), folder.path().join("b")]).unwrap();
        let home = folder.path().join("home");
        let search = Search { search_path: Some(&search_path), home: Some(&home), ..Search::default() };
        assert_eq!(search.find().unwrap(), second);
    }

    #[test]
    fn the_home_is_looked_in_when_the_search_path_has_none() {
        let folder = tempfile::tempdir().unwrap();
        let at_home = file(folder.path(), ".claude/local/claude", 0o755);
        let search = Search { home: Some(folder.path()), ..Search::default() };
        assert_eq!(search.find().unwrap(), at_home);
    }

    #[test]
    fn a_cli_that_cannot_be_run_is_not_reported_as_missing() {
        let folder = tempfile::tempdir().unwrap();
        let plain = file(folder.path(), "bin/claude", 0o644);
        let search_path = folder.path().join("bin");
        let search = Search { search_path: Some(search_path.as_os_str()), ..Search::default() };
        let error = search.find().unwrap_err().to_string();
        let path = plain.display();
        assert_eq!(error, format!("{path} is not executable; run `chmod +x` on it, or give another path"));
    }

    #[test]
    fn a_pipe_in_the_place_of_the_program_is_refused_without_waiting_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("claude");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from(0o755)).unwrap();
        assert!(matches!(check(&path), Err(FindError::NotAProgram { .. })));
    }

    #[test]
    fn each_way_of_not_finding_it_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let plain = file(folder.path(), "plain", 0o644);
        let damaged = file(folder.path(), "damaged", 0o755);
        fs::write(&damaged, "\x7fELF and no more").unwrap();
        for (path, text) in [
            (folder.path().join("missing"), "there is nothing at"),
            (folder.path().to_owned(), "is a directory"),
            (plain, "chmod +x"),
            (damaged, "is not a program"),
        ] {
            let search = Search { path: Some(&path), ..Search::default() };
            let error = search.find().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(path.to_str().unwrap()), "{error}");
        }
    }
}
