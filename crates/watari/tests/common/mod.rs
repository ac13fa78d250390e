//! Helpers that the tests of the program share.

#![allow(dead_code, reason = "every test program uses some of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use watari_testkit::claude::pinned_claude;
use watari_testkit::processes::children_of;
use watari_testkit::sandbox::claude_without_project;

pub(crate) const WATARI: &str = env!("CARGO_BIN_EXE_watari");

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Compares a printed document with the committed one, or writes it when asked to.
pub(crate) fn is_committed(name: &str, printed: &str) {
    let path = root().join("docs").join(name);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&path, printed).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let first = committed.lines().zip(printed.lines()).find(|(committed, printed)| committed != printed);
    assert!(
        committed == printed,
        "docs/{name} is not what the code says; write it with UPDATE_DOCS=1 set, and look at the difference, \
         which begins with {first:#?}"
    );
}

/// What a program printed, and what it exited with.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn output_of(command: &mut Command) -> Run {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Run { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

impl Run {
    /// All of it as one text, in which a folder is called FOLDER.
    pub(crate) fn as_text(&self, folder: &Path) -> String {
        let Run { code, stdout, stderr } = self;
        format!("{stdout}{stderr}exit {code:?}\n").replace(folder.to_str().unwrap(), "FOLDER")
    }
}

/// Writes a shell script that can be run immediately: by another process, so that no fork of this one holds it open.
pub(crate) fn program(path: &Path, script: &str) -> PathBuf {
    let write = "cat > \"$0\" && chmod +x \"$0\"";
    let mut writer = Command::new("sh").args(["-c", write]).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    writer.stdin.take().unwrap().write_all(format!("#!/bin/sh\n{script}\n").as_bytes()).unwrap();
    assert!(writer.wait().unwrap().success());
    path.to_owned()
}

/// Waits until a file is there.
pub(crate) async fn appears(path: &Path) {
    let look_again = Duration::from_millis(10);
    let found = async {
        // The system can tell, but not in the same way everywhere.
        while !path.exists() {
            tokio::time::sleep(look_again).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(30), found).await.is_ok(), "{} did not appear", path.display());
}

/// A page of the documentation whose programs are run; its path below `docs`.
pub(crate) struct Page(pub(crate) &'static str);

impl Page {
    /// The code blocks of the page in this language.
    pub(crate) fn blocks(&self, language: &str) -> Vec<String> {
        let page = fs::read_to_string(root().join("docs").join(self.0)).unwrap();
        let fenced = page.split("\n```").skip(1).step_by(2);
        fenced
            .filter_map(|block| block.strip_prefix(language)?.strip_prefix('\n'))
            .map(|code| format!("{code}\n"))
            .collect()
    }

    /// The only code block of the page in this language.
    pub(crate) fn block(&self, language: &str) -> String {
        let blocks = self.blocks(language);
        let [block] = blocks.try_into().unwrap_or_else(|found: Vec<_>| panic!("{} of {language}", found.len()));
        block
    }
}

/// The programs that those of a page start.
#[derive(Debug, Clone)]
pub(crate) struct Programs {
    pub(crate) watari: OsString,
    pub(crate) claude: OsString,
    /// A file that exists if a program ran something of a folder above that of the CLI.
    pub(crate) bait: PathBuf,
}

impl Programs {
    /// The real ones, for a reader whose folders are all in this one. The CLI reads nothing of it or those above it: a
    /// reader has folders of her own, but here one of them is for everybody's temporary files.
    pub(crate) fn real(folder: &Path) -> Programs {
        let bait = folder.join("made-by-the-bait");
        let servers = json!({"mcpServers": {"above": {"command": "touch", "args": [bait]}}});
        fs::write(folder.join(".mcp.json"), servers.to_string()).unwrap();
        let claude = claude_without_project(&pinned_claude(), folder).unwrap();
        Programs { watari: WATARI.into(), claude: claude.into(), bait }
    }

    /// Asserts that nothing of a folder above that of the CLI was run.
    pub(crate) fn assert_nothing_above_was_run(&self) {
        assert!(!self.bait.exists());
    }
}

pub(crate) fn names_in(folder: &Path) -> Vec<OsString> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
}

/// Fails a test whose program is not on the `PATH`. `./check` reports such tests as skipped instead of running them.
pub(crate) fn need(program: &str) {
    let path = std::env::var_os("PATH").unwrap();
    let is_installed = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    assert!(is_installed, "this test needs {program} on the PATH");
}

/// The CLI of a program that runs one: the child of its only child, which is the supervisor.
pub(crate) fn cli_of(program: u32) -> u32 {
    let supervisors = children_of(program);
    let [supervisor] = supervisors.as_slice() else { panic!("{supervisors:?}") };
    let clis = children_of(supervisor.pid);
    let [cli] = clis.as_slice() else { panic!("{clis:?}") };
    cli.pid
}

pub(crate) fn signal_cli_of(program: u32, signal: Signal) {
    signal_process(cli_of(program), signal);
}

pub(crate) fn signal_process(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
}

/// Waits until the CLI of a program has stopped itself.
pub(crate) async fn cli_has_stopped(program: u32) {
    let clis = || children_of(program).into_iter().flat_map(|supervisor| children_of(supervisor.pid));
    while !clis().any(|cli| cli.state == 'T') {
        // No event reports it, so it is polled.
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Text in which the seconds of silence, which depend on how busy the machine is, have a name in their place.
pub(crate) fn without_seconds(text: &str) -> String {
    let mut parts = text.split("nothing for ");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str("nothing for N");
        shown.push_str(part.trim_start_matches(|letter: char| letter.is_ascii_digit()));
    }
    shown
}

/// Waits until a program has started others, and returns their process ids.
pub(crate) async fn children_started_by(program: u32) -> Vec<u32> {
    let found = async {
        loop {
            let children = children_of(program);
            if !children.is_empty() {
                return children.into_iter().map(|child| child.pid).collect();
            }
            // No event reports it, so it is polled.
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), found).await.unwrap()
}
