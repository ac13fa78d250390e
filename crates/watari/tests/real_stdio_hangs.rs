//! `watari stdio` whose real CLI is stopped in the middle of a turn: the client is not left waiting.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod bridge;
mod common;

use std::time::Duration;

use bridge::Room;
use rustix::process::Signal;
use serde_json::json;
use watari_testkit::Reply;

#[tokio::test]
async fn an_interrupt_of_a_stopped_cli_on_stdio_is_a_fatal_error_and_leaves_nothing() {
    let room = Room::with_replies([Reply::hold()]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.until("stream_content_delta").await;
    common::signal_cli_of(bridge.pid(), Signal::STOP);
    bridge.send(json!({"type": "interrupt"})).await;
    let seen = bridge.rest().await;
    let words = "Claude Code did not react to an interrupt within 5 s and was ended";
    assert_eq!(seen.last(), Some(&json!({"type": "error", "message": words, "fatal": true})));
    assert_eq!(bridge.exit().await.code(), Some(1));
    room.is_empty_within(Duration::from_secs(1)).await;
}
