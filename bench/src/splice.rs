//! The splice: starts the CLI and copies bytes both ways. It parses nothing, so nothing can be faster.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{Command, ExitCode, Stdio};

/// The default size of a pipe.
const CHUNK_BYTES: usize = 64 * 1024;

/// Copies between stdio and the CLI that the arguments name, until the CLI exits.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    let cli = arguments.next().unwrap_or_default();
    let mut child = Command::new(cli).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let to_cli = std::thread::spawn(move || stdin.map(|stdin| copy(io::stdin().lock(), stdin)));
    if let Some(stdout) = stdout {
        copy(stdout, raw_stdout()?)?;
    }
    let status = child.wait()?;
    // The thread waits for input that may never end. The CLI has exited, so it is not needed.
    drop(to_cli);
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match from.read(&mut chunk)? {
            0 => return Ok(()),
            count => to.write_all(&chunk[..count])?,
        }
    }
}

/// Without the buffer of the standard library, which searches for newlines.
fn raw_stdout() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}
