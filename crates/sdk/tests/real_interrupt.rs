//! Interrupting the real CLI: while it writes, while a tool runs, with prompts that wait.

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
use watari_sdk::{Event, InterruptReceipt, Options, PromptId, TurnEnding};
use watari_testkit::Reply;
use watari_testkit::claude::{oldest_claude, pinned_claude};
use watari_testkit::processes::marked;

fn ending(events: &[Event]) -> Vec<TurnEnding> {
    let ended = |event: &Event| match event {
        Event::TurnFinished { outcome, .. } => Some(outcome.ending),
        _ => None,
    };
    events.iter().filter_map(ended).collect()
}

#[tokio::test]
async fn a_turn_that_streams_ends_and_the_next_prompt_runs() {
    let room = Room::with_replies([Reply::hold(), Reply::text("fresh")]).await;
    let mut talk = room.connect().await;
    talk.client.send("hi").await.unwrap();
    let mut events = talk.until(|event| matches!(event, Event::BlockGrew { .. })).await;
    assert_eq!(talk.client.interrupt().await.unwrap(), InterruptReceipt::default());
    events.extend(talk.until_idle().await);
    talk.client.send("again").await.unwrap();
    events.extend(talk.until_idle().await);
    // The receipt may come before or after the end of what was interrupted.
    events.retain(|event| !matches!(event, Event::RequestAnswered { .. }));
    insta::assert_snapshot!(transcript(&events), @r#"
    ready
    turn started: Prompt(PromptId(1))
    session opened
    message msg_stub_1 started
    block 1 started at 0: Text
    block 1 grew text: …
    block 1 finished: {"type":"text","text":"…"}
    message msg_stub_1 finished with [1], no reason
    turn finished: Prompt(PromptId(1)) Interrupted error_during_execution ""
    idle
    turn started: Prompt(PromptId(2))
    message msg_stub_2 started
    block 2 started at 0: Text
    block 2 grew text: fresh
    block 2 finished: {"type":"text","text":"fresh"}
    message msg_stub_2 finished with [2], end_turn
    turn finished: Prompt(PromptId(2)) Completed success "fresh"
    idle
    "#);
    talk.client.close().await;
}

/// Both versions answer an interrupt that they read before they have begun the turn, and then run the turn all the same.
#[tokio::test]
async fn a_turn_that_is_interrupted_before_the_cli_has_begun_it_does_not_run() {
    for claude in [pinned_claude(), oldest_claude()] {
        // A turn that runs all the same never ends.
        let room = Room::with_replies(std::iter::repeat_with(Reply::hold).take(12)).await;
        let mut talk = Talk::connect(Options { claude: Some(claude), ..room.options() }).await;
        for _ in 0..6 {
            talk.client.send("go").await.unwrap();
            talk.client.interrupt().await.unwrap();
            let events = talk.until_idle().await;
            assert_eq!(ending(&events), [TurnEnding::Interrupted], "{}", transcript(&events));
        }
        talk.client.close().await;
    }
}

/// While a command runs in the background, the CLI has such a prompt in its queue when it answers the interrupt.
#[tokio::test]
async fn a_turn_that_is_interrupted_while_a_command_runs_in_the_background_does_not_run() {
    let command = json!({"command": "tail -f /dev/null", "description": "wait", "run_in_background": true});
    let replies = [Reply::tool_use("toolu_1", "Bash", command), Reply::text("started")];
    let room = Room::with_replies(replies.into_iter().chain(std::iter::repeat_with(Reply::hold).take(6))).await;
    let options = Options { allowed_tools: vec!["Bash".into()], ..room.options() };
    let mut talk = Talk::connect(options).await;
    talk.client.send("wait in the background").await.unwrap();
    talk.until_idle().await;
    for _ in 0..3 {
        talk.client.send("go").await.unwrap();
        talk.client.interrupt().await.unwrap();
        let events = talk.until_idle().await;
        assert_eq!(ending(&events), [TurnEnding::Interrupted], "{}", transcript(&events));
    }
    talk.client.close().await;
}

#[tokio::test]
async fn a_tool_that_runs_is_ended_with_what_it_started() {
    let room = Room::with_replies([Reply::tool_use(
        "toolu_1",
        "Bash",
        json!({"command": "echo x > started; tail -f /dev/null", "description": "wait"}),
    )])
    .await;
    let started = room.signal("started");
    let options = Options { allowed_tools: vec!["Bash".into()], ..room.options() };
    let mut talk = Talk::connect(options).await;
    talk.client.send("wait").await.unwrap();
    started.given().await;
    talk.client.interrupt().await.unwrap();
    let events = talk.until_idle().await;
    assert_eq!(ending(&events), [TurnEnding::Interrupted]);
    // The CLI has sent its signals; it takes the system a moment to carry them out.
    let tails = || marked(room.marker()).into_iter().filter(|process| process.command.contains("tail -f")).count();
    while tails() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    talk.client.close().await;
}

#[tokio::test]
async fn prompts_that_wait_still_run_unless_they_are_dropped_too() {
    let room = Room::with_replies([Reply::hold(), Reply::hold(), Reply::text("never")]).await;
    let mut talk = room.connect().await;
    for prompt in ["one", "two", "three"] {
        talk.client.send(prompt).await.unwrap();
    }
    let streams = |event: &Event| matches!(event, Event::BlockGrew { .. });
    talk.until(streams).await;
    let receipt = talk.client.interrupt().await.unwrap();
    assert_eq!(receipt, InterruptReceipt { still_queued: vec![PromptId(2), PromptId(3)], cancelled: vec![] });
    talk.until(streams).await;
    let receipt = talk.client.interrupt_all().await.unwrap();
    assert_eq!(receipt, InterruptReceipt { still_queued: vec![], cancelled: vec![PromptId(3)] });
    let events = talk.until_idle().await;
    assert_eq!(ending(&events), [TurnEnding::Interrupted]);
    assert_eq!(room.stub.model_calls().len(), 2);
    talk.client.close().await;
}

#[tokio::test]
async fn an_interrupt_right_after_a_prompt_ends_that_prompt() {
    let room = Room::with_replies([Reply::hold()]).await;
    let mut talk = room.connect().await;
    talk.client.send("hi").await.unwrap();
    talk.client.interrupt_all().await.unwrap();
    let events = talk.until_idle().await;
    assert_eq!(ending(&events), [TurnEnding::Interrupted], "{}", transcript(&events));
    talk.client.close().await;
}

#[tokio::test]
async fn an_interrupt_when_idle_does_nothing() {
    let room = Room::with_replies([Reply::text("hello")]).await;
    let mut talk = room.connect().await;
    assert_eq!(talk.client.interrupt().await.unwrap(), InterruptReceipt::default());
    talk.client.send("hi").await.unwrap();
    assert_eq!(ending(&talk.until_idle().await), [TurnEnding::Completed]);
    talk.client.close().await;
}
