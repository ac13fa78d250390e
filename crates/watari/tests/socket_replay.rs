//! Clients that are disconnected and reconnect miss no event and receive none twice, whatever happens meanwhile: the
//! replay oracle, on the fake CLI.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;
mod oracle;

use std::fmt::Write;

use host::Room;
use oracle::{Dice, all_know_the_same};

/// How many conversations are played; with the full counts of CI, and otherwise.
fn seeds() -> u64 {
    if std::env::var_os("CI").is_some_and(|ci| ci == "true") { 1000 } else { 100 }
}

/// How many are played at the same time.
const AT_ONCE: u64 = 4;

/// A random conversation: its number of prompts, and the script of the CLI.
fn conversation(seed: u64) -> (usize, String) {
    let mut dice = Dice::new(seed);
    let prompts = 1 + dice.below(3);
    let mut script = String::new();
    for prompt in 0..prompts {
        script.push_str("prompt\n");
        for message in 0..1 + dice.below(3) {
            script.push_str("message\n");
            if dice.below(3) == 0 {
                writeln!(script, "thinking {}", "hm 渡り ".repeat(1 + dice.below(20) as usize)).unwrap();
            }
            let rate = if dice.below(2) == 0 { "" } else { " at 3000/s" };
            writeln!(script, "deltas {} of {}{rate}", 1 + dice.below(80), 1 + dice.below(60)).unwrap();
            let has_tool = dice.below(2) == 0;
            let tool = format!("t{prompt}{message}");
            if has_tool {
                writeln!(script, "tool {tool} Bash {{\"command\":\"ls\"}}").unwrap();
            }
            script.push_str("end\n");
            if has_tool {
                writeln!(script, "ask q{tool} Bash {{\"command\":\"ls\"}}\ntool_result {tool} a file").unwrap();
            }
        }
        script.push_str("result\n");
    }
    (usize::try_from(prompts).unwrap(), script)
}

async fn play(seed: u64) {
    let (prompts, script) = conversation(seed);
    let room = Room::fake(&script);
    let host = room.host(&[]).await;
    all_know_the_same(&host, prompts, seed).await;
    host.stop().await;
}

#[tokio::test]
async fn a_client_that_is_cut_off_and_reconnects_has_the_same_events() {
    let mut playing = tokio::task::JoinSet::new();
    for seed in 0..seeds() {
        if seed >= AT_ONCE {
            playing.join_next().await.unwrap().unwrap();
        }
        playing.spawn(play(seed));
    }
    while let Some(played) = playing.join_next().await {
        played.unwrap();
    }
}
