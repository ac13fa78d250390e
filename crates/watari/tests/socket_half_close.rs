//! A client that closes only its sending half still receives everything: the effects of its commands, and events until
//! it disconnects. On the fake CLI.

#![cfg(all(target_os = "linux", not(watari_portable)))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use host::{Client, Host, Room, of_type, text_of};
use serde_json::{Value, json};

const TWO_TURNS: &str = "prompt\ntext You said $PROMPT\nresult\nprompt\ntext You said $PROMPT\nresult\n";

/// A host that ends when it has no client for this long: so it shows that it has noticed how a client went.
const ENDS_ALONE: [&str; 2] = ["--idle-exit", "3"];

/// Asserts that the host ends, because it knows that no client is connected.
async fn ends_alone(mut host: Host) {
    assert_eq!(host.end().await, (Some(0), String::new()));
}

/// A native client that follows.
async fn native(host: &Host) -> Client {
    host.native_since(json!(0)).await.0
}

fn types(lines: &[Value]) -> Vec<&str> {
    lines.iter().map(|line| line["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn a_client_that_half_closes_after_its_message_reads_the_turn_and_every_later_one() {
    let room = Room::fake(TWO_TURNS);
    let host = room.host(&ENDS_ALONE).await;
    let (mut native, mut socket) = (native(&host).await, host.client_with_init().await);
    socket.say("one").await;
    socket.half_close().await;
    native.half_close().await;
    assert_eq!(text_of(&socket.until("done").await), "You said one");
    native.until("became_idle").await;
    // Both stay for what others do.
    let mut other = host.client_with_init().await;
    other.say("two").await;
    assert_eq!(text_of(&socket.until("done").await), "You said two");
    native.until("became_idle").await;
    drop((native, socket, other));
    ends_alone(host).await;
}

#[tokio::test]
async fn a_native_client_that_half_closes_after_its_command_is_answered_and_reads_the_turn() {
    let room = Room::fake(TWO_TURNS);
    let host = room.host(&[]).await;
    let mut client = native(&host).await;
    client.send(json!({"type": "prompt", "id": "p", "content": "one"})).await;
    client.half_close().await;
    let seen = client.until("became_idle").await;
    assert_eq!(of_type(&seen, "accepted").len(), 1, "{seen:#?}");
    assert_eq!(of_type(&seen, "block_finished")[0]["content"]["text"], "You said one");
    host.stop().await;
}

#[tokio::test]
async fn a_last_line_without_a_newline_counts_when_the_client_half_closes() {
    let room = Room::fake(TWO_TURNS);
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.write(r#"{"type":"message","text":"one"}"#).await;
    client.half_close().await;
    assert_eq!(text_of(&client.until("done").await), "You said one");
    host.stop().await;
}

#[tokio::test]
async fn a_client_that_half_closes_without_a_line_stays_and_a_disconnect_is_noticed() {
    let room = Room::fake(TWO_TURNS);
    let host = room.host(&ENDS_ALONE).await;
    let (mut silent, mut native) = (host.client().await, host.native().await);
    silent.half_close().await;
    native.half_close().await;
    assert_eq!(silent.next().await.unwrap()["type"], "init");
    let mut other = host.client_with_init().await;
    other.say("one").await;
    assert_eq!(text_of(&silent.until("done").await), "You said one");
    // Nothing is written to either: only that they go can be noticed.
    drop((silent, native, other));
    ends_alone(host).await;
}

#[tokio::test]
async fn a_client_that_half_closes_while_much_is_unread_receives_all_of_it() {
    let blocks = 6;
    let room = Room::fake(&format!("prompt\nrepeat {blocks}\ndeltas 1000 of 100\nend\nresult\n{TWO_TURNS}"));
    let host = room.host(&[]).await;
    let (mut late, mut reader) = (host.client_with_init().await, host.client_with_init().await);
    let mut native = native(&host).await;
    late.say("a long story").await;
    // More than every buffer holds waits for those that do not read yet.
    reader.until("done").await;
    late.half_close().await;
    native.half_close().await;
    reader.say("one").await;
    reader.until("done").await;
    assert_eq!(text_of(&late.until("done").await).len(), blocks * 100_000);
    assert_eq!(text_of(&late.until("done").await), "You said one");
    let seen = native.until("became_idle").await;
    assert_eq!(of_type(&seen, "block_finished").len(), blocks);
    native.until("became_idle").await;
    // The stream continues.
    reader.say("two").await;
    assert_eq!(text_of(&late.until("done").await), "You said two");
    native.until("became_idle").await;
    host.stop().await;
}

#[tokio::test]
async fn a_client_that_closed_both_halves_is_disconnected_at_the_next_event() {
    let room = Room::fake(TWO_TURNS);
    let host = room.host(&ENDS_ALONE).await;
    let deaf = std::os::unix::net::UnixStream::connect(&host.socket).unwrap();
    let mut other = host.client_with_init().await;
    deaf.shutdown(std::net::Shutdown::Read).unwrap();
    other.say("one").await;
    other.until("done").await;
    drop(other);
    ends_alone(host).await;
    assert!(room.log().contains("a client disconnected: cannot write to the client"), "{}", room.log());
    drop(deaf);
}

#[tokio::test]
async fn a_half_closed_client_reads_how_the_session_ends() {
    let room = Room::fake(TWO_TURNS);
    let host = room.host(&[]).await;
    let (mut native, mut socket) = (native(&host).await, host.client_with_init().await);
    native.half_close().await;
    socket.half_close().await;
    host.stop().await;
    let (native, socket) = (native.rest().await, socket.rest().await);
    assert_eq!(native.last().unwrap()["type"], "cli_exited", "{:?}", types(&native));
    assert_eq!(types(&socket), ["error"], "it says why the session ends");
}

#[tokio::test]
async fn commands_that_a_client_sends_before_it_disconnects_count_although_it_reads_nothing() {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    let room = Room::fake("repeat 40\nprompt\ntext You said $PROMPT\nresult\nend\n");
    let host = room.host(&ENDS_ALONE).await;
    // Another client shows when everything has taken effect.
    let mut watcher = native(&host).await;
    for number in 0..20 {
        // It disconnects before anything can be written to it.
        let mut client = UnixStream::connect(&host.socket).unwrap();
        let message = |text: &str| json!({"type": "message", "text": format!("{number} {text}")}).to_string();
        client.write_all(format!("{}\n{}", message("first"), message("last, without an end")).as_bytes()).unwrap();
    }
    let mut accepted = 0;
    while accepted < 40 {
        accepted += usize::from(watcher.next().await.unwrap()["type"] == "prompt_accepted");
    }
    drop(watcher);
    ends_alone(host).await;
}
