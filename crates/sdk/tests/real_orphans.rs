//! Nothing of a session outlives it on the real CLI: no processes, zombies, descriptors or files.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use common::{Program, Room, Talk, example};
use serde_json::json;
use watari_sdk::Options;
use watari_testkit::Reply;
use watari_testkit::processes::{children_of, marked, open_files_of_this_process};

#[tokio::test]
async fn nothing_is_alive_when_an_idle_session_was_closed() {
    let room = Room::with_replies([Reply::text("hello")]).await;
    let mut talk = room.connect().await;
    talk.client.send("hi").await.unwrap();
    talk.until_idle().await;
    let exit = talk.client.close().await;
    assert_eq!(exit.code, Some(0), "{exit:?}");
    assert_eq!(marked(room.marker()), []);
}

#[tokio::test]
async fn the_chat_example_asks_obeys_and_ends_with_its_input() {
    let touch = json!({"command": "touch made.txt && echo made", "description": "make a file"});
    let room = Room::with_replies([Reply::tool_use("toolu_1", "Bash", touch), Reply::text("It is made.")]).await;
    let bait = room.bait();
    let mut program = Program::chat(&room);
    program.say("make a file").await;
    program.receive("allow Bash to run with").await;
    program.say("y").await;
    program.receive("It is made.").await;
    drop(program.stdin);
    assert!(program.child.wait().await.unwrap().success());
    assert!(room.sandbox.cwd().join("made.txt").exists() && !bait.exists());
    assert_eq!(marked(room.marker()), []);
}

#[tokio::test]
async fn the_ask_example_prints_the_answer() {
    let room = Room::with_replies([Reply::text("Forty-two.")]).await;
    let bait = room.bait();
    let output = tokio::process::Command::new(example("ask"))
        .arg("what is it?")
        .env_clear()
        .envs(room.sandbox.environment())
        .env("PATH", room.path_with_claude())
        .current_dir(room.sandbox.cwd())
        .output()
        .await
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Forty-two.\n");
    assert!(!bait.exists());
    assert_eq!(marked(room.marker()), []);
}

#[tokio::test]
async fn a_hundred_sessions_leave_no_zombie_no_descriptor_and_no_file() {
    let room = Room::with_replies([Reply::text("hello")]).await;
    let servers = [("none".to_owned(), watari_sdk::RawJson::from(r#"{"command": "true"}"#))];
    let options = Options {
        // This option needs a private file.
        mcp_servers: watari_sdk::McpServers::Inline(servers.into_iter().collect()),
        ..room.options()
    };
    // One session first, so that the runtime has opened its own descriptors.
    let talk = Talk::connect(options.clone()).await;
    assert_eq!(private_folders().len(), 1);
    talk.client.close().await;
    let descriptors = open_files_of_this_process();
    for round in 0..25 {
        // Four at a time, ended in every possible way.
        let (a, b, c, d) = tokio::join!(
            Talk::connect(options.clone()),
            Talk::connect(options.clone()),
            Talk::connect(options.clone()),
            Talk::connect(options.clone()),
        );
        a.client.send("hi").await.unwrap();
        let (_, _, rest) = tokio::join!(a.client.close(), b.client.abort(), async {
            drop(c.client);
            Talk { client: d.client, events: c.events }
        });
        let Talk { client, mut events } = rest;
        while events.next().await.is_some() {}
        client.close().await;
        assert_eq!(marked(room.marker()), [], "round {round}");
    }
    assert_eq!(children_of(std::process::id()), []);
    assert_eq!(open_files_of_this_process(), descriptors);
    assert_eq!(private_folders(), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_supervisor_is_still_terminating_is_not_an_orphan() {
    let room = Room::with_replies([Reply::text("hello")]).await;
    let mut program = Program::chat(&room);
    program.say("hi").await;
    program.receive("hello").await;
    let owner = program.child.id().unwrap();
    program.child.kill().await.unwrap();
    // On a system that hides other processes' environments, no orphan is found.
    if let Ok(left) = watari_sdk::orphans().await {
        let left: Vec<_> = left.into_iter().filter(|orphan| orphan.owners().contains(&owner)).collect();
        assert_eq!(left, []);
        assert_eq!(marked(room.marker()), []);
    }
}

/// The private folders of this process's sessions.
fn private_folders() -> Vec<String> {
    let prefix = format!("{}-", std::process::id());
    let runtime = watari_sdk::files::folders::runtime_folder(|name| std::env::var_os(name)).unwrap();
    let entries = std::fs::read_dir(runtime.join("private")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&prefix)).collect()
}
