//! Another program changes the log's file under a running host, in memory: the host detects it before it accepts or
//! replays anything, reports it, and the log continues in order.

use serde_json::Value;
use watari_sdk::{Command, Event, Position, Prompt};

use super::rig::{Client, Rig, asked, started, unknown};
use crate::subscription::Since;

/// Asserts that every number is in the log once and in order, or marked as lost.
fn is_whole(rig: &Rig) -> Vec<Value> {
    let events: Vec<Value> = rig.stored().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut last = 0;
    for event in &events {
        let position: Position = event["seq"].as_str().unwrap().parse().unwrap();
        assert_eq!(position.seq, last + 1, "{event}");
        last = event["through"].as_u64().unwrap_or(position.seq);
    }
    events
}

fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// A session of a few small events. Unless `fits`, large events have pushed them out of the ring.
fn session(fits: bool) -> Rig {
    let mut rig = Rig::new();
    rig.emit(asked(1));
    (0..8).for_each(|_| rig.emit(unknown(40)));
    if !fits {
        // These push the others out of the ring.
        (0..40).for_each(|_| rig.emit(unknown(60_000)));
    }
    rig
}

fn prompt() -> Command {
    Command::Prompt(Prompt::from("more"))
}

#[tokio::test(start_paused = true)]
async fn a_log_shortened_to_any_length_is_written_again_from_memory() {
    let length = {
        let rig = session(true);
        rig.disk.content(&rig.log).unwrap().len()
    };
    // Each iteration waits for a real disk, to which the record is written.
    for cut in (0..length).step_by(13) {
        let mut rig = session(true);
        let before = rig.stored();
        rig.disk.tamper(&rig.log, |bytes| bytes.truncate(cut));
        // Some events happen before the damage is detected.
        (0..cut % 3).for_each(|_| rig.emit(started(2)));
        let mut client = Client::attach(&mut rig, Since::After(Position { epoch: 1, seq: 2 }));
        client.read_all(&mut rig);
        assert!(!client.is_gap, "{cut}");
        let events = is_whole(&rig);
        assert_eq!(rig.stored()[..9], before, "{cut}");
        assert_eq!(types(&events[9 + cut % 3..]), ["log_restored"], "{cut}");
        assert!(client.lines.values().eq(&rig.stored()[2..]), "{cut}");
        assert_eq!(rig.disk.names(), [rig.log.clone()]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_neither_the_file_nor_memory_has_is_marked_as_lost_and_a_gap_for_clients_without_it() {
    for (keep, lost_from) in [(0, 1), (300, 2), (1000, 8)] {
        let mut rig = session(false);
        let before = rig.stored();
        let mut live = Client::attach(&mut rig, Since::Now);
        rig.disk.tamper(&rig.log, |bytes| bytes.truncate(keep));
        let mut client = Client::attach(&mut rig, Since::After(Position { epoch: 1, seq: 1 }));
        client.read_all(&mut rig);
        assert!(client.is_gap, "{keep}");
        let events = is_whole(&rig);
        assert!(client.lines.values().eq(&rig.stored()), "{keep}");
        let mark = events.iter().find(|event| event["type"] == "events_lost").unwrap();
        assert!(mark["seq"] == format!("1:{lost_from}") || keep > 0, "{mark}");
        let through = mark["through"].as_u64().unwrap();
        // A client that has all the lost events misses nothing.
        let mut late = Client::attach(&mut rig, Since::After(Position { epoch: 1, seq: through }));
        late.read_all(&mut rig);
        assert!(!late.is_gap && late.lines.len() as u64 == before.len() as u64 - through + 1);
        // A connected client is notified once.
        rig.emit(unknown(3));
        live.read_all(&mut rig);
        assert_eq!(live.lines.len(), 2);
        assert!(live.lines.values().next().unwrap().contains("was shortened while the host was running"));
        // The next host knows it too, and assigns no number twice.
        let last = is_whole(&rig).len();
        let mut next = rig.killed_and_resumed();
        assert!(is_whole(&next).len() >= last);
        assert!(Client::attach(&mut next, Since::After(Position { epoch: 1, seq: 1 })).is_gap);
        assert!(!Client::attach(&mut next, Since::After(Position { epoch: 1, seq: through })).is_gap);
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_that_was_deleted_is_whole_again_before_a_command_is_accepted() {
    let mut rig = session(false);
    let before = rig.stored();
    rig.disk.remove(&rig.log).unwrap();
    assert!(rig.verify_storage() && rig.refusal_of(&prompt()).is_none());
    assert_eq!(rig.stored()[..before.len()], before);
    assert_eq!(types(&is_whole(&rig)[before.len()..]), ["log_restored"]);
}

#[tokio::test(start_paused = true)]
async fn a_log_that_was_deleted_is_noticed_within_a_second_of_the_next_event() {
    let mut rig = session(true);
    rig.second().await;
    rig.disk.remove(&rig.log).unwrap();
    rig.emit(Event::BecameIdle);
    rig.work();
    assert_eq!(rig.disk.content(&rig.log), None);
    rig.second().await;
    assert_eq!(types(&is_whole(&rig)[9..]), ["became_idle", "log_restored"]);
}

/// A change of the disk.
type DiskChange = fn(&Rig);

#[tokio::test(start_paused = true)]
async fn nothing_is_accepted_while_the_log_cannot_be_restored() {
    let hindrances: [(&str, DiskChange, DiskChange); 3] = [
        (
            "another file has replaced",
            |rig| rig.disk.replace(&rig.log, b"precious"),
            |rig| rig.disk.remove(&rig.log).unwrap(),
        ),
        ("not a directory", |rig| rig.disk.fail_to_open(true), |rig| rig.disk.fail_to_open(false)),
        ("no storage space", |rig| rig.disk.leave_room(100), |rig| rig.disk.make_room()),
    ];
    for (why, hinder, relent) in hindrances {
        let mut rig = session(false);
        let before = rig.stored();
        let mut client = Client::attach(&mut rig, Since::Now);
        rig.disk.remove(&rig.log).unwrap();
        hinder(&rig);
        assert!(!rig.verify_storage());
        let refused = rig.refusal_of(&prompt()).unwrap().to_string();
        assert!(refused.contains(why), "{refused}");
        // Clients can still replay what is there.
        let mut late = Client::attach(&mut rig, Since::After(Position::default()));
        late.read_all(&mut rig);
        assert!(!late.is_gap && late.lines.values().eq(&before));
        rig.emit(started(2));
        rig.second().await;
        if why.starts_with("another") {
            assert_eq!(rig.disk.content(&rig.log).unwrap(), b"precious");
        }
        relent(&rig);
        rig.second().await;
        assert!(rig.verify_storage() && rig.refusal_of(&prompt()).is_none(), "{why}");
        assert_eq!(types(&is_whole(&rig)[before.len()..]), ["block_started", "log_restored"]);
        client.read_all(&mut rig);
        assert!(client.lines.values().eq(&rig.stored()[before.len()..]));
        assert_eq!(rig.disk.names(), [rig.log.clone()]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_another_program_appends_is_taken_out_again() {
    let mut rig = session(true);
    let before = rig.stored();
    rig.disk.tamper(&rig.log, |bytes| bytes.extend_from_slice(b"graffiti\n{\"seq\":\"1:99"));
    let mut client = Client::attach(&mut rig, Since::After(Position::default()));
    client.read_all(&mut rig);
    assert_eq!(rig.stored()[..9], before);
    assert_eq!(types(&is_whole(&rig)[9..]), ["log_restored"]);
}

#[tokio::test(start_paused = true)]
async fn a_host_killed_before_it_noticed_leaves_a_log_that_the_next_one_uses() {
    let length = {
        let rig = session(true);
        rig.disk.content(&rig.log).unwrap().len()
    };
    for cut in (0..length).step_by(17) {
        for more in 0..3 {
            let mut rig = session(true);
            rig.disk.tamper(&rig.log, |bytes| bytes.truncate(cut));
            (0..more).for_each(|_| rig.emit(Event::BecameIdle));
            let mut next = rig.killed_and_resumed();
            next.emit(Event::BecameIdle);
            let events = is_whole(&next);
            let idle = events.iter().filter(|event| event["type"] == "became_idle").count();
            assert_eq!(idle, more + 1, "{cut} {more}");
            let mut client = Client::attach(&mut next, Since::After(Position::default()));
            client.read_all(&mut next);
            assert!(client.lines.values().eq(&next.stored()), "{cut} {more}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_log_shortened_while_there_was_no_host_says_what_is_lost_and_no_number_is_given_twice() {
    let mut rig = session(true);
    rig.publisher.files.record_running().unwrap();
    rig.publisher.files.record_ended().unwrap();
    let log = rig.log.clone();
    let bytes = rig.disk.content(&log).unwrap();
    let keep = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(4).unwrap().0 + 1;
    rig.disk.tamper(&log, |bytes| bytes.truncate(keep));
    let mut next = rig.killed_and_resumed();
    next.emit(Event::BecameIdle);
    let events = is_whole(&next);
    assert_eq!((&events[4]["type"], &events[4]["through"]), (&"events_lost".into(), &9.into()));
    assert_eq!(
        events[5]["message"],
        "another program changed the log since the last host; events up to number 9 were lost"
    );
    assert!(Client::attach(&mut next, Since::After(Position { epoch: 1, seq: 4 })).is_gap);
    assert!(!Client::attach(&mut next, Since::After(Position { epoch: 1, seq: 9 })).is_gap);
}

#[tokio::test(start_paused = true)]
async fn a_host_killed_between_any_two_steps_of_a_restore_leaves_a_log_that_the_next_one_uses() {
    let damages: [(&str, DiskChange); 2] = [
        ("shortened", |rig| rig.disk.tamper(&rig.log, |bytes| bytes.truncate(150))),
        ("deleted", |rig| rig.disk.remove(&rig.log).unwrap()),
    ];
    for (name, damage) in damages {
        for changes in 0.. {
            let mut rig = session(true);
            rig.publisher.files.record_running().unwrap();
            damage(&rig);
            rig.disk.kill_after(Some(changes));
            let is_restored = rig.verify_storage();
            rig.disk.kill_after(None);
            let mut next = rig.killed_and_resumed();
            next.emit(Event::BecameIdle);
            let stored = is_whole(&next).len();
            // A client that has seen lost events is notified, and no client gets another event under a known position.
            let mut client = Client::attach(&mut next, Since::After(Position { epoch: 1, seq: 9 }));
            client.read_all(&mut next);
            let has_all = types(&is_whole(&next)).iter().filter(|kind| **kind == "unknown").count() == 8;
            assert_eq!(client.is_gap, !has_all, "{name}, killed after {changes}");
            assert!(
                client.lines.values().eq(&next.stored()[if has_all { 9 } else { 0 }..]),
                "{name} {changes}: {stored}"
            );
            let first = next.stored()[0].clone();
            let early = Client::attach(&mut next, Since::After(Position { epoch: 1, seq: 1 }));
            assert!(
                early.is_gap || first.contains("ask_opened"),
                "{name}, killed after {changes}: another 1:1 is {first}"
            );
            assert!(has_all || !is_restored);
            if is_restored {
                break;
            }
        }
    }
}
