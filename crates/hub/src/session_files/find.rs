//! Finds the session of a conversation among the stored ones. If its record is damaged, the log names the conversation
//! too.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use watari_sdk::files::EVENTS;
use watari_sdk::{Key, SessionId};

use super::{OpenSessionError, SessionDirs};
use crate::record::{self, Record, RecordError, State};

/// How much of a line is searched.
const BEGINNING_BYTES: usize = 1024 * 1024;

/// A session that was found.
pub(super) struct FoundSession {
    pub(super) record: Record,
    /// What is wrong with its record, if it had to be rebuilt.
    pub(super) damage: Option<String>,
}

impl SessionDirs {
    /// Returns the newest session that holds a conversation.
    pub(super) fn find(&self, conversation: &SessionId) -> Result<Option<FoundSession>, OpenSessionError> {
        let path = self.state.join("sessions");
        let list = |source| OpenSessionError::List { path: path.clone(), source };
        let mut newest: Option<FoundSession> = None;
        for entry in fs::read_dir(&path).map_err(list)? {
            let folder = entry.map_err(list)?.path();
            // A folder with another name is not a session.
            let Some(key) = folder.file_name().and_then(|name| name.to_str()?.parse::<Key>().ok()) else { continue };
            let found = match Record::read(&folder.join("record.json")) {
                Ok(record) if record.key == key => {
                    let is_it = record.session_id.as_deref() == Some(conversation.as_str());
                    is_it.then_some(FoundSession { record, damage: None })
                }
                Ok(_) => recover(&folder, key, conversation, "it names another session"),
                Err(error @ RecordError::Newer { .. }) if names(&folder, conversation) => return Err(error.into()),
                Err(error) => recover(&folder, key, conversation, &error.to_string()),
            };
            let started = |found: &FoundSession| found.record.started_ms;
            if let Some(found) = found
                && newest.as_ref().is_none_or(|newest| started(newest) <= started(&found))
            {
                newest = Some(found);
            }
        }
        Ok(newest)
    }
}

/// Rebuilds a record from the log; the rest of it is filled in when the log is read.
fn recover(folder: &Path, key: Key, conversation: &SessionId, why: &str) -> Option<FoundSession> {
    names(folder, conversation).then(|| FoundSession {
        record: Record {
            version: record::VERSION,
            key,
            session_id: Some(conversation.to_string()),
            cwd: PathBuf::new(),
            started_ms: 0,
            state: State::HostKilled,
            epochs: Vec::new(),
            epoch: 0,
            lost_through: None,
        },
        damage: Some(format!("the session's record was damaged and was rebuilt from its log: {why}")),
    })
}

/// Whether the log of a session names a conversation as its latest.
fn names(folder: &Path, conversation: &SessionId) -> bool {
    let member = format!("\"session_id\":\"{conversation}\"");
    let is_of_type = |line: &[u8], kind: &str| {
        memchr::memmem::find(&line[..line.len().min(64)], format!("\"type\":\"{kind}\"").as_bytes()).is_some()
    };
    let Ok(log) = EVENTS.open_existing(&folder.join("events.jsonl")) else { return false };
    // The conversation of a session may change: only the last one counts.
    let (mut log, mut line, mut last) = (BufReader::new(log), Vec::new(), None);
    while let Ok(true) = next_beginning(&mut log, &mut line) {
        if is_of_type(&line, "host_started") || is_of_type(&line, "session_opened") {
            last = Some(memchr::memmem::find(&line, member.as_bytes()).is_some());
        }
    }
    last.unwrap_or(false)
}

/// Reads the beginning of the next line, and skips the rest; false at the end. A line may not fit into memory.
fn next_beginning(log: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let mut is_first = true;
    loop {
        let chunk = log.fill_buf()?;
        if chunk.is_empty() {
            return Ok(!is_first);
        }
        is_first = false;
        let line_end = memchr::memchr(b'\n', chunk);
        let count = line_end.map_or(chunk.len(), |line_end| line_end + 1);
        line.extend_from_slice(&chunk[..line_end.unwrap_or(count).min(BEGINNING_BYTES - line.len())]);
        log.consume(count);
        if line_end.is_some() {
            return Ok(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_line_of_any_length_only_a_bounded_beginning_is_held() {
        let long = format!("a{}\nb\n\nlast", "x".repeat(3 * BEGINNING_BYTES));
        let (mut log, mut line, mut seen) = (BufReader::with_capacity(1000, long.as_bytes()), Vec::new(), Vec::new());
        while next_beginning(&mut log, &mut line).unwrap() {
            seen.push((line.len(), line.first().copied()));
        }
        assert_eq!(seen, [(BEGINNING_BYTES, Some(b'a')), (1, Some(b'b')), (0, None), (4, Some(b'l'))]);
        assert!(line.capacity() <= 2 * BEGINNING_BYTES);
    }
}
