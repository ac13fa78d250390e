//! `watari check --fetch` and another user of the same machine: a CLI that this user has put into the cache is not run.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use common::{WATARI, output_of};

/// Replaces the CLI by a program that records that it was run and then acts as a CLI.
const ATTACK: &str = r#"rm -rf "$0/claude" && printf '#!/bin/sh\ntouch "%s"\necho "2.1.325 (Claude Code)"\n' "$1" > "$0/claude" &&
    chmod 755 "$0/claude""#;

#[test]
fn a_cli_that_another_user_has_put_into_the_cache_is_not_run_by_a_check_needs_root() {
    let folder = tempfile::tempdir().unwrap();
    let (version, ran) = (folder.path().join("cache/claude-code/2.1.325"), folder.path().join("tmp/ran"));
    for (path, mode) in [(version.as_path(), 0o777), (ran.parent().unwrap(), 0o1777), (folder.path(), 0o755)] {
        fs::create_dir_all(path).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    common::program(&version.join("claude"), "echo '2.1.325 (Claude Code)'");
    let mut attacker = Command::new("setpriv");
    attacker
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", ATTACK])
        .args([&version, &ran]);
    assert!(attacker.status().unwrap().success());
    let run = || {
        let mut check = Command::new(WATARI);
        check.args(["check", "--fetch", "2.1.325", "--scenario", "1", "--limit", "5"]).env_clear();
        check.env("PATH", std::env::var_os("PATH").unwrap()).env("WATARI_CACHE", folder.path().join("cache"));
        let run = output_of(&mut check);
        (run.code, run.stderr.replace(folder.path().to_str().unwrap(), "FOLDER"))
    };
    let place = "FOLDER/cache/claude-code/2.1.325";
    let because = |what: &str| {
        format!(
            "watari: cannot run Claude Code from the cache: {what}; revoke that permission, remove {place}, which may have been \
             changed, and fetch it again, or set WATARI_CACHE to another folder of this user's\n"
        )
    };
    assert_eq!(run(), (Some(1), because(&format!("others can replace {place}: they can write to {place} (mode 777)"))));
    // Closing the folder does not make the program in it ours.
    fs::set_permissions(&version, Permissions::from_mode(0o755)).unwrap();
    assert_eq!(
        run(),
        (Some(1), because(&format!("user 65534 can replace {place}: {place}/claude belongs to that user")))
    );
    assert!(!ran.exists());
}
