//! Whole conversations with the real CLI: streaming, tools, several turns, waiting prompts.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use common::{Room, Talk, transcript};
use serde_json::{Map, json};
use std::time::Duration;
use watari_sdk::{Event, Options, PermissionMode, Request, RequestError, TurnEnding, TurnFailure, query};
use watari_testkit::Reply;

#[tokio::test]
async fn text_is_streamed() {
    let room = Room::with_replies([Reply::text("Hello there")]).await;
    let mut talk = room.connect().await;
    talk.client.send("hi").await.unwrap();
    insta::assert_snapshot!(transcript(&talk.until_idle().await), @r#"
    ready
    turn started: Prompt(PromptId(1))
    session opened
    message msg_stub_1 started
    block 1 started at 0: Text
    block 1 grew text: Hello there
    block 1 finished: {"type":"text","text":"Hello there"}
    message msg_stub_1 finished with [1], end_turn
    turn finished: Prompt(PromptId(1)) Completed success "Hello there"
    idle
    "#);
    talk.client.close().await;
}

#[tokio::test]
async fn deltas_come_while_the_model_is_still_writing() {
    let room = Room::with_replies([Reply::stall()]).await;
    let mut talk = room.connect().await;
    talk.client.send("hi").await.unwrap();
    // The stub never ends this message, so the delta can only have come before its end.
    talk.until(|event| matches!(event, Event::BlockDelta { .. })).await;
    talk.client.abort().await;
}

#[tokio::test]
async fn thinking_text_and_a_tool_are_emitted_block_by_block() {
    let room = Room::with_replies([
        Reply::thinking("Let me see").and_text("I will look.").and_tool_use(
            "toolu_1",
            "Bash",
            json!({"command": "echo from-the-tool", "description": "look"}),
        ),
        Reply::text("It says from-the-tool."),
    ])
    .await;
    let options = Options { allowed_tools: vec!["Bash(echo:*)".into()], ..room.options() };
    let mut talk = Talk::connect(options).await;
    talk.client.send("look").await.unwrap();
    let mut events = talk.until_idle().await;
    // The tool may return before or after the end of the message that uses it.
    let returned = |event: &mut Event| matches!(event, Event::ToolReturned { .. });
    let returned: Vec<Event> = events.extract_if(.., returned).collect();
    insta::assert_snapshot!(transcript(&returned), @r#"tool toolu_1 returned: "from-the-tool""#);
    insta::assert_snapshot!(transcript(&events), @r#"
    ready
    turn started: Prompt(PromptId(1))
    session opened
    message msg_stub_1 started
    block 1 started at 0: Thinking
    block 1 grew thinking: Let me see
    block 1 finished: {"type":"thinking","thinking":"Let me see","signature":"c2ln"}
    block 2 started at 1: Text
    block 2 grew text: I will look.
    block 2 finished: {"type":"text","text":"I will look."}
    block 3 started at 2: ToolUse { id: ToolUseId("toolu_1"), name: "Bash" }
    block 3 grew input: {"command":"echo from-the-tool","description":"look"}
    block 3 finished: {"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"echo from-the-tool","description":"look"}}
    message msg_stub_1 finished with [1, 2, 3], tool_use
    message msg_stub_2 started
    block 4 started at 0: Text
    block 4 grew text: It says from-the-tool.
    block 4 finished: {"type":"text","text":"It says from-the-tool."}
    message msg_stub_2 finished with [4], end_turn
    turn finished: Prompt(PromptId(1)) Completed success "It says from-the-tool."
    idle
    "#);
    talk.client.close().await;
}

#[tokio::test]
async fn three_turns_are_one_conversation() {
    let room = Room::with_replies([Reply::text("one"), Reply::text("two"), Reply::text("three")]).await;
    let mut talk = room.connect().await;
    let mut answers = Vec::new();
    for prompt in ["first", "second", "third"] {
        talk.client.send(prompt).await.unwrap();
        for event in talk.until_idle().await {
            if let Event::TurnFinished { outcome, .. } = event {
                answers.push(outcome.result.unwrap());
            }
        }
    }
    assert_eq!(answers, ["one", "two", "three"]);
    let last = room.stub.model_calls().pop().unwrap().to_string();
    for text in ["first", "one", "second", "two", "third"] {
        assert!(last.contains(text), "the third call has no {text}");
    }
    talk.client.close().await;
}

#[tokio::test]
async fn a_prompt_sent_during_a_turn_has_a_turn_of_its_own() {
    let room = Room::with_replies([
        Reply::text("the first answer").paced(Duration::from_millis(20)),
        Reply::text("the second answer"),
    ])
    .await;
    let mut talk = room.connect().await;
    talk.client.send("first").await.unwrap();
    let mut events = talk.until(|event| matches!(event, Event::BlockDelta { .. })).await;
    talk.client.send("second").await.unwrap();
    events.extend(talk.until_idle().await);
    insta::assert_snapshot!(transcript(&events), @r#"
    ready
    turn started: Prompt(PromptId(1))
    session opened
    message msg_stub_1 started
    block 1 started at 0: Text
    block 1 grew text: the first answer
    block 1 finished: {"type":"text","text":"the first answer"}
    message msg_stub_1 finished with [1], end_turn
    turn finished: Prompt(PromptId(1)) Completed success "the first answer"
    turn started: Prompt(PromptId(2))
    message msg_stub_2 started
    block 2 started at 0: Text
    block 2 grew text: the second answer
    block 2 finished: {"type":"text","text":"the second answer"}
    message msg_stub_2 finished with [2], end_turn
    turn finished: Prompt(PromptId(2)) Completed success "the second answer"
    idle
    "#);
    talk.client.close().await;
}

fn other(subtype: &str) -> Request {
    Request::Other { subtype: subtype.to_owned(), fields: Map::new() }
}

#[tokio::test]
async fn model_and_permission_mode_change_and_other_requests_are_answered() {
    let room = Room::with_replies([Reply::text("ok")]).await;
    let mut talk = room.connect().await;
    talk.client.set_model(Some("claude-sonnet-4-5")).await.unwrap();
    talk.client.set_permission_mode(PermissionMode::Plan).await.unwrap();
    talk.client.send("hi").await.unwrap();
    talk.until_idle().await;
    assert_eq!(room.stub.model_calls()[0]["model"], "claude-sonnet-4-5");

    let version = talk.client.request(other("get_binary_version")).await.unwrap();
    assert!(version.as_str().contains("2.1.325"), "{version:?}");
    let refused = talk.client.request(other("no_such_request")).await.unwrap_err();
    assert!(matches!(refused, RequestError::Failed(_)), "{refused}");
    assert!(refused.to_string().contains("no_such_request"), "{refused}");
    talk.client.close().await;
}

#[tokio::test]
async fn a_query_ends_with_its_answer_and_leaves_nothing() {
    let room = Room::with_replies([Reply::text("42")]).await;
    let mut answer = query("what is it?", room.options()).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = answer.next().await {
        events.push(event);
    }
    insta::assert_snapshot!(transcript(&events), @r#"
    ready
    turn started: Prompt(PromptId(1))
    session opened
    message msg_stub_1 started
    block 1 started at 0: Text
    block 1 grew text: 42
    block 1 finished: {"type":"text","text":"42"}
    message msg_stub_1 finished with [1], end_turn
    turn finished: Prompt(PromptId(1)) Completed success "42"
    idle
    ended: Requested code Some(0) signal None
    "#);
    assert_eq!(watari_testkit::processes::marked(room.marker()), []);
}

#[tokio::test]
async fn a_query_without_a_prompt_is_refused() {
    let room = Room::with_replies([Reply::text("42")]).await;
    let error = query("", room.options()).await.unwrap_err().to_string();
    insta::assert_snapshot!(error, @"the prompt was refused: the prompt has no content: give it text or at least one block");
    assert_eq!(watari_testkit::processes::marked(room.marker()), []);
}

#[tokio::test]
async fn an_api_error_is_a_failed_turn_and_the_session_goes_on() {
    let room = Room::with_replies([Reply::status(403, "not today"), Reply::text("better")]).await;
    let mut talk = room.connect().await;
    let mut outcomes = Vec::new();
    for prompt in ["hi", "again"] {
        talk.client.send(prompt).await.unwrap();
        for event in talk.until_idle().await {
            if let Event::TurnFinished { outcome, .. } = event {
                outcomes.push((outcome.ending, outcome.result.unwrap()));
            }
        }
    }
    assert_eq!(outcomes[0].0, TurnEnding::Failed(TurnFailure::Api));
    assert!(outcomes[0].1.contains("not today"), "{outcomes:?}");
    assert_eq!(outcomes[1], (TurnEnding::Completed, "better".to_owned()));
    talk.client.close().await;
}
