//! Permissions on the real CLI: asked, answered, edited, denied, expired.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use std::time::Duration;

use common::{Room, Talk, transcript};
use serde_json::json;
use watari_sdk::{Answer, AskId, Event, Options, PermissionPrompts};
use watari_testkit::Reply;

/// A sandbox in which the model wants to create a file.
async fn room() -> Room {
    let touch = json!({"command": "touch made.txt && echo made", "description": "make a file"});
    Room::with_replies([Reply::tool_use("toolu_1", "Bash", touch), Reply::text("so be it")]).await
}

/// Prompts for the file, answers the ask, and returns a transcript.
async fn answered_with(room: &Room, decision: Answer) -> String {
    let mut talk = Talk::connect(room.asking_options()).await;
    talk.client.send("make a file").await.unwrap();
    let mut events = talk.until_asked().await;
    talk.client.answer(AskId(1), decision).await.unwrap();
    events.extend(talk.until_idle().await);
    talk.client.close().await;
    // The ask and everything after it; another test covers the streaming before it.
    let asked = events.iter().position(|event| matches!(event, Event::AskOpened { .. })).unwrap();
    let after = events.split_off(asked);
    let is_relevant = |event: &Event| {
        matches!(
            event,
            Event::AskOpened { .. }
                | Event::AskResolved { .. }
                | Event::ToolReturned { .. }
                | Event::TurnFinished { .. }
        )
    };
    transcript(&after.into_iter().filter(is_relevant).collect::<Vec<_>>())
}

#[tokio::test]
async fn an_allowed_tool_runs() {
    let room = room().await;
    insta::assert_snapshot!(answered_with(&room, Answer::allow()).await, @r#"
    ask 1 opened: Bash {"command":"touch made.txt && echo made","description":"make a file"}
    ask 1 closed: Allowed
    tool toolu_1 returned: "made"
    turn finished: Prompt(PromptId(1)) Completed success "so be it"
    "#);
    assert!(room.sandbox.cwd().join("made.txt").exists());
}

#[tokio::test]
async fn an_edited_input_is_what_runs() {
    let room = room().await;
    let edited = json!({"command": "touch edited.txt && echo edited", "description": "make another"});
    insta::assert_snapshot!(answered_with(&room, Answer::allow_with(edited)).await, @r#"
    ask 1 opened: Bash {"command":"touch made.txt && echo made","description":"make a file"}
    ask 1 closed: Allowed
    tool toolu_1 returned: "edited"
    turn finished: Prompt(PromptId(1)) Completed success "so be it"
    "#);
    assert!(room.sandbox.cwd().join("edited.txt").exists());
    assert!(!room.sandbox.cwd().join("made.txt").exists());
}

#[tokio::test]
async fn a_denied_tool_does_not_run_and_the_model_is_told_why() {
    let room = room().await;
    insta::assert_snapshot!(answered_with(&room, Answer::deny("not on a Sunday")).await, @r#"
    ask 1 opened: Bash {"command":"touch made.txt && echo made","description":"make a file"}
    ask 1 closed: Denied
    tool toolu_1 failed: "not on a Sunday"
    turn finished: Prompt(PromptId(1)) Completed success "so be it"
    "#);
    assert!(!room.sandbox.cwd().join("made.txt").exists());
    let request = room.stub.model_calls().pop().unwrap().to_string();
    assert!(request.contains("not on a Sunday"));
}

#[tokio::test]
async fn an_ask_nobody_answers_is_denied_and_a_late_answer_is_refused() {
    let room = room().await;
    let options = Options {
        permission_prompts: PermissionPrompts::Ask { answer_timeout: Some(Duration::from_millis(300)) },
        ..room.options()
    };
    let mut talk = Talk::connect(options).await;
    talk.client.send("make a file").await.unwrap();
    talk.until(|event| matches!(event, Event::AskResolved { .. })).await;
    let late = talk.client.answer(AskId(1), Answer::allow()).await.unwrap_err().to_string();
    insta::assert_snapshot!(late, @"ask 1 is not open: it was answered, withdrawn, expired, or never existed");
    talk.until_idle().await;
    assert!(!room.sandbox.cwd().join("made.txt").exists());
    talk.client.close().await;
}

#[tokio::test]
async fn a_second_answer_is_refused_and_changes_nothing() {
    let room = room().await;
    let mut talk = Talk::connect(room.asking_options()).await;
    talk.client.send("make a file").await.unwrap();
    talk.until_asked().await;
    talk.client.answer(AskId(1), Answer::deny("no")).await.unwrap();
    assert!(talk.client.answer(AskId(1), Answer::allow()).await.is_err());
    talk.until_idle().await;
    assert!(!room.sandbox.cwd().join("made.txt").exists());
    talk.client.close().await;
}

#[tokio::test]
async fn with_nobody_to_ask_the_cli_refuses_by_itself() {
    let room = room().await;
    let mut talk = room.connect().await;
    talk.client.send("make a file").await.unwrap();
    let events = talk.until_idle().await;
    assert!(!events.iter().any(|event| matches!(event, Event::AskOpened { .. })));
    assert!(events.iter().any(|event| matches!(event, Event::ToolReturned { is_error: true, .. })));
    assert!(!room.sandbox.cwd().join("made.txt").exists());
    talk.client.close().await;
}
