//! The fake CLI's stdin, cut into lines. It is read only while a step waits for it, so that other input stays in the
//! pipe.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// How many bytes are read in one call.
const READ_BYTES: usize = 64 * 1024;

/// Lines from the process that started the fake CLI.
#[derive(Debug)]
pub(super) struct Input {
    pipe: File,
    /// Bytes that were read and not returned as a line yet.
    bytes: Vec<u8>,
    /// How much of `bytes` is known to contain no newline.
    searched: usize,
    ended: bool,
}

/// How long to wait for a line.
#[derive(Debug, Clone, Copy)]
pub(super) enum Patience {
    None,
    Until(Instant),
    ForEver,
}

/// The result of waiting for a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Received {
    Line(Vec<u8>),
    Nothing,
    End,
}

impl Input {
    pub(super) fn of_this_process() -> io::Result<Input> {
        let pipe = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        Ok(Input { pipe, bytes: Vec::new(), searched: 0, ended: false })
    }

    /// Returns the next line that is not blank, without its newline.
    pub(super) fn line(&mut self, patience: Patience) -> io::Result<Received> {
        loop {
            if let Some(line) = self.cut() {
                if line.trim_ascii().is_empty() {
                    continue;
                }
                return Ok(Received::Line(line));
            }
            if self.ended {
                return Ok(Received::End);
            }
            if !self.is_readable(patience)? {
                return Ok(Received::Nothing);
            }
            self.read()?;
        }
    }

    /// Returns the next line of what was read. At the end of the input, the rest without a newline is a line too.
    fn cut(&mut self) -> Option<Vec<u8>> {
        let Some(offset) = memchr::memchr(b'\n', self.bytes.get(self.searched..)?) else {
            self.searched = self.bytes.len();
            if !self.ended || self.bytes.is_empty() {
                return None;
            }
            self.searched = 0;
            return Some(std::mem::take(&mut self.bytes));
        };
        let rest = self.bytes.split_off(self.searched + offset + 1);
        let mut line = std::mem::replace(&mut self.bytes, rest);
        line.pop();
        self.searched = 0;
        Some(line)
    }

    fn read(&mut self) -> io::Result<()> {
        let before = self.bytes.len();
        self.bytes.resize(before + READ_BYTES, 0);
        let read = self.pipe.read(self.bytes.get_mut(before..).unwrap_or_default());
        self.bytes.truncate(before + read.as_ref().map_or(0, |count| *count));
        match read {
            Ok(count) => self.ended = count == 0,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether a read would not block, within the given patience.
    fn is_readable(&self, patience: Patience) -> io::Result<bool> {
        loop {
            let timeout = match patience {
                Patience::None => Some(Timespec::default()),
                Patience::Until(instant) => {
                    let left = instant.saturating_duration_since(Instant::now());
                    Some(Timespec::try_from(left).map_err(io::Error::other)?)
                }
                Patience::ForEver => None,
            };
            match poll(&mut [PollFd::new(&self.pipe, PollFlags::IN)], timeout.as_ref()) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
