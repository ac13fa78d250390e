//! Hooks that a program runs for the real CLI.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use std::time::Duration;

use common::{Room, Talk, summarize};
use serde_json::json;
use watari_sdk::{
    Answer, AskId, AskKind, AskResolution, Event, Hook, HookOutput, Options, SessionId, StartFrom, TurnEnding,
};
use watari_testkit::Reply;

/// A sandbox in which the model wants to create a file, and a session with a hook before every tool.
async fn room() -> Room {
    let touch = json!({"command": "touch made.txt && echo made", "description": "make a file"});
    Room::with_replies([Reply::tool_use("toolu_1", "Bash", touch), Reply::text("so be it")]).await
}

fn with_hook(room: &Room, hook: Hook) -> Options {
    Options { hooks: vec![hook], ..room.asking_options() }
}

/// Sends a prompt, answers the hook, and returns what happened and whether the file was created.
async fn answered(output: HookOutput) -> (common::Summary, bool, Room) {
    let room = room().await;
    let mut talk = Talk::connect(with_hook(&room, Hook::on("PreToolUse"))).await;
    talk.client.send("make a file").await.unwrap();
    let asked = talk.until_asked().await;
    let Some(Event::AskOpened { ask, kind: AskKind::Hook(hook) }) = asked.last() else { panic!("{asked:#?}") };
    assert_eq!((hook.hook.0, hook.event.as_str()), (1, "PreToolUse"));
    talk.client.answer(*ask, Answer::Hook(output)).await.unwrap();
    let events = talk.until(|event| matches!(event, Event::BecameIdle | Event::AskOpened { .. })).await;
    talk.client.close().await;
    (summarize(&events), room.sandbox.cwd().join("made.txt").exists(), room)
}

#[tokio::test]
async fn a_hook_allows_without_anybody_else_being_asked() {
    let (summary, made, _) = answered(HookOutput::Allow { input: None }).await;
    assert_eq!((made, summary.asks_opened), (true, 0));
}

#[tokio::test]
async fn a_hook_changes_the_input() {
    let edited = json!({"command": "touch edited.txt", "description": "make another"});
    let (_, made, room) = answered(HookOutput::Allow { input: Some(edited.into()) }).await;
    assert!(!made && room.sandbox.cwd().join("edited.txt").exists());
}

#[tokio::test]
async fn a_hook_denies_and_the_model_is_told_why() {
    let (summary, made, room) = answered(HookOutput::Deny { reason: "not on a Sunday".into() }).await;
    assert_eq!((made, summary.asks_opened), (false, 0));
    assert!(room.stub.model_calls()[1].to_string().contains("not on a Sunday"));
}

#[tokio::test]
async fn a_hook_makes_the_cli_ask() {
    let (summary, made, _) = answered(HookOutput::Ask { reason: "better ask".into() }).await;
    assert_eq!((made, summary.asks_opened), (false, 1));
}

#[tokio::test]
async fn a_hook_without_an_opinion_changes_nothing() {
    let (summary, made, _) = answered(HookOutput::NoOpinion).await;
    assert_eq!((made, summary.asks_opened), (false, 1), "the permission is asked as without the hook");
}

