//! Limits how many unparsed lines are stored: lines of the CLI's stdout that are not messages.

use watari_sdk::{Event, HostEvent};

/// How many unparsed lines are stored per turn. The others are counted.
pub(super) const UNPARSED_STORED_MAX: u32 = 64;

/// The unparsed lines since the last turn began.
#[derive(Debug, Default)]
pub(super) struct UnparsedLines {
    stored: u32,
    omitted_lines: u64,
    omitted_bytes: u64,
}

/// What to do with an event.
#[derive(Debug)]
pub(super) enum Admission {
    Publish,
    Omit,
    /// Publish first how many lines were omitted.
    PublishAfter(HostEvent),
}

impl UnparsedLines {
    /// Counts unparsed lines. The start or end of a turn, and the exit of the CLI, report how many were omitted.
    pub(super) fn admit(&mut self, event: &Event) -> Admission {
        if let Event::UnparsedLineSkipped { bytes, .. } = event {
            if self.stored < UNPARSED_STORED_MAX {
                self.stored += 1;
                return Admission::Publish;
            }
            self.omitted_lines += 1;
            self.omitted_bytes += bytes;
            return Admission::Omit;
        }
        if let Event::TurnStarted { .. } | Event::TurnFinished { .. } | Event::CliExited { .. } = event {
            let counted = std::mem::take(self);
            if counted.omitted_lines > 0 {
                let (lines, bytes) = (counted.omitted_lines, counted.omitted_bytes);
                return Admission::PublishAfter(HostEvent::UnparsedLinesOmitted { lines, bytes });
            }
        }
        Admission::Publish
    }
}
