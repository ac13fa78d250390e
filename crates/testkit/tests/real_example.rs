//! The example of an agent with its test passes, and says so when it does not.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::process::Command;
use watari_testkit::Sandbox;
use watari_testkit::claude::pinned_claude;
use watari_testkit::processes::none_marked_within;

/// Longer than the limits that the example sets itself.
const WITHIN: Duration = Duration::from_secs(100);

/// Runs the example with a CLI on the `PATH`: its exit code and what it prints.
async fn run(claude: &Path) -> Result<(Option<i32>, String)> {
    // Nothing listens there: the example has a stub of its own.
    let room = Sandbox::new("http://127.0.0.1:9")?;
    std::os::unix::fs::symlink(claude, room.cwd().join("claude"))?;
    let path = format!("{}:{}", room.cwd().display(), std::env::var("PATH")?);
    let mut example = Command::new(example()?);
    example.env_clear().envs(room.environment()).env("PATH", path).current_dir(room.cwd());
    example.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(WITHIN, example.output()).await??;
    let marker = room.root().to_str().context("a path that is no text")?;
    assert!(none_marked_within(marker, Duration::from_secs(5)).await.is_ok());
    Ok((output.status.code(), String::from_utf8([output.stdout, output.stderr].concat())?))
}

/// Cargo builds examples beside the tests.
fn example() -> Result<PathBuf> {
    let test = std::env::current_exe()?;
    let folder = test.parent().and_then(Path::parent).context("a test is in a folder")?;
    Ok(folder.join("examples/test_an_agent"))
}

#[tokio::test]
async fn the_example_passes_and_says_what_it_saw() -> Result<()> {
    let (code, printed) = run(&pinned_claude()).await?;
    insta::assert_snapshot!(printed, @r#"
    the agent said: Two notes.
    the model was asked 2 times
    the tool found: "bread.txt\nmilk.txt"
    with an API that fails there is an error
    "#);
    assert_eq!(code, Some(0));
    Ok(())
}

#[tokio::test]
async fn the_example_fails_with_a_cli_that_does_nothing() -> Result<()> {
    let (code, printed) = run(Path::new("/bin/true")).await?;
    assert_eq!(code, Some(1), "{printed}");
    Ok(())
}

#[tokio::test]
async fn the_example_has_the_cli_read_nothing_above_its_folders() -> Result<()> {
    let room = Sandbox::new("http://127.0.0.1:9")?;
    let claude = room.root().join("complains-of-its-flags");
    std::fs::write(&claude, "#!/bin/sh\necho \"$@\" >&2\nexit 1\n")?;
    std::fs::set_permissions(&claude, Permissions::from_mode(0o755))?;
    let (code, printed) = run(&claude).await?;
    assert_eq!(code, Some(1));
    assert!(printed.contains("--setting-sources=user"), "{printed}");
    Ok(())
}
