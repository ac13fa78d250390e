//! A sandbox gives the CLI its own folders and nothing of ours.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::Result;
use watari_testkit::Sandbox;
use watari_testkit::sandbox::claude_without_project;

fn shown(sandbox: &Sandbox, environment: &BTreeMap<String, String>) -> String {
    let root = sandbox.root().display().to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let line = |(key, value): (&String, &String)| match value {
        value if *value == path => format!("{key}=[PATH]\n"),
        value => format!("{key}={}\n", value.replace(&root, "[root]")),
    };
    environment.iter().map(line).collect()
}

#[test]
fn the_environment_is_exactly_this() -> Result<()> {
    let sandbox = Sandbox::new("http://127.0.0.1:1")?.with_env("EXTRA", "more");
    insta::assert_snapshot!(shown(&sandbox, &sandbox.environment()), @"
    ANTHROPIC_API_KEY=stub
    ANTHROPIC_BASE_URL=http://127.0.0.1:1
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
    CLAUDE_CODE_MAX_RETRIES=0
    CLAUDE_CODE_TMPDIR=[root]/tmp
    DISABLE_TELEMETRY=1
    EXTRA=more
    HOME=[root]/home
    IS_SANDBOX=1
    NO_PROXY=127.0.0.1
    PATH=[PATH]
    TMPDIR=[root]/tmp
    no_proxy=127.0.0.1
    ");
    Ok(())
}

#[test]
fn the_folders_are_there_until_the_sandbox_is_dropped() -> Result<()> {
    let sandbox = Sandbox::new("http://127.0.0.1:1")?;
    let root = sandbox.root().to_owned();
    for folder in [sandbox.home(), sandbox.cwd(), sandbox.tmp()] {
        assert!(folder.is_dir() && folder.starts_with(&root));
    }
    assert!(root.as_os_str().len() <= 24, "{} is long for a socket's path", root.display());
    drop(sandbox);
    assert!(!root.exists());
    Ok(())
}

#[test]
fn a_claude_without_project_is_the_same_with_two_more_words() -> Result<()> {
    let sandbox = Sandbox::new("http://127.0.0.1:1")?;
    let program = sandbox.root().join("Claude's $HOME");
    std::os::unix::fs::symlink("/bin/echo", &program)?;
    let claude = claude_without_project(&program, sandbox.cwd())?;
    assert_eq!(claude, sandbox.cwd().join("claude"));
    let printed = Command::new(claude).args(["-p", "a  b", "--setting-sources=project"]).output()?.stdout;
    assert_eq!(String::from_utf8(printed)?, "-p a  b --setting-sources=project --setting-sources user\n");
    assert!(claude_without_project(&program, &sandbox.root().join("nowhere")).is_err());
    Ok(())
}