#[tokio::test]
async fn an_output_the_cli_cannot_use_is_a_no() {
    let (_, made, _) = answered(HookOutput::Other(watari_sdk::RawJson::from(r#"{"hookSpecificOutput":7}"#))).await;
    assert!(!made);
}

#[tokio::test]
async fn a_hook_nobody_answers_denies_the_tool() {
    let room = room().await;
    let hook = Hook { answer_timeout: Duration::from_millis(300), ..Hook::on("PreToolUse") };
    let mut talk = Talk::connect(with_hook(&room, hook)).await;
    talk.client.send("make a file").await.unwrap();
    let summary = summarize(&talk.until_idle().await);
    assert_eq!(summary.asks_closed, [(AskId(1), AskResolution::Expired)]);
    assert!(!room.sandbox.cwd().join("made.txt").exists());
    assert_eq!(summary.endings, [TurnEnding::Completed]);
    talk.client.close().await;
}

#[tokio::test]
async fn a_prompt_is_blocked_by_a_hook_or_when_it_does_not_answer() {
    let blocks = HookOutput::Block { reason: "not this one".into() };
    for output in [Some(blocks), None] {
        let room = Room::with_replies([Reply::text("never")]).await;
        let hook = Hook { answer_timeout: Duration::from_millis(300), ..Hook::on("UserPromptSubmit") };
        let mut talk = Talk::connect(with_hook(&room, hook)).await;
        talk.client.send("hello").await.unwrap();
        talk.until_asked().await;
        if let Some(output) = output {
            talk.client.answer(AskId(1), Answer::Hook(output)).await.unwrap();
        }
        talk.until_idle().await;
        assert_eq!(room.stub.model_calls().len(), 0, "the prompt reached the model");
        talk.client.close().await;
    }
}

#[tokio::test]
async fn a_hook_adds_context_to_a_prompt() {
    let room = Room::with_replies([Reply::text("ok")]).await;
    let mut talk = Talk::connect(with_hook(&room, Hook::on("UserPromptSubmit"))).await;
    talk.client.send("hello").await.unwrap();
    talk.until_asked().await;
    let output = HookOutput::Context { text: "the moon is full".into() };
    talk.client.answer(AskId(1), Answer::Hook(output)).await.unwrap();
    talk.until_idle().await;
    assert!(room.stub.model_calls()[0].to_string().contains("the moon is full"));
    talk.client.close().await;
}

#[tokio::test]
async fn a_hook_keeps_the_model_from_stopping() {
    let room = Room::with_replies([Reply::text("done?"), Reply::text("done.")]).await;
    let mut talk = Talk::connect(with_hook(&room, Hook::on("Stop"))).await;
    talk.client.send("hello").await.unwrap();
    talk.until_asked().await;
    let output = HookOutput::Block { reason: "look again".into() };
    talk.client.answer(AskId(1), Answer::Hook(output)).await.unwrap();
    talk.until_asked().await;
    talk.client.answer(AskId(2), Answer::Hook(HookOutput::NoOpinion)).await.unwrap();
    talk.until_idle().await;
    assert!(room.stub.model_calls()[1].to_string().contains("look again"));
    talk.client.close().await;
}

/// Ends a session while a tool waits for approval, and answers in another process: it may be days later.
async fn approved_later(output: HookOutput) -> (bool, Room) {
    let room = room().await;
    let id = SessionId::parse("0f0e0d0c-0b0a-4908-8706-050403020100").unwrap();
    let options = Options { start_from: StartFrom::NewWithId(id.clone()), ..with_hook(&room, Hook::on("PreToolUse")) };
    let mut talk = Talk::connect(options).await;
    talk.client.send("make a file").await.unwrap();
    talk.until_asked().await;
    talk.client.answer(AskId(1), Answer::Hook(HookOutput::Defer)).await.unwrap();
    let events = talk.until_turn_finished().await;
    let Some(Event::TurnFinished { outcome, .. }) = events.last() else { panic!("{events:#?}") };
    assert!(outcome.deferred_tool.as_ref().is_some_and(|tool| tool.as_str().contains("toolu_1")), "{outcome:#?}");
    common::kill_cli(&room);
    talk.rest().await;

    let options = Options { start_from: StartFrom::Resume(id), ..with_hook(&room, Hook::on("PreToolUse")) };
    let mut talk = Talk::connect(options).await;
    // Nothing was sent: the CLI asks again by itself.
    talk.until_asked().await;
    talk.client.answer(AskId(1), Answer::Hook(output)).await.unwrap();
    assert_eq!(summarize(&talk.until_idle().await).endings, [TurnEnding::Completed]);
    talk.client.close().await;
    (room.sandbox.cwd().join("made.txt").exists(), room)
}

#[tokio::test]
async fn a_deferred_tool_runs_when_it_is_allowed_by_another_process() {
    let (made, room) = approved_later(HookOutput::Allow { input: None }).await;
    assert!(made);
    assert_eq!(room.stub.model_calls().len(), 2);
}

#[tokio::test]
async fn a_deferred_tool_runs_with_the_input_another_process_gives_it() {
    let edited = json!({"command": "touch edited.txt && echo edited", "description": "make another"});
    let (made, room) = approved_later(HookOutput::Allow { input: Some(edited.into()) }).await;
    assert!(!made && room.sandbox.cwd().join("edited.txt").exists());
}

#[tokio::test]
async fn a_deferred_tool_does_not_run_when_another_process_denies_it() {
    let (made, room) = approved_later(HookOutput::Deny { reason: "after all no".into() }).await;
    assert!(!made);
    assert!(room.stub.model_calls()[1].to_string().contains("after all no"));
}
