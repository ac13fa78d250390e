//! A client that does not read affects no other client, and is disconnected when it costs too much. On the fake CLI.

#![cfg(all(target_os = "linux", not(watari_portable)))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use host::{Room, of_type};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

/// A client that reads nothing for this long may be disconnected.
const SLOW_AFTER: Duration = Duration::from_secs(10);

/// After this long it must be disconnected.
const LET_GO_WITHIN: Duration = Duration::from_secs(20);

const HELLO: &str = "{\"type\":\"hello\",\"protocol\":[1],\"since\":0}\n";

/// A client that says hello and does not read.
fn stuck(path: &Path) -> UnixStream {
    let mut stream = UnixStream::connect(path).unwrap();
    stream.write_all(HELLO.as_bytes()).unwrap();
    stream
}

/// Waits until the other side has hung up, without reading; false if it has not until then.
async fn hung_up(stream: &UnixStream, within: Duration) -> bool {
    let stream = stream.try_clone().unwrap();
    let limit = Timespec::try_from(within).unwrap();
    let waiting = move || {
        // The client has no subscription, so it only learns of the end.
        let mut ends = [PollFd::new(&stream, PollFlags::empty())];
        poll(&mut ends, Some(&limit)).unwrap() > 0 && ends[0].revents().contains(PollFlags::HUP)
    };
    tokio::task::spawn_blocking(waiting).await.unwrap()
}

/// A turn of so many blocks, of 100 kB each.
fn script(blocks: usize) -> String {
    format!("prompt\nrepeat {blocks}\ndeltas 1000 of 100\nend\nresult\nprompt\ntext Still here\nresult\n")
}

/// All numbered events, each once and in order, and every text whole.
fn is_whole(lines: &[Value], blocks: usize) {
    let numbered: Vec<&Value> =
        lines.iter().filter(|line| line["seq"].is_string() && line["type"] != "hello").collect();
    for (line, number) in numbered.iter().zip(1..) {
        assert_eq!(line["seq"], format!("1:{number}"), "{line}");
    }
    let text: String = (0..1000).map(|number| format!("{number:099} ")).collect();
    let finished = of_type(lines, "block_finished");
    assert_eq!(finished.len(), blocks);
    assert!(finished.iter().all(|block| block["content"]["text"] == text.as_str()));
}

#[tokio::test]
async fn a_client_that_never_reads_slows_no_other_and_is_disconnected_when_it_costs_too_much() {
    let blocks = 60;
    let room = Room::fake(&script(blocks));
    let host = room.host(&[]).await;
    let (mut reader, _) = host.native_since(json!(0)).await;
    let mut socket = host.client_with_init().await;
    let stuck_native = stuck(&host.native_path());
    // One that speaks the other dialect need not even say hello.
    let stuck_socket = UnixStream::connect(&host.socket).unwrap();
    let began = Instant::now();
    reader.send(json!({"type": "prompt", "id": "1", "content": "a long story"})).await;
    // Far more than all buffers hold: if the host waited for the clients that do not read, this would never end.
    let (delivered, received) = tokio::join!(reader.until("became_idle"), socket.until("done"));
    is_whole(&delivered, blocks);
    assert_eq!(host::text_of(&received).len(), blocks * 100_000);

    for stuck in [&stuck_native, &stuck_socket] {
        assert!(hung_up(stuck, LET_GO_WITHIN).await, "it was not let go: {}", room.log());
    }
    assert!(began.elapsed() >= SLOW_AFTER, "{:?}", began.elapsed());
    let log = room.log();
    let reason = "disconnecting a slow client: it read nothing for 10s and is ";
    assert_eq!(log.matches(reason).count(), 2, "{log}");

    reader.send(json!({"type": "prompt", "id": "2", "content": "are you there?"})).await;
    reader.until("became_idle").await;
    socket.until("done").await;
    host.stop().await;
}

#[tokio::test]
async fn a_client_that_pauses_and_costs_little_stays_and_receives_everything() {
    let blocks = 6;
    let room = Room::fake(&script(blocks));
    let host = room.host(&[]).await;
    let (mut reader, _) = host.native_since(json!(0)).await;
    let stuck = stuck(&host.native_path());
    reader.send(json!({"type": "prompt", "id": "1", "content": "a story"})).await;
    let delivered = reader.until("became_idle").await;
    assert!(!hung_up(&stuck, SLOW_AFTER + Duration::from_secs(2)).await, "{}", room.log());
    let late = tokio::task::spawn_blocking(move || {
        let lines = BufReader::new(stuck).lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap());
        let mut seen: Vec<Value> = Vec::new();
        for line in lines {
            seen.push(line);
            if seen.last().is_some_and(|line| line["type"] == "became_idle") {
                break;
            }
        }
        seen
    });
    let late = late.await.unwrap();
    is_whole(&delivered, blocks);
    is_whole(&late, blocks);
    host.stop().await;
}

/// Waits, without reading, until something is there to be read.
async fn receives_something(stream: &UnixStream) {
    let stream = stream.try_clone().unwrap();
    let waiting = move || {
        let limit = Timespec::try_from(LET_GO_WITHIN).unwrap();
        poll(&mut [PollFd::new(&stream, PollFlags::IN)], Some(&limit)).unwrap()
    };
    assert_eq!(tokio::task::spawn_blocking(waiting).await.unwrap(), 1);
}

/// Writes all of it without reading anything; the error if it is not taken in time.
async fn write_only(stream: &UnixStream, text: String) -> std::io::Result<()> {
    let mut stream = stream.try_clone().unwrap();
    stream.set_write_timeout(Some(LET_GO_WITHIN)).unwrap();
    tokio::task::spawn_blocking(move || stream.write_all(text.as_bytes())).await.unwrap()
}

#[tokio::test]
async fn a_long_line_of_a_client_and_a_long_event_for_it_do_not_deadlock() {
    let room = Room::fake("prompt\ntext One\nresult\nprompt\ntext Two\nresult\n");
    let host = room.host(&[]).await;
    let client = UnixStream::connect(host.native_path()).unwrap();
    // Each comes back as an event, which is too long for the buffers and too short to disconnect the client.
    let prompt = |id: &str| format!("{}\n", json!({"type": "prompt", "id": id, "content": id.repeat(3_000_000)}));
    write_only(&client, HELLO.replace('0', "null")).await.unwrap();
    let mut lines = BufReader::new(client.try_clone().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("hello"));
    write_only(&client, prompt("1")).await.unwrap();
    receives_something(&client).await;
    write_only(&client, prompt("2")).await.unwrap();
    let became_idle = tokio::task::spawn_blocking(move || {
        let lines = lines.map(|line| serde_json::from_str::<Value>(&line.unwrap()).unwrap());
        lines.filter(|line| line["type"] == "turn_finished").take(2).count()
    });
    assert_eq!(became_idle.await.unwrap(), 2);
    host.stop().await;
}

#[tokio::test]
async fn a_client_that_reads_no_replies_to_its_lines_is_disconnected() {
    let room = Room::fake("prompt\ntext One\nresult\n");
    let host = room.host(&[]).await;
    let client = UnixStream::connect(host.native_path()).unwrap();
    let written = write_only(&client, "{}\n".repeat(4_000_000)).await;
    assert!(written.is_err(), "twelve megabytes of mistakes were read");
    assert!(hung_up(&client, LET_GO_WITHIN).await, "it was not let go: {}", room.log());
    let log = room.log();
    assert!(log.contains("disconnecting a slow client: it read nothing for 10s"), "{log}");
    host.stop().await;
}
