//! Conversations of frames, commands and passing time. They are read from bytes and checked as in the property tests.

#![no_main]
#![allow(dead_code, unused_imports, reason = "a target looks at some of the claims")]

#[path = "../../crates/protocol/tests/properties/mod.rs"]
mod conversation;

use conversation::claims::{Claim, asks, messages, prompts, session};
use conversation::{Record, Script};
use libfuzzer_sys::fuzz_target;

const CLAIMS: &[Claim] = &[
    session::a_step_has_an_end,
    session::what_is_written_is_one_line_of_json,
    session::after_a_timeout_the_next_lies_ahead,
    session::phases_move_along_the_table,
    session::nothing_comes_after_the_end,
    session::a_refused_command_changes_nothing,
    session::what_is_not_known_changes_nothing,
    asks::every_ask_is_resolved_once,
    asks::an_ask_ends_as_it_is_told,
    asks::every_question_has_one_answer,
    asks::an_ask_is_told_closed_before_its_answer_is_written,
    asks::an_allowed_input_is_the_one_that_was_asked_for,
    asks::what_a_client_gives_is_written_as_it_came,
    prompts::every_prompt_has_one_outcome,
    prompts::one_prompt_is_with_the_cli_at_a_time,
    prompts::a_turn_is_told_before_its_prompt_is_written,
    prompts::an_idle_session_has_no_prompt,
    prompts::a_prompt_is_lost_only_by_an_interrupt_that_came_after_it,
    prompts::a_prompt_is_lost_only_by_an_idle_after_it_ran,
    prompts::a_cli_that_wakes_from_idle_has_a_turn_of_its_own,
    prompts::every_request_has_one_answer,
    messages::block_ids_only_grow,
    messages::a_block_grows_from_where_it_was,
    messages::a_finished_block_does_not_grow,
    messages::every_streamed_block_ends_once,
    messages::messages_do_not_nest_and_list_their_blocks,
];

fuzz_target!(|bytes: &[u8]| {
    let record = Record::of(Script::read(bytes));
    for claim in CLAIMS {
        if let Err(why) = claim(&record) {
            panic!("{why}\n\n{record}");
        }
    }
});
