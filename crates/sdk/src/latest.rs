//! Finds the latest conversation of a working directory, so that its id is known before a CLI is started for it.
//!
//! The latest is the transcript that was written to last, of those that the CLI stores for the directory. Transcripts
//! without a prompt, of subagents only, or begun by `claude -p` or an official SDK are skipped, and those of another directory whose
//! folder has the same name. CLI 2.1.325 chooses the same with `--continue`, with the exceptions in
//! `docs/decisions/0012-attacked-again.md`. If a CLI would choose another, this choice counts, because the CLI gets the
//! id.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::Deserialize;
use watari_protocol::SessionId;

use crate::argv::{self, TranscriptDir};
use crate::conversations::session_id_as_stored;
use crate::files::TRANSCRIPT;
use crate::options::{Options, StartFrom};
use crate::process::{self, StartError};
use crate::threads;

/// The length at which the CLI cuts the name of the folder for a directory, in characters.
const FOLDER_NAME_MAX: usize = 200;

/// How much of one line of a transcript is read. A longer line is a prompt with large images.
const LINE_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Where the CLI repeats to which directory a conversation was moved: in so many last bytes of the transcript.
const END_BYTES: u64 = 64 * 1024;

/// The entrypoints of `claude -p` and of the official SDKs. The CLI skips their conversations, unless it was itself
/// started by one of them.
const SDK_ENTRYPOINTS: [&str; 3] = ["sdk-cli", "sdk-ts", "sdk-py"];

/// Replaces [`StartFrom::Continue`] by the latest conversation of the working directory, or by a new one if there is
/// none. Conversations of `claude -p` and of the official SDKs are skipped. A given id is replaced by its stored
/// spelling ([`session_id_as_stored`]). Call it to know the id before the CLI is started; a session also calls it when
/// it starts.
pub async fn resolve_start_from(options: &mut Options) -> Result<(), StartError> {
    match options.start_from.clone() {
        StartFrom::Continue => {}
        StartFrom::New | StartFrom::NewWithId(_) => return Ok(()),
        StartFrom::Resume(named)
        | StartFrom::Fork { from: named, .. }
        | StartFrom::ResumeAt { conversation: named, .. } => {
            let stored = session_id_as_stored(options, &named);
            if let StartFrom::Resume(id)
            | StartFrom::Fork { from: id, .. }
            | StartFrom::ResumeAt { conversation: id, .. } = &mut options.start_from
            {
                *id = stored;
            }
            return Ok(());
        }
    }
    let directory = process::directory(options.cwd.as_deref())?;
    let place = argv::transcript_place(&process::environment(options), &directory);
    let found = threads::run(move || latest(&place, &directory)).await;
    let panicked = || Err(io::Error::other("the search panicked; this is a bug in watari"));
    let latest = found.unwrap_or_else(panicked).map_err(StartError::NoLatest)?;
    options.start_from = latest.map_or(StartFrom::New, StartFrom::Resume);
    Ok(())
}

fn latest(place: &TranscriptDir, directory: &Path) -> io::Result<Option<SessionId>> {
    let Some(projects) = &place.projects else {
        return Err(io::Error::other(
            "neither HOME nor CLAUDE_CONFIG_DIR is set, so the folder of conversations is unknown",
        ));
    };
    let directory = fs::canonicalize(directory)?;
    let mut transcripts = Vec::new();
    for folder in folders_of(projects, &directory.to_string_lossy())? {
        transcripts.extend(transcripts_in(&folder)?);
    }
    transcripts.sort_by_key(|transcript| std::cmp::Reverse(transcript.written));
    for transcript in transcripts {
        let origin = match Origin::read(&transcript.path) {
            Ok(origin) => origin,
            // The CLI removes old transcripts.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(at(&transcript.path, error)),
        };
        if origin.is_some_and(|origin| origin.is_for(&place.entrypoint) && origin.is_of(&directory)) {
            return Ok(Some(transcript.id));
        }
    }
    Ok(None)
}

