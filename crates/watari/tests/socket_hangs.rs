//! A host whose CLI does not react: turns and the host can still be ended.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::time::{Duration, Instant};

use common::{cli_has_stopped, without_seconds};
use host::{Client, Host, Room, of_type, text_of, transcript};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A CLI that is stopped in the middle of a turn.
const STOPPED: &str = "prompt\ntext One\nstop\n";

/// How long an end without waiting may take: half a second for the CLI, and a margin for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(3);

async fn in_a_stopped_turn(room: &Room, flags: &[&str]) -> (Host, Client) {
    let host = room.host(flags).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    client.until("text_delta").await;
    cli_has_stopped(host.pid()).await;
    (host, client)
}

/// The host ends by what was done last.
async fn ends_immediately(room: &Room, mut host: Host) {
    let begun = Instant::now();
    assert_eq!(host.end().await, (Some(0), String::new()));
    assert!(begun.elapsed() < AT_ONCE, "{:?}", begun.elapsed());
    room.is_empty_within(Duration::from_secs(1)).await;
    room.is_tidy();
}

#[tokio::test]
async fn an_abort_that_the_cli_does_not_react_to_replaces_the_cli() {
    let room = Room::fake(STOPPED);
    let (host, mut client) = in_a_stopped_turn(&room, &[]).await;
    client.say("and this").await;
    let begun = Instant::now();
    client.send(json!({"type": "abort"})).await;
    let mut seen = client.until("done").await;
    seen.extend(client.until("done").await);
    insta::assert_snapshot!(transcript(&["usage"], &seen), @r#"
    {"kind":"session","message":"Claude Code did not react to an interrupt within 5 s and was terminated; the next message starts it again","type":"error"}
    {"message_id":2,"type":"done","usage":"usage"}
    {"kind":"session","message":"Claude Code did not react to an interrupt within 5 s and was terminated; the next message starts it again","type":"error"}
    {"message_id":3,"type":"done","usage":"usage"}
    "#);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    room.rewrite("prompt\ntext Again.\nresult\n");
    client.say("go on").await;
    assert_eq!(text_of(&client.until("done").await), "Again.");
    host.stop().await;
    // Every message has exactly one outcome.
    let events = room.events();
    let accepted = of_type(&events, "prompt_accepted").len();
    let outcomes = of_type(&events, "turn_finished").len() + of_type(&events, "prompt_dropped").len();
    assert_eq!((accepted, outcomes), (3, 3));
}

#[tokio::test]
async fn a_cli_that_reads_an_interrupt_and_ignores_it_is_replaced() {
    let room = Room::fake("prompt\ntext One\ndeaf\npause 600000\n");
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    client.until("text_delta").await;
    client.send(json!({"type": "abort"})).await;
    let seen = client.until("done").await;
    assert_eq!(of_type(&seen, "error").len(), 1, "{seen:?}");
    host.stop().await;
}

#[tokio::test]
async fn a_second_signal_waits_for_no_cli() {
    let room = Room::fake(STOPPED);
    let (host, mut client) = in_a_stopped_turn(&room, &[]).await;
    host.signal(Signal::TERM);
    client.until("error").await;
    host.signal(Signal::TERM);
    ends_immediately(&room, host).await;
}

#[tokio::test]
async fn a_signal_after_a_close_waits_for_no_cli() {
    let room = Room::fake(STOPPED);
    let (host, mut client) = in_a_stopped_turn(&room, &[]).await;
    client.send(json!({"type": "close"})).await;
    client.until("error").await;
    host.signal(Signal::INT);
    ends_immediately(&room, host).await;
}

#[tokio::test]
async fn an_abort_of_the_session_after_a_close_waits_for_no_cli() {
    let room = Room::fake(STOPPED);
    let (host, _client) = in_a_stopped_turn(&room, &[]).await;
    let (mut native, _) = host.native_since(Value::Null).await;
    native.send(json!({"type": "close", "id": "c"})).await;
    native.until("host_stopping").await;
    native.send(json!({"type": "abort", "id": "a"})).await;
    ends_immediately(&room, host).await;
}

#[tokio::test]
async fn a_second_signal_while_the_cli_starts_waits_for_no_cli() {
    let room = Room::fake("stop\n");
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    cli_has_stopped(host.pid()).await;
    host.signal(Signal::TERM);
    client.until("error").await;
    host.signal(Signal::TERM);
    ends_immediately(&room, host).await;
}

#[tokio::test]
async fn a_cli_that_stalls_is_reported_and_stays() {
    let room = Room::fake(STOPPED);
    let (host, mut client) = in_a_stopped_turn(&room, &["--stalled-after", "1"]).await;
    insta::assert_snapshot!(without_seconds(&transcript(&[], &client.until("error").await)), @r#"{"kind":"session","message":"Claude Code stalled: it has written nothing for N s and does not answer; wait, or send abort: it ends the turn, and Claude Code if necessary","type":"error"}"#);
    host.signal_cli(Signal::CONT);
    let (mut native, _) = host.native_since(json!(0)).await;
    native.until("cli_recovered").await;
    host.stop().await;
}

#[tokio::test]
async fn a_cli_that_stalls_is_replaced_with_the_flag() {
    let room = Room::fake(STOPPED);
    let (host, mut client) = in_a_stopped_turn(&room, &["--stalled-after", "1", "--end-stalled"]).await;
    insta::assert_snapshot!(without_seconds(&transcript(&["usage"], &client.until("done").await)), @r#"
    {"kind":"session","message":"Claude Code stalled: it has written nothing for N s and does not answer; wait, or send abort: it ends the turn, and Claude Code if necessary","type":"error"}
    {"kind":"session","message":"Claude Code stalled: it wrote nothing for N s and was terminated; the next message starts it again","type":"error"}
    {"message_id":2,"type":"done","usage":"usage"}
    "#);
    room.rewrite("prompt\ntext Again.\nresult\n");
    client.say("go on").await;
    assert_eq!(text_of(&client.until("done").await), "Again.");
    host.stop().await;
}

/// What became of so many requests that a native client gives to a stopped CLI: how many were accepted before one was
/// refused, and why that was.
async fn accepted_until_refused(host: &Host, request: &Value, count: usize) -> (usize, String) {
    let line = format!("{}\n", json!({"type": "request", "request": request}));
    let (mut client, _) = host.native_since(Value::Null).await;
    for accepted in 0..count {
        client.write(&line).await;
        let outcome = client.next_outcome().await;
        if outcome["type"] == "refused" {
            return (accepted, outcome["message"].as_str().unwrap().to_owned());
        }
        assert_eq!(outcome["type"], "accepted", "{outcome}");
    }
    panic!("{count} requests were accepted");
}

#[tokio::test]
async fn requests_to_a_cli_that_does_not_read_are_bounded_in_number() {
    let room = Room::fake(STOPPED);
    let (host, _client) = in_a_stopped_turn(&room, &[]).await;
    let (accepted, why) = accepted_until_refused(&host, &json!({"type": "mcp_status"}), 1100).await;
    assert_eq!((accepted, why.as_str()), (1024, "1024 requests are already unanswered: wait for the CLI to answer"));
    host.kill().await;
}

#[tokio::test]
async fn requests_to_a_cli_that_does_not_read_are_bounded_in_bytes_except_interrupts() {
    let room = Room::fake(STOPPED);
    let (host, mut client) = in_a_stopped_turn(&room, &[]).await;
    let fields = json!({"pad": "x".repeat(4_000_000)});
    let long = json!({"type": "other", "subtype": "novelty", "fields": fields});
    let (accepted, why) = accepted_until_refused(&host, &long, 20).await;
    // 64 MiB may wait, and the one that exceeds them.
    assert!((17..=18).contains(&accepted), "{accepted} of 4 MB each");
    assert!(why.ends_with(" bytes wait for the CLI, which does not read them: interrupt it, or wait"), "{why}");
    // Behind it the next CLI is asked as before.
    client.send(json!({"type": "abort"})).await;
    client.until("done").await;
    room.rewrite("prompt\ntext Again.\nresult\n");
    client.say("go on").await;
    assert_eq!(text_of(&client.until("done").await), "Again.");
    host.stop().await;
}
