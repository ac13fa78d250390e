//! The replay oracle: one client that stays connected, and one that is disconnected again and again and reconnects. In
//! the end both must know the same: each durable event once and in order, and the complete text of every block.

#![allow(dead_code, reason = "every test program uses some of it")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::host::{Client, Host};

/// How often the unlucky client is cut off.
const CUTS: usize = 20;

/// How long all of it may take.
const WITHIN: Duration = Duration::from_secs(60);

/// Chance that can be repeated (xorshift).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// What a client of Watari's own dialect knows.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Known {
    /// The numbered events, as they came.
    events: Vec<String>,
    last: String,
    /// The text of each block, as it grew.
    texts: BTreeMap<u64, String>,
    finished: BTreeMap<u64, String>,
    idles: usize,
}

impl Known {
    fn take(&mut self, line: &str) {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        if event["type"] == "block_delta" {
            let text = self.texts.entry(event["block"].as_u64().unwrap()).or_default();
            let (at, delta) = (event["at"].as_u64().unwrap() as usize, event["delta"]["text"].as_str().unwrap());
            let has = text.chars().count();
            // What is known is dropped; at a hole, the rest comes with the whole block.
            if at <= has {
                text.extend(delta.chars().skip(has - at));
            }
        }
        let Some(seq) = event["seq"].as_str() else { return };
        assert!(line.starts_with("{\"seq\":\""), "{line}");
        assert_eq!(number(seq), number(&self.last) + 1, "after {}: {line}", self.last);
        self.last = seq.to_owned();
        self.events.push(line.to_owned());
        if event["type"] == "block_finished" {
            let block = event["block"].as_u64().unwrap();
            let content = &event["content"];
            let grown = self.texts.remove(&block).unwrap_or_default();
            match content["text"].as_str().or(content["thinking"].as_str()) {
                Some(whole) => {
                    assert!(whole.starts_with(&grown), "block {block} grew to something else: {grown:?} and {whole:?}");
                    self.finished.insert(block, whole.to_owned());
                }
                // A tool's input is the same JSON, though it need not be the same text.
                None => assert!(grown.is_empty() || !content["input"].is_null(), "{line}"),
            }
        }
        if event["type"] == "became_idle" {
            self.idles += 1;
        }
    }
}

fn number(seq: &str) -> u64 {
    seq.split_once(':').map_or(0, |(_, number)| number.parse().unwrap())
}

/// The state of a client of the socket dialect: messages, and the text between them in one piece.
#[derive(Debug, Default, PartialEq)]
struct ClientView {
    messages: Vec<Value>,
    /// The text since the last message with a position: it is repeated after a reconnect.
    open: Vec<Value>,
    last: String,
    dones: usize,
}

impl ClientView {
    fn take(&mut self, line: &str) {
        let mut message: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("not JSON: {line}"));
        // How often it catches up is what differs.
        if message["type"] == "caught_up" {
            return;
        }
        let seq = message.as_object_mut().unwrap().remove("seq");
        let is_delta = ["text_delta", "thinking_delta"].iter().any(|kind| message["type"] == *kind);
        let last = self.open.last_mut().filter(|last| is_delta && last["type"] == message["type"]);
        match last {
            Some(last) => {
                let text = format!("{}{}", last["text"].as_str().unwrap(), message["text"].as_str().unwrap());
                last["text"] = json!(text);
            }
            None => self.open.push(message.clone()),
        }
        if message["type"] == "done" {
            self.dones += 1;
        }
        if let Some(seq) = seq {
            let seq = seq.as_str().unwrap().to_owned();
            assert!(number(&seq) > number(&self.last), "after {}: {line}", self.last);
            self.last = seq;
            self.messages.append(&mut self.open);
        }
    }

    fn forget_open(&mut self) {
        self.open.clear();
    }

    /// All of it, with texts that a place has cut in two joined again.
    fn joined(&self) -> Vec<Value> {
        let mut joined: Vec<Value> = Vec::new();
        for message in self.messages.iter().chain(&self.open) {
            match joined.last_mut().filter(|last| last["type"] == message["type"] && message["text"].is_string()) {
                Some(last) => {
                    last["text"] =
                        json!(format!("{}{}", last["text"].as_str().unwrap(), message["text"].as_str().unwrap()));
                }
                None => joined.push(message.clone()),
            }
        }
        joined
    }
}

/// A connection that reads whole lines out of what it gets, up to a number of bytes.
struct Cut {
    stream: UnixStream,
    bytes: Vec<u8>,
}

impl Cut {
    async fn connect(path: &Path, hello: &Value) -> Cut {
        let mut stream = UnixStream::connect(path).await.unwrap();
        stream.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
        Cut { stream, bytes: Vec::new() }
    }

