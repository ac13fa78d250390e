//! A CLI that writes thousands of lines which are not messages.

use serde_json::Value;
use watari_sdk::{Event, PromptId, TurnCause};

use super::rig::Rig;
use crate::publisher::unparsed::UNPARSED_STORED_MAX;

fn noise() -> Event {
    Event::UnparsedLineSkipped { beginning: "a warning".into(), bytes: 9 }
}

fn turn(prompt: u64) -> Event {
    Event::TurnStarted { cause: TurnCause::Prompt(PromptId(prompt)) }
}

#[tokio::test(start_paused = true)]
async fn noise_is_stored_up_to_a_bound_for_each_turn_and_counted_beyond_it() {
    let mut rig = Rig::new();
    for prompt in 0..3 {
        rig.emit(turn(prompt));
        (0..10_000).for_each(|_| rig.emit(noise()));
    }
    rig.emit(Event::CliExited { exit: Box::default() });
    let events: Vec<Value> = rig.stored().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
    assert_eq!(count("unparsed_line_skipped"), 3 * UNPARSED_STORED_MAX as usize);
    // Each report comes before the event that ends the turn's share.
    let omitted = 10_000 - u64::from(UNPARSED_STORED_MAX);
    let published: Vec<String> = events
        .iter()
        .filter(|event| event["type"] != "unparsed_line_skipped")
        .map(|event| format!("{} {} {}", event["type"], event["lines"], event["bytes"]))
        .collect();
    let omitted = format!("\"unparsed_lines_omitted\" {omitted} {}", omitted * 9);
    let (started, ended) = ("\"turn_started\" null null", "\"cli_exited\" null null");
    assert_eq!(published, [started, &omitted, started, &omitted, started, &omitted, ended]);
}
