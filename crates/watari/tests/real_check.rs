//! The protocol of both real CLIs, as the program sees it, is what the document says.
//!
//! `UPDATE_DOCS=1 cargo nextest run -p watari --test real_check` writes the document.

#![cfg(not(watari_portable))]
#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;

use std::path::Path;
use std::process::{Command, Output};

use watari_testkit::claude::{oldest_claude, pinned_claude};
use watari_testkit::scenario::{Report, Verdict, document};

fn check(claude: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watari"));
    command.arg("check").arg("--claude").arg(claude).args(flags).output().unwrap()
}

fn report(claude: &Path) -> Report {
    let output = check(claude, &["--json"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(stderr, "", "where there is no terminal there is no progress bar");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The numbers of the scenarios that came out so.
fn numbers(report: &Report, verdict: Verdict) -> Vec<u32> {
    let found = report.scenarios.iter().filter(|scenario| scenario.verdict == verdict);
    found.filter_map(|scenario| scenario.number).collect()
}

#[test]
fn the_document_is_what_both_versions_say() {
    let [old, new] = [oldest_claude(), pinned_claude()].map(|claude| report(&claude));
    assert_eq!((numbers(&new, Verdict::Changed), numbers(&new, Verdict::Gone)), (vec![23, 28], vec![25, 26, 29]));
    assert_eq!((numbers(&old, Verdict::Changed), numbers(&old, Verdict::Gone)), (vec![23], vec![]));
    assert_eq!(numbers(&new, Verdict::Holds).len() + 5, 29);
    common::is_committed("claude-stream-json.md", &document(&[new, old]).unwrap());
}