    /// Reads as many bytes, or until `is_enough`; tells whether it was enough. What is no whole line is lost.
    async fn read(&mut self, limit: usize, mut take: impl FnMut(&str) -> bool) -> bool {
        let (mut read, mut is_greeted) = (0, false);
        while read < limit {
            let mut chunk = [0; 4096];
            let count = self.stream.read(&mut chunk[..4096.min(limit - read)]).await.unwrap();
            assert!(count > 0, "the host has closed the connection");
            read += count;
            self.bytes.extend_from_slice(&chunk[..count]);
            while let Some(end) = self.bytes.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.bytes.drain(..=end).collect();
                let line = std::str::from_utf8(&line[..end]).unwrap();
                // What comes before the answer to hello does not count.
                if is_greeted {
                    if take(line) {
                        return true;
                    }
                } else if line.contains("\"type\":\"hello\"") {
                    assert!(line.contains("\"resume\":\"ok\""), "{line}");
                    is_greeted = true;
                }
            }
        }
        false
    }
}

/// Plays prompts with a host, watched by clients that stay and clients that are cut off, and compares what they know.
pub(crate) async fn all_know_the_same(host: &Host, prompts: usize, seed: u64) {
    let paths = (host.native_path(), host.socket.clone());
    let watching = async {
        let (native, received, (), cut_native, cut_received) = tokio::join!(
            stay(paths.0.clone(), prompts),
            listen(paths.1.clone(), prompts),
            drive(paths.0.clone(), prompts),
            come_back(paths.0.clone(), prompts, Dice::new(seed)),
            listen_again(paths.1.clone(), prompts, Dice::new(seed + 1_000_000)),
        );
        assert_eq!(native.events, cut_native.events);
        assert_eq!(native.finished, cut_native.finished);
        assert!(native.texts.is_empty() && cut_native.texts.is_empty(), "{:?} {:?}", native.texts, cut_native.texts);
        assert_eq!(received.joined(), cut_received.joined());
        let text: String = native.finished.values().cloned().collect();
        let streamed: String =
            received.joined().iter().filter_map(|line| line["text"].as_str().map(str::to_owned)).collect();
        assert_eq!(streamed.len(), text.len(), "the text of the document's dialect is not that of the blocks");
    };
    assert!(tokio::time::timeout(WITHIN, Box::pin(watching)).await.is_ok(), "seed {seed} takes too long");
}

/// Gives the prompts one after the other, and allows what is asked.
async fn drive(path: PathBuf, prompts: usize) {
    let mut client = Client::connect(&path).await;
    client.send(json!({"type": "hello", "protocol": [1], "client": "driver"})).await;
    client.until("hello").await;
    for number in 0..prompts {
        client.send(json!({"type": "prompt", "id": format!("p{number}"), "content": "go"})).await;
        while let Some(line) = client.next().await {
            if line["type"] == "ask_opened" {
                let id = format!("a{}", line["ask"]);
                client.send(json!({"type": "answer", "id": id, "ask": line["ask"], "answer": {"type": "allow"}})).await;
            }
            assert_ne!(line["type"], "refused", "{line}");
            if line["type"] == "became_idle" {
                break;
            }
        }
    }
}

/// A client that stays from the beginning to the end.
async fn stay(path: PathBuf, prompts: usize) -> Known {
    let mut known = Known::default();
    let mut cut = Cut::connect(&path, &json!({"type": "hello", "protocol": [1], "since": 0})).await;
    cut.read(usize::MAX, |line| {
        known.take(line);
        known.idles == prompts
    })
    .await;
    known
}

/// A client that is cut off in the middle of anything, and comes back with what it has.
async fn come_back(path: PathBuf, prompts: usize, mut dice: Dice) -> Known {
    let mut known = Known::default();
    for cut in 0..=CUTS {
        let since = if known.last.is_empty() { json!(0) } else { json!(known.last) };
        let limit = if cut == CUTS { usize::MAX } else { dice.below(6000) as usize };
        let mut connection = Cut::connect(&path, &json!({"type": "hello", "protocol": [1], "since": since})).await;
        let is_enough = connection.read(limit, |line| {
            known.take(line);
            known.idles == prompts
        });
        if is_enough.await {
            break;
        }
    }
    known
}

async fn listen(path: PathBuf, prompts: usize) -> ClientView {
    let mut received = ClientView::default();
    let mut cut = Cut::connect(&path, &json!({"type": "hello", "since": 0})).await;
    cut.read(usize::MAX, |line| {
        received.take(line);
        received.dones == prompts
    })
    .await;
    received
}

async fn listen_again(path: PathBuf, prompts: usize, mut dice: Dice) -> ClientView {
    let mut received = ClientView::default();
    for cut in 0..=CUTS {
        let since = if received.last.is_empty() { json!(0) } else { json!(received.last) };
        received.forget_open();
        let limit = if cut == CUTS { usize::MAX } else { dice.below(6000) as usize };
        let mut connection = Cut::connect(&path, &json!({"type": "hello", "since": since})).await;
        let is_enough = connection.read(limit, |line| {
            received.take(line);
            received.dones == prompts
        });
        if is_enough.await {
            break;
        }
    }
    received
}
