//! Another user of the same machine and the cache of CLIs: nothing that this user could have replaced is run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]
#![allow(dead_code, reason = "the room is shared with the tests of the fetch itself")]

mod room;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use room::Room;

/// The user that a system has for those who may do nothing.
const ANOTHER_USER: u32 = 65534;

/// An npm that installs a version which starts.
const INSTALLS: &str = "package 2.1.325; native true";

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn give_away(path: &Path) {
    lchown(path, Some(ANOTHER_USER), Some(ANOTHER_USER)).unwrap();
}

/// Runs a script as another user.
fn as_another_user(script: &str, path: &Path) {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", script, "sh"]).arg(path);
    assert!(command.status().unwrap().success(), "{script}");
}

/// A room with a version in its cache, the version's folder, and the program itself.
async fn with_install() -> (Room, PathBuf, PathBuf) {
    let room = Room::new(INSTALLS);
    mode(room.path(), 0o755);
    assert!(room.fetch("2.1.325").await.starts_with("2.1.325 was installed"));
    let version = room.installs().join("2.1.325");
    let program = version.join("node_modules/@anthropic-ai/claude-code-some-system/claude");
    (room, version, program)
}

#[tokio::test]
async fn a_cli_that_another_user_could_have_replaced_is_not_taken_from_the_cache_needs_root() {
    type Attack = fn(&Room, &Path, &Path);
    let attacks: [(&str, Attack); 9] = [
        ("cache of another user", |room, _, _| give_away(&room.path().join("cache"))),
        ("folder of installs of another user", |room, _, _| give_away(&room.installs())),
        ("folder of installs that a group can write to", |room, _, _| mode(&room.installs(), 0o775)),
        ("version that a group can write to", |_, version, _| mode(version, 0o775)),
        ("version of another user", |_, version, _| give_away(version)),
        ("program of another user", |_, _, program| give_away(program)),
        ("program that a group can write to", |_, _, program| mode(program, 0o775)),
        ("link to the program of another user", |_, version, _| give_away(&version.join("claude"))),
        ("another file of the install of another user", |_, version, _| {
            let file = version.join("node_modules/@anthropic-ai/claude-code/package.json");
            chown(file, Some(ANOTHER_USER), None).unwrap();
        }),
    ];
    let mut results = Vec::new();
    for (what, attack) in attacks {
        let (room, version, program) = with_install().await;
        attack(&room, &version, &program);
        results.push(format!("{what}: {}", room.fetch("2.1.325").await));
    }
    insta::assert_snapshot!(results.join("\n"), @"
    cache of another user: error: cannot run Claude Code from the cache: user 65534 can replace <room>/cache/claude-code/2.1.325: <room>/cache belongs to that user; revoke that permission, remove <room>/cache/claude-code/2.1.325, which may have been changed, and fetch it again, or set WATARI_CACHE to another folder of this user's
    folder of installs of another user: error: cannot run Claude Code from the cache: user 65534 can replace <room>/cache/claude-code/2.1.325: <room>/cache/claude-code belongs to that user; revoke that permission, remove <room>/cache/claude-code/2.1.325, which may have been changed, and fetch it again, or set WATARI_CACHE to another folder of this user's
    folder of installs that a group can write to: error: cannot run Claude Code from the cache: others can replace <room>/cache/claude-code/2.1.325: they can write to <room>/cache/claude-code (mode 775); revoke that permission, remove <room>/cache/claude-code/2.1.325, which may have been changed, and fetch it again, or set WATARI_CACHE to another folder of this user's
    version that a group can write to: error: cannot run Claude Code from the cache: others can replace <room>/cache/claude-code/2.1.325: they can write to <room>/cache/claude-code/2.1.325 (mode 775); revoke that permission, remove <room>/cache/claude-code/2.1.325, which may have been changed, and fetch it again, or set WATARI_CACHE to another folder of this user's
    version of another user: error: cannot run Claude Code from the cache: user 65534 can replace <room>/cache/claude-code/2.1.325: <room>/cache/claude-code/2.1.325 belongs to that user; revoke that permission, remove <room>/cache/claude-code/2.1.325, which may have been changed, and fetch it again, or set WATARI_CACHE to another folder of this user's
    program of another user: error: cannot run Claude Code from the cache: user 65534 can replace <room>/cache/claude-code/2.1.325: <room>/cache/claude-code/2.1.325/node_modules/@anthropic-ai/claude-code-some-system/claude belongs to that user; revoke that permission, remove <room>/cache/claude-code/2.1.325, which may have been changed, and fetch it again, or set WATARI_CACHE to another folder of this user's
    program that a group can write to: error: cannot run Claude Code from the cache: others can replace <room>/cache/claude-code/2.1.325: they can write to <room>/cache/claude-code/2.1.325/node_modules/@anthropic-ai/claude-code-some-system/claude (mode 775); revoke that permission, remove <room>/cache/claude-code/2.1.325, which may have been changed, and fetch it again, or set WATARI_CACHE to another folder of this user's
    link to the program of another user: error: cannot run Claude Code from the cache: user 65534 can replace <room>/cache/claude-code/2.1.325: <room>/cache/claude-code/2.1.325/claude belongs to that user; revoke that permission, remove <room>/cache/claude-code/2.1.325, which may have been changed, and fetch it again, or set WATARI_CACHE to another folder of this user's
    another file of the install of another user: error: cannot run Claude Code from the cache: user 65534 can replace <room>/cache/claude-code/2.1.325: <room>/cache/claude-code/2.1.325/node_modules/@anthropic-ai/claude-code/package.json belongs to that user; revoke that permission, remove <room>/cache/claude-code/2.1.325, which may have been changed, and fetch it again, or set WATARI_CACHE to another folder of this user's
    ");
}

#[tokio::test]
async fn a_program_that_another_user_has_put_into_the_cache_is_not_run_needs_root() {
    let (room, version, _) = with_install().await;
    // As a umask of 000 leaves it, and an extraction by hand.
    for folder in [&room.path().join("cache"), &room.installs()] {
        mode(folder, 0o755);
    }
    mode(&version, 0o777);
    as_another_user(
        "rm \"$1/claude\"; printf '#!/bin/sh\\ntouch evil\\n' > \"$1/claude\"; chmod 755 \"$1/claude\"",
        &version,
    );
    let outcome = room.fetch("2.1.325").await;
    assert!(outcome.starts_with("error: cannot run Claude Code from the cache: "), "{outcome}");
}

#[tokio::test]
async fn nothing_is_installed_where_another_user_could_replace_it_needs_root() {
    type Attack = fn(&Path, &Path);
    let attacks: [(&str, Attack); 4] = [
        ("cache of another user", |cache, _| {
            fs::create_dir(cache).unwrap();
            give_away(cache);
        }),
        ("cache that everybody can write to", |cache, _| {
            fs::create_dir(cache).unwrap();
            mode(cache, 0o777);
        }),
        ("link of another user to a folder of ours", |cache, ours| {
            symlink(ours, cache).unwrap();
            give_away(cache);
        }),
        ("link to a link of another user", |cache, ours| {
            let theirs = cache.with_file_name("theirs");
            symlink(ours, &theirs).unwrap();
            give_away(&theirs);
            symlink(&theirs, cache).unwrap();
        }),
    ];
    let mut results = Vec::new();
    for (what, attack) in attacks {
        let room = Room::new(INSTALLS);
        let ours = room.path().join("ours");
        fs::create_dir(&ours).unwrap();
        attack(&room.path().join("cache"), &ours);
        results.push(format!("{what}: {}", room.fetch("2.1.325").await));
        assert_eq!((room.calls(), room.installed()), (String::new(), Vec::<String>::new()), "{what}");
    }
    insta::assert_snapshot!(results.join("\n"), @"
    cache of another user: error: cannot install Claude Code into the cache: user 65534 can replace <room>/cache/claude-code: <room>/cache belongs to that user; set WATARI_CACHE to a folder of this user's, below folders of this user's or root's
    cache that everybody can write to: error: cannot install Claude Code into the cache: others can replace <room>/cache/claude-code: they can write to <room>/cache (mode 777); run `chmod go-w <room>/cache`, or set WATARI_CACHE to another folder
    link of another user to a folder of ours: error: cannot install Claude Code into the cache: user 65534 can replace <room>/cache/claude-code: <room>/cache belongs to that user; set WATARI_CACHE to a folder of this user's, below folders of this user's or root's
    link to a link of another user: error: cannot install Claude Code into the cache: user 65534 can replace <room>/cache/claude-code: <room>/theirs belongs to that user; set WATARI_CACHE to a folder of this user's, below folders of this user's or root's
    ");
}

#[tokio::test]
async fn what_is_installed_with_an_open_umask_is_closed_to_the_writing_of_others() {
    let room = Room::new(&format!("umask 000; {INSTALLS}"));
    assert!(room.fetch("2.1.325").await.starts_with("2.1.325 was installed"));
    assert!(room.fetch("2.1.325").await.starts_with("2.1.325 was there"), "{}", room.fetch("2.1.325").await);
}
