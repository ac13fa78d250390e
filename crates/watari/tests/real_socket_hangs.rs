//! A host whose real CLI is stopped during a turn: no client waits forever, and the conversation continues.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::time::{Duration, Instant};

use host::{Room, of_type, text_of};
use rustix::process::Signal;
use serde_json::json;
use watari_testkit::Reply;

#[tokio::test]
async fn an_abort_replaces_a_stopped_cli_and_the_next_message_resumes_the_conversation() {
    let room = Room::real([Reply::text("First."), Reply::stall(), Reply::text("Third.")]).await;
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("the first message").await;
    client.until("done").await;
    client.say("the second").await;
    client.until("text_delta").await;
    host.signal_cli(Signal::STOP);
    let begun = Instant::now();
    client.send(json!({"type": "abort"})).await;
    let seen = client.until("done").await;
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    let message =
        "Claude Code did not react to an interrupt within 5 s and was terminated; the next message starts it again";
    assert_eq!(of_type(&seen, "error")[0]["message"], message);
    client.say("the third").await;
    assert_eq!(text_of(&client.until("done").await), "Third.");
    let calls = room.stub.as_ref().unwrap().model_calls();
    let asked = calls.last().unwrap()["messages"].to_string();
    assert!(asked.contains("the first message") && asked.contains("First."), "{asked}");
    host.stop().await;
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_second_signal_ends_a_host_whose_cli_is_stopped() {
    let room = Room::real([Reply::stall()]).await;
    let mut host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    client.until("text_delta").await;
    host.signal_cli(Signal::STOP);
    host.signal(Signal::TERM);
    client.until("error").await;
    let begun = Instant::now();
    host.signal(Signal::TERM);
    assert_eq!(host.end().await, (Some(0), String::new()));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    room.is_empty_within(Duration::from_secs(1)).await;
    room.is_tidy();
}
