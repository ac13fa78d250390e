//! A publisher and its clients in memory: the test plays the session, the disk and the clock.

use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use serde_json::Value;
use tempfile::TempDir;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::unconstrained;
use watari_sdk::native;
use watari_sdk::{
    AskId, AskKind, AskResolution, BlockId, BlockKind, Command, Delta, Event, Grant, MessageId, PermissionAsk,
    Position, RawJson, Refusal, SessionId, SessionState, Sink, ToolUseId, Work,
};

use crate::host::{StopWatch, Stopper};
use crate::log::storage::{Disk, memory};
use crate::publisher::{Publisher, PublisherRequest};
use crate::session_files::{Conversation, SessionDirs, SessionFiles};
use crate::subscription::{Attachment, Delivery, Since, Subscription};

pub(super) struct Rig {
    pub(super) disk: memory::Disk,
    pub(super) publisher: Publisher,
    pub(super) stopper: Stopper,
    pub(super) log: PathBuf,
    requests: mpsc::Sender<PublisherRequest>,
    home: SessionDirs,
    _folder: Option<TempDir>,
    _state: watch::Receiver<SessionState>,
}

pub(super) const SESSION: &str = "11111111-1111-4111-8111-111111111111";

impl Rig {
    pub(super) fn new() -> Rig {
        let folder = tempfile::tempdir().unwrap();
        let home =
            SessionDirs { state: folder.path().join("state"), runtime: folder.path().join("run"), conversations: None };
        let conversation = Conversation::New(SessionId::parse(SESSION).unwrap());
        Rig::open(memory::Disk::new(), home, &conversation, Some(folder))
    }

    fn open(disk: memory::Disk, home: SessionDirs, conversation: &Conversation, folder: Option<TempDir>) -> Rig {
        let cwd = home.state.clone();
        let files = SessionFiles::open_on(Disk::Memory(disk.clone()), &home, conversation, &cwd, 17, "a test").unwrap();
        let log = files.folder().join("events.jsonl");
        let (requests, receiver) = mpsc::channel(8);
        let (state, states) = watch::channel(SessionState::Starting);
        let stopper = Stopper::new();
        let mut publisher = Publisher::new(files, receiver, state, StopWatch::new(stopper.clone()));
        publisher.close_left_open();
        publisher.flush().unwrap();
        publisher.process_starting();
        Rig { disk, publisher, stopper, log, requests, home, _folder: folder, _state: states }
    }

    /// Kills the host, and lets the next one open the session.
    pub(super) fn killed_and_resumed(mut self) -> Rig {
        // Every host has done this before it runs; here it comes late, because it waits for a real disk.
        self.publisher.files.record_running().unwrap();
        let (disk, home, folder) = (self.disk.clone(), self.home.clone(), self._folder.take());
        drop(self);
        Rig::open(disk, home, &Conversation::Resumed(SessionId::parse(SESSION).unwrap()), folder)
    }

    pub(super) fn emit(&mut self, event: Event) {
        self.publisher.emit(event);
    }

    /// Polls the publisher. True if that changed something.
    pub(super) fn work(&mut self) -> bool {
        self.next_work().is_some()
    }

