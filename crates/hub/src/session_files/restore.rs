//! Restores a session's files after another program removed or changed them.

use std::path::Path;
use std::sync::Arc;

use serde_json::value::RawValue;
use watari_sdk::native::{self, EventLine, EventPlace};
use watari_sdk::{AskedToolUses, Position};

use super::{OpenSessionError, SessionFiles, in_use, make};
use crate::asked::read_asked;
use crate::lock::LockError;
use crate::log::{AppendError, Log, ReadError, marked_through, position_of};
use crate::record::{Record, RecordError};
use crate::snapshot::{Snapshot, SnapshotChange, stored_snapshot_change};

impl SessionFiles {
    /// Restores the session's lock, and returns whether another program had removed it. Without it, another host could
    /// write to the same log.
    pub(crate) fn restore_lock(&mut self) -> Result<bool, AppendError> {
        if self.lock.is_in_place() {
            return Ok(false);
        }
        let failed = |error: OpenSessionError| AppendError::NotLocked { why: error.to_string() };
        self.make_folders().map_err(failed)?;
        let restored = self.lock.restore(&self.folder).map_err(|error| failed(self.in_use(error)))?;
        // Without the lock, an inspection of the record takes this host for killed.
        self.write_record().map_err(failed)?;
        Ok(restored)
    }

    /// Restores the conversation's lock, and returns whether another program had removed it. Without it, another process
    /// could drive the same conversation.
    pub(crate) fn restore_conversation_lock(&mut self) -> Result<bool, AppendError> {
        let Some(lock) = &mut self.conversation_lock else { return Ok(false) };
        let restored = self.conversation_locks.restore(lock);
        restored.map_err(|error| AppendError::NotLocked { why: self.in_use(error).to_string() })
    }

    fn in_use(&self, error: LockError) -> OpenSessionError {
        in_use(self.record.session_id.as_deref().unwrap_or_default(), error)
    }

    /// Restores everything else that was removed: folders, record and log. `rescued` are lines of durable events that
    /// may be missing in the log's file. Returns the highest lost sequence number.
    pub(crate) fn restore(&mut self, rescued: &[Arc<[u8]>]) -> Result<Option<u64>, AppendError> {
        let path = self.log.storage().path().to_owned();
        let failed = |error: OpenSessionError| AppendError::NotRestored { path: path.clone(), why: error.to_string() };
        self.make_folders().and_then(|()| self.write_record()).map_err(failed)?;
        let (record, record_path) = (&mut self.record, self.folder.join("record.json"));
        self.log.restore(rescued, |lost| note_lost(record, &record_path, lost).map_err(|error| failed(error.into())))
    }

    fn make_folders(&self) -> Result<(), OpenSessionError> {
        self.dirs.make()?;
        make(&self.folder, "XDG_STATE_HOME")
    }

    fn write_record(&self) -> Result<(), OpenSessionError> {
        Ok(self.record.write(&self.folder.join("record.json"))?)
    }
}

/// Records that events are lost, before they are missing in the log.
fn note_lost(record: &mut Record, path: &Path, lost: u64) -> Result<(), RecordError> {
    record.lost_through = record.lost_through.max(Some(lost));
    record.write(path)
}

/// Returns what the last host left open. First restores the log if another program changed it while no host ran, or just
/// before a host was killed: lost events are marked in it, and no sequence number is assigned twice.
pub(super) fn read_or_restore(
    log: &mut Log,
    record: &mut Record,
    path: &Path,
) -> Result<((Snapshot, AskedToolUses), Option<String>), OpenSessionError> {
    let noted = record.epochs.last().map_or(0, |end| end.seq).max(record.lost_through.unwrap_or(0));
    let is_short = log.last().seq < noted;
    log.continue_after(noted);
    let mut ends = record.epochs.clone();
    let (left_open, damage) = match read_asked(log).and_then(|asked| Ok((read_left_open(log, &mut ends)?, asked))) {
        Ok(read) if !is_short && log.examine()?.is_none() => (read, None),
        Ok(_) | Err(ReadError::Damaged { .. } | ReadError::TooLong { .. } | ReadError::CutOff { .. }) => {
            let failed =
                |error: RecordError| AppendError::NotRestored { path: path.to_owned(), why: error.to_string() };
            let lost = log.restore(&[], |lost| note_lost(record, path, lost).map_err(failed))?;
            ends.clone_from(&record.epochs);
            let message = format!("another program changed the log since the last host; {}", describe_loss(lost));
            ((read_left_open(log, &mut ends)?, read_asked(log)?), Some(message))
        }
        Err(error @ ReadError::Io { .. }) => return Err(error.into()),
    };
    record.epochs = ends;
    Ok((left_open, damage))
}

/// Describes whether events were lost.
pub(crate) fn describe_loss(lost: Option<u64>) -> String {
    match lost {
        Some(through) => format!("events up to number {through} were lost"),
        None => "no events were lost".to_owned(),
    }
}

/// Returns what was left open since the last epoch with a recorded end, and adds the ends of later epochs. There are
/// several if hosts were killed before they had ended what they found.
fn read_left_open(log: &Log, ends: &mut Vec<Position>) -> Result<Snapshot, ReadError> {
    let mut snapshot = Snapshot::default();
    let end = ends.last().copied().unwrap_or_default();
    let mut lines = log.after(end)?;
    let (mut through, mut at) = (end.seq, lines.offset());
    while let Some(line) = lines.next()? {
        // Every sequence number follows the previous one, or a mark that says which are lost.
        let stored = read_stored(line).filter(|(position, _)| position.seq == through + 1);
        let Some((position, change)) = stored else {
            return Err(ReadError::Damaged { path: log.storage().path().to_owned(), at });
        };
        through = marked_through(line).unwrap_or(0).max(position.seq);
        at += line.len() as u64 + 1;
        match ends.last_mut().filter(|end| end.epoch == position.epoch) {
            Some(end) => *end = position,
            None => ends.push(position),
        }
        if let Some(change) = change {
            snapshot.observe(position.seq.into(), change);
        }
    }
    Ok(snapshot)
}

/// Reads a line of the log: its position, and what its event changes. None if it is not whole.
fn read_stored(line: &[u8]) -> Option<(Position, Option<SnapshotChange>)> {
    match native::read(line) {
        Ok(EventLine { place: EventPlace::At(position), event }) => Some((position, stored_snapshot_change(&event))),
        Ok(EventLine { place: EventPlace::After(_), .. }) => None,
        // Another program wrote an event in a form that Watari does not write. It is whole, and changes nothing.
        Err(error) => {
            serde_json::from_slice::<&RawValue>(line).ok()?;
            let position = position_of(line)?;
            tracing::warn!("event {position} of the log is ignored: {error}");
            Some((position, None))
        }
    }
}
