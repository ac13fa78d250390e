//! `watari doctor` on the real CLIs: they answer its questions.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use watari_testkit::Sandbox;
use watari_testkit::claude::{OLDEST_CLAUDE_VERSION, PINNED_CLAUDE_VERSION, oldest_claude, pinned_claude};

/// A process id that no process has, so that orphans of other tests are not found.
const NOBODY: &str = "4194399";

/// The exit code and the report.
fn doctor(claude: &Path, environment: &BTreeMap<String, String>, cwd: &Path) -> (i32, Value) {
    let output = Command::new(env!("CARGO_BIN_EXE_watari"))
        .args(["doctor", "--json", "--orphans-of", NOBODY, "--claude"])
        .arg(claude)
        .env_clear()
        .envs(environment)
        .current_dir(cwd)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let key = environment.get("ANTHROPIC_API_KEY");
    assert!(key.is_none_or(|key| !stdout.contains(key)), "{stdout}");
    (output.status.code().unwrap(), serde_json::from_str(&stdout).unwrap())
}

fn level<'a>(report: &'a Value, check: &str) -> &'a str {
    let findings = report["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["check"] == check).unwrap()["level"].as_str().unwrap()
}

fn both() -> [(PathBuf, &'static str); 2] {
    [(pinned_claude(), PINNED_CLAUDE_VERSION), (oldest_claude(), OLDEST_CLAUDE_VERSION)]
}

/// No server listens there, and none is needed.
fn sandbox() -> Sandbox {
    Sandbox::new("http://127.0.0.1:9").unwrap().with_env("ANTHROPIC_API_KEY", "sk-not-a-key")
}

#[test]
fn with_a_key_there_is_no_problem() {
    for (claude, version) in both() {
        let sandbox = sandbox();
        let (code, report) = doctor(&claude, &sandbox.environment(), sandbox.cwd());
        assert_eq!(report["cli"]["version"], version);
        let levels = ["cli", "version", "login"].map(|check| level(&report, check));
        assert_eq!((code, levels), (0, ["ok", "ok", "ok"]), "{version}: {report:#}");
    }
}

#[test]
fn without_a_key_and_a_login_there_is_a_problem() {
    for (claude, version) in both() {
        let sandbox = sandbox();
        let mut environment = sandbox.environment();
        environment.remove("ANTHROPIC_API_KEY");
        let (code, report) = doctor(&claude, &environment, sandbox.cwd());
        let levels = ["cli", "version", "login"].map(|check| level(&report, check));
        assert_eq!((code, levels), (1, ["ok", "ok", "problem"]), "{version}: {report:#}");
    }
}

#[test]
fn a_program_that_the_working_directory_names_is_not_run() {
    for (claude, version) in both() {
        let sandbox = sandbox();
        let ran = sandbox.root().join("ran");
        let settings = serde_json::json!({ "apiKeyHelper": format!("touch {}; echo key", ran.display()) });
        std::fs::create_dir(sandbox.cwd().join(".claude")).unwrap();
        std::fs::write(sandbox.cwd().join(".claude/settings.json"), settings.to_string()).unwrap();
        let mut environment = sandbox.environment();
        environment.remove("ANTHROPIC_API_KEY");
        let (_, report) = doctor(&claude, &environment, sandbox.cwd());
        assert_eq!((level(&report, "login"), ran.exists()), ("problem", false), "{version}");
    }
}
