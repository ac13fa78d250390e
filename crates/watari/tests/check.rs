//! `watari check` with CLIs that do not work: what is said, what it exits with, and that nothing is left.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Run, output_of};
use rustix::process::{Pid, Signal, kill_process};
use watari_testkit::processes::{marked, none_marked_within};

/// Says its version, and then does what the script says.
fn fake(folder: &Path, script: &str) -> PathBuf {
    common::program(
        &folder.join("claude"),
        &format!("[ \"$1\" = --version ] && {{ echo '2.1.325 (Claude Code)'; exit; }}\n{script}"),
    )
}

fn check(arguments: &[&str], claude: &Path) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watari"));
    output_of(command.arg("check").arg("--claude").arg(claude).args(arguments))
}

/// A CLI that hangs, with a child that tries to get away.
const HANGS: &str = "(setsid sleep 1000 &)\necho started > \"$(dirname \"$0\")/started\"\ncat > /dev/null";

#[test]
fn a_cli_that_is_not_there_or_cannot_be_run_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let damaged = here.join("damaged");
    std::fs::write(&damaged, "\x7fELF and no more").unwrap();
    std::fs::set_permissions(&damaged, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let runs = [here.join("missing"), here.to_owned(), damaged].map(|path| check(&[], &path).said(here));
    insta::assert_snapshot!(runs.join("\n"), @"
    watari: Claude Code CLI not found: there is nothing at FOLDER/missing; check the path
    exit Some(2)

    watari: FOLDER is a directory, not the Claude Code CLI; give the path of the program itself
    exit Some(2)

    watari: FOLDER/damaged is not a program; it may be damaged or only half installed, so install it again
    exit Some(2)
    ");
}

#[test]
fn a_cli_that_cannot_start_ends_the_check_with_what_it_said() {
    let folder = tempfile::tempdir().unwrap();
    let claude = fake(folder.path(), "echo 'error: this machine has no soul' >&2\nexit 1");
    insta::assert_snapshot!(check(&[], &claude).said(folder.path()), @"
    watari: the CLI holds no conversation, so nothing was checked: the CLI ended without a message; it said:
    error: this machine has no soul
    exit Some(2)
    ");
    let claude = common::program(&folder.path().join("no-version"), "exit 3");
    insta::assert_snapshot!(check(&[], &claude).said(folder.path()), @"
    watari: cannot ask for the version: FOLDER/no-version gave no answer that can be read (exit status: 3); see `watari doctor`
    exit Some(2)
    ");
}

#[tokio::test]
async fn a_cli_that_hangs_ends_the_check_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let claude = fake(folder.path(), HANGS);
    insta::assert_snapshot!(check(&["--limit", "1"], &claude).said(folder.path()), @"
    watari: the CLI holds no conversation, so nothing was checked: system/init did not come within 1 s; try it by hand, or give it more time
    exit Some(2)
    ");
    assert_eq!(marked(folder.path().to_str().unwrap()), []);
}

#[test]
fn a_scenario_of_ones_own_that_hangs_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    let claude = fake(folder.path(), HANGS);
    let scenario = folder.path().join("mine.yaml");
    std::fs::write(&scenario, "name: mine\ntitle: Mine\ntranscript:\n  - user: hi\n  - expect: {type: result}\n")
        .unwrap();
    let run = check(&["--limit", "1", "--share-network", "--scenario", scenario.to_str().unwrap()], &claude);
    insta::assert_snapshot!(run.said(folder.path()), @"
    !     mine  changed  result did not come within 1 s (expected: holds)

    Claude Code 2.1.325: of 1 scenarios 0 hold, 1 changed, 0 gone. 1 not as expected: see the lines marked with !

    Network: this machine's; the CLI was told to speak with nobody but the stub on the loopback.
    exit Some(1)
    ");
    assert_eq!(marked(folder.path().to_str().unwrap()), []);
}

#[test]
fn a_scenario_that_is_wrong_is_told_with_its_line_before_anything_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let claude = fake(folder.path(), HANGS);
    let scenario = folder.path().join("mine.yaml");
    let run = |text: &str| {
        std::fs::write(&scenario, text).unwrap();
        check(&["--scenario", scenario.to_str().unwrap()], &claude).said(folder.path())
    };
    insta::assert_snapshot!(run("name: mine\ntitle: Mine\ntranscript:\n  - usr: hi\n"), @"
    watari: FOLDER/mine.yaml:4:5: unknown variant `usr`, expected one of user, send, answer, expect
      |
    2 | title: Mine
    3 | transcript:
    4 |   - usr: hi
      |     ^ unknown variant `usr`, expected one of user, send, answer, expect
    exit Some(2)
    ");
    insta::assert_snapshot!(run("name: mine\ntitle: Mine\nfiles: {../outside: x}\ntranscript: []\n"), @"
    watari: cannot play the scenario mine: the scenario mine has a file ../outside, which is not within its directory; use a relative path
    exit Some(2)
    ");
    insta::assert_snapshot!(check(&["--scenario", "nothing"], &claude).said(folder.path()), @"
    watari: there is no scenario nothing; give a name or a number from docs/claude-stream-json.md, or a file such as ./nothing.yaml
    exit Some(2)
    ");
    assert!(!folder.path().join("started").exists());
}

#[tokio::test]
async fn a_check_that_is_told_to_stop_ends_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let claude = fake(folder.path(), HANGS);
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::TERM, Some(130)), (Signal::KILL, None)] {
        std::fs::remove_file(folder.path().join("started")).unwrap_or_default();
        let mut command = Command::new(env!("CARGO_BIN_EXE_watari"));
        command.arg("check").arg("--claude").arg(&claude).stdout(Stdio::null()).stderr(Stdio::null());
        let mut check = command.spawn().unwrap();
        common::appears(&folder.path().join("started")).await;
        kill_process(Pid::from_child(&check), signal).unwrap();
        assert_eq!(check.wait().unwrap().code(), code);
        let gone = none_marked_within(folder.path().to_str().unwrap(), Duration::from_secs(3)).await;
        assert!(gone.is_ok(), "after {signal:?}: {gone:?}");
    }
}
