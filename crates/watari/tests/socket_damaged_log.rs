//! Other programs change a session's files under a running host: the host notices and reports it, and sends `accepted`
//! only for what is stored in a file that the next host finds. On the fake CLI.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::fs;
use std::path::{Path, PathBuf};

use host::{Client, Host, Room, of_type};
use serde_json::{Value, json};

/// Three turns.
const SCRIPT: &str = "repeat 3\nprompt\ntext You said $PROMPT\nresult\nend\n";

/// A host whose first turn is done, and the numbered events that a client has of it.
async fn after_a_turn(room: &Room) -> (Host, Vec<Value>) {
    let host = room.host(&[]).await;
    let (mut client, _) = host.native_since(json!(0)).await;
    client.send(json!({"type": "prompt", "id": "one", "content": "one"})).await;
    (host, numbered(client.until("became_idle").await))
}

fn numbered(mut lines: Vec<Value>) -> Vec<Value> {
    lines.retain(|line| line["seq"].is_string());
    lines
}

fn events_file(room: &Room) -> PathBuf {
    room.sessions()[0].join("events.jsonl")
}

/// The answer to a prompt.
async fn prompt(client: &mut Client, name: &str) -> Value {
    client.send(json!({"type": "prompt", "id": name, "content": name})).await;
    loop {
        let line = client.next().await.unwrap();
        if line["id"] == name {
            return line;
        }
    }
}

/// Everything that the host replays from the beginning, and how it answered.
async fn replay(host: &Host) -> (Vec<Value>, Value) {
    let (mut client, hello) = host.native_since(json!(0)).await;
    (numbered(client.until("caught_up").await), hello)
}

/// Asserts that every number from the first to the last is in the file once and in order, or is reported as lost.
fn is_whole(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    // A host that runs may be writing the last line, and one that was killed may have been: the next one cuts it off.
    let text = &text[..text.rfind('\n').unwrap()];
    let events: Vec<Value> = text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let number = |position: &Value| -> u64 { position.as_str().unwrap().split_once(':').unwrap().1.parse().unwrap() };
    let mut last = 0;
    for event in &events {
        assert_eq!(number(&event["seq"]), last + 1, "{event}");
        last = if event["type"] == "events_lost" { event["through"].as_u64().unwrap() } else { number(&event["seq"]) };
    }
    events
}

