//! Interrupts the real CLI: while it writes, while a tool runs, with waiting prompts.

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
use watari_sdk::{Event, InterruptReceipt, Options, PromptId, TaskUpdate, TurnCause, TurnEnding};
use watari_testkit::claude::{oldest_claude, pinned_claude};
use watari_testkit::processes::marked;
use watari_testkit::{Reply, Script};

fn ending(events: &[Event]) -> Vec<TurnEnding> {
    let ended = |event: &Event| match event {
        Event::TurnFinished { outcome, .. } => Some(outcome.ending),
        _ => None,
    };
    events.iter().filter_map(ended).collect()
}

#[tokio::test]
async fn a_turn_that_streams_ends_and_the_next_prompt_runs() {
    let room = Room::with_replies([Reply::stall(), Reply::text("fresh")]).await;
    let mut talk = room.connect().await;
    talk.client.send("hi").await.unwrap();
    let mut events = talk.until(|event| matches!(event, Event::BlockDelta { .. })).await;
    assert_eq!(talk.client.interrupt().await.unwrap(), InterruptReceipt::default());
    events.extend(talk.until_idle().await);
    talk.client.send("again").await.unwrap();
    events.extend(talk.until_idle().await);
    // The receipt may come before or after the end of the interrupted turn.
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

/// Both versions answer an interrupt that they read before the turn has begun, and then run the turn nevertheless.
#[tokio::test]
async fn a_turn_that_is_interrupted_before_the_cli_has_begun_it_does_not_run() {
    for claude in [pinned_claude(), oldest_claude()] {
        // A turn that runs nevertheless never ends.
        let room = Room::with_replies(std::iter::repeat_with(Reply::stall).take(12)).await;
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
    let room = Room::with_replies(replies.into_iter().chain(std::iter::repeat_with(Reply::stall).take(6))).await;
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

/// A prompt that comes while the CLI runs a turn of its own is not with the CLI yet.
#[tokio::test]
async fn a_prompt_in_a_turn_of_the_clis_own_can_be_dropped_and_else_has_its_own_result() {
    for claude in [pinned_claude(), oldest_claude()] {
        let wait =
            json!({"command": "until [ -e go ]; do sleep 0.02; done", "description": "w", "run_in_background": true});
        let started = [Reply::tool_use("toolu_1", "Bash", wait), Reply::text("started")];
        let room = Room::with_replies(started.into_iter().chain([Reply::stall(), Reply::text("three")])).await;
        let options = Options { claude: Some(claude), allowed_tools: vec!["Bash".into()], ..room.options() };
        let mut talk = Talk::connect(options).await;
        talk.client.send("one").await.unwrap();
        talk.until_idle().await;
        std::fs::write(room.sandbox.cwd().join("go"), "").unwrap();
        talk.until(|event| matches!(event, Event::BlockDelta { .. })).await;
        talk.client.send("two").await.unwrap();
        let (receipt, third) = tokio::join!(talk.client.interrupt_all(), talk.client.send("three"));
        assert_eq!((receipt.unwrap().cancelled, third.unwrap()), (vec![PromptId(2)], PromptId(3)));
        let events = talk.until_idle().await;
        let results = events.iter().filter_map(|event| match event {
            Event::TurnFinished { cause, outcome } => Some((*cause, outcome.ending, outcome.result.clone())),
            _ => None,
        });
        let results: Vec<_> = results.collect();
        assert_eq!((results[0].0, results[0].1), (TurnCause::Cli, TurnEnding::Interrupted), "{}", transcript(&events));
        let third = (TurnCause::Prompt(PromptId(3)), TurnEnding::Completed, Some("three".to_owned()));
        assert_eq!(results[1..], [third], "{}", transcript(&events));
        talk.client.close().await;
    }
}

/// A prompt that is sent at the event of the command's end crosses the turn that the CLI begins about it.
#[tokio::test]
async fn a_prompt_that_crosses_a_turn_of_the_clis_own_does_not_run_when_it_is_interrupted() {
    for claude in [pinned_claude(), oldest_claude()] {
        let wait =
            json!({"command": "until [ -e go ]; do sleep 0.02; done", "description": "w", "run_in_background": true});
        let started = [Reply::tool_use("toolu_1", "Bash", wait), Reply::text("started")];
        // A turn that runs nevertheless never ends.
        let room = Room::with_replies(started.into_iter().chain([Reply::stall()])).await;
        let options = Options { claude: Some(claude), allowed_tools: vec!["Bash".into()], ..room.options() };
        let mut talk = Talk::connect(options).await;
        talk.client.send("one").await.unwrap();
        talk.until_idle().await;
        std::fs::write(room.sandbox.cwd().join("go"), "").unwrap();
        talk.until(|event| matches!(event, Event::TaskChanged { update: TaskUpdate::Ended, .. })).await;
        talk.client.send("two").await.unwrap();
        talk.client.interrupt_all().await.unwrap();
        let events = talk.until_idle().await;
        assert!(!ending(&events).contains(&TurnEnding::Completed), "{}", transcript(&events));
        talk.client.close().await;
    }
}

/// 2.1.42 does not report which prompt a turn belongs to: waiting prompts got the result of the turn about the task.
#[tokio::test]
async fn prompts_that_wait_while_a_command_in_the_background_ends_keep_their_own_results() {
    let command = |command: &str, background: bool| json!({"command": command, "description": "w", "run_in_background": background});
    let room = Room::with_replies([
        Reply::tool_use("toolu_1", "Bash", command("until [ -e go ]; do sleep 0.02; done", true)),
        Reply::tool_use("toolu_2", "Bash", command("echo x > started; until [ -e end ]; do sleep 0.02; done", false)),
        Reply::text("one"),
        Reply::text("about the task"),
        Reply::text("two"),
        Reply::text("three"),
    ])
    .await;
    let started = room.signal("started");
    let options = Options { claude: Some(oldest_claude()), allowed_tools: vec!["Bash".into()], ..room.options() };
    let mut talk = Talk::connect(options).await;
    talk.client.send("one").await.unwrap();
    started.written().await;
    talk.client.send("two").await.unwrap();
    talk.client.send("three").await.unwrap();
    std::fs::write(room.sandbox.cwd().join("go"), "").unwrap();
    // No event reports the end of the background shell before the end of the turn.
    while marked(room.marker()).iter().any(|process| process.command.contains("-e go")) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    std::fs::write(room.sandbox.cwd().join("end"), "").unwrap();
    let third = |event: &Event| matches!(event, Event::TurnFinished { cause: TurnCause::Prompt(PromptId(3)), .. });
    let events = talk.until(third).await;
    let results = events.iter().filter_map(|event| match event {
        Event::TurnFinished { cause, outcome } => Some((*cause, outcome.result.clone().unwrap())),
        _ => None,
    });
    let of_prompt = |number: u64, result: &str| (TurnCause::Prompt(PromptId(number)), result.to_owned());
    let expected = [
        of_prompt(1, "one"),
        (TurnCause::Cli, "about the task".to_owned()),
        of_prompt(2, "two"),
        of_prompt(3, "three"),
    ];
    assert_eq!(results.collect::<Vec<_>>(), expected, "{}", transcript(&events));
    talk.client.close().await;
}

/// The CLI ends its subagents when it is interrupted, so it is not, if there is no turn to interrupt.
#[tokio::test]
async fn an_interrupt_without_a_turn_leaves_work_in_the_background_alone() {
    let agent = json!({"description": "look", "prompt": "look around", "subagent_type": "general-purpose", "run_in_background": true});
    let script = Script::new()
        .reply(Reply::tool_use("toolu_ag", "Agent", agent))
        .reply(Reply::text("started it"))
        .reply(Reply::text("it is back"))
        .for_agents([Reply::text("the agent's finding").paced(Duration::from_millis(100))]);
    let room = Room::new(script).await;
    let mut talk = Talk::connect(room.options()).await;
    talk.client.send("look around").await.unwrap();
    talk.until_turn_finished().await;
    assert_eq!(talk.client.interrupt_all().await.unwrap(), InterruptReceipt::default());
    let events = talk.until_idle().await;
    let back = |event: &Event| matches!(event, Event::TurnFinished { outcome, .. } if outcome.result.as_deref() == Some("it is back"));
    assert!(events.iter().any(back), "{}", transcript(&events));
    let finding = |call: &serde_json::Value| call.to_string().contains("the agent's finding");
    assert!(room.stub.model_calls().iter().any(finding), "the subagent was ended");
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
    started.written().await;
    talk.client.interrupt().await.unwrap();
    let events = talk.until_idle().await;
    assert_eq!(ending(&events), [TurnEnding::Interrupted]);
    // The CLI has sent its signals; delivering them takes a moment.
    let tails = || marked(room.marker()).into_iter().filter(|process| process.command.contains("tail -f")).count();
    while tails() > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    talk.client.close().await;
}

#[tokio::test]
async fn prompts_that_wait_still_run_unless_they_are_dropped_too() {
    let room = Room::with_replies([Reply::stall(), Reply::stall(), Reply::text("never")]).await;
    let mut talk = room.connect().await;
    for prompt in ["one", "two", "three"] {
        talk.client.send(prompt).await.unwrap();
    }
    let streams = |event: &Event| matches!(event, Event::BlockDelta { .. });
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
    let room = Room::with_replies([Reply::stall()]).await;
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
