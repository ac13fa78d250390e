//! Random schedules of events, clients, full disks and time; at the end, every client must know everything it should.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::Value;
use watari_sdk::{Event, Position};

use super::rig::{Client, Rig, asked, closed, discarded, grew, started, unknown};
use crate::subscription::Since;

const CLIENTS: usize = 4;

#[derive(Debug, Clone)]
enum Step {
    Start,
    Grow(String),
    Discard,
    Ask,
    Close,
    Unknown(usize),
    /// A client attaches: from now on, or after a number.
    Attach(usize, Option<u64>),
    /// A client is disconnected, and attaches again at its position.
    ComeBack(usize),
    Read(usize, usize),
    LeaveRoom(u64),
    MakeRoom,
    Second,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Start),
        6 => "[a-z渡り]{1,4}".prop_map(Step::Grow),
        // Some fill the ring within a few steps.
        1 => Just(Step::Grow("x".repeat(200_000))),
        1 => Just(Step::Discard),
        1 => Just(Step::Ask),
        1 => Just(Step::Close),
        2 => prop_oneof![0_usize..200, 60_000_usize..70_000, Just(300_000)].prop_map(Step::Unknown),
        2 => (0..CLIENTS, proptest::option::of(0_u64..12)).prop_map(|(client, after)| Step::Attach(client, after)),
        1 => (0..CLIENTS).prop_map(Step::ComeBack),
        6 => (0..CLIENTS, 1_usize..6).prop_map(|(client, times)| Step::Read(client, times)),
        1 => (0_u64..400).prop_map(Step::LeaveRoom),
        1 => Just(Step::MakeRoom),
        1 => Just(Step::Second),
    ]
}

/// The session's events, as the script knows them.
#[derive(Default)]
struct Script {
    published: Vec<Value>,
    texts: BTreeMap<u64, String>,
    asks: BTreeSet<u64>,
    ids: u64,
}

impl Script {
    fn next(&mut self, step: &Step) -> Option<Event> {
        let event = match step {
            Step::Start => {
                self.ids += 1;
                self.texts.insert(self.ids, String::new());
                started(self.ids)
            }
            Step::Grow(more) => {
                let (block, text) = self.texts.iter_mut().next_back()?;
                let at = text.chars().count() as u64;
                text.push_str(more);
                return Some(grew(*block, at, more));
            }
            Step::Discard => discarded(self.texts.pop_first()?.0),
            Step::Ask => {
                self.ids += 1;
                self.asks.insert(self.ids);
                asked(self.ids)
            }
            Step::Close => closed(self.asks.pop_first()?),
            Step::Unknown(bytes) => unknown(*bytes),
            Step::Attach(..)
            | Step::ComeBack(_)
            | Step::Read(..)
            | Step::LeaveRoom(_)
            | Step::MakeRoom
            | Step::Second => {
                return None;
            }
        };
        self.published.push(serde_json::to_value(&event).unwrap());
        Some(event)
    }
}

/// The numbers of the stored events that opened something which has not ended.
fn open_items(stored: &[String]) -> BTreeSet<u64> {
    let mut open = BTreeMap::new();
    for (line, number) in stored.iter().zip(1..) {
        let event: Value = serde_json::from_str(line).unwrap();
        let id = |name: &str| (name.to_owned(), event[name].as_u64().unwrap());
        match event["type"].as_str().unwrap() {
            "block_started" => drop(open.insert(id("block"), number)),
            "ask_opened" => drop(open.insert(id("ask"), number)),
            "block_discarded" => drop(open.remove(&id("block"))),
            "ask_resolved" => drop(open.remove(&id("ask"))),
            "unknown" => {}
            other => panic!("{other}"),
        }
    }
    open.into_values().collect()
}

/// A client, with what it must have at the end.
struct Judged {
    client: Client,
    /// It has everything after this number.
    after: u64,
    snapshot: BTreeSet<u64>,
}

fn attach(rig: &mut Rig, after: Option<u64>) -> Judged {
    let stored = rig.stored();
    let count = stored.len() as u64;
    match after {
        None => Judged { client: Client::attach(rig, Since::Now), after: count, snapshot: open_items(&stored) },
        Some(number) => {
            let position = Position { epoch: 1, seq: number };
            let client = Client::attach(rig, Since::After(position));
            assert_eq!(client.is_gap, number > count, "{number} of {count}");
            Judged { client, after: if number > count { 0 } else { number }, snapshot: BTreeSet::new() }
        }
    }
}

async fn play(steps: Vec<Step>) {
    let mut rig = Rig::new();
    let mut script = Script::default();
    let mut clients: [Option<Judged>; CLIENTS] = Default::default();
    for step in &steps {
        if let Some(event) = script.next(step) {
            rig.emit(event);
            continue;
        }
        match step {
            Step::Attach(client, after) => clients[*client] = Some(attach(&mut rig, *after)),
            Step::ComeBack(client) => {
                if let Some(judged) = clients[*client].as_mut().filter(|judged| judged.client.is_caught_up) {
                    let last = judged.client.last;
                    judged.client.attach_again(&mut rig, Since::After(last));
                }
            }
            Step::Read(client, times) => {
                if let Some(judged) = &mut clients[*client] {
                    judged.client.read(&mut rig, *times);
                }
            }
            Step::LeaveRoom(bytes) => rig.disk.leave_room(*bytes),
            Step::MakeRoom => rig.disk.make_room(),
            Step::Second => rig.second().await,
            Step::Start | Step::Grow(_) | Step::Discard | Step::Ask | Step::Close | Step::Unknown(_) => {}
        }
    }
    rig.disk.make_room();
    rig.second().await;
    judge(&mut rig, &script, clients);
}

fn judge(rig: &mut Rig, script: &Script, clients: [Option<Judged>; CLIENTS]) {
    let stored = rig.stored();
    let events: Vec<Value> = stored.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events.len(), script.published.len());
    for ((stored, published), number) in events.iter().zip(&script.published).zip(1..) {
        let mut published = published.clone();
        published["seq"] = format!("1:{number}").into();
        assert_eq!(stored, &published);
    }
    for judged in clients.into_iter().flatten() {
        let Judged { mut client, after, snapshot } = judged;
        client.read_all(rig);
        assert!(client.is_caught_up);
        assert!(client.lines.values().eq(&stored[usize::try_from(after).unwrap()..]), "after {after}");
        assert_eq!(client.snapshot, snapshot);
        let texts = script.texts.iter().filter(|(_, text)| !text.is_empty());
        assert!(client.texts.iter().eq(texts), "{:?}", client.texts.keys());
    }
}

/// How many schedules are played: each moves megabytes.
fn cases() -> u32 {
    if std::env::var_os("CI").is_some_and(|value| value == "true") { 512 } else { 48 }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]
    /// Every client has every numbered event exactly once and in order, no text doubled or lost, and a whole snapshot.
    #[test]
    fn in_any_schedule_every_client_knows_what_there_is_to_know(steps in proptest::collection::vec(step(), 1..80)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(play(steps));
    }
}