fn shorten(path: &Path, bytes: u64) {
    fs::File::options().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

#[tokio::test]
async fn a_log_shortened_by_another_program_is_restored_from_memory() {
    let room = Room::fake(SCRIPT);
    let (host, seen) = after_a_turn(&room).await;
    let path = events_file(&room);
    shorten(&path, fs::metadata(&path).unwrap().len() / 2);
    let (mut client, hello) = host.native_since(seen[1]["seq"].clone()).await;
    let received = numbered(client.until("caught_up").await);
    assert_eq!(hello["resume"], "ok");
    assert_eq!(received[..seen.len() - 2], seen[2..]);
    assert_eq!(prompt(&mut client, "two").await["type"], "accepted");
    client.until("became_idle").await;
    let events = is_whole(&path);
    assert_eq!(of_type(&events, "log_restored").len(), 1, "{events:#?}");
    assert_eq!(replay(&host).await.0, events);
    host.stop().await;
}

#[tokio::test]
async fn lost_events_of_a_shortened_log_are_reported_as_lost() {
    // More than the host has in memory.
    let frame = format!("emit {{\"type\":\"newer\",\"text\":\"{}\"}}", "x".repeat(5000));
    let room = Room::fake(&format!("prompt\ntext One\nrepeat 400\n{frame}\nend\nresult\nprompt\nresult\n"));
    let (host, seen) = after_a_turn(&room).await;
    let path = events_file(&room);
    shorten(&path, 1500);
    let (mut client, hello) = host.native_since(seen[1]["seq"].clone()).await;
    assert_eq!(hello["resume"], "gap");
    let received = numbered(client.until("caught_up").await);
    let events = is_whole(&path);
    assert_eq!(received, events);
    let [lost] = of_type(&events, "events_lost")[..] else { panic!("{events:#?}") };
    assert!(room.log().contains("was shortened while the host was running"), "{}", room.log());
    // A client that has all events continues without a gap.
    let (mut client, hello) = host.native_since(json!(format!("1:{}", lost["through"]))).await;
    assert_eq!(hello["resume"], "ok");
    assert_eq!(
        numbered(client.until("caught_up").await),
        events[events.len() - (seen.len() + 1 - lost["through"].as_u64().unwrap() as usize)..]
    );
    assert_eq!(prompt(&mut client, "two").await["type"], "accepted");
    client.until("became_idle").await;
    assert_eq!(replay(&host).await.0, is_whole(&path));
    host.stop().await;
}

#[tokio::test]
async fn a_deleted_log_is_restored_before_a_command_is_accepted() {
    let room = Room::fake(SCRIPT);
    let (host, seen) = after_a_turn(&room).await;
    let path = events_file(&room);
    fs::remove_file(&path).unwrap();
    let (mut client, _) = host.native_since(Value::Null).await;
    assert_eq!(prompt(&mut client, "two").await["type"], "accepted");
    // What was accepted is there when the host is killed.
    host.kill().await;
    let events = is_whole(&path);
    assert_eq!(events[..seen.len()], seen);
    assert_eq!(of_type(&events, "prompt_accepted").len(), 2, "{events:#?}");
}

#[tokio::test]
async fn a_foreign_file_at_the_log_s_path_is_left_alone_and_commands_are_refused_until_it_is_removed() {
    let room = Room::fake(SCRIPT);
    let (host, seen) = after_a_turn(&room).await;
    let path = events_file(&room);
    fs::remove_file(&path).unwrap();
    fs::write(&path, "precious").unwrap();
    let (mut client, hello) = host.native_since(seen[1]["seq"].clone()).await;
    // Clients still receive the old events from the log, and nothing from the file at its path.
    assert_eq!(hello["resume"], "ok");
    assert_eq!(numbered(client.until("caught_up").await), seen[2..]);
    let refused = prompt(&mut client, "two").await;
    assert_eq!(refused["type"], "refused", "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("another file has replaced the log"), "{refused}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");

    fs::remove_file(&path).unwrap();
    client.until("storage_recovered").await;
    assert_eq!(prompt(&mut client, "two").await["type"], "accepted");
    client.until("became_idle").await;
    assert_eq!(is_whole(&path)[..seen.len()], seen);
    host.stop().await;
}

#[tokio::test]
async fn a_removed_state_folder_is_created_again_before_a_command_is_accepted() {
    let room = Room::fake(SCRIPT);
    let (host, seen) = after_a_turn(&room).await;
    let path = events_file(&room);
    let (mut client, _) = host.native_since(Value::Null).await;
    let session_id = room.record()["session_id"].as_str().unwrap().to_owned();
    // The sockets are in it, too, and are another matter.
    let away = room.sandbox.root().join("away");
    fs::rename(room.state().join("sessions"), &away).unwrap();
    fs::remove_dir_all(room.state().join("locks")).unwrap();
    assert_eq!(prompt(&mut client, "two").await["type"], "accepted");
    assert_eq!(is_whole(&path)[..seen.len()], seen);
    client.until("became_idle").await;

    // When it cannot be made again, nothing is accepted.
    fs::remove_dir_all(room.state().join("sessions")).unwrap();
    fs::write(room.state().join("sessions"), "").unwrap();
    let refused = prompt(&mut client, "three").await;
    assert_eq!(refused["type"], "refused", "{refused}");
    fs::remove_file(room.state().join("sessions")).unwrap();
    client.until("storage_recovered").await;
    assert_eq!(prompt(&mut client, "three").await["type"], "accepted");
    host.kill().await;
    assert_eq!(of_type(&is_whole(&path), "prompt_accepted").len(), 3);

    // The next host finds it by its record, and continues.
    let host = room.host(&["--resume", &session_id]).await;
    let (events, hello) = replay(&host).await;
    assert_eq!((&hello["resume"], &events[..seen.len()]), (&json!("ok"), &seen[..]));
    host.stop().await;
}

#[tokio::test]
async fn a_cli_that_writes_only_unparsable_lines_does_not_fill_the_disk() {
    let room = Room::fake("prompt\nrepeat 20_000\nnoise a warning that is no message\nend\ntext Done\nresult\n");
    let host = room.host(&[]).await;
    let (mut client, _) = host.native_since(json!(0)).await;
    client.send(json!({"type": "prompt", "content": "go"})).await;
    let seen = client.until("became_idle").await;
    let noise = of_type(&seen, "unparsed_line_skipped").len();
    assert!(
        noise <= 100,
        "{noise} events for noise were stored, {} bytes",
        fs::metadata(events_file(&room)).unwrap().len()
    );
    let omitted = of_type(&seen, "unparsed_lines_omitted");
    assert_eq!(omitted.len(), 1, "{omitted:?}");
    assert_eq!(omitted[0]["lines"], 20_000 - noise);
    host.stop().await;
}

#[tokio::test]
async fn endless_unknown_messages_stop_at_the_limit_of_the_log() {
    let frame = format!("emit {{\"type\":\"newer\",\"text\":\"{}\"}}", "x".repeat(5000));
    let room = Room::fake(&format!("prompt\nrepeat 1000\n{frame}\nend\nresult\n"));
    let host = room.host(&["--event-log-limit", "1"]).await;
    let (mut client, _) = host.native_since(json!(0)).await;
    client.send(json!({"type": "prompt", "content": "go"})).await;
    let seen = client.until("storage_failed").await;
    let why = seen.last().unwrap()["message"].as_str().unwrap();
    assert!(why.contains("has reached its limit of 1048576 bytes; retrying every second: end the session"), "{why}");
    assert!(fs::metadata(events_file(&room)).unwrap().len() < 1_100_000);
    let refused = prompt(&mut client, "more").await;
    assert_eq!(refused["type"], "refused", "{refused}");
    // Its end is stored.
    host.stop().await;
    assert_eq!(is_whole(&events_file(&room)).last().unwrap()["type"], "cli_exited");
}

#[tokio::test]
async fn an_unreadable_record_is_restored_from_the_log() {
    for damaged in ["", "not JSON", r#"{"version":1,"key":"aaaaaaaaaaaa"}"#] {
        let room = Room::fake(SCRIPT);
        let (host, before) = after_a_turn(&room).await;
        let (key, id) = (room.record()["key"].clone(), room.record()["session_id"].as_str().unwrap().to_owned());
        host.stop().await;
        fs::write(room.sessions()[0].join("record.json"), damaged).unwrap();
        let host = room.host(&["--resume", &id]).await;
        let (seen, hello) = replay(&host).await;
        assert_eq!((&hello["key"], &seen[..before.len()]), (&key, &before[..]), "{damaged:?}");
        assert!(seen.iter().any(|event| event["type"] == "log_restored"), "{seen:#?}");
        host.stop().await;
        assert_eq!(room.sessions().len(), 1);
    }
}

#[tokio::test]
async fn a_log_damaged_in_its_middle_is_repaired_before_it_is_replayed() {
    let removed = |lines: &mut Vec<Vec<u8>>| drop(lines.remove(4));
    let doubled = |lines: &mut Vec<Vec<u8>>| lines.insert(4, lines[4].clone());
    let garbage = |lines: &mut Vec<Vec<u8>>| lines[4] = b"garbage \xff".to_vec();
    let zeros = |lines: &mut Vec<Vec<u8>>| {
        let end = lines[4].len() - 4;
        lines[4][end..end + 2].fill(0);
    };
    type Damage<'a> = (&'a str, &'a dyn Fn(&mut Vec<Vec<u8>>));
    let damages: [Damage<'_>; 4] =
        [("removed", &removed), ("doubled", &doubled), ("garbage", &garbage), ("zeros", &zeros)];
    for (name, damage) in damages {
        let room = Room::fake(SCRIPT);
        let (host, before) = after_a_turn(&room).await;
        let id = room.record()["session_id"].as_str().unwrap().to_owned();
        host.stop().await;
        let text = fs::read(events_file(&room)).unwrap();
        let mut lines: Vec<Vec<u8>> = text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        damage(&mut lines);
        fs::write(events_file(&room), lines.join(&b'\n')).unwrap();
        let host = room.host(&["--resume", &id]).await;
        // Every line is one by the schema, and what is lost is named.
        let (seen, _) = replay(&host).await;
        let is_lost = seen.iter().any(|event| event["type"] == "events_lost");
        assert_eq!(is_lost, name != "doubled", "{name}: {seen:#?}");
        assert_eq!(seen.iter().filter(|event| **event == before[5]).count(), 1, "{name}");
        is_whole(&events_file(&room));
        host.stop().await;
    }
}
