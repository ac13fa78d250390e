//! A host that is killed at any moment loses nothing that it has reported to a client and leaves no process, and the
//! next host reports what became of the rest. On the fake CLI.

#![cfg(all(target_os = "linux", not(watari_portable)))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::{Host, Room, end_of, transcript};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use watari_hub::record::State;

/// How often a host is killed, with the full counts of CI, and otherwise.
fn kills() -> u64 {
    if std::env::var_os("CI").is_some_and(|ci| ci == "true") { 200 } else { 40 }
}

/// How often the hosts of one session are killed, one after the other.
const IN_A_ROW: u64 = 5;

/// How many sessions are played at the same time.
const AT_ONCE: u64 = 2;

/// How many prompts each host gets. They are sent together, so that some wait.
const PROMPTS: usize = 3;

/// How long the processes of a killed host may continue to run.
const GONE_WITHIN: Duration = Duration::from_secs(3);

/// How long a line may take.
const WITHIN: Duration = Duration::from_secs(30);

/// Random numbers that can be repeated (xorshift).
struct Dice(u64);

impl Dice {
    fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// Turns with deltas, tools, asks, and something that runs beside.
fn script() -> String {
    let turn = |number: usize| {
        format!(
            "prompt\nmessage\nthinking what could it be\ndeltas 40 of 12 at 4000/s\n\
             tool a{number} Bash {{\"command\":\"ls\"}}\ntool b{number} Bash {{\"command\":\"pwd\"}}\nend\n\
             ask! a{number} Bash {{\"command\":\"ls\"}}\nask b{number} Bash {{\"command\":\"pwd\"}}\nawait a{number}\n\
             message\ndeltas 80 of 9 at 8000/s\nend\nchild\nresult\n"
        )
    };
    (0..PROMPTS).map(turn).collect()
}

/// A client of the native dialect that stores every line, and handles a host that ends in the middle of a line.
struct Witness {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
    hello: Value,
    /// The numbered lines that it received, in their order.
    seen: Vec<String>,
    /// The prompts and the asks whose commands were accepted.
    prompts: Vec<u64>,
    asks: Vec<u64>,
    turns: usize,
}

impl fmt::Display for Witness {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "received the hello {} and the lines {:#?}", self.hello, self.seen)
    }
}

impl Witness {
    async fn connect(path: &Path, since: Value) -> Witness {
        let (read, write) = UnixStream::connect(path).await.unwrap().into_split();
        let lines = BufReader::new(read).lines();
        let (seen, prompts, asks, turns) = (Vec::new(), Vec::new(), Vec::new(), 0);
        let mut witness = Witness { lines, write, hello: Value::Null, seen, prompts, asks, turns };
        witness.send(json!({"type": "hello", "protocol": [1], "since": since, "client": "witness"})).await;
        witness.hello = witness.next().await.unwrap();
        assert_eq!(witness.hello["type"], "hello", "{}", witness.hello);
        witness
    }

    async fn send(&mut self, line: Value) {
        // The host may have ended already.
        let _gone = self.write.write_all(format!("{line}\n").as_bytes()).await;
    }

