//! Tests of the publisher, its log, its ring and its clients in memory, with virtual time, on a disk that the test
//! fills, breaks and repairs. The session is scripted: the test emits events to the publisher as the driver does.

mod commands;
mod damage;
mod full_disk;
mod locks;
mod rig;
mod schedules;
mod slices;
mod unparsed;

use rig::{Client, Rig, asked, closed, discarded, grew, started, unknown};
use watari_sdk::{Event, Position};

use crate::subscription::Since;

#[tokio::test(start_paused = true)]
async fn a_replay_from_every_position_is_all_that_stands_behind_it() {
    let mut rig = Rig::new();
    for block in 0..20 {
        rig.emit(started(block));
        rig.emit(grew(block, 0, "text"));
        // Every third line is too long for the ring.
        rig.emit(if block % 3 == 0 { unknown(70_000) } else { unknown(3) });
        rig.emit(discarded(block));
    }
    let stored = rig.stored();
    assert_eq!(stored.len(), 60);
    for after in 0..=60 {
        let mut client = Client::attach(&mut rig, Since::After(Position { epoch: 1, seq: after }));
        client.read_all(&mut rig);
        assert!(!client.is_gap);
        assert!(client.lines.values().eq(&stored[usize::try_from(after).unwrap()..]), "after {after}");
        assert!(client.texts.is_empty() && client.snapshot.is_empty());
    }
    for elsewhere in
        [Since::OtherSession, Since::After(Position { epoch: 1, seq: 61 }), Since::After(Position { epoch: 2, seq: 1 })]
    {
        let mut client = Client::attach(&mut rig, elsewhere);
        client.read_all(&mut rig);
        assert!(client.is_gap && client.lines.values().eq(&stored), "{elsewhere:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_late_client_gets_open_asks_and_blocks_with_their_text_and_nothing_that_has_ended() {
    let mut rig = Rig::new();
    for event in
        [asked(1), started(2), grew(2, 0, "wa"), asked(3), closed(1), started(4), grew(4, 0, "gone"), discarded(4)]
    {
        rig.emit(event);
    }
    rig.emit(grew(2, 2, "ta"));
    let mut late = Client::attach(&mut rig, Since::Now);
    rig.emit(grew(2, 4, "ri"));
    rig.emit(closed(3));
    late.read_all(&mut rig);
    assert_eq!(late.snapshot, [2, 3].into());
    assert_eq!(late.texts, [(2, "watari".to_owned())].into());
    assert_eq!(late.lines.keys().copied().collect::<Vec<_>>(), [7]);
    // A client that stores only its position gets the open asks from before it again.
    rig.emit(asked(5));
    let mut forgetful = Client::attach(&mut rig, Since::AfterWithAsks(Position { epoch: 1, seq: 8 }));
    forgetful.read_all(&mut rig);
    assert_eq!((forgetful.snapshot, forgetful.lines.len()), ([8].into(), 0));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_falls_behind_the_ring_loses_no_event_and_no_text() {
    let mut rig = Rig::new();
    let mut slow = Client::attach(&mut rig, Since::After(Position::default()));
    slow.read_all(&mut rig);
    rig.emit(started(1));
    for at in 0..30_u64 {
        rig.emit(grew(1, at * 60_000, &"x".repeat(60_000)));
        rig.emit(unknown(60_000));
    }
    assert!(slow.subscription.behind_bytes() > 3_000_000);
    slow.read_all(&mut rig);
    assert!(slow.lines.values().eq(&rig.stored()));
    assert_eq!(slow.texts[&1].len(), 30 * 60_000);
    assert_eq!(slow.subscription.behind_bytes(), 0);
}

#[tokio::test(start_paused = true)]
async fn clients_read_what_is_left_when_the_host_has_ended() {
    let mut rig = Rig::new();
    let mut client = Client::attach(&mut rig, Since::Now);
    rig.emit(Event::BecameIdle);
    let mut next = rig.killed_and_resumed();
    client.read_all(&mut next);
    assert!(client.has_ended && client.lines.len() == 1);
    // The next host continues after it, in another epoch.
    next.emit(Event::BecameIdle);
    client.attach_again(&mut next, Since::After(client.last));
    client.read_all(&mut next);
    assert!(!client.is_gap && client.lines.values().eq(&next.stored()));
    assert_eq!(client.last, Position { epoch: 2, seq: 2 });
}

#[tokio::test(start_paused = true)]
async fn what_a_killed_host_left_open_is_ended_by_the_next_one() {
    let mut rig = Rig::new();
    for event in [asked(1), started(2), asked(3), closed(1)] {
        rig.emit(event);
    }
    let rig = rig.killed_and_resumed();
    let stored = rig.stored();
    let ended: Vec<&str> =
        stored[4..].iter().map(|line| &line[..line.find(",\"block\"").or(line.find(",\"kind")).unwrap()]).collect();
    assert_eq!(ended, [r#"{"seq":"2:5","type":"ask_resolved","ask":3"#, r#"{"seq":"2:6","type":"block_discarded""#]);
}
