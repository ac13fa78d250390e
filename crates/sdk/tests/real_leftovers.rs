//! Nothing of a session outlives it: processes, zombies, descriptors, files. On the real CLI.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use std::process::Stdio;
use std::time::Duration;

use common::{Room, Talk, example, keeper};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use watari_sdk::{Keeper, Options};
use watari_testkit::Reply;
use watari_testkit::claude::pinned_claude;
use watari_testkit::processes::{children_of, marked, none_marked_within, open_files_of_this_process};

/// A command whose children try to get away: one with a session of its own, one forked twice.
const ESCAPING: &str = "setsid tail -f /dev/null & (setsid tail -f /dev/null &) ; tail -f /dev/null";

async fn escaping_room() -> Room {
    Room::with_replies([Reply::tool_use("toolu_1", "Bash", json!({"command": ESCAPING, "description": "escape"}))])
        .await
}

/// A session in the middle of that command.
async fn escaping(room: &Room, keeper: Keeper) -> Talk {
    let options = Options { allowed_tools: vec!["Bash".into()], keeper, ..room.options() };
    let talk = Talk::connect(options).await;
    talk.client.send("go").await.unwrap();
    all_started(room).await;
    talk
}

/// How many of the command's children run. (The shells that start them have the word in their arguments too.)
fn tails(room: &Room) -> usize {
    marked(room.marker()).into_iter().filter(|process| process.command.starts_with("tail -f")).count()
}

/// Waits until the command has started all its children. Nothing tells of it but a look.
async fn all_started(room: &Room) {
    while tails(room) < 3 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn gone_within(room: &Room, limit: Duration) {
    if let Err(left) = none_marked_within(room.marker(), limit).await {
        panic!("still there after {limit:?}: {left:#?}");
    }
}

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

#[cfg(not(watari_portable))]
#[tokio::test]
async fn nothing_is_alive_when_a_session_was_closed_in_the_middle_of_a_tool() {
    let room = escaping_room().await;
    let talk = escaping(&room, keeper()).await;
    talk.client.close().await;
    assert_eq!(marked(room.marker()), []);
}

#[cfg(not(watari_portable))]
#[tokio::test]
async fn nothing_is_alive_a_second_after_abort_in_the_middle_of_a_tool() {
    let room = escaping_room().await;
    let talk = escaping(&room, keeper()).await;
    let asked = std::time::Instant::now();
    talk.client.abort().await;
    assert_eq!(marked(room.marker()), []);
    assert!(asked.elapsed() < Duration::from_secs(1), "{:?}", asked.elapsed());
}

#[cfg(not(watari_portable))]
#[tokio::test]
async fn nothing_is_alive_a_second_after_the_client_was_dropped() {
    let room = escaping_room().await;
    let talk = escaping(&room, keeper()).await;
    drop(talk);
    gone_within(&room, Duration::from_secs(1)).await;
}

#[cfg(not(watari_portable))]
#[tokio::test]
async fn without_a_keeper_nothing_is_alive_a_second_after_abort_or_drop() {
    let room = escaping_room().await;
    let talk = escaping(&room, Keeper::None).await;
    talk.client.abort().await;
    assert_eq!(marked(room.marker()), []);

    let room = escaping_room().await;
    drop(escaping(&room, Keeper::None).await);
    gone_within(&room, Duration::from_secs(1)).await;
}

#[cfg(not(watari_portable))]
#[test]
fn a_runtime_that_goes_away_takes_its_sessions_with_it() {
    for keeper in [keeper(), Keeper::None] {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (room, talk) = runtime.block_on(async {
            let room = escaping_room().await;
            let talk = escaping(&room, keeper).await;
            (room, talk)
        });
        drop(runtime);
        drop(talk);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(gone_within(&room, Duration::from_secs(1)));
    }
}

/// A conversation held by a program of its own, which can be killed.
struct Program {
    child: tokio::process::Child,
    stdin: tokio::process::ChildStdin,
    stdout: tokio::io::Lines<BufReader<tokio::process::ChildStdout>>,
}

impl Program {
    fn chat(room: &Room) -> Program {
        let path = format!("{}:{}", pinned_claude().parent().unwrap().display(), std::env::var("PATH").unwrap());
        let mut child = tokio::process::Command::new(example("chat"))
            .env_clear()
            .envs(room.sandbox.environment())
            .env("PATH", path)
            .current_dir(room.sandbox.cwd())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        Program { child, stdin, stdout }
    }

    async fn say(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
    }

    async fn hear(&mut self, wanted: &str) {
        while let Some(line) = self.stdout.next_line().await.unwrap() {
            if line.contains(wanted) {
                return;
            }
        }
        panic!("the program ended before it said {wanted:?}");
    }
}

#[cfg(not(watari_portable))]
#[tokio::test]
async fn nothing_is_alive_three_seconds_after_the_program_was_killed() {
    let room = escaping_room().await;
    let mut program = Program::chat(&room);
    program.say("go").await;
    program.hear("may Bash run").await;
    program.say("y").await;
    all_started(&room).await;
    program.child.kill().await.unwrap();
    gone_within(&room, Duration::from_secs(3)).await;
}

#[tokio::test]
async fn the_chat_example_asks_obeys_and_ends_with_its_input() {
    let touch = json!({"command": "touch made.txt && echo made", "description": "make a file"});
    let room = Room::with_replies([Reply::tool_use("toolu_1", "Bash", touch), Reply::text("It is made.")]).await;
    let mut program = Program::chat(&room);
    program.say("make a file").await;
    program.hear("may Bash run with").await;
    program.say("y").await;
    program.hear("It is made.").await;
    drop(program.stdin);
    assert!(program.child.wait().await.unwrap().success());
    assert!(room.sandbox.cwd().join("made.txt").exists());
    assert_eq!(marked(room.marker()), []);
}

#[tokio::test]
async fn the_ask_example_prints_the_answer() {
    let room = Room::with_replies([Reply::text("Forty-two.")]).await;
    let path = format!("{}:{}", pinned_claude().parent().unwrap().display(), std::env::var("PATH").unwrap());
    let output = tokio::process::Command::new(example("ask"))
        .arg("what is it?")
        .env_clear()
        .envs(room.sandbox.environment())
        .env("PATH", path)
        .current_dir(room.sandbox.cwd())
        .output()
        .await
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "Forty-two.\n");
    assert_eq!(marked(room.marker()), []);
}

