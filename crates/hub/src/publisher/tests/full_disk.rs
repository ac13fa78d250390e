//! A disk that becomes full at every byte of a write, and a session that is closed on it.

use watari_sdk::{Command, Event, HostEvent, Position, Prompt, Sink};

use super::rig::{Client, Rig, grew, started, unknown};
use crate::log::AppendError;
use crate::subscription::Since;

/// An upper bound of the line of a stored `unknown(40)`.
const LINE_BYTES_MAX: u64 = 120;

#[tokio::test(start_paused = true)]
async fn a_disk_that_is_full_at_any_byte_of_a_line_loses_nothing_and_publishes_nothing_too_early() {
    // How many retries fail, and whether the partial line can be cut off.
    for (vain, cuts) in [(0, true), (2, true), (2, false)] {
        for room in 0..=LINE_BYTES_MAX {
            let mut rig = Rig::new();
            let mut client = Client::attach(&mut rig, Since::Now);
            rig.emit(unknown(40));
            rig.disk.leave_room(room);
            rig.disk.fail_to_cut(!cuts);
            rig.emit(started(1));
            rig.emit(grew(1, 0, "after it"));
            rig.emit(unknown(40));
            client.read_all(&mut rig);
            if rig.verify_storage() {
                assert_eq!(room, LINE_BYTES_MAX, "there was room for both");
                continue;
            }
            assert!(!rig.has_room());
            for _ in 0..vain {
                rig.second().await;
            }
            if cuts {
                assert!(rig.stored().iter().all(|line| line.ends_with('}')), "a broken line stays");
            }
            client.read_all(&mut rig);
            let published = client.lines.len();
            assert!(published < 3 && client.texts.len() < published, "{room}: {published} were published");
            rig.disk.make_room();
            rig.disk.fail_to_cut(false);
            rig.second().await;
            assert!(rig.verify_storage() && rig.has_room());
            client.read_all(&mut rig);
            assert!(client.lines.len() == 3 && client.lines.values().eq(&rig.stored()), "{room}");
            assert_eq!(client.texts[&1], "after it");
            let reported: Vec<&str> = client
                .ephemeral
                .iter()
                .map(|line| if line.contains("storage_failed") { "full" } else { "recovered" })
                .collect();
            assert_eq!(reported, ["full", "recovered"]);
            // The next host finds the same.
            if room % 10 == 0 {
                let stored = rig.stored();
                assert_eq!(rig.killed_and_resumed().stored()[..3], stored);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_is_killed_in_the_middle_of_a_line_leaves_a_log_that_the_next_one_uses() {
    for room in (0..=LINE_BYTES_MAX).step_by(5) {
        let mut rig = Rig::new();
        rig.emit(unknown(40));
        let whole = rig.stored();
        // The partial line stays, as when the writer is killed during the write.
        rig.disk.leave_room(room);
        rig.disk.fail_to_cut(true);
        rig.emit(unknown(40));
        let was_stored = rig.verify_storage();
        rig.disk.fail_to_cut(false);
        rig.disk.make_room();
        let mut next = rig.killed_and_resumed();
        assert_eq!(next.stored().len(), if was_stored { 2 } else { 1 });
        assert_eq!(next.stored()[0], whole[0]);
        next.emit(Event::BecameIdle);
        let mut client = Client::attach(&mut next, Since::After(Position { epoch: 1, seq: 1 }));
        client.read_all(&mut next);
        assert!(!client.is_gap && client.lines.values().eq(&next.stored()[1..]), "{room}");
    }
}

#[tokio::test(start_paused = true)]
async fn commands_that_would_be_stored_are_refused_while_the_disk_is_full() {
    let mut rig = Rig::new();
    rig.disk.leave_room(3);
    rig.emit(unknown(40));
    let prompt = Command::Prompt(Prompt::from("more"));
    let refused = rig.refusal_of(&prompt).unwrap().to_string();
    assert!(refused.contains("no space left for the log"), "{refused}");
    assert!([Command::Close, Command::Abort].iter().all(|command| rig.refusal_of(command).is_none()));
    // A client that attaches now is notified too.
    assert!(rig.attach(Since::Now).storage_failure.is_some());
    rig.disk.make_room();
    rig.second().await;
    assert!(rig.refusal_of(&prompt).is_none() && rig.attach(Since::Now).storage_failure.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_is_closed_on_a_full_disk_says_why_and_counts_what_it_drops() {
    let mut rig = Rig::new();
    let mut client = Client::attach(&mut rig, Since::Now);
    rig.disk.leave_room(3);
    rig.publisher.begin_closing();
    assert!(rig.has_room(), "a session that ends is read to its end");
    for _ in 0..100 {
        rig.emit(unknown(200_000));
    }
    rig.publisher.publish(HostEvent::HostStopping { reason: "a test stops it".into() });
    assert!(matches!(rig.publisher.flush(), Err(AppendError::Full { .. })));
    client.read_all(&mut rig);
    assert!(client.lines.is_empty() && rig.stored().is_empty());
    let last = client.ephemeral.last().unwrap();
    assert!(last.contains(r#""type":"host_stopping","reason":"a test stops it""#), "{last}");

    // With space before the end, what fitted is stored and the rest is counted.
    let mut rig = Rig::new();
    let mut client = Client::attach(&mut rig, Since::Now);
    rig.disk.leave_room(3);
    rig.publisher.begin_closing();
    (0..100).for_each(|_| rig.emit(unknown(200_000)));
    rig.disk.make_room();
    rig.publisher.flush().unwrap();
    client.read_all(&mut rig);
    let dropped = rig.stored().last().unwrap().clone();
    let stored = rig.stored().len() - 1;
    assert!(dropped.ends_with(&format!("\"type\":\"events_dropped\",\"count\":{}}}", 100 - stored)), "{dropped}");
    assert!((40..50).contains(&stored) && client.lines.values().eq(&rig.stored()), "{stored}");
}

#[tokio::test(start_paused = true)]
async fn a_log_at_its_limit_stops_the_session_says_so_and_still_stores_its_end() {
    let mut rig = Rig::new();
    rig.publisher.files.limit_log(1_000_000);
    let mut client = Client::attach(&mut rig, Since::Now);
    let mut published = 0;
    while rig.has_room() {
        rig.emit(unknown(5000));
        published += 1;
    }
    assert!(rig.disk.content(&rig.log).unwrap().len() < 1_010_000);
    let refused = rig.refusal_of(&Command::Prompt(Prompt::from("more"))).unwrap().to_string();
    assert!(refused.contains("has reached its limit of 1000000 bytes"), "{refused}");
    rig.publisher.publish(HostEvent::HostStopping { reason: "a test stops it".into() });
    rig.publisher.flush().unwrap();
    client.read_all(&mut rig);
    assert!(client.lines.values().eq(&rig.stored()));
    assert!(client.lines.len() == published + 1 && client.lines.values().last().unwrap().contains("host_stopping"));
    // The next host may have a higher limit, and continues.
    let mut next = rig.killed_and_resumed();
    next.emit(unknown(5000));
    assert!(next.verify_storage() && next.stored().len() == published + 2);
}
