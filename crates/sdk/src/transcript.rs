//! Watches a conversation's transcript for entries of other programs: whoever resumes the conversation beside this session
//! writes to it too, and turns of either are lost.
//!
//! The CLI notes in every entry by whose environment it was started. Another Watari has the same word there; it is told by
//! its prompts, whose ids this session did not make. (CLI 2.1.42 notes neither; there nothing is noticed.)

use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};

use serde::Deserialize;
use watari_protocol::{Command, Event, Refusal, SessionId};

use crate::argv::TranscriptPlace;
use crate::files::TRANSCRIPT;
use crate::sink::Sink;
use crate::threads::{self, Beside};

/// How much of a transcript is read at once. A longer entry is passed over.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// Passes events on, and looks at the transcript after each turn, in a thread beside.
pub(crate) struct TranscriptWatch<S> {
    sink: S,
    place: TranscriptPlace,
    /// What the ids of this session's own prompts begin with.
    own_prompts: String,
    session: Option<SessionId>,
    watched: Watched,
    looking: Option<Beside<Watched>>,
    looks_again: bool,
    is_reported: bool,
}

/// A transcript, as far as it was read.
#[derive(Debug, Default)]
struct Watched {
    path: Option<PathBuf>,
    read_bytes: u64,
    /// Whether what comes now is newer than this session. A fork begins with a copy of what others wrote.
    is_past_history: bool,
    /// Who else wrote to it.
    stranger: Option<String>,
}

impl<S: Sink> TranscriptWatch<S> {
    /// `resumed` is the conversation that goes on: what its transcript has by now is history.
    pub(crate) fn new(
        sink: S,
        place: TranscriptPlace,
        own_prompts: String,
        resumed: Option<SessionId>,
    ) -> TranscriptWatch<S> {
        let mut watch = TranscriptWatch {
            sink,
            place,
            own_prompts,
            session: resumed.clone(),
            watched: Watched::default(),
            looking: None,
            looks_again: false,
            is_reported: false,
        };
        if let Some(session) = resumed {
            let place = watch.place.clone();
            watch.looking = Some(threads::run(move || Watched::after_history(place.find(&session))));
        }
        watch
    }

    /// A conversation whose transcript only begins: history in it is a copy, and ends where this session's prompts begin.
    fn open(&mut self, session: &SessionId) {
        if self.session.as_ref() == Some(session) {
            return;
        }
        self.session = Some(session.clone());
        self.watched = Watched::default();
        // Whatever a look finds that still goes on is of the conversation before.
        self.looking = None;
    }

    fn look(&mut self) {
        let Some(session) = self.session.clone().filter(|_| !self.is_reported) else { return };
        if self.looking.is_some() {
            self.looks_again = true;
            return;
        }
        self.looks_again = false;
        let (place, own_prompts) = (self.place.clone(), self.own_prompts.clone());
        let mut watched = std::mem::take(&mut self.watched);
        self.looking = Some(threads::run(move || {
            watched.path = watched.path.or_else(|| place.find(&session));
            // One that cannot be read tells nothing.
            let _unread = watched.read_on(&place.entrypoint, &own_prompts);
            watched
        }));
    }

    /// Reports a stranger, once: what follows from it is the same for every further entry.
    fn report(&mut self) {
        if let (Some(entrypoint), Some(session), false) =
            (self.watched.stranger.take(), &self.session, self.is_reported)
        {
            self.is_reported = true;
            self.sink.emit(Event::ResumedElsewhere { session_id: session.clone(), entrypoint });
        }
    }
}

impl Watched {
    /// A transcript of which everything that is there is history.
    fn after_history(path: Option<PathBuf>) -> Watched {
        let read_bytes = path.as_ref().and_then(|path| path.metadata().ok()).map_or(0, |metadata| metadata.len());
        Watched { path, read_bytes, is_past_history: true, stranger: None }
    }

