//! Replays every available capture of the real CLI through the decoder and the machine: one snapshot of events each.
//!
//! The captures contain text of the CLI and are not in the repository; they are stored beside it on the machine where
//! they were made. The snapshots contain none, and are in the repository. `UPDATE_CAPTURES=1` writes them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod replay;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use replay::line::{compared, lines, snapshots, unlisted};
use replay::{Order, Recording};
use watari_sdk::native::{self, EventLine, EventPlace, NativeEvent};
use watari_sdk::{Event, Position};

/// Snapshots of recordings that the tests make themselves.
const FRESH: &str = "fresh-";

fn captures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/captures")
}

/// Returns the names of files with this ending, without the ending.
fn names(folder: &Path, ending: &str) -> BTreeSet<String> {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    files.filter_map(|name| name.strip_suffix(ending).map(str::to_owned)).collect()
}

/// Whether a capture contains lines of the real CLI: neither the requests to its API (`.api`), nor the lines of another
/// SDK to a fake CLI (`ts-`), which have another format.
fn is_of_cli(name: &str) -> bool {
    !name.ends_with(".api") && !name.starts_with("ts-")
}

/// Replays a capture, and returns what is wrong, if anything.
fn check(name: &str) -> Option<String> {
    let played = Recording::read(&captures().join(format!("{name}.jsonl"))).play(&Order::AsRecorded);
    let unlisted = unlisted(&played.events).into_iter();
    let unlisted = unlisted.map(|(kind, subtype)| format!("{name}: {kind} {subtype} is unknown and not in the list"));
    let unread = played.events.iter().filter_map(|event| Some(format!("{name}: {}", misread(event)?)));
    let faults = played.faults.iter().map(|fault| format!("{name}: {fault}"));
    let has_snapshot =
        snapshots().join(format!("{name}.txt")).exists() || std::env::var_os("UPDATE_CAPTURES").is_some();
    let compared = has_snapshot.then(|| compared(name, &lines(&played.events, &played.remarks))).flatten();
    let wrong: Vec<String> = unlisted.chain(unread).chain(faults).chain(compared).collect();
    (!wrong.is_empty()).then(|| wrong.join("\n"))
}

/// Stores an event and reads it back. Returns what is wrong, if that does not give the same line.
fn misread(event: &Event) -> Option<String> {
    let written = |event: NativeEvent| {
        let mut line = Vec::new();
        EventLine { place: EventPlace::At(Position::default()), event }.write(&mut line);
        line
    };
    let line = written(event.clone().into());
    match native::read(&line) {
        Ok(read) if matches!(read.event, NativeEvent::Session(_)) && written(read.event.clone()) == line => None,
        Ok(_) => Some(format!("read as another event: {}", String::from_utf8_lossy(&line))),
        Err(error) => Some(format!("{error}: {}", String::from_utf8_lossy(&line))),
    }
}

#[test]
fn every_capture_is_played_as_its_snapshot_says_needs_captures() {
    let captures = captures();
    let names_of_cli: BTreeSet<String> =
        names(&captures, ".jsonl").into_iter().filter(|name| is_of_cli(name)).collect();
    let wrong: Vec<String> = names_of_cli.iter().filter_map(|name| check(name)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let of_captures: BTreeSet<String> =
        names(&snapshots(), ".txt").into_iter().filter(|name| !name.starts_with(FRESH)).collect();
    // The folder may have new captures, which are replayed too; their snapshots are written with the next change here.
    for name in names_of_cli.symmetric_difference(&of_captures) {
        eprintln!("{name} has no snapshot, or is no longer there; UPDATE_CAPTURES=1 writes snapshots");
    }
    let compared = names_of_cli.intersection(&of_captures).count();
    assert!(compared > 100, "only {compared} captures have a snapshot");
    eprintln!("{} captures were played", names_of_cli.len());
}
