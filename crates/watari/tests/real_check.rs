//! The protocol of both real CLIs, as the program sees it, is what the document says.
//!
//! `UPDATE_DOCS=1 cargo nextest run -p watari --test real_check` writes the document.

#![cfg(not(watari_portable))]
#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;

use std::path::Path;
use std::process::Command;

use watari_testkit::claude::{oldest_claude, pinned_claude};
use watari_testkit::scenario::{Report, Verdict, document};

fn report(claude: &Path) -> Report {
    let mut command = Command::new(env!("CARGO_BIN_EXE_watari"));
    let run = common::output_of(command.args(["check", "--json", "--claude"]).arg(claude));
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{}", run.stdout);
    serde_json::from_str(&run.stdout).unwrap()
}

/// The numbers of the scenarios with this verdict.
fn numbers(report: &Report, verdict: Verdict) -> Vec<u32> {
    let found = report.scenarios.iter().filter(|scenario| scenario.verdict == verdict);
    found.filter_map(|scenario| scenario.number).collect()
}

#[test]
fn the_document_matches_both_versions() {
    let [old, new] = [oldest_claude(), pinned_claude()].map(|claude| report(&claude));
    assert_eq!((numbers(&new, Verdict::Changed), numbers(&new, Verdict::Gone)), (vec![23, 28], vec![25, 26, 29]));
    assert_eq!((numbers(&old, Verdict::Changed), numbers(&old, Verdict::Gone)), (vec![23], vec![]));
    assert_eq!(numbers(&new, Verdict::Holds).len() + 5, 29);
    common::is_committed("claude-stream-json.md", &document(&[new, old]).unwrap());
}

#[test]
fn a_tool_that_is_missing_is_noticed_and_an_unknown_version_is_compared_with_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let real = pinned_claude();
    let script = format!(
        "[ \"$1\" = --version ] && {{ echo 2.1.400; exit; }}\nexec '{}' \"$@\" --disallowedTools Bash",
        real.display()
    );
    let claude = common::program(&folder.path().join("claude"), &script);
    let mut command = Command::new(env!("CARGO_BIN_EXE_watari"));
    command.args(["check", "--scenario", "simple_text", "--scenario", "2", "--scenario", "read", "--claude"]);
    let run = common::output_of(command.arg(claude));
    let scenarios: Vec<&str> = run.stdout.lines().take_while(|line| !line.is_empty()).collect();
    let summary = run.stdout.lines().find(|line| line.starts_with("Claude Code"));
    insta::assert_snapshot!(format!("{}\n{}\nexit {:?}", scenarios.join("\n"), summary.unwrap(), run.code), @"
       1  simple_text  holds
    !  2  bash_single  gone     there is no tool Bash (expected: holds)
       9  read         holds
    Claude Code 2.1.400: of 3 scenarios 2 hold, 0 changed, 1 gone; of 15 claims 11 hold. Untested version; 2 not as with 2.1.325, the nearest tested one: see the lines marked with !
    exit Some(1)
    ");
}

/// Scenarios of users, each for a case that was once judged wrongly.
const OWN: [&str; 5] = [
    r#"
name: nothing_of_the_directory_runs
title: Files in the directory are not run
files:
  .mcp.json: '{"mcpServers": {"evil": {"command": "/bin/sh", "args": ["-c", "touch ${cwd}/ran; cat"]}}}'
script: {replies: [{tool: Bash, input: {command: "sleep 1; test -e ran && echo it-ran || echo nothing-ran"}}, {text: Done.}]}
transcript: [{user: Go.}, {expect: {type: result}}]
tools: [{name: Bash, result: nothing-ran}]
"#,
    r#"
name: there_in_a_newer_form
title: A tool that exists in the newer form is not gone
script: {replies: [{tool: Glob, input: {pattern: "*"}}, {text: Done.}]}
transcript: [{user: Go.}, {expect: {type: result}}]
tools: [{name: Glob, result: never-there}]
newer_forms: [{how: by name, flags: [--allowedTools, Glob]}]
"#,
    r#"
name: a_quoted_text
title: A text with quotes is found in a request
script: {replies: [{text: Done.}]}
transcript: [{user: 'Say "hello" now.'}, {expect: {type: result}}]
requested: ['Say "hello" now.']
"#,
    r#"
name: fails_otherwise
title: A tool that fails for another reason did not do what it should
script: {replies: [{tool: Read, input: {nonsense: 1}}, {text: Done.}]}
transcript: [{user: Go.}, {expect: {type: result}}]
tools: [{name: Read, result: does not exist, fails: true}]
"#,
    r#"
name: expected_of_this_version
title: What is expected of the very version counts first
transcript: [{user: Go.}, {expect: {type: never}}]
expected: {2.1.325: changed, 2.1.400: holds}
"#,
];

#[test]
fn scenarios_of_the_user_are_judged_by_what_happened() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_watari"));
    command.arg("check").arg("--claude").arg(pinned_claude());
    for (number, text) in OWN.iter().enumerate() {
        let path = folder.path().join(format!("{number}.yaml"));
        std::fs::write(&path, text).unwrap();
        command.arg("--scenario").arg(path);
    }
    let run = common::output_of(&mut command);
    // The text of the CLI is not part of the snapshot.
    let output: Vec<String> =
        run.as_text(folder.path()).lines().filter(|line| !line.contains("it said:")).map(str::to_owned).collect();
    insta::assert_snapshot!(output.join("\n"), @"
          nothing_of_the_directory_runs  holds
    !     there_in_a_newer_form          changed  Glob had another result; came: system/init → assistant(tool_use:Glob) → user(tool_result) → assistant(text) → result/success (expected: holds)
          a_quoted_text                  holds
    !     fails_otherwise                changed  Read had another result; came: system/init → assistant(tool_use:Read) → user(tool_result:error) → assistant(text) → result/success (expected: holds)
          expected_of_this_version       changed  never did not come; came: system/init → assistant(text) → result/success

    Claude Code 2.1.325: of 5 scenarios 2 hold, 3 changed, 0 gone. 2 not as expected: see the lines marked with !

    Network: a namespace that has only a loopback.
    exit Some(1)
    ");
}
