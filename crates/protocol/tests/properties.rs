//! Properties that hold for every conversation, for any order of frames and commands.
//!
//! `PROPTEST_CASES` sets the number of conversations. A failure is shown as the shortest transcript that was found: the
//! inputs of the machine and, indented, its outputs.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    clippy::disallowed_methods,
    reason = "a test matches what it expects and fails on anything else; a conversation needs a start time"
)]

#[path = "properties/mod.rs"]
mod conversation;

use std::collections::BTreeSet;
use std::time::Duration;

use conversation::claims::{Claim, asks, messages, prompts, session};
use conversation::{Record, STEP_BYTES, Script};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, TestCaseError, TestError, TestRunner};
use watari_protocol::{Event, Hook, TurnCause};

/// The maximum number of steps of a conversation, without its end.
const STEPS_MAX: usize = 60;

fn conversations() -> impl Strategy<Value = Vec<[u8; STEP_BYTES]>> {
    vec(any::<[u8; STEP_BYTES]>(), 1..=STEPS_MAX)
}

/// Checks a claim on random conversations.
fn always(claim: Claim) {
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let checked = runner.run(&conversations(), |bytes| {
        let record = Record::of(Script::read(&bytes.concat()));
        claim(&record).map_err(|why| TestCaseError::fail(format!("{why}\n\n{record}")))
    });
    match checked {
        Ok(()) => {}
        Err(TestError::Fail(why, _)) => panic!("{why}"),
        Err(TestError::Abort(why)) => panic!("not checked: {why}"),
    }
}

/// A claim about conversations in which nothing happens would always hold.
#[test]
fn random_conversations_contain_everything_that_can_happen() {
    let mut runner = TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..400 {
        let bytes = conversations().new_tree(&mut runner).unwrap().current();
        let record = Record::of(Script::read(&bytes.concat()));
        seen.extend(record.events().map(|event| match event {
            Event::AskResolved { resolution, .. } => format!("ask {resolution:?}"),
            Event::PromptDropped { reason, .. } => format!("prompt {reason:?}"),
            Event::TurnFinished { cause: TurnCause::Cli, .. } => "own turn".to_owned(),
            Event::TurnFinished { outcome, .. } => format!("turn {:?}", outcome.ending),
            _ => format!("{event:?}").split_whitespace().next().unwrap().to_owned(),
        }));
    }
    let missed: Vec<&str> = EVERYTHING.iter().copied().filter(|name| !seen.contains(*name)).collect();
    assert!(missed.is_empty(), "never seen: {missed:?}");
}

const EVERYTHING: &[&str] = &[
    "Ready",
    "SessionOpened",
    "PromptAccepted",
    "TurnStarted",
    "own turn",
    "turn Completed",
    "turn Interrupted",
    "turn Failed(Execution)",
    "prompt Cancelled",
    "prompt CliExited",
    "prompt Lost",
    "BecameIdle",
    "MessageStarted",
    "BlockStarted",
    "BlockDelta",
    "BlockFinished",
    "BlockDiscarded",
    "MessageFinished",
    "AskOpened",
    "ask Allowed",
    "ask Denied",
    "ask Answered",
    "ask Expired",
    "ask Withdrawn",
    "ask CliExited",
    "ToolReturned",
    "ContextInjected",
    "ToolProgressed",
    "StatusChanged",
    "ApiRetryScheduled",
    "TaskChanged",
    "TasksListed",
    "HookChanged",
    "PermissionDenied",
    "ThinkingCounted",
    "Compacted",
    "ConversationCleared",
    "TitleChanged",
    "CommandsListed",
    "PromptSuggested",
    "TranscriptWritten",
    "NoticeReported",
    "RequestSent",
    "RequestAnswered",
    "Unknown",
    "UnparsedLineSkipped",
    "CliStalled",
    "CliRecovered",
    "CliExited",
];

#[test]
fn a_step_has_an_end() {
    always(session::a_step_has_an_end);
}

#[test]
fn every_ask_is_resolved_once() {
    always(asks::every_ask_is_resolved_once);
}

#[test]
fn an_ask_ends_as_it_is_told() {
    always(asks::an_ask_ends_as_it_is_told);
}

#[test]
fn every_question_has_one_answer() {
    always(asks::every_question_has_one_answer);
}

#[test]
fn an_ask_is_told_closed_before_its_answer_is_written() {
    always(asks::an_ask_is_told_closed_before_its_answer_is_written);
}

#[test]
fn an_allowed_input_is_the_one_that_was_asked_for() {
    always(asks::an_allowed_input_is_the_one_that_was_asked_for);
}

#[test]
fn what_a_client_gives_is_written_as_it_came() {
    always(asks::what_a_client_gives_is_written_as_it_came);
}

#[test]
fn a_refused_command_changes_nothing() {
    always(session::a_refused_command_changes_nothing);
}

#[test]
fn what_is_not_known_changes_nothing() {
    always(session::what_is_not_known_changes_nothing);
}

#[test]
fn every_prompt_has_one_outcome() {
    always(prompts::every_prompt_has_one_outcome);
}

#[test]
fn one_prompt_is_with_the_cli_at_a_time() {
    always(prompts::one_prompt_is_with_the_cli_at_a_time);
}

#[test]
fn a_turn_is_told_before_its_prompt_is_written() {
    always(prompts::a_turn_is_told_before_its_prompt_is_written);
}

#[test]
fn an_idle_session_has_no_prompt() {
    always(prompts::an_idle_session_has_no_prompt);
}

#[test]
fn a_prompt_is_lost_only_by_an_interrupt_that_came_after_it() {
    always(prompts::a_prompt_is_lost_only_by_an_interrupt_that_came_after_it);
}

#[test]
fn a_prompt_is_lost_only_by_an_idle_after_it_ran() {
    always(prompts::a_prompt_is_lost_only_by_an_idle_after_it_ran);
}

#[test]
fn a_cli_that_wakes_from_idle_has_a_turn_of_its_own() {
    always(prompts::a_cli_that_wakes_from_idle_has_a_turn_of_its_own);
}

#[test]
fn every_request_has_one_answer() {
    always(prompts::every_request_has_one_answer);
}

#[test]
fn block_ids_only_grow() {
    always(messages::block_ids_only_grow);
}

#[test]
fn a_block_grows_from_where_it_was() {
    always(messages::a_block_grows_from_where_it_was);
}

#[test]
fn a_finished_block_does_not_grow() {
    always(messages::a_finished_block_does_not_grow);
}

#[test]
fn every_streamed_block_ends_once() {
    always(messages::every_streamed_block_ends_once);
}

#[test]
fn messages_do_not_nest_and_list_their_blocks() {
    always(messages::messages_do_not_nest_and_list_their_blocks);
}

#[test]
fn what_is_written_is_one_line_of_json() {
    always(session::what_is_written_is_one_line_of_json);
}

#[test]
fn after_a_timeout_the_next_lies_ahead() {
    always(session::after_a_timeout_the_next_lies_ahead);
}

#[test]
fn phases_move_along_the_table() {
    always(session::phases_move_along_the_table);
}

#[test]
fn nothing_comes_after_the_end() {
    always(session::nothing_comes_after_the_end);
}

#[test]
fn a_hook_may_have_any_time_limit() {
    let mut script = Script::read(&[]);
    script.config.initialize.hooks = vec![Hook { answer_timeout: Duration::MAX, ..Hook::on("PreToolUse") }];
    session::what_is_written_is_one_line_of_json(&Record::of(script)).unwrap();
}
