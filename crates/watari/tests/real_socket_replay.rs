//! The replay oracle on the real CLI: clients that are disconnected and reconnect miss no event and receive none twice.

#![allow(clippy::unwrap_used, reason = "a test that meets what it does not expect has failed")]

mod common;
mod host;
mod oracle;

use host::Room;
use oracle::{Dice, all_know_the_same};
use serde_json::json;
use watari_testkit::Reply;

/// How many conversations are played.
const SEEDS: u64 = 20;

/// A random conversation: its number of prompts, and the replies of the model.
fn conversation(seed: u64) -> (usize, Vec<Reply>) {
    let mut dice = Dice::new(seed);
    let prompts = 1 + dice.below(2);
    let mut replies = Vec::new();
    for prompt in 0..prompts {
        for step in 0..dice.below(3) {
            let reply = if dice.below(2) == 0 { Reply::thinking("hm, 渡り") } else { Reply::text("First this.") };
            let text = "So I will look at it. 渡り ".repeat(1 + dice.below(30) as usize);
            let id = format!("toolu_{prompt}_{step}");
            replies.push(reply.and_text(text).and_tool_use(id, "Bash", json!({"command": "echo seen; touch made"})));
        }
        replies.push(Reply::text("That is how it is. ".repeat(1 + dice.below(60) as usize)));
    }
    (usize::try_from(prompts).unwrap(), replies)
}

#[tokio::test]
async fn a_client_that_is_cut_off_and_reconnects_has_the_same_events() {
    for seed in 0..SEEDS {
        let (prompts, replies) = conversation(seed);
        let room = Room::real(replies).await;
        let host = room.host(&[]).await;
        all_know_the_same(&host, prompts, seed).await;
        host.stop().await;
    }
}
