//! Files that a user names for `watari stub`: whatever they are, nothing blocks, no file of another user is written,
//! and no mode is changed.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{WATARI, output_of};
use rustix::fs::{CWD, Mode, mkfifoat};

const SCRIPT: &str = "replies:\n  - text: from the pipe\n";

/// `watari stub` with its input piped.
fn started(arguments: &[&str]) -> Child {
    let mut command = Command::new(WATARI);
    command.arg("stub").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
}

/// That a stub answers, which then ends.
fn answers(mut stub: Child) {
    let mut line = String::new();
    BufReader::new(stub.stdout.take().unwrap()).read_line(&mut line).unwrap();
    stub.kill().unwrap();
    stub.wait().unwrap();
    assert!(line.contains('='), "{line:?}");
}

fn output(folder: &Path, arguments: &[&str]) -> String {
    output_of(Command::new(WATARI).arg("stub").args(arguments)).as_text(folder)
}

#[test]
fn an_existing_record_keeps_its_mode_and_a_new_one_is_closed_to_others() {
    let folder = tempfile::tempdir().unwrap();
    for (name, before, after) in [("old", Some(0o644), 0o644), ("shared", Some(0o660), 0o660), ("new", None, 0o600)] {
        let path = folder.path().join(name);
        if let Some(mode) = before {
            fs::write(&path, "from before").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        }
        answers(started(&["--record", path.to_str().unwrap()]));
        let found = (fs::metadata(&path).unwrap().mode() & 0o7777, fs::read_to_string(&path).unwrap());
        assert_eq!(found, (after, String::new()), "{name}");
    }
}

#[test]
fn a_path_that_cannot_be_a_record_is_refused_immediately_and_left_unchanged_needs_root() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    mkfifoat(CWD, path("pipe"), Mode::from(0o600)).unwrap();
    fs::write(path("precious"), "precious").unwrap();
    fs::hard_link(path("precious"), path("second-name")).unwrap();
    symlink(path("precious"), path("theirs")).unwrap();
    symlink(path("theirs"), path("chain")).unwrap();
    lchown(path("theirs"), Some(65534), Some(65534)).unwrap();
    let names = ["pipe", "second-name", "nowhere/x", "theirs", "chain"];
    let received: Vec<_> =
        names.iter().map(|name| output(folder.path(), &["--record", path(name).to_str().unwrap()])).collect();
    assert_eq!(fs::read_to_string(path("precious")).unwrap(), "precious");
    let expected = "\
watari: cannot write to FOLDER/pipe: it is a pipe or a socket, not a file; give another file
exit Some(1)
watari: cannot write to FOLDER/second-name: the file has 2 names (hard links), and another user may have created this one; choose another file; give another file
exit Some(1)
watari: cannot write to FOLDER/nowhere/x: No such file or directory (os error 2); give another file
exit Some(1)
watari: cannot write to FOLDER/theirs: it is a symbolic link of user 65534; choose a file; give another file
exit Some(1)
watari: cannot write to FOLDER/chain: it leads through FOLDER/theirs, a symbolic link of user 65534; choose the file itself; give another file
exit Some(1)
";
    assert_eq!(received.concat(), expected);
}

#[test]
fn a_script_that_is_not_a_file_is_named_and_an_endless_one_is_not_read_forever() {
    let folder = tempfile::tempdir().unwrap();
    let received = [folder.path().to_str().unwrap(), "/dev/zero", "/proc/self/fd/77", "/dev/null/x"]
        .map(|path| output(folder.path(), &[path]));
    insta::assert_snapshot!(received.concat(), @"
    watari: invalid script: cannot read FOLDER: Is a directory (os error 21); check the path
    exit Some(1)
    watari: invalid script: cannot read /dev/zero: it has more than 64 MiB; check the path
    exit Some(1)
    watari: invalid script: cannot read /proc/self/fd/77: No such file or directory (os error 2); check the path
    exit Some(1)
    watari: invalid script: cannot read /dev/null/x: Not a directory (os error 20); check the path
    exit Some(1)
    ");
}

/// Waits until a stub has opened a pipe. A stub that does not wait for a writer closes it immediately.
fn waits_for_a_writer(stub: &Child, pipe: &Path) {
    let descriptors = Path::new("/proc").join(stub.id().to_string()).join("fd");
    let is_open = || {
        fs::read_dir(&descriptors)
            .unwrap()
            .flatten()
            .any(|entry| fs::read_link(entry.path()).is_ok_and(|at| at == pipe))
    };
    let begun = Instant::now();
    while !is_open() {
        assert!(begun.elapsed() < Duration::from_secs(10), "the pipe is not waited for");
        // No event reports it, so it is polled.
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_script_is_read_from_a_late_pipe_and_from_standard_input() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    mkfifoat(CWD, &pipe, Mode::from(0o600)).unwrap();
    let stub = started(&[pipe.to_str().unwrap()]);
    waits_for_a_writer(&stub, &pipe);
    File::options().write(true).open(&pipe).unwrap().write_all(SCRIPT.as_bytes()).unwrap();
    answers(stub);
    let mut stub = started(&["/dev/stdin"]);
    stub.stdin.take().unwrap().write_all(SCRIPT.as_bytes()).unwrap();
    answers(stub);
}
