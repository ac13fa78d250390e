//! What a log promises: stored events are found again, whatever happened to the writer and to the end of the file.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]
#![allow(clippy::print_stdout, reason = "one of them is a process that reports what it stored")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use watari_hub::Position;
use watari_hub::log::{AppendError, Log, OpenError, ephemeral_line};

/// The lines after a number, as text.
fn lines(log: &Log, after: u64) -> Vec<String> {
    let mut lines = log.after(Position { epoch: 0, seq: after }).unwrap();
    let mut found = Vec::new();
    while let Some(line) = lines.next().unwrap() {
        found.push(String::from_utf8(line.to_vec()).unwrap());
    }
    found
}

fn append(log: &mut Log, event: &str) -> String {
    String::from_utf8(log.append(event).unwrap().to_vec()).unwrap()
}

#[test]
fn every_line_has_its_position_and_every_opening_begins_an_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let (mut log, found) = Log::open(&path, 0).unwrap();
    assert_eq!((found.last, found.cut_bytes), (Position::default(), 0));
    assert_eq!(append(&mut log, r#"{"type":"ready"}"#), r#"{"seq":"1:1","type":"ready"}"#);
    assert_eq!(append(&mut log, "{}"), r#"{"seq":"1:2"}"#);
    assert_eq!(ephemeral_line(log.last(), r#"{"type":"grew"}"#), br#"{"after":"1:2","type":"grew"}"#);
    drop(log);
    let (mut log, found) = Log::open(&path, 1).unwrap();
    assert_eq!((found.last, found.cut_bytes), (Position { epoch: 1, seq: 2 }, 0));
    assert_eq!(append(&mut log, r#"{"type":"渡り"}"#), r#"{"seq":"2:3","type":"渡り"}"#);
    // An epoch in which nothing was stored counts too, if the caller remembers it.
    drop(log);
    let (mut log, _) = Log::open(&path, 7).unwrap();
    append(&mut log, "{}");
    assert_eq!(lines(&log, 1), [r#"{"seq":"1:2"}"#, r#"{"seq":"2:3","type":"渡り"}"#, r#"{"seq":"8:4"}"#]);
    assert_eq!(lines(&log, 4), Vec::<String>::new());
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn what_is_not_a_log_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    for text in ["precious\n", "{\"format\":\"watari-events\",\"version\":2}\n{\"seq\":\"1:1\"}\n"] {
        fs::write(&path, text).unwrap();
        let error = Log::open(&path, 0).unwrap_err();
        assert!(matches!(error, OpenError::Unknown { .. }), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    // A log whose first line is incomplete is empty.
    fs::write(&path, "{\"format\":\"wat").unwrap();
    let (mut log, _) = Log::open(&path, 0).unwrap();
    assert_eq!(append(&mut log, "{}"), r#"{"seq":"1:1"}"#);
}

proptest! {
    /// Cut anywhere, or with anything appended, a log opens with every whole line, and continues.
    #[test]
    fn a_broken_end_is_cut_off_and_nothing_else(
        sizes in proptest::collection::vec(prop_oneof![0usize..40, 60_000usize..70_000], 1..12),
        cut in any::<proptest::sample::Index>(),
        behind in prop_oneof![Just(Vec::new()), Just(vec![0; 5000]), Just(b"{\"seq\":\"1:99\",\n".to_vec()),
            proptest::collection::vec(any::<u8>(), 0..200)],
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let (mut log, _) = Log::open(&path, 0).unwrap();
        let stored: Vec<String> =
            sizes.iter().map(|size| append(&mut log, &format!("{{\"text\":\"{}\"}}", "x".repeat(*size)))).collect();
        drop(log);
        let text = fs::read(&path).unwrap();
        let cut = cut.index(text.len() + 1);
        fs::write(&path, [&text[..cut], &behind].concat()).unwrap();
        let whole = text[..cut].iter().filter(|byte| **byte == b'\n').count().saturating_sub(1);
        match Log::open(&path, 1) {
            Ok((mut log, found)) => {
                prop_assert_eq!(found.last.seq as usize, whole);
                for after in 0..=whole {
                    prop_assert_eq!(&lines(&log, after as u64), &stored[after..whole]);
                }
                let next = append(&mut log, "{}");
                prop_assert!(next.ends_with(&format!(":{}\"}}", whole + 1)), "{}", next);
                prop_assert_eq!(lines(&log, whole as u64), [next]);
            }
            // Only if the first line is not a log's, because something else follows the cut.
            Err(error) => prop_assert!(cut < 40 && !behind.is_empty(), "{}", error),
        }
    }
}

/// The variable that makes a test of this program the writer of a log.
const WRITER: &str = "WATARI_TEST_LOG";

/// The process that the other tests start and kill. It prints each position once it is stored.
#[test]
#[ignore = "not a test: a process that others start"]
fn writer() {
    let Some(path) = std::env::var_os(WRITER) else { return };
    let (mut log, _) = Log::open(Path::new(&path), 0).unwrap();
    let event = format!("{{\"text\":\"{}\"}}", "x".repeat(3000));
    loop {
        match log.append(&event) {
            Ok(_) => println!("stored {}", log.last().seq),
            Err(AppendError::Full { .. }) => {
                println!("full {}", log.last().seq);
                // The parent makes space, and reports that.
                std::io::stdin().read_line(&mut String::new()).unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
}

fn start_writer(path: &Path, shell: &str) -> std::process::Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new("/bin/sh");
    command
        .args(["-c", shell, "sh"])
        .arg(program)
        .args(["writer", "--exact", "--ignored", "--nocapture"])
        .env(WRITER, path);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn what_a_killed_writer_reported_as_stored_is_there() {
    let kills = if std::env::var_os("CI").is_some_and(|value| value == "true") { 200 } else { 40 };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let mut reported = 0;
    for kill in 0..kills {
        let mut writer = start_writer(&path, "exec \"$@\"");
        let mut output = BufReader::new(writer.stdout.take().unwrap()).lines().map(Result::unwrap);
        // After a different number of lines each time.
        let wanted = reported + 1 + (kill * 7) % 23;
        let mut numbers = output.by_ref().filter_map(|line| line.strip_prefix("stored ")?.parse::<u64>().ok());
        numbers.by_ref().find(|number| *number >= wanted).unwrap();
        writer.kill().unwrap();
        writer.wait().unwrap();
        reported = numbers.last().unwrap_or(wanted).max(wanted);
        let (log, found) = Log::open(&path, 0).unwrap();
        assert!(found.last.seq >= reported, "{reported} was reported, and {} is there", found.last.seq);
        assert_eq!(lines(&log, 0).len() as u64, found.last.seq);
        reported = found.last.seq;
    }
}

/// On a disk of its own that is too small, in a namespace of its own, which needs root.
#[test]
fn a_full_disk_loses_nothing_and_storing_continues_when_there_is_space_needs_mounts() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let mount = format!("mount -t tmpfs -o size=64k,mode=700 none '{}'", folder.path().display());
    let shell = format!("exec unshare -m sh -c \"{mount} && exec \\\"\\$@\\\"\" sh \"$@\"");
    let mut writer = start_writer(&path, &shell);
    let mut output = BufReader::new(writer.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut stored = 0;
    let full = loop {
        let line = output.next().unwrap();
        if let Some(number) = line.strip_prefix("stored ") {
            stored = number.parse().unwrap();
        }
        if let Some(number) = line.strip_prefix("full ") {
            break number.parse::<u64>().unwrap();
        }
    };
    assert!(full == stored && full > 5, "{full} {stored}");
    // Seen from outside: whole lines only, and more once there is space.
    let inside = format!("/proc/{}/root{}", writer.id(), path.display());
    let text = fs::read_to_string(&inside).unwrap();
    assert!(text.ends_with("\"}\n") && text.lines().count() as u64 == full + 1, "{} lines", text.lines().count());
    let nsenter = ["-m", "-t", &writer.id().to_string(), "mount", "-o", "remount,size=128k"].map(str::to_owned);
    let grown = Command::new("nsenter").args(nsenter).arg(folder.path()).status().unwrap();
    assert!(grown.success());
    use std::io::Write;
    writer.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert_eq!(output.next().unwrap(), format!("stored {}", full + 1));
    writer.kill().unwrap();
    writer.wait().unwrap();
}
