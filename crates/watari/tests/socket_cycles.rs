//! Hosts and clients that come and go leave nothing behind: no process, no file, no descriptor. On the fake CLI.

#![cfg(all(target_os = "linux", not(watari_portable)))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::task::Poll;
use std::time::Duration;

use host::{Client, Host, Room};
use serde_json::json;

const CYCLES: usize = 100;

const CLIENTS: usize = 200;

/// How many of them run at the same time.
const AT_ONCE: usize = 20;

/// How long it may take until a host has noticed that its clients have disconnected.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_hundred_hosts_that_start_and_stop_leave_no_process_no_socket_and_no_lock() {
    let room = Room::fake("prompt\ntext Good morning\nresult\n");
    for _ in 0..CYCLES {
        let host = room.host(&[]).await;
        let mut client = host.client_with_init().await;
        client.say("good morning?").await;
        client.until("done").await;
        host.stop().await;
        // Without a wait: a host that has ended has ended all of it.
        room.is_empty_within(Duration::ZERO).await;
        room.is_tidy();
    }
    let sessions = room.sessions();
    assert_eq!(sessions.len(), CYCLES);
    for session in sessions {
        let mut names = common::names_in(&session);
        names.sort();
        assert_eq!(names, ["events.jsonl", "host.log", "record.json"]);
    }
}

/// The open files of a host, and how many it has of each kind.
fn open_files(host: &Host) -> BTreeMap<String, usize> {
    let folder = format!("/proc/{}/fd", host.pid());
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        // One may be closed between the two.
        let Ok(file) = fs::read_link(entry.unwrap().path()) else { continue };
        let kind = file.to_str().unwrap().split_once(":[").map_or(file.to_str().unwrap(), |(kind, _)| kind).to_owned();
        *files.entry(kind).or_default() += 1;
    }
    files
}

/// One of the ways in which a client can come and go.
async fn visit(host: &Host, number: usize) {
    let hello = json!({"type": "hello", "protocol": [1], "since": 0});
    match number % 5 {
        // Without writing or reading a line.
        0 => drop(Client::connect(&host.native_path()).await),
        1 => drop(host.client_with_init().await),
        // In the middle of the replay.
        2 => {
            let (mut client, _) = host.native_since(json!(0)).await;
            client.next().await.unwrap();
        }
        // Before the replay.
        3 => Client::connect(&host.native_path()).await.send(hello).await,
        // In the middle of a line of its own.
        _ => host.client_with_init().await.write("{\"type\":\"mess").await,
    }
}

#[tokio::test]
async fn two_hundred_clients_that_disconnect_leave_no_descriptor_in_the_host() {
    let room = Room::fake("prompt\nrepeat 20\ndeltas 500 of 100\nend\nresult\nprompt\ntext Still here\nresult\n");
    let host = room.host(&[]).await;
    let mut client = host.client_with_init().await;
    client.say("a long story").await;
    client.until("done").await;
    // One client connects and disconnects before the count, for what is allocated once and stays.
    visit(&host, 2).await;
    let before = settled(&host, &room, 1).await;
    for first in (0..CLIENTS).step_by(AT_ONCE) {
        let mut round: Vec<_> = (first..first + AT_ONCE).map(|number| Box::pin(visit(&host, number))).collect();
        // All of them at the same time.
        std::future::poll_fn(|context| {
            round.retain_mut(|visit| visit.as_mut().poll(context).is_pending());
            if round.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
    assert_eq!(settled(&host, &room, CLIENTS + 1).await, before);
    client.say("are you there?").await;
    client.until("done").await;
    host.stop().await;
}

/// The open files of a host that has noticed that this many clients have disconnected.
async fn settled(host: &Host, room: &Room, gone: usize) -> BTreeMap<String, usize> {
    let noticed = async {
        // Only the log of the host reports it.
        while room.log().matches("a client disconnected").count() < gone {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let noticed = tokio::time::timeout(NOTICED_WITHIN, noticed).await;
    assert!(noticed.is_ok(), "{} of {gone} have disconnected", room.log().matches("a client disconnected").count());
    open_files(host)
}
