//! Malicious lines of clients and of the CLI: only their sender pays for them. On the fake CLI.

#![cfg(all(target_os = "linux", not(watari_portable)))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use host::{Client, Host, Room};
use serde_json::json;
use tokio::task::JoinSet;

const MEBIBYTE: usize = 1024 * 1024;

/// What the host holds of all clients' unfinished lines, at most.
const HELD_BYTES_MAX: usize = 128 * MEBIBYTE;

/// The memory of a process that is its own, in bytes.
fn memory_of(host: &Host) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", host.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() * 1024
}

/// The error for a line with a mistake.
async fn refused(client: &mut Client, line: &str) -> String {
    client.write(line).await;
    client.until("error").await.pop().unwrap()["message"].as_str().unwrap().to_owned()
}

/// How long the slowest answer took while a task runs.
async fn slowest_answer(client: &mut Client, busy: &mut JoinSet<()>) -> Duration {
    let mut slowest = Duration::ZERO;
    while busy.try_join_next().is_none() {
        let asked = Instant::now();
        refused(client, "{}\n").await;
        slowest = slowest.max(asked.elapsed());
    }
    slowest
}

/// Reads lines until one has this text, without looking into them.
async fn raw_until(path: &Path, hello: &'static str, end: &'static str) -> Vec<String> {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(host::WITHIN)).unwrap();
    let reading = move || {
        std::io::Write::write_all(&mut &stream, hello.as_bytes()).unwrap();
        let mut seen = Vec::new();
        for line in BufReader::new(stream).lines() {
            seen.push(line.unwrap());
            if seen.last().is_some_and(|line| line.contains(end)) {
                return seen;
            }
        }
        panic!("it ended without {end}");
    };
    tokio::task::spawn_blocking(reading).await.unwrap()
}

