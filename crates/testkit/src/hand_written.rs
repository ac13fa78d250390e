//! Reads files that people write by hand, as YAML or JSON, and reports where one is wrong.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use watari_sdk::files::HAND_WRITTEN;

/// Why a hand-written file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InputFileError {
    /// It cannot be read.
    #[error("cannot read {name}: {source}; check the path")]
    Unreadable {
        /// Its name.
        name: String,
        /// The system's error.
        source: io::Error,
    },
    /// Its content is invalid.
    #[error("{name}:{line}:{column}: {problem}{snippet}")]
    Wrong {
        /// Its name.
        name: String,
        /// The line, from 1.
        line: u64,
        /// The column, from 1.
        column: u64,
        /// What is wrong.
        problem: String,
        /// The lines around it, with a mark below the place; begins with a newline unless it is empty.
        snippet: String,
    },
}

pub(crate) fn load<T: DeserializeOwned>(path: &Path) -> Result<T, InputFileError> {
    read(&path.display().to_string(), &text_of(path)?)
}

pub(crate) fn text_of(path: &Path) -> Result<String, InputFileError> {
    let unreadable = |source| InputFileError::Unreadable { name: path.display().to_string(), source };
    text_in(path).map_err(unreadable)
}

/// Reads the text of a hand-written file.
pub(crate) fn text_in(path: &Path) -> io::Result<String> {
    let file = HAND_WRITTEN.open(path)?;
    let mut bytes = Vec::new();
    // For the system, a pipe without a writer is at its end; its writer may still come.
    if file.metadata()?.file_type().is_fifo() {
        wait_for(&file)?;
    }
    // A device such as /dev/zero has no end.
    let mut limited = (&file).take(BYTES_MAX + 1);
    loop {
        match limited.read_to_end(&mut bytes) {
            Ok(_) => break,
            // The writer of the pipe has not written yet.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_for(&file)?,
            Err(error) => return Err(error),
        }
    }
    if bytes.len() as u64 > BYTES_MAX {
        return Err(io::Error::other(format!("it has more than {} MiB", BYTES_MAX / 1024 / 1024)));
    }
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The maximum size of a file, with room for images.
const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// How long the writer of a pipe may be silent.
const PIPE_SILENT_MAX: Duration = Duration::from_secs(10);

fn wait_for(pipe: &File) -> io::Result<()> {
    let limit = Timespec::try_from(PIPE_SILENT_MAX).ok();
    loop {
        match poll(&mut [PollFd::new(pipe, PollFlags::IN)], limit.as_ref()) {
            Ok(0) => {
                return Err(io::Error::other(format!("nothing came through the pipe for {PIPE_SILENT_MAX:?}")));
            }
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

pub(crate) fn read<T: DeserializeOwned>(name: &str, text: &str) -> Result<T, InputFileError> {
    // A tool's input of `no` means the text. A number is not accepted where a text is expected, because an editor that
    // uses the schema rejects it too.
    let options = serde_saphyr::options! { strict_booleans: true, no_schema: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| wrong(name, &error))
}

fn wrong(name: &str, error: &serde_saphyr::Error) -> InputFileError {
    let location = error.location();
    let (line, column) = location.map_or((1, 1), |location| (location.line(), location.column()));
    let bare = error.without_snippet().to_string();
    let problem = match bare.rsplit_once(" at line ") {
        Some((problem, _)) => problem.to_owned(),
        None => bare,
    };
    let problem = in_plain_terms(&problem);
    let rendered = in_plain_terms(&error.to_string());
    // After the line with the arrow, which repeats the place.
    let snippet = rendered.split_once("\n -->").and_then(|(_, rest)| rest.split_once('\n'));
    let snippet = snippet.map_or_else(String::new, |(_, lines)| format!("\n{}", lines.trim_end()));
    InputFileError::Wrong { name: name.to_owned(), line, column, problem, snippet }
}

/// Replaces the parser's terms of the YAML standard.
fn in_plain_terms(text: &str) -> String {
    text.replace("expected sequence start", "expected a list")
        .replace("expected mapping start", "expected a mapping")
        .replace(", set DuplicateKeyPolicy in Options if acceptable", "")
}
