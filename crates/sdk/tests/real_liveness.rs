//! A real CLI that is stopped during a turn is detected, and an interrupt terminates it. An API that does not answer is
//! not mistaken for that.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use std::time::{Duration, Instant};

use common::{Room, Talk};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use watari_sdk::{
    Event, ExitReason, Options, RequestError, RequestFailure, TurnEnding, UnresponsiveTo, WatchdogLimits,
};
use watari_testkit::Reply;
use watari_testkit::processes::{children_of, marked};

/// Limits that are short enough for a test.
fn soon() -> WatchdogLimits {
    WatchdogLimits {
        probe_after: Duration::from_millis(200),
        probe_timeout: Duration::from_secs(2),
        ..WatchdogLimits::default()
    }
}

/// The real CLI: the child of the supervisor, which is the only child of a test.
fn cli() -> Pid {
    let supervisors = children_of(std::process::id());
    let [supervisor] = supervisors.as_slice() else { panic!("{supervisors:?}") };
    let clis = children_of(supervisor.pid);
    let [cli] = clis.as_slice() else { panic!("{clis:?}") };
    Pid::from_raw(cli.pid.cast_signed()).unwrap()
}

async fn in_a_turn(room: &Room, watchdog: WatchdogLimits) -> Talk {
    let mut talk = Talk::connect(Options { watchdog, ..room.options() }).await;
    talk.client.send("hi").await.unwrap();
    talk.until(|event| matches!(event, Event::BlockDelta { .. })).await;
    talk
}

#[tokio::test]
async fn an_api_that_does_not_answer_is_no_stall_of_the_cli() {
    let room = Room::with_replies([Reply::stall()]).await;
    let mut talk = in_a_turn(&room, soon()).await;
    // Several probes are answered in this time, without any event.
    let watched = tokio::time::timeout(Duration::from_secs(3), talk.events.next()).await;
    assert!(watched.is_err(), "{watched:?}");
    talk.client.interrupt().await.unwrap();
    talk.until_idle().await;
    talk.client.close().await;
}

#[tokio::test]
async fn a_stopped_cli_is_reported_as_stalled_and_goes_on_when_it_is_continued() {
    let room = Room::with_replies([Reply::stall(), Reply::text("fresh")]).await;
    let mut talk = in_a_turn(&room, soon()).await;
    kill_process(cli(), Signal::STOP).unwrap();
    talk.until(|event| matches!(event, Event::CliStalled { .. })).await;
    kill_process(cli(), Signal::CONT).unwrap();
    talk.until(|event| matches!(event, Event::CliRecovered { .. })).await;
    talk.client.interrupt().await.unwrap();
    talk.until_idle().await;
    talk.client.send("again").await.unwrap();
    talk.until_idle().await;
    talk.client.close().await;
}

#[tokio::test]
async fn an_interrupt_of_a_stopped_cli_ends_it_within_its_limit() {
    let room = Room::with_replies([Reply::stall()]).await;
    let mut talk = in_a_turn(&room, WatchdogLimits::default()).await;
    kill_process(cli(), Signal::STOP).unwrap();
    let begun = Instant::now();
    let interrupted = talk.client.interrupt().await;
    assert_eq!(interrupted, Err(RequestError::Failed(RequestFailure::CliExited)));
    let seen = talk.until(|event| matches!(event, Event::CliExited { .. })).await;
    let Some(Event::CliExited { exit }) = seen.last() else { panic!("{seen:?}") };
    assert_eq!(exit.reason, ExitReason::Unresponsive { to: UnresponsiveTo::Interrupt, seconds: 5 });
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(marked(room.marker()), []);
}

#[tokio::test]
async fn a_tool_that_ignores_every_sign_is_interrupted_well_within_the_limit() {
    let stubborn = json!({
        "command": "trap '' INT TERM HUP; echo x > started; while :; do read -t 1 x < /dev/zero; done",
        "description": "stay",
    });
    let room = Room::with_replies([Reply::tool_use("toolu_1", "Bash", stubborn)]).await;
    let started = room.signal("started");
    let options = Options { allowed_tools: vec!["Bash".into()], ..room.options() };
    let mut talk = Talk::connect(options).await;
    talk.client.send("stay").await.unwrap();
    started.written().await;
    let begun = Instant::now();
    talk.client.interrupt().await.unwrap();
    let events = talk.until_idle().await;
    // Measured: answered in 15 ms, exited in 48 ms.
    assert!(begun.elapsed() < WatchdogLimits::default().interrupt_answer_timeout, "{:?}", begun.elapsed());
    let ended = |event: &Event| matches!(event, Event::TurnFinished { outcome, .. } if outcome.ending == TurnEnding::Interrupted);
    assert!(events.iter().any(ended), "{events:?}");
    talk.client.close().await;
    assert_eq!(marked(room.marker()), []);
}