    /// The next line; none when the host has ended. An incomplete line does not count.
    async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(WITHIN, self.lines.next_line()).await;
        let text = line.unwrap_or_else(|_| panic!("no line came within {WITHIN:?}; {self}")).ok().flatten()?;
        let line: Value = serde_json::from_str(&text).ok()?;
        match line["type"].as_str().unwrap() {
            "accepted" => {
                self.prompts.extend(line["prompt"].as_u64());
                let ask = line["id"].as_str().and_then(|id| id.strip_prefix("ask "));
                self.asks.extend(ask.map(|ask| ask.parse::<u64>().unwrap()));
            }
            "refused" | "error" => panic!("{line}"),
            "turn_finished" => self.turns += 1,
            _ => {}
        }
        if line["seq"].is_string() && line["type"] != "hello" {
            self.seen.push(text);
        }
        Some(line)
    }

    /// Everything up to a line of a type.
    async fn until(&mut self, kind: &str) {
        while self.next().await.unwrap_or_else(|| panic!("it ended without {kind}; {self}"))["type"] != kind {}
    }

    /// Plays the conversation for so many lines, or to its end.
    async fn play(&mut self, lines: u64, mut dice: Option<&mut Dice>) {
        for number in 0..PROMPTS {
            self.send(json!({"type": "prompt", "id": format!("prompt {number}"), "content": "go"})).await;
        }
        let turns = self.turns + PROMPTS;
        for _ in 0..lines {
            let line = self.next().await.unwrap();
            if line["type"] == "ask_opened" {
                if dice.as_mut().is_some_and(|dice| dice.below(12) == 0) {
                    // It is left open, so nothing more comes.
                    return;
                }
                let ask = &line["ask"];
                let id = format!("ask {ask}");
                self.send(json!({"type": "answer", "id": id, "ask": ask, "answer": {"type": "allow"}})).await;
            }
            if self.turns == turns && line["type"] == "became_idle" {
                return;
            }
        }
    }

    /// The lines that are still unread when the host has ended.
    async fn rest(&mut self) {
        while self.next().await.is_some() {}
    }
}

fn only_session(room: &Room) -> PathBuf {
    let sessions = room.sessions();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    sessions[0].clone()
}

/// The whole lines that are stored, without the first, which is the format.
fn stored(room: &Room) -> Vec<String> {
    let text = fs::read_to_string(only_session(room).join("events.jsonl")).unwrap();
    text.split_inclusive('\n').skip(1).filter_map(|line| line.strip_suffix('\n')).map(str::to_owned).collect()
}

fn number_of(line: &str) -> (u64, usize) {
    let line: Value = serde_json::from_str(line).unwrap();
    let (epoch, number) = line["seq"].as_str().unwrap().split_once(':').unwrap();
    (epoch.parse().unwrap(), number.parse().unwrap())
}

/// Asserts that every line that the witness received is in the log, in its place.
fn is_stored(room: &Room, witness: &Witness) {
    let stored = stored(room);
    for (line, place) in stored.iter().zip(1..) {
        assert_eq!(number_of(line).1, place, "{line}");
    }
    for line in &witness.seen {
        assert_eq!(stored.get(number_of(line).1 - 1), Some(line));
    }
    let has = |kind: &str, name: &str, id: u64| {
        let line = stored.iter().map(|line| serde_json::from_str::<Value>(line).unwrap());
        line.into_iter().any(|line| line["type"] == kind && line[name] == id)
    };
    for prompt in &witness.prompts {
        assert!(has("prompt_accepted", "prompt", *prompt), "the prompt {prompt} was accepted, and is not stored");
    }
    for ask in &witness.asks {
        assert!(has("ask_resolved", "ask", *ask), "the answer to {ask} was accepted, and is not stored");
    }
}

/// Everything that was begun in earlier epochs has ended once, and those that ended with a host say so.
fn is_settled<'a>(lines: impl IntoIterator<Item = &'a Value>) {
    let mut open: BTreeMap<String, &Value> = BTreeMap::new();
    let mut is_first = true;
    for line in lines {
        let prompt = &line["cause"]["prompt"];
        let (begins, ends) = match line["type"].as_str().unwrap() {
            "ready" => (Some("cli".to_owned()), None),
            "cli_exited" => (None, Some("cli".to_owned())),
            "prompt_accepted" => (Some(format!("prompt {}", line["prompt"])), None),
            "prompt_dropped" => (None, Some(format!("prompt {}", line["prompt"]))),
            "turn_finished" if prompt.is_u64() => (None, Some(format!("prompt {prompt}"))),
            "ask_opened" => (Some(format!("ask {}", line["ask"])), None),
            "ask_resolved" => (None, Some(format!("ask {}", line["ask"]))),
            "block_started" => (Some(format!("block {}", line["block"])), None),
            "block_finished" | "block_discarded" => (None, Some(format!("block {}", line["block"]))),
            "message_started" => (Some(format!("message {}", line["message"])), None),
            "message_finished" => (None, Some(format!("message {}", line["message"]))),
            "host_started" => {
                assert!(open.is_empty(), "a host has begun, and this is still open: {open:#?}");
                (None, None)
            }
            _ => (None, None),
        };
        if let Some(begun) = begins {
            assert!(open.insert(begun, line).is_none(), "begun twice: {line}");
        }
        if let Some(ended) = ends {
            assert!(open.remove(&ended).is_some() || is_first, "ended twice: {line}");
        }
        is_first = false;
    }
}