#[cfg(not(watari_portable))]
#[tokio::test]
async fn when_the_keeper_is_killed_the_owner_ends_what_it_kept() {
    let room = escaping_room().await;
    let talk = escaping(&room, keeper()).await;
    let keepers: Vec<_> =
        marked(room.marker()).into_iter().filter(|process| process.command.contains("__keeper")).collect();
    assert_eq!(keepers.len(), 1);
    let killed = std::process::Command::new("kill").args(["-KILL", &keepers[0].pid.to_string()]).status().unwrap();
    assert!(killed.success());
    let told = talk.rest().await;
    assert!(matches!(told.last(), Some(watari_sdk::Event::Ended { .. })), "{told:#?}");
    gone_within(&room, Duration::from_secs(3)).await;
}

#[tokio::test]
async fn a_hundred_sessions_leave_no_zombie_no_descriptor_and_no_file() {
    let room = Room::with_replies([Reply::text("hello")]).await;
    let servers = [("none".to_owned(), watari_sdk::Raw::from(r#"{"command": "true"}"#))];
    let options = Options {
        // A private file is needed for this one.
        mcp_servers: watari_sdk::McpServers::Inline(servers.into_iter().collect()),
        ..room.options()
    };
    // One before, so that what a runtime opens once is open.
    let talk = Talk::connect(options.clone()).await;
    assert_eq!(private_folders().len(), 1);
    talk.client.close().await;
    let descriptors = open_files_of_this_process();
    for round in 0..25 {
        // Four at a time, ended in all the ways there are.
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

/// The private folders of this process's sessions.
fn private_folders() -> Vec<String> {
    let prefix = format!("watari-{}-", std::process::id());
    let entries = std::fs::read_dir(std::env::temp_dir()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(&prefix)).collect()
}
