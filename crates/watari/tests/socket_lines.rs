//! Lines that are made to hurt, of clients and of the CLI: they cost their sender, and nobody else. On the fake CLI.

#![cfg(all(target_os = "linux", not(watari_portable)))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;

use host::Room;

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
async fn what_the_cli_nests_100_000_levels_deep_is_passed_on_and_harms_nobody() {
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
