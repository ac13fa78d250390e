//! The process table as Linux shows it, in `/proc`.

use std::path::PathBuf;

use watari_sdk::files::read_system;

use super::ProcessInfo;

/// The folder with one entry per open file of this process.
pub(super) const OPEN_FILES: &str = "/proc/self/fd";

#[expect(clippy::panic, reason = "only tests call this, and an empty answer would let them pass")]
pub(super) fn all() -> Vec<ProcessInfo> {
    let entries = match std::fs::read_dir("/proc") {
        Ok(entries) => entries,
        Err(error) => panic!("cannot read /proc: {error}"),
    };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(process).collect()
}

pub(super) fn carries(process: &ProcessInfo, marker: &str) -> bool {
    // The environment of another user's process cannot be read; such a process is not a child of a test.
    process.command.contains(marker)
        || ["environ", "cmdline"]
            .iter()
            .any(|name| read_system(file_of(process.pid, name)).is_ok_and(|bytes| contains(&bytes, marker.as_bytes())))
}

/// None if the process exited since it was listed.
fn process(pid: u32) -> Option<ProcessInfo> {
    let stat = read_system(file_of(pid, "stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name is in parentheses and may itself contain spaces and parentheses.
    let (before, after) = stat.rsplit_once(") ")?;
    let (_, name) = before.split_once('(')?;
    let mut fields = after.split(' ');
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let arguments = read_system(file_of(pid, "cmdline")).unwrap_or_default();
    let arguments = String::from_utf8_lossy(&arguments);
    let command = match arguments.trim_end_matches('\0') {
        "" => format!("[{name}]"),
        arguments => arguments.replace('\0', " "),
    };
    Some(ProcessInfo { pid, parent, state, command })
}

fn file_of(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    wanted.is_empty() || bytes.windows(wanted.len()).any(|window| window == wanted)
}
