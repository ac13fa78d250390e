//! Sessions work with the oldest CLI, as `MINIMUM_CLI_VERSION` claims.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use common::{Room, Talk};
use serde_json::json;
use watari_sdk::{
    Answer, AskId, Client, ConnectError, Event, MINIMUM_CLI_VERSION, Options, SessionId, StartFrom, TurnEnding,
};
use watari_testkit::Reply;
use watari_testkit::claude::{OLDEST_CLAUDE_VERSION, oldest_claude};

fn oldest(options: Options) -> Options {
    Options { claude: Some(oldest_claude()), ..options }
}

#[test]
fn the_oldest_version_is_the_one_that_is_claimed() {
    assert_eq!(OLDEST_CLAUDE_VERSION, MINIMUM_CLI_VERSION);
}

#[tokio::test]
async fn it_streams_asks_is_interrupted_and_resumed() {
    let touch = json!({"command": "touch made.txt", "description": "make a file"});
    let room = Room::with_replies([
        Reply::tool_use("toolu_1", "Bash", touch),
        Reply::text("made"),
        Reply::stall(),
        Reply::text("still here"),
    ])
    .await;
    let mut talk = Talk::connect(oldest(room.asking_options())).await;

    talk.client.send("make a file").await.unwrap();
    let asked = talk.until_asked().await;
    let session = asked.into_iter().find_map(|event| match event {
        Event::SessionOpened { session } => Some(session),
        _ => None,
    });
    let session = session.unwrap();
    assert_eq!(session.version, OLDEST_CLAUDE_VERSION);
    talk.client.answer(AskId(1), Answer::allow()).await.unwrap();
    talk.until_idle().await;
    assert!(room.sandbox.cwd().join("made.txt").exists());

    talk.client.send("go on").await.unwrap();
    talk.until(|event| matches!(event, Event::BlockDelta { .. })).await;
    talk.client.interrupt().await.unwrap();
    let ended = talk.until_idle().await;
    let interrupted = |event: &Event| matches!(event, Event::TurnFinished { outcome, .. } if outcome.ending == TurnEnding::Interrupted);
    assert!(ended.iter().any(interrupted), "{ended:#?}");
    talk.client.close().await;

    let resumed = Options { start_from: StartFrom::Resume(session.session_id), ..room.options() };
    let mut talk = Talk::connect(oldest(resumed)).await;
    talk.client.send("are you there?").await.unwrap();
    talk.until_idle().await;
    assert!(room.stub.model_calls().pop().unwrap().to_string().contains("make a file"));
    talk.client.close().await;
    assert_eq!(watari_testkit::processes::marked(room.marker()), []);
}

#[tokio::test]
async fn an_unknown_session_is_the_same_clear_error() {
    let room = Room::with_replies([Reply::text("hello")]).await;
    let unknown = SessionId::parse("0f0e0d0c-0b0a-4908-8706-050403020100").unwrap();
    let options = Options { start_from: StartFrom::Resume(unknown), ..room.options() };
    let error = Client::connect(oldest(options)).await.map(drop).unwrap_err();
    assert!(matches!(error, ConnectError::UnknownSession { .. }), "{error}");
}
