//! Hosts in a user namespace, as in a rootless container: a user id alone does not identify another user.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]
#![cfg(target_os = "linux")]

mod common;
mod host;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, lchown};
use std::path::PathBuf;

use common::WATARI;
use host::{Room, WITHIN, end_of};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

const ONE_TURN: &str = "prompt\ntext Hello\nresult\n";

/// The number by which a namespace shows every user that it does not map.
const OVERFLOW_USER: u32 = 65534;

/// What `watari` says in a new user namespace with this map, and how it ends.
async fn output_in_namespace(room: &Room, map: &str, runtime: Option<&PathBuf>, arguments: &[&str]) -> String {
    let mut command = Command::new("unshare");
    // The shell is in the namespace, and waits until its users have numbers.
    command.args(["--user", "sh", "-c", "echo entered; read -r mapped; exec \"$@\"", "sh", WATARI]).args(arguments);
    room.prepare(&mut command);
    command.stdin(std::process::Stdio::piped());
    if let Some(runtime) = runtime {
        command.env("XDG_RUNTIME_DIR", runtime);
    }
    let mut child = command.spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next_line = async || tokio::time::timeout(WITHIN, out.next_line()).await.unwrap().unwrap();
    assert!(next_line().await.is_some(), "no user namespace can be made here");
    if !map.is_empty() {
        fs::write(format!("/proc/{}/uid_map", child.id().unwrap()), map).unwrap();
    }
    child.stdin.take().unwrap().write_all(b"\n").await.unwrap();
    if next_line().await.is_some() {
        common::signal_process(child.id().unwrap(), Signal::TERM);
        end_of(&mut child).await;
        return "it has started".to_owned();
    }
    let (code, stderr) = end_of(&mut child).await;
    format!("{stderr}exit {code:?}").replace(room.sandbox.root().to_str().unwrap(), "ROOM")
}

#[tokio::test]
async fn a_folder_of_the_overflow_user_is_trusted_only_if_no_user_has_that_id_needs_root() {
    let room = Room::fake(ONE_TURN);
    let above = room.sandbox.root().join("above");
    let runtime = above.join("runtime");
    fs::create_dir_all(&runtime).unwrap();
    fs::set_permissions(&runtime, Permissions::from_mode(0o700)).unwrap();
    lchown(&above, Some(OVERFLOW_USER), Some(OVERFLOW_USER)).unwrap();
    let claude = room.claude.to_str().unwrap().to_owned();
    let mut output = Vec::new();
    // As rootless podman and Docker's userns-remap map: there the number is an ordinary user's.
    for map in ["0 0 65536", "0 0 1"] {
        let arguments = ["socket", "--claude", &claude];
        let received = output_in_namespace(&room, map, Some(&runtime), &arguments).await;
        output.push(format!("{map}: {received}"));
    }
    insta::assert_snapshot!(output.join("\n"), @"
    0 0 65536: watari: user 65534 can replace ROOM/above/runtime/watari: ROOM/above belongs to that user: set XDG_RUNTIME_DIR to a folder of this user's, below folders of this user's or root's
    exit Some(1)
    0 0 1: it has started
    ");
}

#[tokio::test]
async fn a_user_without_an_own_id_is_refused_needs_user_namespaces() {
    let room = Room::fake(ONE_TURN);
    let claude = room.claude.to_str().unwrap().to_owned();
    let mut output = Vec::new();
    for arguments in [["socket", "--claude", &claude], ["stdio", "--claude", &claude]] {
        let received = output_in_namespace(&room, "", None, &arguments).await;
        output.push(format!("{}: {received}", arguments[0]));
    }
    insta::assert_snapshot!(output.join("\n"), @"
    socket: watari: this user namespace does not map the user of this process: the system shows every unmapped user as 65534, so that files and clients of other users look like this user's; start watari as a mapped user, for example with `unshare --user --map-root-user`
    exit Some(1)
    stdio: watari: this user namespace does not map the user of this process: the system shows every unmapped user as 65534, so that files and clients of other users look like this user's; start watari as a mapped user, for example with `unshare --user --map-root-user`
    exit Some(1)
    ");
}
