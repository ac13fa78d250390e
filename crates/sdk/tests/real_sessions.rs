//! Resumes and forks conversations on the real CLI, also with ids that do not exist or are in use.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use common::{Room, Talk};
use watari_sdk::{
    CONFIG_DIR_VARIABLE, Client, Event, ExtraArgument, Options, SessionId, StartFrom, resolve_start_from,
};
use watari_testkit::Reply;
use watari_testkit::claude::{oldest_claude, pinned_claude};

const ID: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";
const OTHER_ID: &str = "1f1e1d1c-1b1a-4918-8716-151413121110";

/// Runs a short conversation and returns its id.
async fn converse(options: Options, prompt: &str) -> SessionId {
    let mut talk = Talk::connect(options).await;
    talk.client.send(prompt).await.unwrap();
    let opened = talk.until_idle().await.into_iter().find_map(|event| match event {
        Event::SessionOpened { session } => Some(session.session_id),
        _ => None,
    });
    talk.client.close().await;
    opened.unwrap()
}

fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

fn with(room: &Room, session: StartFrom) -> Options {
    Options { start_from: session, ..room.options() }
}

#[tokio::test]
async fn a_session_is_resumed_under_its_id_with_what_was_said() {
    let room = Room::with_replies([Reply::text("the word is plum"), Reply::text("plum")]).await;
    let first = converse(with(&room, StartFrom::NewWithId(id(ID))), "remember a word").await;
    assert_eq!(first, id(ID));
    let second = converse(with(&room, StartFrom::Resume(first)), "which word?").await;
    assert_eq!(second, id(ID));
    assert!(room.stub.model_calls()[1].to_string().contains("the word is plum"));
}

#[tokio::test]
async fn a_fork_has_what_was_said_and_an_id_of_its_own() {
    let room = Room::with_replies([Reply::text("the word is plum"), Reply::text("plum")]).await;
    let first = converse(room.options(), "remember a word").await;
    let fork = converse(with(&room, StartFrom::Fork { from: first.clone(), into: None }), "which word?").await;
    assert_ne!(fork, first);
    let named = StartFrom::Fork { from: first.clone(), into: Some(id(OTHER_ID)) };
    assert_eq!(converse(with(&room, named), "which word?").await, id(OTHER_ID));
    for call in &room.stub.model_calls()[1..] {
        assert!(call.to_string().contains("the word is plum"));
    }
}

#[tokio::test]
async fn the_newest_session_of_a_directory_goes_on() {
    let room = Room::with_replies([Reply::text("the word is plum"), Reply::text("plum")]).await;
    let first = converse(room.options(), "remember a word").await;
    assert_eq!(converse(with(&room, StartFrom::Continue), "which word?").await, first);
}

/// In every directory, the CLI with `--continue` chooses the same conversation as the search without it.
#[tokio::test]
async fn the_latest_conversation_is_the_one_that_the_cli_would_continue() {
    let room = Room::with_replies((0..9).map(|_| Reply::text("hello"))).await;
    let long = format!("{}/{}", "l".repeat(100), "m".repeat(100));
    for claude in [pinned_claude(), oldest_claude()] {
        for name in ["a d.o_t 日本 É 😀", long.as_str()] {
            let directory = room.sandbox.cwd().join(name);
            std::fs::create_dir_all(&directory).unwrap();
            let options = || Options { claude: Some(claude.clone()), cwd: Some(directory.clone()), ..room.options() };
            let latest = converse(options(), "hi").await;
            let mut found = Options { start_from: StartFrom::Continue, ..options() };
            resolve_start_from(&mut found).await.unwrap();
            assert_eq!(found.start_from, StartFrom::Resume(latest.clone()), "{name}");
            let extra_arguments = vec![ExtraArgument { name: "continue".to_owned(), value: None }];
            let left_to_the_cli = converse(Options { extra_arguments, ..options() }, "hi").await;
            assert_eq!(left_to_the_cli, latest, "{name}");
        }
    }
    let nowhere = room.sandbox.cwd().join("new");
    std::fs::create_dir(&nowhere).unwrap();
    let mut none = Options { start_from: StartFrom::Continue, cwd: Some(nowhere), ..room.options() };
    resolve_start_from(&mut none).await.unwrap();
    assert_eq!(none.start_from, StartFrom::New);
    converse(none, "hi").await;
}