#[tokio::test]
async fn a_value_of_the_cli_with_100_000_levels_is_passed_on_without_harm() {
    let deep = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let use_of_tool = format!(
        r#"{{"type":"assistant","message":{{"id":"m","type":"message","role":"assistant","model":"x","content":[{{"type":"tool_use","id":"t","name":"Bash","input":{deep}}}]}},"session_id":"s","uuid":"33333333-3333-4333-8333-333333333333"}}"#
    );
    let unknown = format!(r#"{{"type":"novelty","value":{deep}}}"#);
    let answered = format!(
        r#"{{"type":"user","message":{{"role":"user","content":[{{"type":"tool_result","tool_use_id":"t","content":[{deep}]}}]}},"tool_use_result":{deep},"session_id":"s","uuid":"44444444-4444-4444-8444-444444444444"}}"#
    );
    let room = Room::fake(&format!(
        "prompt\nnoise {use_of_tool}\nnoise {unknown}\nnoise {answered}\ntext Well.\nresult\nprompt\ntext Still here.\nresult\n"
    ));
    let host = room.host(&[]).await;
    let message = "{\"type\":\"message\",\"text\":\"go\"}\n";
    let seen = raw_until(&host.socket, message, "\"type\":\"done\"").await;
    assert!(seen.iter().any(|line| line.contains(&deep)), "{} lines", seen.len());
    let hello = "{\"type\":\"hello\",\"protocol\":[1],\"since\":0}\n";
    let again = raw_until(&host.native_path(), hello, "became_idle").await;
    assert!(again.iter().filter(|line| line.contains(&deep)).count() >= 3, "{} lines", again.len());
    raw_until(&host.socket, message, "\"type\":\"done\"").await;
    host.stop().await;
}

#[tokio::test]
async fn a_line_with_millions_of_keys_delays_only_its_own_client() {
    let room = Room::fake("prompt\ntext Well.\nresult\n");
    let host = room.host(&[]).await;
    let (mut other, mut sender) = (host.client_with_init().await, host.client_with_init().await);
    let keys: Vec<String> = (0..3_000_000).map(|number| format!("\"{number}\":0")).collect();
    let line = format!("{{{}}}\n{{\"type\":\"fly\"}}\n", keys.join(","));
    let before = memory_of(&host);
    let mut busy = JoinSet::new();
    busy.spawn(async move {
        assert_eq!(refused(&mut sender, &line).await, "the line has 3000000 members; the limit is 1000");
        // Its lines are taken in their order.
        assert!(refused(&mut sender, "").await.starts_with("unknown type \"fly\""));
    });
    let slowest = slowest_answer(&mut other, &mut busy).await;
    assert!(slowest < Duration::from_secs(1), "another client waited {slowest:?}");
    let grown = memory_of(&host).saturating_sub(before);
    assert!(grown < 8 * MEBIBYTE, "{grown} bytes stayed");
    host.stop().await;
}

#[tokio::test]
async fn a_long_line_takes_effect_in_order_even_if_its_client_disconnects() {
    let room = Room::fake(
        "prompt\ntext You said $PROMPT\nresult\nprompt\ntext Two\nresult\nprompt\ntext Three\nresult\nprompt\ntext Four\nresult\n",
    );
    let host = room.host(&[]).await;
    let (mut other, mut sender) = (host.client_with_init().await, host.client_with_init().await);
    let long = format!(r#"{{"type":"message","text":"one","pad":"{}"}}"#, "x".repeat(3 * MEBIBYTE));
    sender.write(&format!("{long}\n{{\"type\":\"message\",\"text\":\"two\"}}\n{long}")).await;
    sender.half_close().await;
    for output in ["You said one", "Two", "Three"] {
        assert_eq!(host::text_of(&other.until("done").await), output);
    }
    // The line of a client that disconnects immediately still counts.
    let (mut gone, _) = host.native_since(serde_json::Value::Null).await;
    let long = format!(r#"{{"type":"prompt","content":"four","pad":"{}"}}"#, "x".repeat(3 * MEBIBYTE));
    gone.write(&format!("{long}\n")).await;
    drop(gone);
    assert_eq!(host::text_of(&other.until("done").await), "Four");
    host.stop().await;
}

#[tokio::test]
async fn the_unfinished_lines_of_all_clients_share_a_budget_that_is_released() {
    let room = Room::fake("prompt\ntext Well.\nresult\n");
    let host = room.host(&[]).await;
    let mut other = host.client_with_init().await;
    let before = memory_of(&host);
    let half = format!(r#"{{"type":"fly","pad":"{}"#, "x".repeat(20 * MEBIBYTE));
    let mut senders = Vec::new();
    for _ in 0..12 {
        let mut sender = host.client_with_init().await;
        sender.write(&half).await;
        // All of it has been read when another client, who came later, is answered.
        refused(&mut other, "{}\n").await;
        senders.push(sender);
    }
    let held = memory_of(&host).saturating_sub(before);
    assert!(held < HELD_BYTES_MAX + 8 * MEBIBYTE, "{held} bytes are held");
    let (mut read, mut skipped) = (0, 0);
    for sender in &mut senders {
        let output = refused(sender, "\"}\n").await;
        match output.contains("was skipped: the unfinished lines of all clients would exceed 128 MiB") {
            true => skipped += 1,
            false => read += usize::from(output.starts_with("unknown type \"fly\"")),
        }
    }
    assert_eq!((read, skipped), (6, 6));
    // A client whose line was skipped can continue.
    assert!(refused(&mut senders[11], "{\"type\":\"fly\"}\n").await.starts_with("unknown type"));
    let stayed = memory_of(&host).saturating_sub(before);
    assert!(stayed < 8 * MEBIBYTE, "{stayed} bytes stayed");
    host.stop().await;
}

#[tokio::test]
async fn clients_that_never_read_long_messages_delay_no_other_client() {
    let room = Room::fake("prompt\ntext One\npause 600000\nresult\n");
    let host = room.host(&[]).await;
    let (mut other, mut sender) = (host.client_with_init().await, host.client_with_init().await);
    sender.say("go").await;
    sender.until("text_delta").await;
    let text = "渡".repeat(MEBIBYTE / 2);
    for id in ["1", "2", "3"] {
        sender.send(json!({"type": "message", "id": id, "text": text})).await;
        sender.until("accepted").await;
    }
    let silent: Vec<UnixStream> = (0..10)
        .map(|number| {
            let path = if number % 2 == 0 { host.socket.clone() } else { host.native_path() };
            let stream = UnixStream::connect(path).unwrap();
            std::io::Write::write_all(&mut &stream, b"{\"type\":\"hello\",\"protocol\":[1],\"since\":0}\n").unwrap();
            stream
        })
        .collect();
    for _ in 0..100 {
        assert_eq!(refused(&mut other, "{}\n").await, "type is missing; it must be a string");
    }
    // Clients that read receive everything, by replay and by snapshot, while the others still do not read.
    for since in [json!(0), json!(null)] {
        let (mut reader, _) = host.native_since(since.clone()).await;
        let seen = reader.until("caught_up").await;
        let whole = seen.iter().filter(|line| line["type"] == "prompt_accepted" && line["content"] == text.as_str());
        assert_eq!(whole.count(), 3, "since {since}");
    }
    drop(silent);
    host.stop().await;
}
