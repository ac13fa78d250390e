//! This version resumes sessions that earlier versions stored: a log and a record of each format are stored here.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::fs;
use std::os::unix::fs::DirBuilderExt;

use host::{Room, transcript};
use serde_json::json;
use watari_protocol::native::{self, NativeEvent};

const SESSION_ID: &str = "3447b64d-2090-41fe-b1dc-65114ad62db4";

/// A room with a session that was stored in this format.
fn room(events: &str, record: &str) -> Room {
    let room = Room::fake("prompt\ntext Again.\nresult\n");
    let folder = room.state().join("sessions/k7q2m4x9p1t0");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).unwrap();
    fs::write(folder.join("events.jsonl"), events).unwrap();
    fs::write(folder.join("record.json"), record).unwrap();
    room
}

#[tokio::test]
async fn a_session_of_format_1_is_replayed_and_continues() {
    let room = room(include_str!("formats/events-1.jsonl"), include_str!("formats/record-1.json"));
    let host = room.host(&["--resume", SESSION_ID]).await;
    let mut client = host.client_with_init().await;
    client.send(json!({"type": "hello", "since": 0, "key": "k7q2m4x9p1t0"})).await;
    let mut seen = client.until("caught_up").await;
    client.say("again").await;
    seen.extend(client.until("done").await);
    // When the CLI is ready, and so how far the session is, is chance.
    seen.retain(|line| line["type"] != "hello");
    insta::assert_snapshot!(transcript(&["usage"], &seen), @r#"
    {"seq":"1:8","text":"I will look.","type":"text_delta"}
    {"input":{"command":"ls"},"request_id":"t1","seq":"1:10","tool":"Bash","type":"tool_use"}
    {"input":{"command":"ls"},"request_id":"t1","seq":"1:12","tool":"Bash","type":"approval_request"}
    {"by":"client 1","decision":"approved","request_id":"t1","seq":"1:13","type":"approval_resolved"}
    {"content":"allowed {\"command\":\"ls\"}","output":"allowed {\"command\":\"ls\"}","request_id":"t1","seq":"1:14","type":"tool_result"}
    {"seq":"1:17","text":"Done.","type":"text_delta"}
    {"message_id":2,"seq":"1:19","type":"done","usage":"usage"}
    {"kind":"session","message":"the session ends: the host received a signal to stop","seq":"1:21","type":"error"}
    {"type":"caught_up"}
    {"text":"Again.","type":"text_delta"}
    {"seq":"2:30","text":"","type":"text_delta"}
    {"message_id":24,"seq":"2:32","type":"done","usage":"usage"}
    "#);
    // A client from that time has a position in it.
    let (mut native, hello) = host.native_since(json!("1:20")).await;
    assert_eq!(hello["resume"], "ok");
    assert_eq!(native.next().await.unwrap()["seq"], "1:21");
    host.stop().await;
}

#[test]
fn every_event_of_format_1_is_read_and_written_back_unchanged() {
    for line in include_str!("formats/events-1.jsonl").lines().skip(1) {
        let read = native::read(line.as_bytes()).unwrap();
        assert!(!matches!(read.event, NativeEvent::Foreign(_)), "{line}");
        let mut written = Vec::new();
        read.write(&mut written);
        assert_eq!(String::from_utf8(written).unwrap(), line);
    }
}

#[tokio::test]
async fn a_session_of_a_newer_watari_is_left_alone() {
    let events = include_str!("formats/events-1.jsonl").replacen("\"version\":1", "\"version\":2", 1);
    let room = room(&events, include_str!("formats/record-1.json"));
    let mut child = room.command(&["--resume", SESSION_ID]).spawn().unwrap();
    let (code, stderr) = host::end_of(&mut child).await;
    assert_eq!(code, Some(1));
    assert!(stderr.contains("is not a log of this version of Watari"), "{stderr}");
    assert_eq!(fs::read_to_string(room.sessions()[0].join("events.jsonl")).unwrap(), events);
}