/// The CLI stores the conversations of both directories in one folder. CLI 2.1.325 makes the same choice; 2.1.42 would
/// continue the newest one of the folder.
#[tokio::test]
async fn a_conversation_of_a_directory_with_the_same_folder_is_not_continued_unless_it_was_renamed() {
    let room = Room::with_replies((0..8).map(|_| Reply::text("hello"))).await;
    for claude in [pinned_claude(), oldest_claude()] {
        let root = room.sandbox.root().join(if claude == pinned_claude() { "pinned" } else { "oldest" });
        let (own, other) = (root.join("a-b"), root.join("a_b"));
        let options = |directory: &std::path::Path| Options {
            claude: Some(claude.clone()),
            cwd: Some(directory.to_owned()),
            ..room.options()
        };
        let found = async |directory: &std::path::Path| {
            let mut options = Options { start_from: StartFrom::Continue, ..options(directory) };
            resolve_start_from(&mut options).await.unwrap();
            options.start_from
        };
        std::fs::create_dir_all(&own).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        let of_other = converse(options(&other), "hi").await;
        assert_eq!(found(&own).await, StartFrom::New);
        let of_own = converse(options(&own), "hi").await;
        converse(Options { start_from: StartFrom::Resume(of_other.clone()), ..options(&other) }, "hi").await;
        assert_eq!(found(&own).await, StartFrom::Resume(of_own.clone()));
        assert_eq!(found(&other).await, StartFrom::Resume(of_other.clone()));
        if claude == pinned_claude() {
            let extra_arguments = vec![ExtraArgument { name: "continue".to_owned(), value: None }];
            assert_eq!(converse(Options { extra_arguments, ..options(&own) }, "hi").await, of_own);
            converse(Options { start_from: StartFrom::Resume(of_other.clone()), ..options(&other) }, "hi").await;
        }
        std::fs::rename(&other, root.join("renamed")).unwrap();
        assert_eq!(found(&own).await, StartFrom::Resume(of_other));
    }
}

/// The CLI normalizes the path of its folder to NFC, and 2.1.42 also the name of the working directory; an empty
/// variable means the working directory.
#[tokio::test]
async fn the_latest_conversation_is_found_however_the_cli_s_folder_and_the_directory_are_spelled() {
    let room = Room::with_replies((0..9).map(|_| Reply::text("hello"))).await;
    let decomposed = |name: &str| room.sandbox.root().join(format!("{name} e\u{301} \u{212b}"));
    let path = |name: &str| Some(decomposed(name).to_str().unwrap().to_owned());
    let surroundings =
        [("HOME", path("home")), (CONFIG_DIR_VARIABLE, path("config")), (CONFIG_DIR_VARIABLE, Some(String::new()))];
    let mut lost = Vec::new();
    for claude in [pinned_claude(), oldest_claude()] {
        for (variable, value) in &surroundings {
            let mut options = Options { claude: Some(claude.clone()), cwd: Some(decomposed("work")), ..room.options() };
            std::fs::create_dir_all(options.cwd.as_ref().unwrap()).unwrap();
            options.environment.set.insert((*variable).to_owned(), value.clone());
            let latest = converse(options.clone(), "hi").await;
            options.start_from = StartFrom::Continue;
            resolve_start_from(&mut options).await.unwrap();
            if options.start_from != StartFrom::Resume(latest) {
                lost.push(format!("{variable}={value:?} {}", claude.display()));
            }
        }
    }
    assert_eq!(lost, Vec::<String>::new());
}

#[tokio::test]
async fn an_id_that_is_in_use_is_a_clear_error() {
    let room = Room::with_replies([Reply::text("hello")]).await;
    converse(with(&room, StartFrom::NewWithId(id(ID))), "hi").await;
    let error = Client::connect(with(&room, StartFrom::NewWithId(id(ID)))).await.unwrap_err().to_string();
    insta::assert_snapshot!(error, @"the session id 0f0e0d0c-0b0a-4908-8706-050403020100 is already in use; resume that conversation, or choose another id");
    assert_eq!(watari_testkit::processes::marked(room.marker()), []);
}

#[tokio::test]
async fn an_unknown_id_is_a_clear_error() {
    let room = Room::with_replies([Reply::text("hello")]).await;
    let error = Client::connect(with(&room, StartFrom::Resume(id(ID)))).await.unwrap_err().to_string();
    insta::assert_snapshot!(error, @"there is no conversation 0f0e0d0c-0b0a-4908-8706-050403020100 to resume in this working directory; check the id and the directory (a conversation without messages is not stored: start a new one)");
    assert_eq!(watari_testkit::processes::marked(room.marker()), []);
}

#[test]
fn a_bad_id_is_refused_before_anything_starts() {
    let error = SessionId::parse("--settings={}").unwrap_err().to_string();
    insta::assert_snapshot!(error, @r#""--settings={}" is not a session id: expected a UUID such as 3447b64d-2090-41fe-b1dc-65114ad62db4"#);
}
