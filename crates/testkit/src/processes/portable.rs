//! The process table as any UNIX shows it, through `ps`.

use std::io;
use std::process::{Command, Stdio};

use super::ProcessInfo;

/// The folder with one entry per open file of this process.
pub(super) const OPEN_FILES: &str = "/dev/fd";

#[expect(clippy::panic, reason = "only tests call this, and an empty answer would let them pass")]
pub(super) fn all() -> Vec<ProcessInfo> {
    match table() {
        Ok(processes) => processes,
        Err(error) => panic!("cannot list processes with ps: {error}"),
    }
}

pub(super) fn carries(process: &ProcessInfo, marker: &str) -> bool {
    process.command.contains(marker)
}

fn table() -> Result<Vec<ProcessInfo>, io::Error> {
    // The environment follows the command line. One -o per column: a BSD ps takes everything after a `=` for the
    // heading.
    let ps = Command::new("ps")
        .args(["axeww", "-o", "pid=", "-o", "ppid=", "-o", "stat=", "-o", "command="])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let pid_of_ps = ps.id();
    let output = ps.wait_with_output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!("it ended with {}", output.status)));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().filter_map(process).filter(|process| process.pid != pid_of_ps).collect())
}

fn process(line: &str) -> Option<ProcessInfo> {
    let (pid, rest) = line.trim_start().split_once(' ')?;
    let (parent, rest) = rest.trim_start().split_once(' ')?;
    let rest = rest.trim_start();
    let (state, command) = rest.split_once(' ').unwrap_or((rest, ""));
    Some(ProcessInfo {
        pid: pid.parse().ok()?,
        parent: parent.parse().ok()?,
        state: state.chars().next()?,
        command: command.trim().to_owned(),
    })
}
