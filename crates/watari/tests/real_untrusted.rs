//! A host for an untrusted folder: neither the CLI itself nor its tools run a program of the folder's git configuration
//! without approval, on both versions of the real CLI.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::fs;
use std::path::Path;
use std::process::Command;

use host::{Room, of_type};
use serde_json::json;
use watari_testkit::Reply;
use watari_testkit::claude::{oldest_claude, pinned_claude};
use watari_testkit::sandbox::claude_without_project;

/// Commands of git that only read, in every spelling by which a rule could be evaded.
const COMMANDS: [&str; 14] = [
    "git status",
    "git diff",
    "git show",
    "git log -p",
    "git blame a.txt",
    "git ls-files",
    "cd . && git status",
    "ls; git diff",
    "git -C . status",
    "git --git-dir=.git diff",
    "GIT_DIR=.git git status",
    "env -u GIT_DIR git status",
    "unset GIT_DIR && git status",
    "/usr/bin/git --git-dir=.git status",
];

fn git(folder: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]).args(arguments);
    assert!(git.current_dir(folder).env("HOME", folder).output().unwrap().status.success());
}

/// A repository whose configuration names programs for all that git does; each leaves a file in the folder of proofs.
fn hostile_repository(folder: &Path, proofs: &Path) {
    fs::create_dir(proofs).unwrap();
    git(folder, &["init", "-q"]);
    fs::write(folder.join("a.txt"), "one\n").unwrap();
    fs::write(folder.join(".gitattributes"), "* diff=x filter=f\n").unwrap();
    git(folder, &["add", "-A"]);
    git(folder, &["commit", "-qm", "first"]);
    fs::write(folder.join("a.txt"), "one\ntwo\n").unwrap();
    let touch = |name: &str| format!("\"touch '{}/{name}'; cat; true\"", proofs.display());
    let config = format!(
        "[core]\n\tfsmonitor = {}\n\tpager = {}\n[diff]\n\texternal = {}\n[diff \"x\"]\n\tcommand = {}\n\ttextconv = {}\n\
         [filter \"f\"]\n\tclean = {}\n\tsmudge = {}\n[log]\n\tshowSignature = true\n",
        touch("fsmonitor"),
        touch("pager"),
        touch("external"),
        touch("command"),
        touch("textconv"),
        touch("clean"),
        touch("smudge"),
    );
    // Attributes that are in no commit, and not among the files of the folder.
    fs::write(folder.join(".git/info/attributes"), "* diff=x filter=f\n").unwrap();
    let path = folder.join(".git/config");
    fs::write(&path, fs::read_to_string(&path).unwrap() + &config).unwrap();
}

#[tokio::test]
async fn no_program_that_an_untrusted_folder_names_for_git_is_run_without_approval() {
    common::need("git");
    for claude in [pinned_claude(), oldest_claude()] {
        let calls = COMMANDS.iter().enumerate();
        let calls =
            calls.map(|(at, command)| Reply::tool_use(format!("toolu_{at}"), "Bash", json!({"command": command})));
        let mut room = Room::real(calls.chain([Reply::text("Done.")])).await;
        room.claude = claude_without_project(&claude, room.sandbox.root()).unwrap();
        let proofs = room.sandbox.root().join("proofs");
        hostile_repository(room.sandbox.cwd(), &proofs);
        let host = room.host(&["--untrusted"]).await;
        let mut client = host.client().await;
        client.say("go").await;
        let mut asked = Vec::new();
        loop {
            let lines = client.until_one_of(&["approval_request", "done"]).await;
            let Some(request) = of_type(&lines, "approval_request").pop() else { break };
            asked.push(request["input"]["command"].as_str().unwrap().to_owned());
            client.send(json!({"type": "deny", "request_id": request["request_id"]})).await;
        }
        println!("{}: asked {asked:#?}", claude.display());
        assert_eq!(common::names_in(&proofs), Vec::<std::ffi::OsString>::new(), "{}", claude.display());
        assert_eq!(asked, COMMANDS, "{}", claude.display());
        host.stop().await;
    }
}

/// Every way known in which the CLI itself calls git, in plan and auto mode without any variable of git's.
#[tokio::test]
async fn no_program_that_an_untrusted_folder_names_for_git_is_run_by_the_cli_itself() {
    common::need("git");
    for flags in
        [&["--permission-mode", "plan"][..], &["--permission-mode", "auto"], &["--permission-mode", "acceptEdits"]]
    {
        let replies =
            [Reply::text("One."), Reply::tool_use("toolu_1", "EnterPlanMode", json!({})), Reply::text("Two.")];
        let room = Room::real(replies.into_iter().chain([Reply::text("Three."), Reply::text("Four.")])).await;
        let proofs = room.sandbox.root().join("proofs");
        hostile_repository(room.sandbox.cwd(), &proofs);
        let host = room.host(&[&["--untrusted"], flags].concat()).await;
        let mut client = host.client().await;
        for text in ["one", "two", "three"] {
            client.say(text).await;
            while let Some(request) =
                of_type(&client.until_one_of(&["approval_request", "done"]).await, "approval_request").pop()
            {
                client.send(json!({"type": "approve", "request_id": request["request_id"]})).await;
            }
        }
        let (mut native, _) = host.native_since(json!(0)).await;
        for request in [
            json!({"type": "set_permission_mode", "mode": "plan"}),
            json!({"type": "other", "subtype": "get_workspace_diff", "fields": {}}),
        ] {
            native.send(json!({"type": "request", "request": request})).await;
            native.until("request_answered").await;
        }
        client.say("four").await;
        client.until("done").await;
        host.stop().await;
        assert_eq!(common::names_in(&proofs), Vec::<std::ffi::OsString>::new(), "{flags:?}");
    }
}
