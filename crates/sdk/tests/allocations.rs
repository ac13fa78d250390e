//! How much a session allocates on the hot path, from the CLI's pipe to the program.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use common::{Talk, built};
use watari_sdk::{Environment, Event, Options, Supervisor};

/// Starts a session on one thread, and counts the allocations of a turn with this many deltas.
fn allocations_of(deltas: u64) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, format!("prompt\ntext hello\nresult\nprompt\ndeltas {deltas}\nresult\n")).unwrap();
    let mut environment = Environment::default();
    environment.set.insert("FAKE_CLAUDE_SCRIPT".to_owned(), Some(script.display().to_string()));
    let options =
        Options { claude: Some(built("fake-claude")), environment, supervisor: Supervisor::None, ..Options::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut talk = runtime.block_on(async {
        let mut talk = Talk::connect(options).await;
        talk.client.send("go").await.unwrap();
        talk.until_idle().await;
        talk
    });
    let mut grown = 0;
    let counted = allocation_counter::measure(|| {
        runtime.block_on(async {
            talk.client.send("go on").await.unwrap();
            loop {
                let event = talk.events.next().await.unwrap();
                grown += u64::from(matches!(event, Event::BlockDelta { .. }));
                if let Event::TurnFinished { .. } = event {
                    break;
                }
            }
        });
    });
    assert_eq!(grown, deltas);
    runtime.block_on(talk.client.close());
    counted.count_total
}

#[test]
fn a_delta_costs_one_allocation_on_its_way_to_the_program() {
    // The fixed cost of a turn is in both.
    let (few, many) = (allocations_of(1000), allocations_of(51_000));
    let for_each = (many - few) as f64 / 50_000.0;
    assert!(for_each < 1.05, "{for_each} allocations for a delta");
}
