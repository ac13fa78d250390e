//! Watches a conversation's transcript for entries of other programs: a program that resumes the same conversation also
//! writes to it, and turns of one of them are lost.
//!
//! The CLI writes into every entry the entrypoint from its environment. Another Watari has the same entrypoint; it is
//! recognized by its prompts, whose ids this session did not create. (CLI 2.1.42 writes neither, so nothing is
//! detected.)

use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use serde::Deserialize;
use watari_protocol::{Event, SessionId};

use crate::argv::TranscriptDir;
use crate::files::TRANSCRIPT;
use crate::threads::{self, ThreadTask};

/// How much of a transcript is read in one call. A longer entry is skipped.
const CHUNK_BYTES: usize = 4 * 1024 * 1024;

/// Reads the transcript after each turn, in another thread.
pub(crate) struct TranscriptWatch {
    place: TranscriptDir,
    /// The prefix of the ids of this session's own prompts.
    watari_prompts: String,
    session: Option<SessionId>,
    watched: Watched,
    reading: Option<ThreadTask<Watched>>,
    reads_again: bool,
    is_reported: bool,
}

/// A transcript, and how far it was read.
#[derive(Debug, Default)]
struct Watched {
    path: Option<PathBuf>,
    read_bytes: u64,
    /// Whether the next entries are newer than this session. A fork begins with a copy of older entries.
    is_past_history: bool,
    /// The entrypoint of another program that wrote to it.
    other_entrypoint: Option<String>,
}

impl TranscriptWatch {
    /// `resumed` is the conversation that is resumed: the present content of its transcript is history.
    pub(crate) fn new(place: TranscriptDir, watari_prompts: String, resumed: Option<SessionId>) -> TranscriptWatch {
        let mut watch = TranscriptWatch {
            place,
            watari_prompts,
            session: resumed.clone(),
            watched: Watched::default(),
            reading: None,
            reads_again: false,
            is_reported: false,
        };
        if let Some(session) = resumed {
            let place = watch.place.clone();
            watch.reading = Some(threads::run(move || Watched::after_history(place.find(&session))));
        }
        watch
    }

    /// Starts to watch a new transcript: history in it is a copy, and ends where this session's prompts begin.
    fn open(&mut self, session: &SessionId) {
        if self.session.as_ref() == Some(session) {
            return;
        }
        self.session = Some(session.clone());
        self.watched = Watched::default();
        // The result of a running read belongs to the previous conversation.
        self.reading = None;
    }

    fn read(&mut self) {
        let Some(session) = self.session.clone().filter(|_| !self.is_reported) else { return };
        if self.reading.is_some() {
            self.reads_again = true;
            return;
        }
        self.reads_again = false;
        let (place, watari_prompts) = (self.place.clone(), self.watari_prompts.clone());
        let mut watched = std::mem::take(&mut self.watched);
        self.reading = Some(threads::run(move || {
            watched.path = watched.path.or_else(|| place.find(&session));
            // A transcript that cannot be read is ignored.
            let _unread = watched.read_on(&place.entrypoint, &watari_prompts);
            watched
        }));
    }

    /// Notes what an event says about the conversation: call it for every event.
    pub(crate) fn observe(&mut self, event: &Event) {
        if let Event::SessionOpened { session } = event {
            self.open(&session.session_id);
        } else if let Event::TurnFinished { .. } = event {
            self.read();
        }
    }

    /// Waits until another program is found, and returns the event that reports it, once: further entries mean the
    /// same. Cancel-safe: the state of the search stays in this watch.
    pub(crate) async fn stranger_found(&mut self) -> Event {
        loop {
            let Some(reading) = &mut self.reading else { return std::future::pending().await };
            let watched = reading.await;
            self.reading = None;
            // `None` if the read panicked.
            self.watched = watched.unwrap_or_default();
            let other_entrypoint = self.watched.other_entrypoint.take();
            if self.reads_again {
                self.read();
            }
            if let (Some(entrypoint), Some(session), false) = (other_entrypoint, &self.session, self.is_reported) {
                self.is_reported = true;
                return Event::ResumedElsewhere { session_id: session.clone(), entrypoint };
            }
        }
    }
}

impl Watched {
    /// A transcript whose present content is history.
    fn after_history(path: Option<PathBuf>) -> Watched {
        let read_bytes = path.as_ref().and_then(|path| path.metadata().ok()).map_or(0, |metadata| metadata.len());
        Watched { path, read_bytes, is_past_history: true, other_entrypoint: None }
    }

