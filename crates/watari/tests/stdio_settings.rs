//! The setting by which the CLI itself refuses to bypass permissions reaches the CLI, even if no private file can be
//! created.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod fake;

use std::fs;
use std::process::Stdio;

use fake::{Room, start};
use tokio::io::AsyncWriteExt;

const CLOSED: &str = r#"{"permissions":{"disableBypassPermissionsMode":"disable"}}"#;

/// The settings that `watari stdio` passes to a CLI with these flags and this runtime folder.
async fn settings_passed(flags: &[&str], runtime: &str) -> Option<String> {
    let room = Room::new("prompt\ntext Hello\nresult\n");
    let settings = room.sandbox.root().join("settings");
    let script = format!(
        "for argument; do case $argument in --settings=/*) cat \"${{argument#--settings=}}\" > '{0}';;\n\
         --settings=*) printf %s \"${{argument#--settings=}}\" > '{0}';; esac; done\nexec '{1}' \"$@\"",
        settings.display(),
        room.claude.display(),
    );
    let claude = common::program(&room.sandbox.root().join("looking"), &script);
    let room = Room { claude, ..room };
    let mut command = room.command();
    command.args(flags).env("XDG_RUNTIME_DIR", runtime).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().unwrap();
    // The end of its input ends the session after the turn.
    child.stdin.take().unwrap().write_all(start().as_bytes()).await.unwrap();
    room.ends(child).await;
    fs::read_to_string(settings).ok()
}

#[tokio::test]
async fn bypass_permissions_is_disabled_in_the_cli_even_without_private_files() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = folder.path().to_str().unwrap();
    assert_eq!(settings_passed(&[], runtime).await.as_deref(), Some(CLOSED));
    // A runtime folder that cannot be: the session starts all the same.
    assert_eq!(settings_passed(&[], "/dev/null").await.as_deref(), Some(CLOSED));
    assert_eq!(settings_passed(&["--allow-bypass"], runtime).await, None);
}