    /// Polls the publisher, and returns what the driver is to do.
    pub(super) fn next_work(&mut self) -> Option<Work> {
        // A test is one long task, and must not be paused by tokio's cooperative budget.
        let work = pin!(unconstrained(poll_fn(|context| self.publisher.poll_work(context))));
        match work.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(work) => Some(work),
            Poll::Pending => None,
        }
    }

    /// Verifies the storage, as before a command, and returns whether every event is stored.
    pub(super) fn verify_storage(&mut self) -> bool {
        self.publisher.verify();
        !self.publisher.is_storage_blocked()
    }

    /// Why a command would be refused now.
    pub(super) fn refusal_of(&mut self, command: &Command) -> Option<Refusal> {
        self.publisher.admit(command).err()
    }

    /// Whether the CLI would be read now.
    pub(super) fn has_room(&mut self) -> bool {
        self.publisher.poll_room(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    pub(super) fn attach(&mut self, since: Since) -> Attachment {
        let (answer, mut attached) = oneshot::channel();
        self.requests.try_send(PublisherRequest::Attach { since, answer }).unwrap();
        self.work();
        attached.try_recv().unwrap()
    }

    /// The numbered lines that are stored.
    pub(super) fn stored(&self) -> Vec<String> {
        let text = String::from_utf8(self.disk.content(&self.log).unwrap()).unwrap();
        assert!(text.ends_with('\n'), "{text}");
        text.lines().skip(1).map(str::to_owned).collect()
    }

    /// Advances the clock by a second.
    pub(super) async fn second(&mut self) {
        tokio::time::advance(std::time::Duration::from_secs(1)).await;
        self.work();
    }
}

/// A line as it is written after it was read.
fn rewritten(line: &str) -> String {
    let read = native::read(line.as_bytes()).unwrap_or_else(|error| panic!("{error}: {line}"));
    let mut text = Vec::new();
    read.write(&mut text);
    String::from_utf8(text).unwrap()
}

/// A client, with the state that a client can derive.
pub(super) struct Client {
    pub(super) subscription: Subscription,
    pub(super) is_gap: bool,
    /// The numbered lines, by number. Those of a snapshot are separate.
    pub(super) lines: BTreeMap<u64, String>,
    pub(super) snapshot: BTreeSet<u64>,
    /// The text of open blocks.
    pub(super) texts: BTreeMap<u64, String>,
    pub(super) ephemeral: Vec<String>,
    pub(super) last: Position,
    known: Position,
    pub(super) is_caught_up: bool,
    pub(super) has_ended: bool,
    /// The most bytes that one call read from the disk.
    pub(super) most_read_at_once: u64,
    /// The most bytes that one call delivered.
    pub(super) most_delivered_at_once: u64,
}

impl Client {
    pub(super) fn attach(rig: &mut Rig, since: Since) -> Client {
        let attached = rig.attach(since);
        Client {
            subscription: attached.subscription,
            is_gap: attached.is_gap,
            lines: BTreeMap::new(),
            snapshot: BTreeSet::new(),
            texts: BTreeMap::new(),
            ephemeral: Vec::new(),
            last: attached.client_position,
            known: attached.client_position,
            is_caught_up: false,
            has_ended: false,
            most_read_at_once: 0,
            most_delivered_at_once: 0,
        }
    }

    /// Attaches again with nothing but its position and its lines.
    pub(super) fn attach_again(&mut self, rig: &mut Rig, since: Since) {
        let attached = rig.attach(since);
        if attached.is_gap {
            self.lines.clear();
        }
        self.is_gap = attached.is_gap;
        (self.subscription, self.known, self.last) =
            (attached.subscription, attached.client_position, attached.client_position);
        self.texts.clear();
        self.is_caught_up = false;
    }

    /// Reads at most so many times; false when nothing more comes for now.
    pub(super) fn read(&mut self, rig: &mut Rig, times: usize) -> bool {
        for _ in 0..times {
            let mut published = Vec::new();
            let before = rig.disk.read_bytes();
            let delivery = {
                let next =
                    pin!(self.subscription.next(|line| published.push(String::from_utf8(line.to_vec()).unwrap())));
                next.poll(&mut Context::from_waker(Waker::noop()))
            };
            self.most_read_at_once = self.most_read_at_once.max(rig.disk.read_bytes() - before);
            self.most_delivered_at_once =
                self.most_delivered_at_once.max(published.iter().map(|line: &String| line.len() as u64).sum());
            published.into_iter().for_each(|line| self.take(line));
            match delivery {
                Poll::Pending => return false,
                Poll::Ready(Ok(Delivery::Delivered { .. })) => {}
                // As a connection does in another thread.
                Poll::Ready(Ok(Delivery::Long(long))) => self.take(String::from_utf8(long.read().unwrap()).unwrap()),
                Poll::Ready(Ok(Delivery::Lagged)) => self.attach_again(rig, Since::Lagged(self.last)),
                Poll::Ready(Ok(Delivery::Ended)) => {
                    self.has_ended = true;
                    return false;
                }
                Poll::Ready(Err(error)) => panic!("{error}"),
            }
        }
        true
    }

    pub(super) fn read_all(&mut self, rig: &mut Rig) {
        while self.read(rig, 1000) {}
    }

    fn take(&mut self, line: String) {
        assert_eq!(rewritten(&line), line);
        let event: Value = serde_json::from_str(&line).unwrap();
        let Some(position) = event["seq"].as_str().map(|seq| seq.parse::<Position>().unwrap()) else {
            self.take_ephemeral(&event, line);
            return;
        };
        if position.seq <= self.known.seq {
            // It is part of the snapshot, which is delivered before `caught_up`.
            assert!(!self.is_caught_up, "{line}");
            assert!(self.snapshot.insert(position.seq) || self.lines.contains_key(&position.seq), "twice: {line}");
        } else {
            assert!(position > self.last, "{line} after {}", self.last);
            assert!(self.lines.insert(position.seq, line).is_none(), "{position} came twice");
            self.last = position;
        }
        if event["type"] == "block_discarded" {
            self.texts.remove(&event["block"].as_u64().unwrap());
        }
    }

    fn take_ephemeral(&mut self, event: &Value, line: String) {
        match event["type"].as_str().unwrap() {
            "caught_up" => self.is_caught_up = true,
            "block_delta" => {
                let text = self.texts.entry(event["block"].as_u64().unwrap()).or_default();
                assert_eq!(text.chars().count() as u64, event["at"].as_u64().unwrap(), "lost or doubled: {line}");
                text.push_str(event["delta"]["text"].as_str().unwrap());
            }
            _ => self.ephemeral.push(line),
        }
    }
}

pub(super) fn started(block: u64) -> Event {
    let (message, content) = (MessageId("m".into()), RawJson::from("{}"));
    Event::BlockStarted { block: BlockId(block), message, index: 0, kind: BlockKind::Text, content }
}

pub(super) fn grew(block: u64, at: u64, text: &str) -> Event {
    Event::BlockDelta { block: BlockId(block), at, delta: Delta::Text(text.into()) }
}

pub(super) fn discarded(block: u64) -> Event {
    Event::BlockDiscarded { block: BlockId(block) }
}

/// An event that carries so many bytes.
pub(super) fn unknown(bytes: usize) -> Event {
    Event::Unknown { frame: RawJson::of(&"x".repeat(bytes)) }
}

fn permission(ask: u64) -> AskKind {
    AskKind::Permission(Box::new(PermissionAsk {
        tool: "Bash".into(),
        input: RawJson::from("{}"),
        tool_use: Some(ToolUseId(format!("t{ask}"))),
        agent: None,
        suggestions: None,
        needs_person: false,
        raw: RawJson::from("{}"),
        repeated: false,
    }))
}

pub(super) fn asked(ask: u64) -> Event {
    Event::AskOpened { ask: AskId(ask), kind: permission(ask) }
}

pub(super) fn closed(ask: u64) -> Event {
    Event::AskResolved {
        ask: AskId(ask),
        summary: permission(ask).summary(),
        resolution: AskResolution::Allowed,
        by: None,
        grant: Grant::default(),
    }
}
