//! The log file in which a test finds what the fake CLI received.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use watari_sdk::files::TEST_LOG;

use super::fields::{Fields, quoted};
use super::incoming::Answer;

/// JSON lines, each written immediately; nothing if no log was requested.
#[derive(Debug, Default)]
pub(super) struct Log(Option<File>);

impl Log {
    pub(super) fn at(path: &Path) -> io::Result<Log> {
        TEST_LOG.open(path).map(|file| Log(Some(file)))
    }

    /// Logs a line of stdin, as it came.
    pub(super) fn line(&mut self, line: &[u8]) -> io::Result<()> {
        self.append(|| Fields::default().json("in", String::from_utf8_lossy(line.trim_ascii())))
    }

    /// Logs a line of stdin that makes the fake CLI exit.
    pub(super) fn malformed(&mut self, line: &[u8]) -> io::Result<()> {
        self.append(|| Fields::default().text("bad", &String::from_utf8_lossy(line)))
    }

    /// Logs the answer with which a step continued.
    pub(super) fn answer(&mut self, id: &str, answer: &Answer) -> io::Result<()> {
        self.append(|| {
            let entry = Fields::default().text("answer", id);
            match answer {
                Answer::Success(response) => entry.json("response", response.as_str()),
                Answer::Error(error) => entry.json("error", quoted(error)),
                Answer::Missing => entry.json("error", "null"),
            }
        })
    }

    fn append(&mut self, entry: impl FnOnce() -> Fields) -> io::Result<()> {
        match &mut self.0 {
            Some(file) => file.write_all(format!("{}\n", entry()).as_bytes()),
            None => Ok(()),
        }
    }
}