fn events(room: &Room) -> Vec<Value> {
    stored(room).iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asserts that the last host has ended and left nothing.
async fn is_over(room: &Room) {
    room.is_empty_within(GONE_WITHIN).await;
    assert_eq!(watari_hub::read_and_mark_killed(&only_session(room)).unwrap().state, State::HostKilled);
}

/// The next host after a killed one. It continues after the last event that the witness received.
async fn resume(room: &Room, last: &str) -> (Host, Witness) {
    let id = room.record()["session_id"].as_str().unwrap().to_owned();
    let host = room.host(&["--resume", &id]).await;
    let mut witness = Witness::connect(&host.native_path(), json!(last)).await;
    assert_eq!(witness.hello["resume"], "ok", "since {last}: {}", witness.hello);
    witness.until("ready").await;
    let (epoch, number) = last.split_once(':').unwrap();
    let (first, now) = (number_of(&witness.seen[0]), number_of(witness.seen.last().unwrap()));
    assert_eq!(first.1, number.parse::<usize>().unwrap() + 1, "{}", witness.seen[0]);
    assert!(now.0 > epoch.parse().unwrap(), "{now:?} after {epoch}");
    (host, witness)
}

fn last_of(room: &Room) -> String {
    let (epoch, number) = number_of(stored(room).last().unwrap());
    format!("{epoch}:{number}")
}

/// Starts a host and kills it in the middle of that.
async fn kill_while_it_starts(room: &Room, dice: &mut Dice) {
    let id = room.record()["session_id"].as_str().unwrap().to_owned();
    let mut child = room.command(&["--resume", &id]).spawn().unwrap();
    // Any moment will do, and there is nothing to wait for.
    tokio::time::sleep(Duration::from_micros(dice.below(30_000))).await;
    kill_process(Pid::from_raw(child.id().unwrap().cast_signed()).unwrap(), Signal::KILL).unwrap();
    end_of(&mut child).await;
}

async fn play(seed: u64) {
    let mut dice = Dice::new(seed);
    let room = Room::fake(&script());
    let mut host = room.host(&[]).await;
    let mut witness = Witness::connect(&host.native_path(), json!(0)).await;
    for _ in 0..IN_A_ROW {
        let lines = dice.below(700);
        witness.play(lines, Some(&mut dice)).await;
        host.kill().await;
        witness.rest().await;
        is_over(&room).await;
        is_stored(&room, &witness);
        let last = witness.seen.last().map_or_else(
            || last_of(&room),
            |line| {
                let (epoch, number) = number_of(line);
                format!("{epoch}:{number}")
            },
        );
        if dice.below(2) == 0 {
            kill_while_it_starts(&room, &mut dice).await;
            is_over(&room).await;
            is_stored(&room, &witness);
        }
        (host, witness) = resume(&room, &last).await;
        is_stored(&room, &witness);
        is_settled(&events(&room));
    }
    // A prompt works, to its end, when everything is allowed.
    witness.play(u64::MAX, None).await;
    host.stop().await;
    is_stored(&room, &witness);
    is_settled(&events(&room));
    assert_eq!(room.record()["state"], "ended");
    room.is_empty_within(GONE_WITHIN).await;
    room.is_tidy();
}

#[tokio::test]
async fn a_host_killed_at_any_moment_loses_no_published_event_and_the_next_host_continues() {
    let mut playing = tokio::task::JoinSet::new();
    for seed in 0..kills() / IN_A_ROW {
        if seed >= AT_ONCE {
            playing.join_next().await.unwrap().unwrap();
        }
        playing.spawn(play(seed));
    }
    while let Some(played) = playing.join_next().await {
        played.unwrap();
    }
}

/// A host that was killed while a question was open and a prompt waited.
async fn killed_in_a_turn(room: &Room) -> String {
    let host = room.host(&[]).await;
    let mut witness = Witness::connect(&host.native_path(), json!(0)).await;
    for number in 0..2 {
        witness.send(json!({"type": "prompt", "id": number.to_string(), "content": "go"})).await;
    }
    witness.until("ask_opened").await;
    while witness.prompts.len() < 2 {
        witness.next().await.unwrap();
    }
    host.kill().await;
    witness.rest().await;
    is_over(room).await;
    is_stored(room, &witness);
    last_of(room)
}

const ASKS: &str = "prompt\nmessage\ntext Let me see\ntool t1 Bash {\"command\":\"ls\"}\nend\n\
                    ask! t1 Bash {\"command\":\"ls\"}\nwait interrupt\n";

#[tokio::test]
async fn the_next_host_reports_what_a_killed_host_left_open() {
    let room = Room::fake(ASKS);
    let last = killed_in_a_turn(&room).await;
    let (host, witness) = resume(&room, &last).await;
    let seen: Vec<Value> = witness.seen.iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let until_started: Vec<&Value> = seen.iter().take_while(|line| line["type"] != "host_started").collect();
    insta::assert_snapshot!(transcript(&[], until_started), @r#"
    {"ask":2,"by":null,"kind":"permission","resolution":"cli_exited","seq":"2:14","tool_use":"t1","type":"ask_resolved"}
    {"prompt":2,"reason":"cli_exited","seq":"2:15","type":"prompt_dropped"}
    {"prompt":3,"reason":"cli_exited","seq":"2:16","type":"prompt_dropped"}
    {"exit":{"code":null,"errors":[],"left":0,"reason":"owner_killed","signal":null,"stderr":""},"seq":"2:17","type":"cli_exited"}
    "#);
    host.stop().await;
}

#[tokio::test]
async fn a_host_without_a_socket_leaves_the_cleanup_to_the_next_host() {
    let room = Room::fake(ASKS);
    let last = killed_in_a_turn(&room).await;
    let id = room.record()["session_id"].as_str().unwrap().to_owned();
    fs::write(room.sandbox.root().join("file"), "precious").unwrap();
    let in_the_way = room.sandbox.root().join("file");
    let mut refused = room.command(&["--resume", &id, "--socket", in_the_way.to_str().unwrap()]).spawn().unwrap();
    assert_eq!(end_of(&mut refused).await.0, Some(1));
    is_over(&room).await;
    let (host, witness) = resume(&room, &last).await;
    is_settled(&events(&room));
    assert!(witness.seen.iter().any(|line| line.contains("owner_killed")), "{:#?}", witness.seen);
    host.stop().await;
}

#[tokio::test]
async fn an_incomplete_line_at_the_end_of_the_log_is_removed_and_the_log_continues() {
    let room = Room::fake(ASKS);
    let last = killed_in_a_turn(&room).await;
    let before = stored(&room);
    let path = only_session(&room).join("events.jsonl");
    let half = format!("{{\"seq\":\"1:{}\",\"type\":\"turn_fin", before.len() + 1);
    fs::File::options().append(true).open(&path).unwrap().write_all(half.as_bytes()).unwrap();
    let (host, mut witness) = resume(&room, &last).await;
    assert_eq!(stored(&room)[..before.len()], before);
    is_stored(&room, &witness);
    is_settled(&events(&room));
    assert!(room.log().contains("the event log ended in an incomplete line, which was removed"), "{}", room.log());
    witness.send(json!({"type": "prompt", "id": "more", "content": "go"})).await;
    witness.until("ask_opened").await;
    host.stop().await;
    is_stored(&room, &witness);
}
