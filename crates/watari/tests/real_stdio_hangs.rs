//! `watari stdio` whose real CLI is stopped during a turn, or is aborted while it starts: the client does not wait
//! forever, and no process is left.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod bridge;
mod common;

use std::time::Duration;

use bridge::Room;
use rustix::process::Signal;
use serde_json::json;
use watari_testkit::Reply;
use watari_testkit::claude::{oldest_claude, pinned_claude};

#[tokio::test]
async fn an_interrupt_of_a_stopped_cli_on_stdio_is_a_fatal_error_and_leaves_nothing() {
    let room = Room::with_replies([Reply::stall()]).await;
    let mut bridge = room.bridge();
    bridge.start("go", json!({})).await;
    bridge.until("stream_content_delta").await;
    common::signal_cli_of(bridge.pid(), Signal::STOP);
    bridge.send(json!({"type": "interrupt"})).await;
    let seen = bridge.rest().await;
    let message = "Claude Code did not react to an interrupt within 5 s and was terminated";
    assert_eq!(seen.last(), Some(&json!({"type": "error", "message": message, "fatal": true})));
    assert_eq!(bridge.exit().await.code(), Some(1));
    room.is_empty_within(Duration::from_secs(1)).await;
}

#[tokio::test]
async fn a_real_cli_whose_start_is_cancelled_has_exited_when_watari_exits() {
    let room = Room::with_replies([]).await;
    for claude in [pinned_claude(), oldest_claude()] {
        for is_signal in [false, true] {
            let mut bridge = room.bridge_with(&["--claude", claude.to_str().unwrap()]);
            bridge.start("go", json!({})).await;
            for supervisor in common::children_started_by(bridge.pid()).await {
                common::children_started_by(supervisor).await;
            }
            if is_signal {
                common::signal_process(bridge.pid(), Signal::TERM);
            } else {
                bridge.send(json!({"type": "abort"})).await;
            }
            assert_eq!(bridge.exit().await.code(), Some(0));
            room.is_empty_within(Duration::ZERO).await;
            let locks = room.sandbox.home().join(".claude/projects/.watari-locks");
            assert_eq!(common::names_in(&locks), Vec::<std::ffi::OsString>::new());
        }
    }
}
