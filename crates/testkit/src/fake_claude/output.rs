//! The fake CLI's stdout: a large buffer that is written when it is full or when the client must see it.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

/// How many bytes are buffered before they are written.
const BUFFER_BYTES: usize = 256 * 1024;

/// Bytes on their way to the process that started the fake CLI.
#[derive(Debug)]
pub(super) struct Output {
    pipe: File,
    unwritten: Vec<u8>,
    /// True if the buffer was full since the last query.
    was_full: bool,
}

impl Output {
    pub(super) fn of_this_process() -> io::Result<Output> {
        let pipe = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        Ok(Output { pipe, unwritten: Vec::with_capacity(BUFFER_BYTES), was_full: false })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.unwritten.len() + bytes.len() > BUFFER_BYTES {
            self.was_full = true;
            self.flush()?;
        }
        if bytes.len() > BUFFER_BYTES {
            return self.pipe.write_all(bytes);
        }
        self.unwritten.extend_from_slice(bytes);
        Ok(())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        let written = self.pipe.write_all(&self.unwritten);
        self.unwritten.clear();
        written
    }

    /// Whether much was written since the last call, so that it is time to read stdin.
    pub(super) fn was_full(&mut self) -> bool {
        std::mem::take(&mut self.was_full)
    }
}
