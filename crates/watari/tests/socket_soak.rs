//! A soak test: many sessions and many clients that connect, disconnect and are cut off, for a while. Nothing grows,
//! and no process is left at the end. `./check --full` runs it for a minute; `WATARI_SOAK_SECONDS` sets another
//! duration.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]
#![allow(clippy::print_stdout, reason = "who runs it wants to know what it saw")]

mod common;
mod host;
mod oracle;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use host::{Host, Room};
use oracle::Dice;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

const SESSIONS: usize = 50;
const CLIENTS_EACH: u64 = 4;

/// How much more memory all hosts together may have in the end than after they were warm.
const GROWTH_MAX: f64 = 1.05;

/// What all turns of all sessions are like. The first is a flood, so that all that may fill has filled.
const SCRIPT: &str = "prompt\nrepeat 8\ndeltas 1000 of 20\nend\nresult\nrepeat 1_000_000\nprompt\nthinking hm\ndeltas 40 of 30 at 100/s\ntool t Bash {\"command\":\"ls\"}\n\
                      ask t Bash {\"command\":\"ls\"}\ntext The end.\nresult\nend\n";

fn seconds() -> u64 {
    std::env::var("WATARI_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60)
}

/// What the soak has seen.
#[derive(Default)]
struct Seen {
    turns: AtomicU64,
    connections: AtomicU64,
    bytes: AtomicU64,
}

/// Sends prompts again and again, and answers asks. It parses lines only as far as necessary, because it reads many.
async fn drive(path: PathBuf, is_over: Arc<AtomicBool>, seen: Arc<Seen>) {
    let (read, mut write) = UnixStream::connect(&path).await.unwrap().into_split();
    let mut lines = BufReader::new(read).lines();
    while !is_over.load(Ordering::Relaxed) {
        write.write_all(b"{\"type\":\"message\",\"text\":\"go\"}\n").await.unwrap();
        while let Some(line) = lines.next_line().await.unwrap() {
            assert!(!line.starts_with("{\"type\":\"error\""), "{line}");
            if line.starts_with("{\"type\":\"approval_request\"") {
                write.write_all(b"{\"type\":\"approve\",\"request_id\":\"t\"}\n").await.unwrap();
            }
            if line.starts_with("{\"type\":\"done\"") {
                seen.turns.fetch_add(1, Ordering::Relaxed);
                break;
            }
        }
    }
}

/// Connects, reads for a while and disconnects at any moment, again and again.
async fn wander(path: PathBuf, mut dice: Dice, is_over: Arc<AtomicBool>, seen: Arc<Seen>) {
    while !is_over.load(Ordering::Relaxed) {
        let mut stream = UnixStream::connect(&path).await.unwrap();
        seen.connections.fetch_add(1, Ordering::Relaxed);
        if dice.below(2) == 0 {
            // From the end of a log that is already long, and not from its beginning: that would be a load, not a soak.
            let hello = json!({"type": "hello", "client": "wanderer"});
            stream.write_all(format!("{hello}\n").as_bytes()).await.unwrap();
        }
        let mut left = dice.below(20_000);
        let mut chunk = [0; 4096];
        while left > 0 && !is_over.load(Ordering::Relaxed) {
            let Ok(read) = tokio::time::timeout(Duration::from_secs(5), stream.read(&mut chunk)).await else {
                // No client sends prompts any more, so no event follows.
                assert!(is_over.load(Ordering::Relaxed), "a session is silent");
                return;
            };
            let read = read.unwrap();
            assert!(read > 0, "a client that reads was let go");
            seen.bytes.fetch_add(read as u64, Ordering::Relaxed);
            left = left.saturating_sub(read as u64);
        }
    }
}

/// What all hosts have: memory in bytes, and open files.
fn held_by(hosts: &[Host]) -> (u64, usize) {
    let mut held = (0, 0);
    for host in hosts {
        let memory = fs::read_to_string(format!("/proc/{}/smaps_rollup", host.pid())).unwrap();
        let own = memory.lines().find_map(|line| line.strip_prefix("Pss_Anon:")).unwrap();
        held.0 += own.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024;
        held.1 += fs::read_dir(format!("/proc/{}/fd", host.pid())).unwrap().count();
    }
    held
}

#[tokio::test]
#[ignore = "takes a minute, or as long as WATARI_SOAK_SECONDS says"]
async fn no_resource_grows_and_no_process_is_left() {
    let rooms: Vec<Room> = (0..SESSIONS).map(|_| Room::fake(SCRIPT)).collect();
    let mut hosts = Vec::new();
    for room in &rooms {
        hosts.push(room.host(&[]).await);
    }
    let (is_over, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Seen::default()));
    let mut tasks = JoinSet::new();
    let (_, files_before) = held_by(&hosts);
    for (number, host) in hosts.iter().enumerate() {
        tasks.spawn(drive(host.socket.clone(), Arc::clone(&is_over), Arc::clone(&seen)));
        for client in 1..CLIENTS_EACH {
            let dice = Dice::new(number as u64 * CLIENTS_EACH + client);
            tasks.spawn(wander(host.socket.clone(), dice, Arc::clone(&is_over), Arc::clone(&seen)));
        }
    }
    let (started, all) = (Instant::now(), Duration::from_secs(seconds()));
    // That time passes is what is tested.
    tokio::time::sleep_until(started + all / 3).await;
    let (warm, _) = held_by(&hosts);
    tokio::time::sleep_until(started + all).await;
    let (memory, _) = held_by(&hosts);
    is_over.store(true, Ordering::Relaxed);
    while let Some(ended) = tasks.join_next().await {
        ended.unwrap();
    }
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (turns, connections, bytes) = (count(&seen.turns), count(&seen.connections), count(&seen.bytes));
    println!("{turns} turns, {connections} connections, {bytes} bytes; memory {warm} and then {memory}");
    assert!(turns > SESSIONS as u64 && connections > SESSIONS as u64 * CLIENTS_EACH, "it was hardly a soak");
    assert!(memory as f64 <= warm as f64 * GROWTH_MAX, "memory has grown from {warm} to {memory}");
    // Every client has disconnected; its descriptors are closed as soon as the hosts have noticed.
    let limit = Instant::now() + Duration::from_secs(5);
    while held_by(&hosts).1 > files_before {
        assert!(Instant::now() < limit, "{} files were open, and now {}", files_before, held_by(&hosts).1);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    for (host, room) in hosts.into_iter().zip(&rooms) {
        host.stop().await;
        room.is_empty_within(Duration::from_secs(1)).await;
        room.is_tidy();
    }
}
