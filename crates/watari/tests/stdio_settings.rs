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

/// The settings that a CLI is given by `watari stdio` with these flags and this runtime folder.
async fn given(flags: &[&str], runtime: &str) -> Option<String> {
    let room = Room::new("prompt\ntext Hello\nresult\n");
    let said = room.sandbox.root().join("said");
    let script = format!(
        "for argument; do case $argument in --settings=/*) cat \"${{argument#--settings=}}\" > '{0}';;\n\
         --settings=*) printf %s \"${{argument#--settings=}}\" > '{0}';; esac; done\nexec '{1}' \"$@\"",
        said.display(),
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
    fs::read_to_string(said).ok()
}

#[tokio::test]
async fn the_gate_is_closed_in_the_cli_too_even_where_no_private_file_can_be_made() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = folder.path().to_str().unwrap();
    assert_eq!(given(&[], runtime).await.as_deref(), Some(CLOSED));
    // A runtime folder that cannot be: the session starts all the same.
    assert_eq!(given(&[], "/dev/null").await.as_deref(), Some(CLOSED));
    assert_eq!(given(&["--allow-bypass"], runtime).await, None);
}
