//! The splice: starts the CLI and copies bytes both ways. It parses nothing, so nothing can be faster.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::process::{Command, ExitCode, Stdio};

/// As much as a pipe holds by default.
const CHUNK_BYTES: usize = 64 * 1024;

/// Is the splice of the CLI that the arguments name, until the CLI ends.
pub fn run(mut arguments: impl Iterator<Item = OsString>) -> io::Result<ExitCode> {
    let cli = arguments.next().unwrap_or_default();
    let mut child = Command::new(cli).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let to_cli = std::thread::spawn(move || stdin.map(|stdin| copy(io::stdin().lock(), stdin)));
    if let Some(stdout) = stdout {
        copy(stdout, raw_stdout()?)?;
    }
    let status = child.wait()?;
    // It waits for an input that may never end; the CLI is gone, so nobody needs it.
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

/// Without the buffer of the standard library, which looks for line ends.
fn raw_stdout() -> io::Result<std::fs::File> {
    use std::os::fd::AsFd;
    Ok(io::stdout().as_fd().try_clone_to_owned()?.into())
}