/// A transcript that may be the latest.
struct Transcript {
    id: SessionId,
    path: PathBuf,
    written: SystemTime,
}

/// Returns the folders in which the CLI may store the conversations of a directory: one, or several for a long name.
fn folders_of(projects: &Path, directory: &str) -> io::Result<Vec<PathBuf>> {
    let mut folders = folders_named(projects, &folder_name(directory))?;
    // CLI 2.1.42 normalizes the name to NFC. If a directory of that name exists, the folder belongs to that directory.
    let composed = argv::composed(directory);
    if composed != directory && !Path::new(&composed).exists() {
        folders.extend(folders_named(projects, &folder_name(&composed))?);
    }
    Ok(folders)
}

/// Returns the folder with this name, and those that may have it as a cut name.
fn folders_named(projects: &Path, name: &str) -> io::Result<Vec<PathBuf>> {
    let mut folders = vec![projects.join(name)];
    if let Some(cut) = name.get(..FOLDER_NAME_MAX).filter(|cut| cut.len() < name.len()) {
        // CLI 2.1.42 does not cut it; later versions replace the rest by a hash.
        let is_cut = |other: &str| other.strip_prefix(cut).is_some_and(|rest| rest.starts_with('-')) && other != name;
        let others = entries(projects)?.filter(|entry| entry.file_name().to_str().is_some_and(is_cut));
        folders.extend(others.map(|entry| entry.path()));
    }
    Ok(folders)
}

/// Returns the name of the CLI's folder for a directory, before it is cut. The CLI counts UTF-16 units, like
/// JavaScript.
fn folder_name(directory: &str) -> String {
    let letter = |unit| char::from_u32(u32::from(unit)).filter(char::is_ascii_alphanumeric).unwrap_or('-');
    directory.encode_utf16().map(letter).collect()
}

fn transcripts_in(folder: &Path) -> io::Result<Vec<Transcript>> {
    let found = entries(folder)?.filter_map(|entry| {
        let path = entry.path();
        let id = SessionId::parse(path.file_name()?.to_str()?.strip_suffix(".jsonl")?).ok()?;
        // The metadata of a link itself, not of its target: the CLI skips links.
        let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
        Some(Transcript { id, path, written: metadata.modified().ok()? })
    });
    Ok(found.collect())
}

/// Returns the entries of a folder; none if it does not exist.
fn entries(folder: &Path) -> io::Result<impl Iterator<Item = fs::DirEntry> + use<>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => Some(entries),
        // The name for a long directory may be too long for a folder.
        Err(error) if [io::ErrorKind::NotFound, io::ErrorKind::InvalidFilename].contains(&error.kind()) => None,
        Err(error) => return Err(at(folder, error)),
    };
    Ok(entries.into_iter().flatten().flatten())
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// What a transcript says about where its conversation began.
struct Origin {
    is_sidechain: bool,
    /// What started the CLI that wrote it; CLI 2.1.42 does not write this.
    entrypoint: String,
    /// The directory of the first prompt, or the one to which the conversation was moved since.
    directory: String,
}

/// A line of a transcript: a prompt, an answer, or another entry, as the CLI stores it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Line {
    r#type: String,
    is_sidechain: bool,
    entrypoint: String,
    cwd: String,
    relocated_cwd: String,
}

impl Origin {
    /// Returns nothing for a transcript without a prompt or an answer.
    fn read(path: &Path) -> io::Result<Option<Origin>> {
        let mut file = BufReader::new(TRANSCRIPT.open(path)?);
        let Some(first) = first_entry(&mut file)? else { return Ok(None) };
        let moved_to = last_move(file.get_mut())?;
        Ok(Some(Origin {
            is_sidechain: first.is_sidechain,
            entrypoint: first.entrypoint,
            directory: moved_to.unwrap_or(first.cwd),
        }))
    }

    /// Whether a program with this entrypoint continues the conversation.
    fn is_for(&self, own: &str) -> bool {
        let is_sdks = |entrypoint: &str| SDK_ENTRYPOINTS.contains(&entrypoint);
        !self.is_sidechain && (is_sdks(own) || !is_sdks(&self.entrypoint))
    }

