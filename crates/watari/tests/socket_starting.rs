//! A host while its CLI starts or restarts: requests that end the session or a message take effect immediately.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::time::{Duration, Instant};

use common::cli_has_stopped;
use host::{Client, Host, Room, of_type, text_of, transcript};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A CLI that stops before it has answered anything, and then has turns.
const STOPPED: &str = "stop\nprompt\ntext One\nresult\nprompt\ntext Two\nresult\n";

/// How long an end without waiting may take: half a second for the CLI, and a margin for a busy machine.
const AT_ONCE: Duration = Duration::from_secs(3);

/// A host whose CLI does not get ready.
async fn starting(room: &Room) -> (Host, Client) {
    let host = room.host(&[]).await;
    let client = host.client_with_init().await;
    cli_has_stopped(host.pid()).await;
    (host, client)
}

/// A host whose CLI went away and does not get ready when it is started again, for the message `again`.
async fn starting_again(room: &Room) -> (Host, Client) {
    room.rewrite("prompt\ntext Zero\nresult\n");
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("go").await;
    client.until("done").await;
    room.rewrite(STOPPED);
    host.kill_cli();
    client.until("done").await;
    client.send(json!({"type": "message", "id": "again", "text": "again"})).await;
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
async fn a_close_while_the_cli_starts_ends_the_session_immediately_even_after_messages() {
    let room = Room::fake(STOPPED);
    let (host, mut client) = starting(&room).await;
    client.say("one").await;
    client.say("two").await;
    client.send(json!({"type": "close"})).await;
    ends_immediately(&room, host).await;
}

#[tokio::test]
async fn a_close_while_the_cli_restarts_ends_the_session_immediately() {
    let room = Room::fake(STOPPED);
    let (host, mut client) = starting_again(&room).await;
    client.send(json!({"type": "close"})).await;
    let seen = client.rest().await;
    // The message that it was started for has an end too.
    assert!(seen.iter().any(|line| line["id"] == "again"), "{seen:#?}");
    ends_immediately(&room, host).await;
}

#[tokio::test]
async fn a_native_abort_while_the_cli_starts_ends_the_session_immediately() {
    let room = Room::fake(STOPPED);
    let (host, _client) = starting(&room).await;
    let (mut native, _) = host.native_since(Value::Null).await;
    native.send(json!({"type": "abort", "id": "a"})).await;
    ends_immediately(&room, host).await;
}

#[tokio::test]
async fn one_signal_while_the_cli_starts_ends_the_session_immediately() {
    let room = Room::fake(STOPPED);
    let (host, _client) = starting(&room).await;
    host.signal(Signal::TERM);
    ends_immediately(&room, host).await;
}

/// The interrupt drops the message that would run first, as it would interrupt it during its turn. The next one runs.
#[tokio::test]
async fn an_interrupt_while_the_cli_starts_drops_the_message_that_would_run_first() {
    let room = Room::fake(STOPPED);
    let (host, mut client) = starting(&room).await;
    client.send(json!({"type": "message", "id": "1", "text": "one"})).await;
    client.send(json!({"type": "message", "id": "2", "text": "two"})).await;
    client.send(json!({"type": "abort", "id": "3"})).await;
    // The answers to two commands come in any order.
    let mut seen = [client.next().await.unwrap(), client.next().await.unwrap()];
    seen.sort_by_key(|line| line["id"].to_string());
    insta::assert_snapshot!(transcript(&[], &seen), @r#"
    {"code":"interrupted","id":"1","kind":"refused","message":"interrupted while Claude Code was starting: the prompt was not sent","type":"error"}
    {"id":"3","type":"accepted"}
    "#);
    host.signal_cli(Signal::CONT);
    assert_eq!(text_of(&client.until("done").await), "One");
    assert_eq!(of_type(&room.events(), "prompt_accepted").len(), 1);
    host.stop().await;
}

#[tokio::test]
async fn an_interrupt_while_the_cli_restarts_drops_the_message_that_restarted_it() {
    let room = Room::fake(STOPPED);
    let (host, mut client) = starting_again(&room).await;
    client.send(json!({"type": "abort", "id": "stop"})).await;
    // The answers to two commands come in any order.
    let mut seen = [client.next().await.unwrap(), client.next().await.unwrap()];
    seen.sort_by_key(|line| line["id"].to_string());
    insta::assert_snapshot!(transcript(&[], &seen), @r#"
    {"code":"interrupted","id":"again","kind":"refused","message":"interrupted while Claude Code was starting: the prompt was not sent","type":"error"}
    {"id":"stop","type":"accepted"}
    "#);
    host.signal_cli(Signal::CONT);
    client.say("now").await;
    assert_eq!(text_of(&client.until("done").await), "One");
    host.stop().await;
}

#[tokio::test]
async fn a_background_host_ends_if_its_starter_is_killed_before_it_is_ready() {
    let room = Room::fake(STOPPED);
    let mut starter = room.command(&["--detach"]).spawn().unwrap();
    // The host is the starter's child, and its CLI does not get ready.
    let pid = starter.id().unwrap();
    let [host] = common::children_started_by(pid).await.try_into().unwrap();
    cli_has_stopped(host).await;
    starter.kill().await.unwrap();
    room.is_empty_within(AT_ONCE).await;
    room.is_tidy();
    assert!(room.log().contains("the process that started it exited before the session was ready"), "{}", room.log());
}
