//! Conversations that go on: resume, fork, and ids that do not fit, on the real CLI.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use common::{Room, Talk};
use watari_sdk::{Client, Event, Options, Session, SessionId};
use watari_testkit::Reply;

const ID: &str = "0f0e0d0c-0b0a-4908-8706-050403020100";
const OTHER_ID: &str = "1f1e1d1c-1b1a-4918-8716-151413121110";

/// Holds a short conversation and tells its id.
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

fn with(room: &Room, session: Session) -> Options {
    Options { session, ..room.options() }
}

#[tokio::test]
async fn a_session_is_resumed_under_its_id_with_what_was_said() {
    let room = Room::with_replies([Reply::text("the word is plum"), Reply::text("plum")]).await;
    let first = converse(with(&room, Session::NewWithId(id(ID))), "remember a word").await;
    assert_eq!(first, id(ID));
    let second = converse(with(&room, Session::Resume(first)), "which word?").await;
    assert_eq!(second, id(ID));
    assert!(room.stub.model_calls()[1].to_string().contains("the word is plum"));
}

#[tokio::test]
async fn a_fork_has_what_was_said_and_an_id_of_its_own() {
    let room = Room::with_replies([Reply::text("the word is plum"), Reply::text("plum")]).await;
    let first = converse(room.options(), "remember a word").await;
    let fork = converse(with(&room, Session::Fork { from: first.clone(), into: None }), "which word?").await;
    assert_ne!(fork, first);
    let named = Session::Fork { from: first.clone(), into: Some(id(OTHER_ID)) };
    assert_eq!(converse(with(&room, named), "which word?").await, id(OTHER_ID));
    for call in &room.stub.model_calls()[1..] {
        assert!(call.to_string().contains("the word is plum"));
    }
}

#[tokio::test]
async fn the_newest_session_of_a_directory_goes_on() {
    let room = Room::with_replies([Reply::text("the word is plum"), Reply::text("plum")]).await;
    let first = converse(room.options(), "remember a word").await;
    assert_eq!(converse(with(&room, Session::Continue), "which word?").await, first);
}

#[tokio::test]
async fn an_id_that_is_in_use_is_a_clear_error() {
    let room = Room::with_replies([Reply::text("hello")]).await;
    converse(with(&room, Session::NewWithId(id(ID))), "hi").await;
    let error = Client::connect(with(&room, Session::NewWithId(id(ID)))).await.unwrap_err().to_string();
    insta::assert_snapshot!(error, @"the session id 0f0e0d0c-0b0a-4908-8706-050403020100 is already in use; resume that session, or choose another id");
    assert_eq!(watari_testkit::processes::marked(room.marker()), []);
}

#[tokio::test]
async fn an_unknown_id_is_a_clear_error() {
    let room = Room::with_replies([Reply::text("hello")]).await;
    let error = Client::connect(with(&room, Session::Resume(id(ID)))).await.unwrap_err().to_string();
    insta::assert_snapshot!(error, @"there is no session 0f0e0d0c-0b0a-4908-8706-050403020100 to resume for this working directory; check the id and the directory (one without a message is not stored: start a new one)");
    assert_eq!(watari_testkit::processes::marked(room.marker()), []);
}

#[test]
fn a_bad_id_is_refused_before_anything_starts() {
    let error = SessionId::parse("--settings={}").unwrap_err().to_string();
    insta::assert_snapshot!(error, @r#""--settings={}" is not a session id: expected a UUID such as 3447b64d-2090-41fe-b1dc-65114ad62db4"#);
}
