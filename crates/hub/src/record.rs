//! The record of a session: what can be known without asking its host, in one small file that is replaced as a whole.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use watari_sdk::files::{RECORD, RECORD_TEMPORARY};
use watari_sdk::{Key, Position};

/// The record of a session. It contains no environment and no prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The format of this file.
    pub version: u32,
    /// Watari's key of the session.
    pub key: Key,
    /// The CLI's id of the conversation, once it is known; it may change.
    pub session_id: Option<String>,
    /// The working directory of the CLI.
    #[serde(with = "path_bytes")]
    pub cwd: PathBuf,
    /// When the session started, in milliseconds since 1970.
    pub started_ms: u64,
    /// Whether the session runs or how it ended, as far as its host could record it.
    pub state: State,
    /// The last position of each epoch of the log, oldest first: a position after its epoch's end was lost.
    pub epochs: Vec<Position>,
    /// The latest epoch: a deleted log must not begin again with positions that clients know.
    #[serde(default)]
    pub epoch: u64,
    /// The highest sequence number of an event that another program removed from the log, if any: a client that has not
    /// received the events up to it cannot get all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_through: Option<u64>,
}

/// The state of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// A host runs it; if its lock is free, that host was killed.
    Running,
    /// It ended normally, and can be resumed.
    Ended,
    /// Its host was killed.
    HostKilled,
}

/// The version of the records that Watari writes.
pub const VERSION: u32 = 1;

/// The maximum size of a record: it holds a few names, and a position for each host of the session.
const BYTES_MAX: u64 = 1024 * 1024;

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The system refused.
    #[error("cannot use the record {}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It is not a record.
    #[error("cannot parse the record {}: {source}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// It is larger than a record can be, so another program wrote it.
    #[error("the record {} has more than {BYTES_MAX} bytes, so Watari did not write it: remove it", .path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// A newer Watari wrote it.
    #[error("the record {} has version {version}, but this Watari supports {VERSION}: use a newer Watari", .path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
}

impl Record {
    /// Reads a record.
    pub fn read(path: &Path) -> Result<Record, RecordError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let malformed = |source| RecordError::Malformed { path: path.to_owned(), source };
        let mut text = Vec::new();
        let read = RECORD.open(path).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut text));
        if read.map_err(|source| RecordError::Io { path: path.to_owned(), source })? as u64 > BYTES_MAX {
            return Err(RecordError::TooLong { path: path.to_owned() });
        }
        let Version { version } = serde_json::from_slice(&text).map_err(malformed)?;
        if version > VERSION {
            return Err(RecordError::Newer { path: path.to_owned(), version });
        }
        serde_json::from_slice(&text).map_err(malformed)
    }

    /// Replaces a record atomically: a reader sees the old one or the new one. Only the holder of the session's lock
    /// may call this.
    pub fn write(&self, path: &Path) -> Result<(), RecordError> {
        let io = |source| RecordError::Io { path: path.to_owned(), source };
        let text = serde_json::to_vec_pretty(self).map_err(|error| io(error.into()))?;
        let temporary = path.with_extension("json~");
        let written = RECORD_TEMPORARY.open(&temporary).and_then(|mut file| {
            file.write_all(&text)?;
            // Without this, a crash of the machine could leave an empty file under the name.
            file.sync_data()
        });
        written.and_then(|()| fs::rename(&temporary, path)).map_err(io)
    }

    /// Whether events after a position were lost, or are not those that a client has seen. `current` is the last
    /// position of the running epoch.
    pub fn has_gap(&self, position: Position, current: Position) -> bool {
        self.is_lost(position, current) || self.lost_through.is_some_and(|through| position.seq < through)
    }

    /// Whether a position is after the end of its epoch: its event was lost in a crash of the machine. `current` is the
    /// last position of the running epoch.
    pub fn is_lost(&self, position: Position, current: Position) -> bool {
        let ends = self.epochs.iter().chain([&current]);
        ends.into_iter().find(|end| end.epoch == position.epoch).is_none_or(|end| position.seq > end.seq)
            && position != Position::default()
    }
}

/// A path as text, or as bytes if it is not UTF-8.
mod path_bytes {
    use std::ffi::OsString;
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    use std::path::{Path, PathBuf};

    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use serde_json::Value;

    pub(super) fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
        match path.to_str() {
            Some(text) => text.serialize(serializer),
            None => path.as_os_str().as_bytes().serialize(serializer),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
        let value = Value::deserialize(deserializer)?;
        if let Value::String(text) = value {
            return Ok(text.into());
        }
        let bytes: Vec<u8> = serde_json::from_value(value).map_err(serde::de::Error::custom)?;
        Ok(OsString::from_vec(bytes).into())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    fn record() -> Record {
        Record {
            version: VERSION,
            key: Key::from_random(17),
            session_id: None,
            cwd: "/p".into(),
            started_ms: 1_790_000_000_000,
            state: State::Running,
            epochs: vec![Position { epoch: 1, seq: 10 }, Position { epoch: 2, seq: 15 }],
            epoch: 3,
            lost_through: None,
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_replaced_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.json");
        let mut record = record();
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path).unwrap(), record);
        record.session_id = Some("11111111-1111-4111-8111-111111111111".to_owned());
        record.state = State::Ended;
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path).unwrap(), record);
        record.cwd = std::ffi::OsString::from_vec(b"/not \xff text".to_vec()).into();
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path).unwrap(), record);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.json");
        let error = |text: &str| {
            fs::write(&path, text).unwrap();
            Record::read(&path).unwrap_err().to_string().replace(folder.path().to_str().unwrap(), "F")
        };
        assert_eq!(error("{"), "cannot parse the record F/record.json: EOF while parsing an object at line 1 column 1");
        assert_eq!(
            error("{\"version\":2}"),
            "the record F/record.json has version 2, but this Watari supports 1: use a newer Watari"
        );
        assert!(error("{\"version\":1}").contains("missing field `key`"));
        assert_eq!(
            error(&" ".repeat(2_000_000)),
            "the record F/record.json has more than 1048576 bytes, so Watari did not write it: remove it"
        );
    }

    #[test]
    fn a_position_behind_its_epochs_end_was_lost() {
        let (record, current) = (record(), Position { epoch: 3, seq: 20 });
        let is_lost = |text: &str| record.is_lost(text.parse().unwrap(), current);
        assert_eq!(["0:0", "1:1", "1:10", "2:15", "3:15", "3:20"].map(is_lost), [false; 6]);
        assert_eq!(["1:11", "2:16", "3:21", "4:1", "0:1"].map(is_lost), [true; 5]);
        let damaged = Record { lost_through: Some(12), ..record.clone() };
        let has_gap = |text: &str| damaged.has_gap(text.parse().unwrap(), current);
        assert_eq!(["0:0", "1:10", "2:11", "1:11"].map(has_gap), [true; 4]);
        assert_eq!(["2:12", "3:20"].map(has_gap), [false; 2]);
    }
}
