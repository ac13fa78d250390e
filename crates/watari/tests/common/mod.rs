//! What the tests of the program share.

#![allow(dead_code, reason = "every test program uses some of it")]
#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

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
    pub(crate) fn said(&self, folder: &Path) -> String {
        let Run { code, stdout, stderr } = self;
        format!("{stdout}{stderr}exit {code:?}\n").replace(folder.to_str().unwrap(), "FOLDER")
    }
}

/// Writes a shell script that can be run at once: by another process, so that no fork of this one holds it open.
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