    /// Whether the conversation is one of this directory, and not of another one whose folder has the same name. Of a
    /// directory that no longer exists it is assumed that it was renamed to this one.
    fn is_of(&self, directory: &Path) -> bool {
        let own = directory.to_string_lossy();
        let composed = argv::composed(&own);
        if self.directory == own || self.directory == composed {
            return true;
        }
        let own_name = folder_name(&own);
        let name = folder_name(&self.directory);
        if name != own_name && name != folder_name(&composed) {
            // The CLI would not have stored it here, so the user moved it here. Only the cut name of a long directory
            // can be that of a directory with another full name.
            return own_name.len() <= FOLDER_NAME_MAX;
        }
        match fs::canonicalize(&self.directory) {
            Ok(there) => there == directory,
            // A directory that cannot be checked counts as existing: the conversation of another directory is worse
            // than none.
            Err(error) => [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&error.kind()),
        }
    }
}

/// Returns the first prompt or answer; after a line that is too long, the first entry with a directory, because the
/// long line was a prompt.
fn first_entry(file: &mut impl BufRead) -> io::Result<Option<Line>> {
    let mut was_long = false;
    let mut text = Vec::new();
    while file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut text)? > 0 {
        // Other lines are skipped, as the CLI does.
        if let Ok(line) = serde_json::from_slice::<Line>(&text)
            && (["user", "assistant"].contains(&line.r#type.as_str()) || was_long && !line.cwd.is_empty())
        {
            return Ok(Some(line));
        }
        if !text.ends_with(b"\n") {
            was_long |= file.skip_until(b'\n')? > 0;
        }
        text.clear();
    }
    Ok(None)
}

/// Returns the directory to which a conversation was last moved, by the request `set_cwd` of CLI 2.1.325.
fn last_move(file: &mut fs::File) -> io::Result<Option<String>> {
    let end = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(end.saturating_sub(END_BYTES)))?;
    let mut text = Vec::new();
    file.take(END_BYTES).read_to_end(&mut text)?;
    let mut lines = text.rsplit(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
    Ok(lines.find(|line| line.r#type == "relocated" && !line.relocated_cwd.is_empty()).map(|line| line.relocated_cwd))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    /// The CLI's folders.
    struct Room {
        root: tempfile::TempDir,
        written: std::cell::Cell<u64>,
    }

    impl Room {
        fn new() -> Room {
            Room { root: tempfile::tempdir().unwrap(), written: std::cell::Cell::new(0) }
        }

        fn directory(&self, name: &str) -> PathBuf {
            let directory = fs::canonicalize(self.root.path()).unwrap().join(name);
            fs::create_dir_all(&directory).unwrap();
            directory
        }

        /// Writes a transcript that is newer than those before it.
        fn transcript(&self, folder: &str, number: u8, lines: &str) -> PathBuf {
            let folder = self.root.path().join("home/.claude/projects").join(folder);
            fs::create_dir_all(&folder).unwrap();
            let path = folder.join(format!("{}.jsonl", id(number)));
            fs::write(&path, lines).unwrap();
            self.written.set(self.written.get() + 1);
            let written = SystemTime::UNIX_EPOCH + Duration::from_secs(self.written.get());
            fs::File::options().append(true).open(&path).unwrap().set_modified(written).unwrap();
            path
        }

        fn latest_by(&self, entrypoint: &str, directory: &Path) -> Option<u8> {
            let home = self.root.path().join("home");
            let variables = [("HOME", home.to_str().unwrap()), ("CLAUDE_CODE_ENTRYPOINT", entrypoint)];
            let environment: BTreeMap<_, _> =
                variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
            let latest = latest(&argv::transcript_place(&environment, directory), directory).unwrap();
            latest.map(|latest| latest.as_str()[..2].parse().unwrap())
        }

        fn latest(&self, directory: &Path) -> Option<u8> {
            self.latest_by("watari", directory)
        }
    }

    fn id(number: u8) -> String {
        format!("{number:02}000000-0000-4000-8000-000000000000")
    }

    fn name_of(directory: &Path) -> String {
        folder_name(directory.to_str().unwrap())
    }

    /// A prompt in a directory.
    fn prompt(directory: &Path) -> String {
        format!("{{\"type\":\"user\",\"cwd\":\"{}\"}}\n", directory.display())
    }

    /// The entry about a move to a directory.
    fn moved(directory: &Path) -> String {
        format!("{{\"type\":\"relocated\",\"relocatedCwd\":\"{}\"}}\n", directory.display())
    }

    const PROMPT: &str = "{\"type\":\"queue-operation\"}\n{\"type\":\"user\",\"entrypoint\":\"watari\"}\n";

    #[test]
    fn the_latest_is_the_one_that_was_written_to_last_and_has_a_prompt() {
        let room = Room::new();
        let directory = room.directory("project");
        let name = name_of(&directory);
        assert_eq!(room.latest(&directory), None);
        room.transcript(&name, 1, PROMPT);
        room.transcript(&name, 2, "{\"type\":\"assistant\"}\n");
        assert_eq!(room.latest(&directory), Some(2));
        for not_one in ["", "noise\n", "{\"type\":\"summary\"}\n", "{\"type\":\"user\",\"isSidechain\":true}\n"] {
            room.transcript(&name, 3, not_one);
            assert_eq!(room.latest(&directory), Some(2), "{not_one}");
        }
        for sdk in SDK_ENTRYPOINTS {
            room.transcript(&name, 4, &format!("{{\"type\":\"user\",\"entrypoint\":\"{sdk}\"}}\n{PROMPT}"));
            assert_eq!((room.latest(&directory), room.latest_by("sdk-py", &directory)), (Some(2), Some(4)), "{sdk}");
        }
        room.transcript("-another", 5, PROMPT);
        assert_eq!(room.latest(&directory), Some(2));
        room.transcript(&name, 1, PROMPT);
        assert_eq!(room.latest(&directory), Some(1));
    }

    #[test]
    fn a_conversation_of_another_directory_is_not_continued_although_its_folder_has_the_same_name() {
        let room = Room::new();
        let (own, other) = (room.directory("a-b"), room.directory("a_b"));
        let name = name_of(&own);
        assert_eq!(name, name_of(&other));
        room.transcript(&name, 1, &prompt(&own));
        room.transcript(&name, 2, &prompt(&other));
        assert_eq!((room.latest(&own), room.latest(&other)), (Some(1), Some(2)));
        // The first prompt counts. Later ones are in another directory after `cd` or a resume by id.
        room.transcript(&name, 3, &(prompt(&other) + &prompt(&own)));
        assert_eq!((room.latest(&own), room.latest(&other)), (Some(1), Some(3)));
        // A move to another directory counts more.
        room.transcript(&name, 4, &(prompt(&own) + &moved(&own) + &moved(&other) + PROMPT));
        assert_eq!((room.latest(&own), room.latest(&other)), (Some(1), Some(4)));
        room.transcript(&name, 5, &(prompt(&other) + &PROMPT.repeat(9000) + &moved(&own)));
        assert_eq!((room.latest(&own), room.latest(&other)), (Some(5), Some(4)));
        // The CLI would have stored it in another folder, so the user moved it here.
        room.transcript(&name, 6, &prompt(&room.directory("a-b/c")));
        assert_eq!(room.latest(&own), Some(6));
    }

    #[test]
    fn a_directory_that_was_renamed_keeps_its_conversations() {
        let room = Room::new();
        let (own, other) = (room.directory("a-b"), room.directory("a_b"));
        let name = name_of(&own);
        room.transcript(&name, 1, &prompt(&own));
        room.transcript(&name, 2, &prompt(&other));
        let by_link = |target: &Path| {
            std::os::unix::fs::symlink(target, &other).unwrap();
            let latest = room.latest(&own);
            fs::remove_file(&other).unwrap();
            latest
        };
        fs::remove_dir(&other).unwrap();
        assert_eq!(room.latest(&own), Some(2));
        assert_eq!(by_link(&own), Some(2));
        assert_eq!(by_link(&room.directory("third")), Some(1));
        // A link to itself cannot be checked.
        assert_eq!(by_link(&other), Some(1));
        let long = format!("{}/{}", "l".repeat(150), "m".repeat(150));
        let (own, renamed) = (room.directory(&format!("{long}-n")), room.directory(&format!("{long}_n")));
        room.transcript(&format!("{}-0x1abc", &name_of(&own)[..FOLDER_NAME_MAX]), 3, &prompt(&renamed));
        assert_eq!((room.latest(&own), room.latest(&renamed)), (None, Some(3)));
        fs::remove_dir(&renamed).unwrap();
        assert_eq!(room.latest(&own), Some(3));
    }

    #[test]
    fn a_conversation_that_begins_with_large_images_is_of_the_directory_of_what_follows() {
        let room = Room::new();
        let (own, other) = (room.directory("a-b"), room.directory("a_b"));
        let name = name_of(&own);
        let image = "i".repeat(usize::try_from(LINE_BYTES_MAX).unwrap());
        let large = format!("{{\"type\":\"user\",\"image\":\"{image}\"}}\n");
        let attachment = |directory: &Path| large.clone() + &prompt(directory).replace("user", "attachment");
        room.transcript(&name, 1, &attachment(&own));
        room.transcript(&name, 2, &attachment(&other));
        room.transcript(&name, 3, &large);
        assert_eq!((room.latest(&own), room.latest(&other)), (Some(1), Some(2)));
    }

    #[test]
    fn what_is_no_transcript_is_passed_over_without_waiting() {
        let room = Room::new();
        let directory = room.directory("project");
        let path = room.transcript(&name_of(&directory), 1, PROMPT);
        let folder = path.parent().unwrap();
        fs::create_dir(folder.join(format!("{}.jsonl", id(2)))).unwrap();
        std::os::unix::fs::symlink(&path, folder.join(format!("{}.jsonl", id(3)))).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            folder.join(format!("{}.jsonl", id(4))),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        fs::write(folder.join("agent-1.jsonl"), PROMPT).unwrap();
        assert_eq!(room.latest(&directory), Some(1));
    }

    #[test]
    fn a_directory_is_found_by_the_name_that_the_cli_gives_it() {
        for (directory, name) in [("/a b.c_d/É", "-a-b-c-d--"), ("/日本", "---"), ("/😀e", "---e"), ("/Aé\n1", "-A--1")]
        {
            assert_eq!(folder_name(directory), name);
        }
        let room = Room::new();
        let long = room.directory(&format!("{}/{}", "l".repeat(150), "m".repeat(150)));
        let name = name_of(&long);
        room.transcript(&name[..250], 1, &prompt(Path::new("/another/that/begins/alike")));
        assert_eq!(room.latest(&long), None);
        room.transcript(&format!("{}-etq8iu", &name[..FOLDER_NAME_MAX]), 2, &prompt(&long));
        room.transcript(&format!("{}-0x1abc", &name[..FOLDER_NAME_MAX]), 3, &prompt(&long.with_extension("n")));
        assert_eq!(room.latest(&long), Some(2));
        // CLI 2.1.42 normalizes it to NFC, unless that is another directory.
        let decomposed = room.directory("e\u{301}");
        let composed = argv::composed(decomposed.to_str().unwrap());
        room.transcript(&folder_name(&composed), 4, PROMPT);
        assert_eq!(room.latest(&decomposed), Some(4));
        room.transcript(&name_of(&decomposed), 5, PROMPT);
        assert_eq!(room.latest(&decomposed), Some(5));
        room.transcript(&folder_name(&composed), 6, PROMPT);
        fs::create_dir(&composed).unwrap();
        assert_eq!(room.latest(&decomposed), Some(5));
        // A link to the directory finds the same one.
        let link = room.root.path().join("link");
        std::os::unix::fs::symlink(&long, &link).unwrap();
        assert_eq!(room.latest(&link), Some(2));
    }
}