    /// Reads what was written since, up to the end of the last whole entry.
    fn read_on(&mut self, own: &str, own_prompts: &str) -> io::Result<()> {
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
            for entry in chunk[..end].split(|byte| *byte == b'\n') {
                self.take_entry(entry, own, own_prompts);
            }
            self.read_bytes += end as u64 + 1;
            file.seek(SeekFrom::Start(self.read_bytes))?;
        }
    }
}

/// An entry of a transcript, as far as it says who wrote it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    r#type: String,
    entrypoint: String,
    #[serde(default)]
    uuid: String,
    /// How a prompt came. Entries that the CLI makes by itself have none.
    #[serde(default)]
    prompt_source: String,
}

/// The source of prompts that come over standard input, as all of Watari's do.
const FROM_STDIN: &str = "sdk";

impl Watched {
    /// Notes whose entry it is, if it is a prompt or an answer of another program's, or a prompt of another Watari's.
    fn take_entry(&mut self, entry: &[u8], own: &str, own_prompts: &str) {
        let Ok(entry) = serde_json::from_slice::<Entry>(entry) else { return };
        if !["user", "assistant"].contains(&entry.r#type.as_str()) {
            return;
        }
        let is_own_prompt = entry.uuid.starts_with(own_prompts);
        self.is_past_history |= is_own_prompt;
        let is_prompt_of_another = entry.prompt_source == FROM_STDIN && !is_own_prompt;
        if self.is_past_history && self.stranger.is_none() && (entry.entrypoint != own || is_prompt_of_another) {
            self.stranger = Some(entry.entrypoint);
        }
    }
}

impl<S: Sink> Sink for TranscriptWatch<S> {
    fn emit(&mut self, event: Event) {
        if let Event::SessionOpened { session } = &event {
            self.open(&session.session_id);
        }
        let is_turns_end = matches!(event, Event::TurnFinished { .. });
        self.sink.emit(event);
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

    fn has_stored_all(&mut self) -> bool {
        self.sink.has_stored_all()
    }

    fn waits_for_storage(&self) -> bool {
        self.sink.waits_for_storage()
    }

    fn refuses(&self, command: &Command) -> Option<Refusal> {
        self.sink.refuses(command)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const OWN: &str = "00000001-0002-4003-8004-";

    fn prompt(entrypoint: &str, uuid: &str) -> String {
        let fields = format!(r#""entrypoint":"{entrypoint}","uuid":"{uuid}","promptSource":"sdk""#);
        format!("{{\"type\":\"user\",{fields}}}\n")
    }

    #[test]
    fn a_prompt_of_another_watari_is_noticed_and_history_that_a_fork_copies_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let own = format!("{OWN}000000000001");
        let other = "00000001-0002-4003-8005-000000000001";
        let look = |watched: &mut Watched, text: String| {
            std::fs::write(&path, text).unwrap();
            watched.read_on("watari", OWN).unwrap();
            watched.stranger.clone()
        };
        let fork = || Watched { path: Some(path.clone()), ..Watched::default() };
        let history = prompt("watari", other) + &prompt("cli", other);
        let begun = history + &prompt("watari", &own);
        assert_eq!(look(&mut fork(), begun.clone()), None);
        assert_eq!(look(&mut fork(), begun.clone() + "{\"type\":\"user\",\"entrypoint\":\"watari\"}\n"), None);
        assert_eq!(look(&mut fork(), begun.clone() + &prompt("watari", other)).as_deref(), Some("watari"));
        assert_eq!(look(&mut fork(), begun + &prompt("cli", other)).as_deref(), Some("cli"));
    }

    #[test]
    fn entries_of_others_are_noticed_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let mut file = std::fs::File::create(&path).unwrap();
        let mut watched = Watched::after_history(Some(path));
        let mut look = |text: &str| {
            file.write_all(text.as_bytes()).unwrap();
            watched.read_on("watari", OWN).unwrap();
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
