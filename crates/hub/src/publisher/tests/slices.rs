//! What one client makes the host do in one step, counted in bytes: bounded, however much waits or is in the log.

use watari_sdk::{EntryId, Event, Position, PromptId, RawJson};

use super::rig::{Client, Rig, grew, started, unknown};
use crate::subscription::Since;

/// How much may be read in one step: a slice, and the line that ends it.
const IN_ONE_GO_BYTES: u64 = 512 * 1024;

/// A session with waiting prompts of so many bytes each.
fn with_waiting_prompts(count: u64, bytes: usize) -> Rig {
    let mut rig = Rig::new();
    for prompt in 1..=count {
        let (prompt, entry) = (PromptId(prompt), EntryId::parse("11111111-1111-4111-8111-111111111111").unwrap());
        rig.emit(Event::PromptAccepted { prompt, entry, content: RawJson::of(&"x".repeat(bytes)) });
    }
    rig
}

#[tokio::test(start_paused = true)]
async fn what_an_attach_and_its_subscription_read_at_once_does_not_grow_with_the_waiting_prompts() {
    for (count, bytes) in [(6, 8_000_000), (600, 70_000), (20, 300_000)] {
        let mut rig = with_waiting_prompts(count, bytes);
        for since in [Since::Now, Since::After(Position::default()), Since::After(Position { epoch: 1, seq: 3 })] {
            let before = rig.disk.read_bytes();
            let mut client = Client::attach(&mut rig, since);
            assert!(rig.disk.read_bytes() - before <= IN_ONE_GO_BYTES, "attach {since:?}");
            client.read_all(&mut rig);
            assert!(client.is_caught_up);
            assert!(client.most_read_at_once <= IN_ONE_GO_BYTES, "{since:?}: {} bytes", client.most_read_at_once);
            let lines = client.snapshot.len() + client.lines.len();
            assert_eq!(
                lines as u64,
                if since == Since::After(Position { epoch: 1, seq: 3 }) { count - 3 } else { count }
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_line_of_megabytes_is_not_read_in_one_go_either() {
    let mut rig = Rig::new();
    let mut client = Client::attach(&mut rig, Since::Now);
    (0..3).for_each(|_| rig.emit(unknown(8_000_000)));
    client.read_all(&mut rig);
    assert_eq!(client.lines.len(), 3);
    assert!(client.most_read_at_once <= IN_ONE_GO_BYTES, "{} bytes", client.most_read_at_once);
}

#[tokio::test(start_paused = true)]
async fn after_a_restore_a_snapshot_is_searched_in_slices_too() {
    let mut rig = with_waiting_prompts(6, 2_000_000);
    rig.emit(unknown(10));
    rig.disk.remove(&rig.log).unwrap();
    // The first attach detects that the log was deleted, so it is restored.
    Client::attach(&mut rig, Since::Now).read_all(&mut rig);
    let mut client = Client::attach(&mut rig, Since::Now);
    client.read_all(&mut rig);
    assert_eq!(client.snapshot, (1..=6).collect());
    assert!(client.most_read_at_once <= IN_ONE_GO_BYTES, "{} bytes", client.most_read_at_once);
}

#[tokio::test(start_paused = true)]
async fn the_text_of_an_open_block_is_delivered_in_pieces() {
    let mut rig = Rig::new();
    rig.emit(started(1));
    (0..40).for_each(|at| rig.emit(grew(1, at * 100_000, &"x".repeat(100_000))));
    let mut client = Client::attach(&mut rig, Since::Now);
    client.read_all(&mut rig);
    assert_eq!(client.texts[&1].len(), 4_000_000);
    assert!(client.most_delivered_at_once <= IN_ONE_GO_BYTES, "{} bytes", client.most_delivered_at_once);
}
