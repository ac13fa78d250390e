//! `watari check` with CLIs that do not work: its output, its exit code, and that no process is left.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Run, output_of};
use rustix::process::{Pid, Signal, kill_process};
use watari_testkit::processes::{marked, none_marked_within};

/// Prints its version, and then runs the script.
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

/// A CLI that hangs; with a child that tries to escape, on systems where such a child is found.
const HANGS: &str = if cfg!(all(target_os = "linux", not(watari_portable))) {
    "folder=$(dirname \"$0\")
(FOLDER=$folder setsid sh -c 'echo \"$FOLDER\" > \"$FOLDER/started\"; exec sleep 1000' &)
cat > /dev/null"
} else {
    "echo started > \"$(dirname \"$0\")/started\"
cat > /dev/null"
};

#[test]
fn a_missing_cli_or_one_that_cannot_run_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let damaged = here.join("damaged");
    std::fs::write(&damaged, "\x7fELF and no more").unwrap();
    std::fs::set_permissions(&damaged, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let runs = [here.join("missing"), here.to_owned(), damaged].map(|path| check(&[], &path).as_text(here));
    insta::assert_snapshot!(runs.join("\n"), @"
    watari: Claude Code CLI not found: there is nothing at FOLDER/missing; check the path
    exit Some(1)

    watari: FOLDER is a directory, not the Claude Code CLI; give the path of the program itself
    exit Some(1)

    watari: FOLDER/damaged is not a program; it may be damaged or only half installed, so install it again
    exit Some(1)
    ");
}

#[test]
fn a_cli_that_cannot_start_ends_the_check_with_its_output() {
    let folder = tempfile::tempdir().unwrap();
    let claude = fake(folder.path(), "echo 'error: this machine has no soul' >&2\nexit 1");
    insta::assert_snapshot!(check(&[], &claude).as_text(folder.path()), @"
    watari: the CLI holds no conversation, so nothing was checked: the CLI ended, or closed its output, without a message; it said:
    error: this machine has no soul
    exit Some(1)
    ");
    let claude = common::program(&folder.path().join("no-version"), "exit 3");
    insta::assert_snapshot!(check(&[], &claude).as_text(folder.path()), @"
    watari: cannot determine the version: FOLDER/no-version did not print a readable answer (exit status: 3); see `watari doctor`
    exit Some(1)
    ");
}

#[tokio::test]
async fn a_cli_that_hangs_ends_the_check_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let claude = fake(folder.path(), HANGS);
    insta::assert_snapshot!(check(&["--limit", "1"], &claude).as_text(folder.path()), @"
    watari: the CLI holds no conversation, so nothing was checked: system/init did not come within 1 s; try the CLI by hand, or raise the time limit
    exit Some(1)
    ");
    assert_eq!(marked(folder.path().to_str().unwrap()), []);
}

#[test]
fn a_user_s_scenario_that_hangs_does_not_hold() {
    let folder = tempfile::tempdir().unwrap();
    let claude = fake(folder.path(), HANGS);
    let scenario = folder.path().join("mine.yaml");
    std::fs::write(&scenario, "name: mine\ntitle: Mine\ntranscript:\n  - user: hi\n  - expect: {type: result}\n")
        .unwrap();
    let run = check(&["--limit", "1", "--share-network", "--scenario", scenario.to_str().unwrap()], &claude);
    insta::assert_snapshot!(run.as_text(folder.path()), @"
    !     mine  changed  result did not come within 1 s (expected: holds)

    Claude Code 2.1.325: of 1 scenarios 0 hold, 1 changed, 0 gone. 1 not as expected: see the lines marked with !

    Network: this machine's; the CLI was configured to use only the stub on the loopback.
    exit Some(1)
    ");
    assert_eq!(marked(folder.path().to_str().unwrap()), []);
}

#[test]
fn an_invalid_scenario_is_reported_with_its_line_before_anything_is_started() {
    let folder = tempfile::tempdir().unwrap();
    let claude = fake(folder.path(), HANGS);
    let scenario = folder.path().join("mine.yaml");
    let run = |text: &str| {
        std::fs::write(&scenario, text).unwrap();
        check(&["--scenario", scenario.to_str().unwrap()], &claude).as_text(folder.path())
    };
    let mut wrongs = Vec::new();
    insta::assert_snapshot!(run("name: mine\ntitle: Mine\ntranscript:\n  - usr: hi\n"), @"
    watari: FOLDER/mine.yaml:4:5: unknown variant `usr`, expected one of user, send, answer, expect
      |
    2 | title: Mine
    3 | transcript:
    4 |   - usr: hi
      |     ^ unknown variant `usr`, expected one of user, send, answer, expect
    exit Some(1)
    ");
    for wrong in [
        "name: mine\ntitle: Mine\nfiles: {../outside: x}\ntranscript:\n  - expect: {type: result}\n",
        "name: mine\ntitle: Mine\nleaves: {/dev/zero: x}\ntranscript:\n  - expect: {type: result}\n",
        "name: mine\ntitle: Mine\ntranscript: []\n",
        "name: mine\ntitle: Mine\ntranscript:\n  - answer: {behavior: allow}\n  - expect: {type: result}\n",
        "name: mine\ntitle: Mine\ntools: [{name: Bash, fails: true}]\ntranscript:\n  - expect: {type: result}\n",
        "name: mine\ntitle: Mine\nexpected: {newest: gone}\ntranscript:\n  - expect: {type: result}\n",
        "name: mine\ntitle: Mine\nflags: [--max-turns, 1]\ntranscript:\n  - expect: {type: result}\n",
    ] {
        let printed = run(wrong);
        assert!(printed.ends_with("exit Some(1)\n"), "{printed}");
        wrongs.push(printed.lines().next().unwrap().to_owned());
    }
    insta::assert_snapshot!(wrongs.join("\n"), @r#"
    watari: FOLDER/mine.yaml:3:8: "../outside" is not a path within the directory; use one such as notes/a.txt
    watari: FOLDER/mine.yaml:3:9: "/dev/zero" is not a path within the directory; use one such as notes/a.txt
    watari: FOLDER/mine.yaml:3:13: no message is expected, so the scenario would always hold; add an expect
    watari: FOLDER/mine.yaml:4:3: an answer needs an expected control_request before it
    watari: FOLDER/mine.yaml:3:9: Bash must fail, but no reason is given; add a text of its result
    watari: FOLDER/mine.yaml:3:12: "newest" is not a version; write one such as 2.1.325
    watari: FOLDER/mine.yaml:3:22: The string value [1] must be quoted
    "#);
    insta::assert_snapshot!(check(&["--scenario", "nothing"], &claude).as_text(folder.path()), @"
    watari: there is no scenario nothing; use a name or a number from the report of watari check, or a file such as ./nothing.yaml
    exit Some(1)
    ");
    assert!(!folder.path().join("started").exists());
}

#[test]
fn the_cli_sees_no_key_home_or_proxy_of_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let claude = common::program(&folder.path().join("claude"), "env >> \"$(dirname \"$0\")/seen\"\necho 2.1.325");
    let mut command = Command::new(env!("CARGO_BIN_EXE_watari"));
    command.args(["check", "--scenario", "1", "--claude"]).arg(&claude).env("HOME", folder.path().join("home"));
    command.env("ANTHROPIC_API_KEY", "sk-real").env("ANTHROPIC_AUTH_TOKEN", "token").env("HTTPS_PROXY", "http://proxy");
    let run = output_of(&mut command);
    assert_eq!(run.code, Some(1), "{}", run.stderr);
    let seen = std::fs::read_to_string(folder.path().join("seen")).unwrap();
    assert_eq!(seen.matches("ANTHROPIC_API_KEY=stub\n").count(), 2, "for its version and for the scenario: {seen}");
    for secret in ["sk-real", "TOKEN", "HTTPS_PROXY", folder.path().join("home").to_str().unwrap()] {
        assert!(!seen.contains(secret), "{secret} in {seen}");
    }
}

// Other systems do not find a process that has created its own session.
#[cfg(all(target_os = "linux", not(watari_portable)))]
#[tokio::test]
async fn processes_that_a_cli_starts_for_its_version_are_terminated() {
    let folder = tempfile::tempdir().unwrap();
    let escapes = "folder=$(dirname \"$0\")\n(FOLDER=$folder setsid sleep 1000 > /dev/null 2>&1 &)\necho 2.1.325";
    let claude = common::program(&folder.path().join("claude"), escapes);
    assert_eq!(check(&["--scenario", "1"], &claude).code, Some(1));
    let gone = none_marked_within(folder.path().to_str().unwrap(), Duration::from_secs(3)).await;
    assert!(gone.is_ok(), "{gone:?}");
}

#[test]
fn a_report_that_cannot_be_printed_fails_the_check() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("mine.yaml");
    std::fs::write(&scenario, "name: mine\ntitle: Mine\ntranscript:\n  - expect: {type: result}\n").unwrap();
    let claude = fake(folder.path(), "echo '{\"type\":\"result\"}'");
    let run = |output: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_watari"));
        command.arg("check").arg("--scenario").arg(&scenario).arg("--claude").arg(&claude).stdout(output);
        command.stderr(Stdio::null()).status().unwrap().code()
    };
    assert_eq!(run(Stdio::null()), Some(0));
    assert_eq!(run(std::fs::File::create("/dev/full").unwrap().into()), Some(1));
}

#[test]
fn whatever_a_cli_prints_the_check_ends_in_time_and_in_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("mine.yaml");
    std::fs::write(&scenario, "name: mine\ntitle: Mine\ntranscript:\n  - expect: {type: result}\n").unwrap();
    let mut runs = Vec::new();
    for script in [
        "exec yes",
        "exec cat /dev/zero",
        "printf '\\377\\000\\n{\"type\":\"\\033[31m\"}\\n'; echo 'it broke' >&2; exit 7",
        "echo warning >&2; sleep 1000",
        "exec >&-; exec sleep 1000",
    ] {
        let claude = fake(folder.path(), script);
        let run = check(&["--limit", "3", "--share-network", "--scenario", scenario.to_str().unwrap()], &claude);
        let lines: Vec<&str> = run.stdout.lines().take_while(|line| !line.is_empty()).collect();
        runs.push(format!("{script}\n{}", lines.join("\n")));
        assert_eq!(run.code, Some(1));
    }
    insta::assert_snapshot!(runs.join("\n"), @r#"
    exec yes
    !     mine  changed  the CLI said more than a scenario can be about; came: not_json (expected: holds)
    exec cat /dev/zero
    !     mine  changed  the CLI said more than a scenario can be about (expected: holds)
    printf '\377\000\n{"type":"\033[31m"}\n'; echo 'it broke' >&2; exit 7
    !     mine  changed  result did not come; came: not_json (expected: holds)
          it said: it broke
    echo warning >&2; sleep 1000
    !     mine  changed  result did not come within 3 s (expected: holds)
          it said: warning
    exec >&-; exec sleep 1000
    !     mine  changed  the CLI ended, or closed its output, without a message (expected: holds)
    "#);
    let claude = fake(folder.path(), "echo Welcome\nsleep 1000");
    insta::assert_snapshot!(check(&["--limit", "1"], &claude).as_text(folder.path()), @"
    watari: the CLI holds no conversation, so nothing was checked: system/init did not come within 1 s; try the CLI by hand, or raise the time limit
    exit Some(1)
    ");
}

#[tokio::test]
async fn a_check_that_receives_a_signal_terminates_what_it_started() {
    let folder = tempfile::tempdir().unwrap();
    let claude = fake(folder.path(), HANGS);
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::TERM, Some(130)), (Signal::KILL, None)] {
        std::fs::remove_file(folder.path().join("started")).unwrap_or_default();
        let mut command = Command::new(env!("CARGO_BIN_EXE_watari"));
        command.arg("check").arg("--claude").arg(&claude).stdout(Stdio::null()).stderr(Stdio::null());
        let mut check = command.spawn().unwrap();
        common::appears(&folder.path().join("started")).await;
        let running = marked(folder.path().to_str().unwrap());
        let has_escaped = |name: &str| running.iter().any(|process| process.command.contains(name));
        let is_there = if HANGS.contains("setsid") {
            has_escaped("sleep 1000") || has_escaped("sh -c")
        } else {
            !running.is_empty()
        };
        assert!(is_there, "{running:?}");
        kill_process(Pid::from_child(&check), signal).unwrap();
        assert_eq!(check.wait().unwrap().code(), code);
        let gone = none_marked_within(folder.path().to_str().unwrap(), Duration::from_secs(3)).await;
        assert!(gone.is_ok(), "after {signal:?}: {gone:?}");
    }
}
