//! A CLI is fetched whole or not at all, and each thing that can go wrong says what to do. npm is a fake here.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod room;

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use room::Room;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;
use watari_testkit::processes;

/// An npm that installs a version which starts.
const INSTALLS: &str = "package 2.1.325; native true";
const LONG: Duration = Duration::from_secs(10);

/// What comes of a fetch of 2.1.325 with this npm. Whatever it is, nothing is left behind.
async fn fetched_by(npm: &str) -> String {
    outcome_in(Room::new(npm)).await
}

async fn told_by(npms: &[&str]) -> String {
    let mut results = Vec::new();
    for npm in npms {
        results.push(fetched_by(npm).await);
    }
    results.join("\n")
}

async fn outcome_in(room: Room) -> String {
    let outcome = room.fetch("2.1.325").await;
    assert!(!outcome.starts_with("error") || room.installed().is_empty(), "left behind: {:?}", room.installed());
    outcome
}

#[tokio::test]
async fn newer_and_older_versions_are_installed_and_found_again_without_npm() {
    let room = Room::new("case $9 in *@2.1.42) package 2.1.42; script true;; *) package 2.1.325; native true;; esac");
    let mut results = Vec::new();
    for word in ["2.1.325", "2.1.42", "2.1.325", "2.1.42"] {
        results.push(room.fetch(word).await);
    }
    insta::assert_snapshot!(results.join("\n"), @"
    2.1.325 was installed: <room>/cache/claude-code/2.1.325/claude
    2.1.42 was installed: <room>/cache/claude-code/2.1.42/claude
    2.1.325 was there: <room>/cache/claude-code/2.1.325/claude
    2.1.42 was there: <room>/cache/claude-code/2.1.42/claude
    ");
    insta::assert_snapshot!(room.calls(), @"
    install --prefix <aside> --ignore-scripts --no-save --no-audit --no-fund --loglevel=error @anthropic-ai/claude-code@2.1.325
    install --prefix <aside> --ignore-scripts --no-save --no-audit --no-fund --loglevel=error @anthropic-ai/claude-code@2.1.42
    ");
    assert_eq!(room.installed(), ["2.1.325", "2.1.42"]);
}

#[tokio::test]
async fn a_tag_stands_for_what_was_installed() {
    let room = Room::new(INSTALLS);
    insta::assert_snapshot!(room.fetch("latest").await, @"2.1.325 was installed: <room>/cache/claude-code/2.1.325/claude");
    insta::assert_snapshot!(room.fetch("latest").await, @"2.1.325 was there: <room>/cache/claude-code/2.1.325/claude");
    insta::assert_snapshot!(room.fetch("2.1.325").await, @"2.1.325 was there: <room>/cache/claude-code/2.1.325/claude");
    assert_eq!((room.calls().lines().count(), room.installed()), (2, vec!["2.1.325".to_owned()]));
}

#[tokio::test]
async fn npm_has_the_users_settings_and_neither_npm_nor_the_cli_sees_a_key() {
    let room = Room::new(r#"package 2.1.325; native "env > '$ROOM/environment-of-claude'""#);
    assert!(room.fetch("2.1.325").await.starts_with("2.1.325 was installed"));
    let (npm, claude) = (room.read("environment-of-npm"), room.read("environment-of-claude"));
    assert!(npm.contains("proxy-of-the-user") && npm.contains("registry-of-the-user"), "{npm}");
    assert!(!npm.contains("secret") && !claude.contains("secret") && !claude.contains("of-the-user"), "{npm}{claude}");
    assert!(claude.contains("HOME=") && !claude.contains(room.path().join("home").to_str().unwrap()), "{claude}");
}

#[tokio::test]
async fn without_npm_it_says_what_to_install() {
    let room = Room::new("");
    let nowhere = room.path().join("home");
    insta::assert_snapshot!(outcome_in(room.with("PATH", nowhere)).await, @"error: npm is not on the PATH; install Node.js with npm, or use --claude PATH");
    let room = Room::new("");
    room.npm("#!<no such program>");
    insta::assert_snapshot!(outcome_in(room).await, @"error: cannot run <room>/bin/npm: No such file or directory (os error 2); reinstall Node.js with npm, or use --claude PATH");
}

#[tokio::test]
async fn without_a_cache_it_says_which_variable_to_set() {
    let room = Room::new(INSTALLS).without(&["WATARI_CACHE", "HOME"]).with("XDG_CACHE_HOME", "relative");
    insta::assert_snapshot!(room.fetch("2.1.325").await, @"error: cannot determine the cache folder: none of WATARI_CACHE, XDG_CACHE_HOME and HOME is set; set WATARI_CACHE to a folder");
    assert_eq!(room.calls(), "");
}

#[tokio::test]
async fn a_cache_that_cannot_be_written_to_is_named() {
    let room = Room::new(INSTALLS);
    fs::write(room.path().join("cache"), "a file").unwrap();
    let outcome = room.fetch("2.1.325").await;
    assert!(outcome.starts_with("error: cannot make a folder in <room>/cache/claude-code: "), "{outcome}");
    assert_eq!(room.calls(), "");
}

#[tokio::test]
async fn a_version_that_npm_does_not_know_is_told_from_other_failures() {
    let npms = [
        "echo 'npm error code ETARGET' >&2; exit 1",
        "echo 'npm error code E404' >&2; echo 'npm error 404 Not Found' >&2; exit 1",
        "echo 'npm ERR! code E404' >&2; exit 1",
        "echo 'npm error code ENOTFOUND' >&2; echo 'npm error network no code E404 here' >&2; exit 1",
    ];
    insta::assert_snapshot!(told_by(&npms).await, @"
    error: npm has no Claude Code 2.1.325; `npm view @anthropic-ai/claude-code versions dist-tags` lists what it has
    error: npm has no Claude Code 2.1.325; `npm view @anthropic-ai/claude-code versions dist-tags` lists what it has
    error: npm has no Claude Code 2.1.325; `npm view @anthropic-ai/claude-code versions dist-tags` lists what it has
    error: npm could not install Claude Code 2.1.325 (exit status: 1); check the network, npm's registry and proxy settings and the disk; npm's last output:
    npm error code ENOTFOUND
    npm error network no code E404 here
    ");
}

#[tokio::test]
async fn only_the_last_lines_of_npm_are_shown() {
    let lines = r"i=0; while [ $i -lt 3000 ]; do i=$((i + 1)); printf 'line \033[31m %d of many\n' $i >&2; done";
    let outcome = fetched_by(&format!("{lines}; exit 7")).await;
    let shown: Vec<&str> = outcome.lines().skip(1).collect();
    assert_eq!((shown.len(), shown.last().copied()), (12, Some("line  [31m 3000 of many")));
    let outcome = fetched_by("head -c 200000 /dev/zero | tr '\\0' x >&2; exit 7").await;
    assert!(outcome.len() < 2000, "{} bytes", outcome.len());
}

#[tokio::test]
async fn a_package_that_is_not_what_was_asked_for_is_not_taken() {
    let wrong = [
        "true",
        "package 2.1.325; echo '{}' > \"$packages/claude-code/package.json\"",
        "package 2.1.326; native true",
        "package ../../elsewhere; native true",
        "package 2.1.325",
    ];
    insta::assert_snapshot!(told_by(&wrong).await, @r#"
    error: the package that npm installed as Claude Code 2.1.325 cannot be used: its package.json cannot be read (No such file or directory (os error 2)); check that npm is not configured to install elsewhere
    error: the package that npm installed as Claude Code 2.1.325 cannot be used: its package.json names no version (missing field `version` at line 1 column 2); check that you trust npm's registry
    error: the package that npm installed as Claude Code 2.1.325 cannot be used: its version is "2.1.326"; check that you trust npm's registry
    error: the package that npm installed as Claude Code 2.1.325 cannot be used: its version is "../../elsewhere"; check that you trust npm's registry
    error: the package that npm installed as Claude Code 2.1.325 cannot be used: it has no program for this system; check that npm is not configured to omit optional packages
    "#);
}

#[tokio::test]
async fn a_tag_cannot_lead_out_of_the_cache() {
    let room = Room::new("package ../../elsewhere; native true");
    insta::assert_snapshot!(room.fetch("latest").await, @r#"error: the package that npm installed as Claude Code latest cannot be used: its version is "../../elsewhere"; check that you trust npm's registry"#);
    assert_eq!((room.installed(), room.path().join("elsewhere").exists()), (Vec::<String>::new(), false));
}

#[tokio::test]
async fn a_program_that_does_not_start_is_not_taken() {
    let failing = "package 2.1.325; native 'echo no such library >&2; exit 3'";
    insta::assert_snapshot!(fetched_by(failing).await, @r#"error: Claude Code 2.1.325 was installed and does not start, so it was removed again: it exited with exit status: 3 and wrote "no such library"; an older version needs node on the PATH, and every version needs a supported system"#);
    let foreign =
        r#"package 2.1.325; native true; echo '#!<no such program>' > "$packages/claude-code-some-system/claude""#;
    insta::assert_snapshot!(fetched_by(foreign).await, @"error: Claude Code 2.1.325 was installed and does not start, so it was removed again: No such file or directory (os error 2); an older version needs node on the PATH, and every version needs a supported system");
}

/// The clock is tokio's paused one: it jumps when there is nothing else to wait for.
#[tokio::test(start_paused = true)]
async fn a_program_that_says_nothing_for_a_minute_is_not_taken() {
    let room = Room::new("package 2.1.325; native 'sleep 1000'");
    insta::assert_snapshot!(room.fetch("2.1.325").await, @"error: Claude Code 2.1.325 was installed and does not start, so it was removed again: it did not report its version within 60 s; an older version needs node on the PATH, and every version needs a supported system");
    assert_eq!(room.installed(), Vec::<String>::new());
    assert_eq!(processes::marked(room.path().to_str().unwrap()), []);
}

#[tokio::test]
async fn what_stands_in_the_way_is_named_before_npm_is_called() {
    let room = Room::new(INSTALLS);
    fs::create_dir_all(room.installs().join("2.1.325/node_modules")).unwrap();
    insta::assert_snapshot!(room.fetch("2.1.325").await, @"error: <room>/cache/claude-code/2.1.325 exists but contains no program; remove it and try again");
    assert_eq!(room.calls(), "");
    insta::assert_snapshot!(room.fetch("latest").await, @"error: <room>/cache/claude-code/2.1.325 exists but contains no program; remove it and try again");
}

#[tokio::test]
async fn an_install_that_cannot_be_moved_is_an_error() {
    insta::assert_snapshot!(fetched_by("package 2.1.325; native 'rm -rf \"$HOME\"'").await, @"error: cannot move the install to <room>/cache/claude-code/2.1.325: No such file or directory (os error 2); try again, or set WATARI_CACHE to another folder");
}

#[tokio::test]
async fn two_at_once_do_not_disturb_one_another() {
    let room = Room::new(&format!("begun; read line < \"$ROOM/go\"; {INSTALLS}"));
    let mut gate = room.gate();
    let both_are_at_work = async {
        gate.wait_for(2).await;
        gate.let_go_on(2);
    };
    let (one, other, ()) = tokio::join!(room.fetch("2.1.325"), room.fetch("latest"), both_are_at_work);
    let mut results = [one, other];
    results.sort();
    insta::assert_snapshot!(results.join("\n"), @"
    2.1.325 was installed: <room>/cache/claude-code/2.1.325/claude
    2.1.325 was there: <room>/cache/claude-code/2.1.325/claude
    ");
    assert_eq!(room.installed(), ["2.1.325"]);
}

/// An npm that has a child, and does not stop writing files.
const WRITES_ON: &str = r#"sleep 1000 & begun; while :; do i=$((i + 1)); mkdir -p "$packages/$i/a/b"; done"#;

#[tokio::test]
async fn a_fetch_that_is_dropped_leaves_no_folder_and_no_process() {
    let room = Room::new(WRITES_ON);
    let mut gate = room.gate();
    tokio::select! {
        outcome = room.fetch("2.1.325") => panic!("{outcome}"),
        () = gate.wait_for(1) => {}
    }
    assert_eq!(room.installed(), Vec::<String>::new());
    assert_eq!(processes::marked(room.path().to_str().unwrap()), []);
}

#[tokio::test]
async fn what_killed_fetches_left_is_removed_after_a_day_and_nothing_else() {
    let room = Room::new(INSTALLS);
    room.fetch("2.1.325").await;
    let (a_day, an_hour) = (Duration::from_hours(25), Duration::from_hours(1));
    let folders = [
        (".aside-a1B2c3D4e5F6", a_day),
        (".aside-000000000000", an_hour),
        (".aside-too-short", a_day),
        (".aside-a1B2c3D4e5F6G", a_day),
        (".aside-a1B2c3D4e5F-", a_day),
        ("2.1.0", a_day),
    ];
    for (name, age) in folders {
        let path = room.installs().join(name);
        fs::create_dir_all(path.join("node_modules")).unwrap();
        File::open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
    }
    symlink(room.installs().join("2.1.0"), room.installs().join(".aside-linklinklink")).unwrap();
    assert!(room.fetch("2.1.325").await.starts_with("2.1.325 was there"));
    insta::assert_snapshot!(room.installed().join("\n"), @"
    .aside-000000000000
    .aside-a1B2c3D4e5F-
    .aside-a1B2c3D4e5F6G
    .aside-linklinklink
    .aside-too-short
    2.1.0
    2.1.325
    ");
    assert!(room.installs().join("2.1.0/node_modules").exists());
}

/// The program, in a room.
fn fetch_claude(room: &Room, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fetch-claude"));
    command.args(words).env_clear().envs(&room.environment).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

async fn said_by_the_program(room: &Room, words: &[&str]) -> String {
    let output = fetch_claude(room, words).output().await.unwrap();
    let [stdout, stderr] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    room.plain(&format!("{}\nstdout: {stdout}stderr: {stderr}", output.status))
}

#[tokio::test]
async fn the_program_prints_where_the_pinned_version_is() {
    let room = Room::new(INSTALLS);
    insta::assert_snapshot!(said_by_the_program(&room, &[]).await, @"
    exit status: 0
    stdout: <room>/cache/claude-code/2.1.325/claude
    stderr: fetch-claude: Claude Code 2.1.325: unless it is in the cache, npm installs it now (up to 400 MB)
    fetch-claude: Claude Code 2.1.325 is installed
    ");
    insta::assert_snapshot!(said_by_the_program(&room, &["2.1.325", "latest"]).await, @"
    exit status: 0
    stdout: <room>/cache/claude-code/2.1.325/claude
    <room>/cache/claude-code/2.1.325/claude
    stderr: fetch-claude: Claude Code 2.1.325: unless it is in the cache, npm installs it now (up to 400 MB)
    fetch-claude: Claude Code 2.1.325 was already installed
    fetch-claude: Claude Code latest: unless it is in the cache, npm installs it now (up to 400 MB)
    fetch-claude: Claude Code 2.1.325 was already installed
    ");
    insta::assert_snapshot!(said_by_the_program(&room, &["--help"]).await, @"
    exit status: 0
    stdout: Installs Claude Code from npm into the cache, unless it is there, and prints the path of the program.

    Usage: fetch-claude [VERSION]...

    VERSION is a whole version like 2.1.325 or a tag like latest; without one, it is the version that the tests run
    against. The cache is $WATARI_CACHE, $XDG_CACHE_HOME/watari or ~/.cache/watari.
    stderr:
    ");
}

#[tokio::test]
async fn invalid_arguments_never_reach_npm() {
    let room = Room::new(INSTALLS);
    for word in ["--global", "-g", "../evil", "/etc", "latest.tgz", "2.1", "x", "http://evil", "git+ssh://evil", ""] {
        let said = said_by_the_program(&room, &["2.1.325", word]).await;
        assert!(said.starts_with("exit status: 2\n") && said.contains(&format!("{word:?} is neither")), "{said}");
    }
    assert_eq!((room.calls(), room.installed()), (String::new(), Vec::new()));
}

#[tokio::test]
async fn the_program_ends_npm_and_cleans_up_when_it_is_told_to_end() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let room = Room::new(WRITES_ON);
        let mut gate = room.gate();
        let mut program = fetch_claude(&room, &["2.1.325"]).spawn().unwrap();
        gate.wait_for(1).await;
        let pid = Pid::from_raw(program.id().unwrap().cast_signed()).unwrap();
        kill_process(pid, signal).unwrap();
        assert_eq!(program.wait().await.unwrap().code(), Some(130));
        assert_eq!(room.installed(), Vec::<String>::new());
        assert!(processes::none_marked_within(room.path().to_str().unwrap(), LONG).await.is_ok());
    }
}