    /// Reads the entries that were written since, up to the end of the last complete one.
    fn read_on(&mut self, own: &str, watari_prompts: &str) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let mut file = TRANSCRIPT.open(path)?;
        file.seek(SeekFrom::Start(self.read_bytes))?;
        loop {
            let mut chunk = Vec::new();
            let count = (&mut file).take(CHUNK_BYTES as u64).read_to_end(&mut chunk)?;
            let Some(end) = memchr::memrchr(b'\n', &chunk) else {
                // An incomplete entry, or one that is too long to be read.
                let skipped = if count == CHUNK_BYTES { count } else { 0 };
                self.read_bytes += skipped as u64;
                if skipped == 0 {
                    return Ok(());
                }
                continue;
            };
            for entry in chunk[..end].split(|byte| *byte == b'\n') {
                self.take_entry(entry, own, watari_prompts);
            }
            self.read_bytes += end as u64 + 1;
            file.seek(SeekFrom::Start(self.read_bytes))?;
        }
    }
}

/// The fields of an entry that identify its writer.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    r#type: String,
    entrypoint: String,
    #[serde(default)]
    uuid: String,
    /// The source of a prompt. Entries that the CLI creates by itself have none.
    #[serde(default)]
    prompt_source: String,
}

/// The source of prompts from standard input, such as all of Watari's.
const FROM_STDIN: &str = "sdk";

impl Watched {
    /// Notes the entrypoint, if the entry is a prompt or an answer of another program, or a prompt of another Watari.
    fn take_entry(&mut self, entry: &[u8], own: &str, watari_prompts: &str) {
        let Ok(entry) = serde_json::from_slice::<Entry>(entry) else { return };
        if !["user", "assistant"].contains(&entry.r#type.as_str()) {
            return;
        }
        let is_own_prompt = entry.uuid.starts_with(watari_prompts);
        self.is_past_history |= is_own_prompt;
        let is_prompt_of_another = entry.prompt_source == FROM_STDIN && !is_own_prompt;
        if self.is_past_history && self.other_entrypoint.is_none() && (entry.entrypoint != own || is_prompt_of_another)
        {
            self.other_entrypoint = Some(entry.entrypoint);
        }
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
        let stranger_in = |watched: &mut Watched, text: String| {
            std::fs::write(&path, text).unwrap();
            watched.read_on("watari", OWN).unwrap();
            watched.other_entrypoint.clone()
        };
        let fork = || Watched { path: Some(path.clone()), ..Watched::default() };
        let history = prompt("watari", other) + &prompt("cli", other);
        let begun = history + &prompt("watari", &own);
        assert_eq!(stranger_in(&mut fork(), begun.clone()), None);
        assert_eq!(stranger_in(&mut fork(), begun.clone() + "{\"type\":\"user\",\"entrypoint\":\"watari\"}\n"), None);
        assert_eq!(stranger_in(&mut fork(), begun.clone() + &prompt("watari", other)).as_deref(), Some("watari"));
        assert_eq!(stranger_in(&mut fork(), begun + &prompt("cli", other)).as_deref(), Some("cli"));
    }

    #[test]
    fn entries_of_others_are_noticed_and_nothing_else_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.jsonl");
        let mut file = std::fs::File::create(&path).unwrap();
        let mut watched = Watched::after_history(Some(path));
        let mut read_after = |text: &str| {
            file.write_all(text.as_bytes()).unwrap();
            watched.read_on("watari", OWN).unwrap();
            (watched.other_entrypoint.take(), watched.read_bytes)
        };
        assert_eq!(
            read_after("{\"type\":\"user\",\"entrypoint\":\"watari\"}\n{\"type\":\"cost-state\"}\nnoise\n").0,
            None
        );
        // In the input of a tool, not in the entry itself.
        let nested = r#"{"type":"assistant","entrypoint":"watari","message":{"input":{"entrypoint":"sh"}}}"#;
        let (other_entrypoint, read) = read_after(&format!("{nested}\n"));
        assert_eq!(other_entrypoint, None);
        // An incomplete entry is read when it is complete.
        assert_eq!(read_after("{\"type\":\"user\",\"entry"), (None, read));
        assert_eq!(read_after("point\":\"cli\"}\n").0.as_deref(), Some("cli"));
        // An entry that is too long is skipped, and the next one is read.
        let long = format!("{{\"type\":\"user\",\"x\":\"{}\",\"entrypoint\":\"cli\"}}\n", "x".repeat(2 * CHUNK_BYTES));
        assert_eq!(read_after(&long).0, None);
        assert_eq!(read_after("{\"type\":\"user\",\"entrypoint\":\"sdk-cli\"}\n").0.as_deref(), Some("sdk-cli"));
    }
}
