//! Watches a conversation's transcript for entries of other programs: whoever resumes the conversation beside this session
//! writes to it too, and turns of either are lost.
//!
//! The CLI notes in every entry by whose environment it was started. (CLI 2.1.42 does not; there nothing is noticed.)

use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use serde::Deserialize;
use tokio::task::JoinHandle;
use watari_protocol::{Command, Event, Refused, SessionId};

use crate::argv::TranscriptPlace;
use crate::files::TRANSCRIPT;
use crate::sink::Sink;

/// How much of a transcript is read at once. A longer entry is passed over.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// Passes events on, and looks at the transcript after each turn, in a thread beside.
pub(crate) struct TranscriptWatch<S> {
    sink: S,
    place: TranscriptPlace,
    session: Option<SessionId>,
    watched: Watched,
    looking: Option<JoinHandle<Watched>>,
    looks_again: bool,
    is_reported: bool,
}

/// A transcript, as far as it was read.
#[derive(Debug, Default)]
struct Watched {
    path: Option<PathBuf>,
    read_bytes: u64,
    /// Who else wrote to it.
    stranger: Option<String>,
}

impl<S: Sink> TranscriptWatch<S> {
    pub(crate) fn new(sink: S, place: TranscriptPlace) -> TranscriptWatch<S> {
        TranscriptWatch {
            sink,
            place,
            session: None,
            watched: Watched::default(),
            looking: None,
            looks_again: false,
            is_reported: false,
        }
    }

    /// What is there when the conversation is opened is nobody's business here.
    fn open(&mut self, session: &SessionId) {
        self.session = Some(session.clone());
        self.watched = Watched::default();
        // Whatever a look finds that still goes on is of the conversation before.
        self.looking = None;
        let (place, session) = (self.place.clone(), session.clone());
        self.looking = Some(tokio::task::spawn_blocking(move || {
            let path = place.find(&session);
            let read_bytes = path.as_ref().and_then(|path| path.metadata().ok()).map_or(0, |metadata| metadata.len());
            Watched { path, read_bytes, stranger: None }
        }));
    }

    fn look(&mut self) {
        let Some(session) = self.session.clone().filter(|_| !self.is_reported) else { return };
        if self.looking.is_some() {
            self.looks_again = true;
            return;
        }
        self.looks_again = false;
        let (place, mut watched) = (self.place.clone(), std::mem::take(&mut self.watched));
        self.looking = Some(tokio::task::spawn_blocking(move || {
            watched.path = watched.path.or_else(|| place.find(&session));
            // One that cannot be read tells nothing.
            let _unread = watched.read_on(&place.entrypoint);
            watched
        }));
    }

    /// Reports a stranger, once: what follows from it is the same for every further entry.
    fn report(&mut self) {
        if let (Some(entrypoint), Some(session), false) =
            (self.watched.stranger.take(), &self.session, self.is_reported)
        {
            self.is_reported = true;
            self.sink.tell(Event::ResumedElsewhere { session_id: session.clone(), entrypoint });
        }
    }
}

impl Watched {
    /// Reads what was written since, up to the end of the last whole entry.
    fn read_on(&mut self, own: &str) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut file = TRANSCRIPT.open(path)?;
        file.seek(SeekFrom::Start(self.read_bytes))?;
        loop {
            let mut chunk = Vec::new();
            let count = (&mut file).take(CHUNK_BYTES as u64).read_to_end(&mut chunk)?;
            let Some(end) = memchr::memrchr(b'\n', &chunk) else {
                // An entry that is not whole yet, or one that is too long to be looked at.
                let skipped = if count == CHUNK_BYTES { count } else { 0 };
                self.read_bytes += skipped as u64;
                if skipped == 0 {
                    return Ok(());
                }
                continue;
            };
            let entries = chunk[..end].split(|byte| *byte == b'\n');
            self.stranger = self.stranger.take().or_else(|| entries.filter_map(|entry| stranger_in(entry, own)).next());
            self.read_bytes += end as u64 + 1;
            file.seek(SeekFrom::Start(self.read_bytes))?;
        }
    }
}

/// Whose entry it is, if it is a prompt or an answer of another program's.
fn stranger_in(entry: &[u8], own: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Entry {
        r#type: String,
        entrypoint: String,
    }
    let entry: Entry = serde_json::from_slice(entry).ok()?;
    (["user", "assistant"].contains(&entry.r#type.as_str()) && entry.entrypoint != own).then_some(entry.entrypoint)
}

impl<S: Sink> Sink for TranscriptWatch<S> {
    fn tell(&mut self, event: Event) {
        if let Event::SessionOpened { session } = &event {
            self.open(&session.session_id);
        }
        let is_turns_end = matches!(event, Event::TurnFinished { .. });
        self.sink.tell(event);
        if is_turns_end {
            self.look();
        }
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.sink.poll_room(context)
    }

    fn hurry(&mut self) {
        self.sink.hurry();
    }

    fn poll_work(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(looking) = &mut self.looking
            && let Poll::Ready(watched) = Pin::new(looking).poll(context)
        {
            self.looking = None;
            // A look that panicked has seen nothing.
            self.watched = watched.unwrap_or_default();
            self.report();
            if self.looks_again {
                self.look();
            }
            return Poll::Ready(());
        }
        self.sink.poll_work(context)
    }

    fn has_kept_all(&mut self) -> bool {
        self.sink.has_kept_all()
    }

    fn waits_to_keep(&self) -> bool {
        self.sink.waits_to_keep()
    }

    fn refuses(&self, command: &Command) -> Option<Refused> {
        self.sink.refuses(command)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn entries_of_others_are_noticed_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let mut file = std::fs::File::create(&path).unwrap();
        let mut watched = Watched { path: Some(path), ..Watched::default() };
        let mut look = |text: &str| {
            file.write_all(text.as_bytes()).unwrap();
            watched.read_on("watari").unwrap();
            (watched.stranger.take(), watched.read_bytes)
        };
        assert_eq!(look("{\"type\":\"user\",\"entrypoint\":\"watari\"}\n{\"type\":\"cost-state\"}\nnoise\n").0, None);
        // Named by a tool, not by the entry.
        let nested = r#"{"type":"assistant","entrypoint":"watari","message":{"input":{"entrypoint":"sh"}}}"#;
        let (stranger, read) = look(&format!("{nested}\n"));
        assert_eq!(stranger, None);
        // Half an entry waits for its other half.
        assert_eq!(look("{\"type\":\"user\",\"entry"), (None, read));
        assert_eq!(look("point\":\"cli\"}\n").0.as_deref(), Some("cli"));
        // One that is too long is passed over, and the next is read.
        let long = format!("{{\"type\":\"user\",\"x\":\"{}\",\"entrypoint\":\"cli\"}}\n", "x".repeat(2 * CHUNK_BYTES));
        assert_eq!(look(&long).0, None);
        assert_eq!(look("{\"type\":\"user\",\"entrypoint\":\"sdk-cli\"}\n").0.as_deref(), Some("sdk-cli"));
    }
}
