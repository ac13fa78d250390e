//! Conversations as transcripts: what the machine makes of the CLI's frames and of clients' commands.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod play;

use std::time::Duration;

use play::{opening, play, play_with};
use watari_protocol::{Config, Initialize, Raw, SystemPrompt};

#[test]
fn the_opening_carries_what_may_not_stand_in_arguments() {
    insta::assert_snapshot!(opening(Initialize::default()), @r#"> {"type":"control_request","request_id":"watari_1","request":{"subtype":"initialize"}}"#);
    let everything = Initialize {
        system_prompt: SystemPrompt::Empty,
        json_schema: Some(Raw::from(r#"{"type":"object"}"#)),
        agents: [("rev".to_owned(), Raw::from(r#"{"prompt":"p"}"#))].into(),
        forward_subagent_text: true,
        more: [("title".to_owned(), Raw::from(r#""a title""#)), ("subtype".to_owned(), Raw::from("1"))].into(),
    };
    insta::assert_snapshot!(opening(everything), @r#"> {"type":"control_request","request_id":"watari_1","request":{"agents":{"rev":{"prompt":"p"}},"forwardSubagentText":true,"jsonSchema":{"type":"object"},"subtype":"initialize","systemPrompt":[""],"title":"a title"}}"#);
}

#[test]
fn a_prompt_waits_for_the_cli_and_is_told_from_its_start_to_its_result() {
    insta::assert_snapshot!(play(r#"
        prompt hello
        cli ready
        cli running
        cli init
        cli event {"type":"message_start","message":{"id":"msg_1","model":"m"}}
        cli event {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
        cli event {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"añ"}}
        cli event {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"b"}}
        cli {"type":"assistant","message":{"id":"msg_1","content":[{"type":"text","text":"añb"}]}}
        cli event {"type":"content_block_stop","index":0}
        cli event {"type":"message_delta","delta":{"stop_reason":"end_turn"}}
        cli event {"type":"message_stop"}
        cli result
        cli idle
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"hello","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * message_started {"message":"msg_1","model":"m"}
    * block_started {"block":1,"content":{"type":"text"},"index":0,"kind":{"type":"text"},"message":"msg_1"}
    * block_grew {"at":0,"block":1,"delta":{"text":"añ","type":"text"}}
    * block_grew {"at":2,"block":1,"delta":{"text":"b","type":"text"}}
    * block_finished {"block":1,"content":{"text":"añb","type":"text"},"message":"msg_1","streamed":true}
    * message_finished {"blocks":[1],"message":"msg_1","stop_reason":"end_turn"}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    "#);
}

#[test]
fn prompts_run_one_after_the_other_and_an_idle_from_before_does_not_count() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        prompt two
        cli init
        cli result
        cli idle
        cli running
        cli init
        cli result
        cli idle
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    "#);
}

#[test]
fn a_cli_that_never_says_its_state_is_idle_after_its_result() {
    insta::assert_snapshot!(play("
        cli ready
        prompt one
        cli init
        cli result
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    "#);
}

#[test]
fn a_task_that_wakes_the_model_is_a_turn_of_its_own() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli running
        cli init
        cli result
        cli {"type":"system","subtype":"task_notification","task_id":"a1","status":"completed"}
        cli init
        prompt two
        cli result "subtype":"success","result":"task done","origin":{"kind":"task-notification"}
        cli init
        cli result
        cli idle
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * task_changed {"news":"ended","task":"a1"}
    * turn_started {"cause":"cli"}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":"cli","outcome":{"ending":"completed","result":"task done","subtype":"success"}}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    "#);
}

#[test]
fn a_result_that_names_another_prompt_is_not_this_ones() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli result "subtype":"success","result":"somebody else's","user_message_uuids":["x"]
        cli result "subtype":"success","result":"mine","user_message_uuids":["00000000-0000-4000-8000-000000000001"]
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":"cli","outcome":{"ending":"completed","result":"somebody else's","subtype":"success"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"mine","subtype":"success"}}
    * became_idle
    "#);
}

#[test]
fn asks_are_answered_in_any_order_and_only_once() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt go
        cli ask a
        cli ask b
        deny 2 not that
        allow 1 {"command":"pwd"}
        allow 1
        allow 7
        allow 2 5
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * ask_opened {"ask":2,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_b"}
    * ask_closed {"ask":2,"ending":"denied"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"b","response":{"behavior":"deny","interrupt":false,"message":"not that"}}}
    * ask_closed {"ask":1,"ending":"allowed"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"allow","updatedInput":{"command":"pwd"}}}}
    x ask 1 is not open: it was answered, withdrawn, has expired or never was
    x ask 7 is not open: it was answered, withdrawn, has expired or never was
    x the edited input of a tool must be a JSON object
    "#);
}

#[test]
fn an_allowed_ask_carries_its_own_input_when_nothing_was_edited() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt go
        cli ask a
        allow 1 {}
        cli ask b
        allow 2 "not an object"
        allow 2
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * ask_closed {"ask":1,"ending":"allowed"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"allow","updatedInput":{"command":"ls"}}}}
    * ask_opened {"ask":2,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_b"}
    x the edited input of a tool must be a JSON object
    * ask_closed {"ask":2,"ending":"allowed"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"b","response":{"behavior":"allow","updatedInput":{"command":"ls"}}}}
    "#);
}

#[test]
fn a_question_nobody_answers_is_denied_after_a_minute() {
    insta::assert_snapshot!(play("
        cli ready
        prompt go
        cli ask a
        wait 59
        wait 1
        allow 1
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * ask_closed {"ask":1,"ending":"expired"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"deny","interrupt":false,"message":"Permission request timed out"}}}
    x ask 1 is not open: it was answered, withdrawn, has expired or never was
    "#);
}

#[test]
fn a_question_the_cli_withdraws_is_closed_without_an_answer() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt go
        cli ask a
        cli {"type":"control_cancel_request","request_id":"a"}
        cli {"type":"control_cancel_request","request_id":"unknown"}
        deny 1 late
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * ask_closed {"ask":1,"ending":"withdrawn"}
    x ask 1 is not open: it was answered, withdrawn, has expired or never was
    "#);
}

#[test]
fn a_question_that_cannot_be_read_is_refused_and_one_that_is_not_known_is_declined() {
    insta::assert_snapshot!(play(r#"
        cli ready
        cli {"type":"control_request","request_id":"a","request":{"subtype":"can_use_tool","tool":"?"}}
        cli {"type":"control_request","request_id":"b","request":{"subtype":"paint_the_house"}}
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"deny","interrupt":false,"message":"The permission request could not be read"}}}
    > {"response":{"error":"Unsupported control request subtype: paint_the_house","error_code":"unsupported_request","request_id":"b","subtype":"error"},"type":"control_response"}
    "#);
}

#[test]
fn an_interrupt_before_anything_was_handed_over_drops_that_prompt_here() {
    insta::assert_snapshot!(play("
        prompt one
        prompt two
        interrupt
        cli ready
    "), @r#"
    * prompt_dropped {"prompt":1,"reason":"cancelled"}
    * request_answered {"reply":{"Ok":{"interrupted":{"cancelled":[1],"still_queued":[2]}}},"request":2}
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    "#);
}

#[test]
fn an_interrupt_tells_what_still_waits_and_what_was_dropped() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        prompt two
        prompt three
        interrupt
        cli answer 2 {"still_queued":["00000000-0000-4000-8000-000000000001"]}
        interrupt all
        cli answer 3 {"still_queued":[]}
        cli result "subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming","errors":["x"]
        cli idle
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"reply":{"Ok":{"interrupted":{"still_queued":[2,3]}}},"request":2}
    * prompt_dropped {"prompt":2,"reason":"cancelled"}
    * prompt_dropped {"prompt":3,"reason":"cancelled"}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"interrupt"}}
    * request_answered {"reply":{"Ok":{"interrupted":{"cancelled":[2,3]}}},"request":3}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"interrupted","errors":["x"],"subtype":"error_during_execution","terminal_reason":"aborted_streaming"}}
    * became_idle
    "#);
}

#[test]
fn an_old_cli_that_only_says_failed_was_interrupted_when_it_was_told_to_be() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        interrupt
        cli result "subtype":"error_during_execution","is_error":false
        prompt two
        cli result "subtype":"error_during_execution","is_error":false
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"interrupted","subtype":"error_during_execution"}}
    * became_idle
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":{"failed":"execution"},"subtype":"error_during_execution"}}
    * became_idle
    "#);
}

#[test]
fn a_prompt_the_cli_drops_is_told_and_the_next_one_runs() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        prompt two
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000001","state":"cancelled"}
        cli result
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * prompt_dropped {"prompt":1,"reason":"cancelled"}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    "#);
}

#[test]
fn how_a_turn_ended_is_told_apart() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt 1
        cli result "subtype":"success","is_error":true,"result":"API Error: 529","terminal_reason":"api_error"
        prompt 2
        cli result "subtype":"error_max_turns","is_error":true,"errors":["too many"],"num_turns":2
        prompt 3
        cli result "subtype":"error_max_budget_usd","total_cost_usd":0.5,"usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":null}
        prompt 4
        cli result "subtype":"error_max_structured_output_retries"
        prompt 5
        cli result "subtype":"error_of_the_future","num_turns":-1.5,"errors":{"not":"a list"}
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"1","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":{"failed":"api"},"result":"API Error: 529","subtype":"success","terminal_reason":"api_error"}}
    * became_idle
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"2","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":{"failed":"max_turns"},"errors":["too many"],"num_turns":2,"subtype":"error_max_turns"}}
    * became_idle
    * turn_started {"cause":{"prompt":3}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000003","session_id":"","message":{"role":"user","content":[{"text":"3","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":3},"outcome":{"ending":{"failed":"max_budget"},"subtype":"error_max_budget_usd","total_cost_usd":0.5,"usage":{"input_tokens":1,"output_tokens":2}}}
    * became_idle
    * turn_started {"cause":{"prompt":4}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000004","session_id":"","message":{"role":"user","content":[{"text":"4","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":4},"outcome":{"ending":{"failed":"structured_output"},"subtype":"error_max_structured_output_retries"}}
    * became_idle
    * turn_started {"cause":{"prompt":5}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000005","session_id":"","message":{"role":"user","content":[{"text":"5","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":5},"outcome":{"ending":{"failed":"execution"},"subtype":"error_of_the_future"}}
    * became_idle
    "#);
}

#[test]
fn a_message_that_is_abandoned_is_balanced_and_its_blocks_do_not_count() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt go
        cli event {"type":"message_start","message":{"id":"msg_1","model":"m"}}
        cli event {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
        cli event {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lost"}}
        cli event {"type":"content_block_stop","index":0}
        cli event {"type":"message_stop"}
        cli {"type":"assistant","message":{"id":"msg_2","content":[{"type":"text","text":"not streamed"}]}}
        cli event {"type":"message_start","message":{"id":"msg_3","model":"m"}}
        cli event {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}}
        cli result
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * message_started {"message":"msg_1","model":"m"}
    * block_started {"block":1,"content":{"type":"text"},"index":0,"kind":{"type":"text"},"message":"msg_1"}
    * block_grew {"at":0,"block":1,"delta":{"text":"lost","type":"text"}}
    * block_discarded {"block":1}
    * message_finished {"message":"msg_1"}
    * block_finished {"block":2,"content":{"text":"not streamed","type":"text"},"message":"msg_2","streamed":false}
    * message_started {"message":"msg_3","model":"m"}
    * block_started {"block":3,"content":{"id":"toolu_1","name":"Bash","type":"tool_use"},"index":0,"kind":{"id":"toolu_1","name":"Bash","type":"tool_use"},"message":"msg_3"}
    * block_discarded {"block":3}
    * message_finished {"message":"msg_3"}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    "#);
}

#[test]
fn a_subagents_message_is_never_mixed_into_the_main_one() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt go
        cli event {"type":"message_start","message":{"id":"msg_1","model":"m"}}
        cli event {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
        cli {"type":"assistant","parent_tool_use_id":"toolu_9","message":{"id":"msg_s","content":[{"type":"text","text":"from below"}]}}
        cli {"type":"user","parent_tool_use_id":"toolu_9","message":{"content":[{"type":"tool_result","tool_use_id":"toolu_s","content":"ok"}]}}
        cli {"type":"assistant","message":{"id":"msg_1","content":[{"type":"text","text":"from above"}]}}
        cli event {"type":"message_stop"}
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * message_started {"message":"msg_1","model":"m"}
    * block_started {"block":1,"content":{"type":"text"},"index":0,"kind":{"type":"text"},"message":"msg_1"}
    * block_finished {"block":2,"content":{"text":"from below","type":"text"},"message":"msg_s","parent":"toolu_9","streamed":false}
    * tool_returned {"content":"ok","is_error":false,"parent":"toolu_9","tool_use":"toolu_s"}
    * block_finished {"block":1,"content":{"text":"from above","type":"text"},"message":"msg_1","streamed":true}
    * message_finished {"blocks":[1],"message":"msg_1"}
    "#);
}

#[test]
fn closing_climbs_the_ladder_while_the_cli_does_not_go() {
    insta::assert_snapshot!(play("
        cli ready
        prompt one
        prompt two
        cli ask a
        close
        prompt three
        wait 3
        wait 2
        wait 5
        exit 137
        close
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * prompt_dropped {"prompt":2,"reason":"session_ended"}
    * ask_closed {"ask":1,"ending":"session_ended"}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    x cannot prompt while the session is closing
    ! CloseStdin
    ! Terminate
    ! Kill
    * prompt_dropped {"prompt":1,"reason":"session_ended"}
    * ended {"exit":{"code":137,"reason":"asked"}}
    x cannot close while the session is ended
    "#);
}

#[test]
fn closing_stops_climbing_when_the_cli_goes() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        close
        cli result "subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools"
        cli idle
        close
        exit 1
        wait 60
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"interrupted","subtype":"error_during_execution","terminal_reason":"aborted_tools"}}
    ! CloseStdin
    * ended {"exit":{"code":1,"reason":"asked"}}
    "#);
    insta::assert_snapshot!(play("
        cli ready
        close
        exit 0
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    ! CloseStdin
    * ended {"exit":{"reason":"asked"}}
    "#);
}

#[test]
fn aborting_ends_everything_at_once_from_anywhere() {
    insta::assert_snapshot!(play("
        prompt one
        abort
        abort
        exit
    "), @r#"
    ! Abort
    ! Abort
    * prompt_dropped {"prompt":1,"reason":"session_ended"}
    * ended {"exit":{"reason":"asked"}}
    "#);
    insta::assert_snapshot!(play("
        cli ready
        prompt one
        cli ask a
        close
        abort
        exit
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * ask_closed {"ask":1,"ending":"session_ended"}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    ! Abort
    * prompt_dropped {"prompt":1,"reason":"session_ended"}
    * ended {"exit":{"reason":"asked"}}
    "#);
}

#[test]
fn a_question_asked_while_closing_is_refused() {
    insta::assert_snapshot!(play("
        cli ready
        prompt one
        close
        cli ask a
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"deny","interrupt":false,"message":"The session is closing"}}}
    "#);
}

#[test]
fn a_cli_that_does_not_answer_is_given_up_after_a_minute() {
    insta::assert_snapshot!(play("
        prompt one
        wait 59
        wait 1
        exit
    "), @r#"
    ! Abort
    * prompt_dropped {"prompt":1,"reason":"session_ended"}
    * ended {"exit":{"reason":"start_timed_out"}}
    "#);
}

#[test]
fn a_cli_that_refuses_the_opening_is_ended() {
    insta::assert_snapshot!(play(r#"
        prompt one
        cli {"type":"control_response","response":{"subtype":"error","request_id":"watari_1","error":"bad schema","error_code":"invalid"}}
        exit 0
    "#), @r#"
    ! Abort
    * prompt_dropped {"prompt":1,"reason":"session_ended"}
    * ended {"exit":{"reason":{"start_refused":{"refused":{"code":"invalid","message":"bad schema"}}}}}
    "#);
}

#[test]
fn when_the_cli_goes_everything_open_is_closed() {
    insta::assert_snapshot!(play("
        cli ready
        prompt one
        prompt two
        cli ask a
        model sonnet
        exit 1
        prompt three
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    > {"type":"control_request","request_id":"watari_2","request":{"model":"sonnet","subtype":"set_model"}}
    * ask_closed {"ask":1,"ending":"session_ended"}
    * prompt_dropped {"prompt":1,"reason":"session_ended"}
    * prompt_dropped {"prompt":2,"reason":"session_ended"}
    * request_answered {"reply":{"Err":"session_ended"},"request":2}
    * ended {"exit":{"code":1,"reason":"by_itself"}}
    x cannot prompt while the session is ended
    "#);
}

#[test]
fn what_the_cli_said_before_it_was_ready_is_in_its_exit() {
    insta::assert_snapshot!(play(r#"
        cli {"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found"]}
        exit 1
    "#), @r#"
    * turn_finished {"cause":"cli","outcome":{"ending":{"failed":"execution"},"errors":["No conversation found"],"subtype":"error_during_execution"}}
    * ended {"exit":{"code":1,"errors":["No conversation found"],"reason":"by_itself"}}
    "#);
}

#[test]
fn settings_change_by_request_and_a_refusal_is_told_with_the_clis_words() {
    insta::assert_snapshot!(play(r#"
        cli ready
        model sonnet
        mode plan
        cli answer 2 {"model":"sonnet"}
        cli {"type":"control_response","response":{"subtype":"error","request_id":"watari_3","error":"no such mode","error_code":"invalid_mode"}}
        cli answer 3
        cli answer 99
        cli {"type":"system","subtype":"status","status":null,"permissionMode":"plan"}
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    > {"type":"control_request","request_id":"watari_2","request":{"model":"sonnet","subtype":"set_model"}}
    > {"type":"control_request","request_id":"watari_3","request":{"mode":"plan","subtype":"set_permission_mode"}}
    * request_answered {"reply":{"Ok":{"done":{"model":"sonnet"}}},"request":2}
    * request_answered {"reply":{"Err":{"refused":{"code":"invalid_mode","message":"no such mode"}}},"request":3}
    * status_changed {"permission_mode":"plan"}
    "#);
}

#[test]
fn what_is_not_known_is_kept_whole_and_what_is_not_json_is_noise() {
    insta::assert_snapshot!(play(r#"
        cli ready
        cli {"type":"hologram","depth":[1e400,{"deep":null}],"type_again":"x"}
        cli {"type":"system","subtype":"of_the_future","x":1}
        cli {"type":"result","subtype":5}
        cli {"no_type":true}
        cli [1,2]
        cli Welcome to the CLI!
        cli {"type":"keep_alive"}
        cli {"type":"tool_progress","tool_use_id":"toolu_1-heartbeat-3","parent_tool_use_id":"toolu_1","tool_name":"Bash","elapsed_time_seconds":90}
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * {"type":"unknown","frame":{"type":"hologram","depth":[1e400,{"deep":null}],"type_again":"x"}}
    * unknown {"frame":{"subtype":"of_the_future","type":"system","x":1}}
    * unknown {"frame":{"subtype":5,"type":"result"}}
    * unknown {"frame":{"no_type":true}}
    * noise_skipped {"beginning":"[1,2]","bytes":5}
    * noise_skipped {"beginning":"Welcome to the CLI!","bytes":19}
    * tool_progressed {"elapsed_seconds":90.0,"tool":"Bash","tool_use":"toolu_1"}
    "#);
}

#[test]
fn type_may_come_late_and_surrogates_may_be_lone() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt go
        cli event {"message":{"model":"m","id":"msg_1"},"type":"message_start"}
        cli event {"index":0,"content_block":{"text":"","type":"text"},"type":"content_block_start"}
        cli event {"delta":{"text":"half \ud83d","type":"text_delta"},"index":0,"type":"content_block_delta"}
        cli {"message":{"content":[{"text":"half \ud83d","type":"text"}],"id":"msg_1"},"type":"assistant"}
        cli {"is_error":false,"result":"half \ud83d","subtype":"success","type":"result"}
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * message_started {"message":"msg_1","model":"m"}
    * block_started {"block":1,"content":{"type":"text"},"index":0,"kind":{"type":"text"},"message":"msg_1"}
    * block_grew {"at":0,"block":1,"delta":{"text":"half �","type":"text"}}
    * {"type":"block_finished","block":1,"message":"msg_1","parent":null,"streamed":true,"content":{"text":"half \ud83d","type":"text"}}
    * message_finished {"blocks":[1],"message":"msg_1"}
    * {"type":"turn_finished","cause":{"prompt":1},"outcome":{"ending":"completed","subtype":"success","terminal_reason":null,"result":"half �","errors":[],"usage":{"input_tokens":0,"output_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0},"total_cost_usd":0.0,"duration_ms":0.0,"num_turns":0,"detail":{"is_error":false,"result":"half \ud83d","subtype":"success","type":"result"}}}
    * became_idle
    "#);
}

#[test]
fn the_session_is_opened_once_and_again_when_its_id_changes() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli init
        cli result
        prompt two
        cli init
        cli result
        prompt three
        cli {"type":"system","subtype":"init","session_id":"22222222-2222-4222-8222-222222222222","model":"m"}
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    * turn_started {"cause":{"prompt":3}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000003","session_id":"","message":{"role":"user","content":[{"text":"three","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"model":"m","session_id":"22222222-2222-4222-8222-222222222222"}}
    "#);
}

#[test]
fn more_prompts_than_may_wait_are_refused() {
    let mut script = "cli ready\n".to_owned();
    for _ in 0..1026 {
        script.push_str("prompt x\n");
    }
    let transcript = play(&script);
    assert_eq!(
        transcript.lines().filter(|line| line.starts_with('x')).collect::<Vec<_>>(),
        ["x 1024 prompts are waiting already: wait for a turn to end"]
    );
}

#[test]
fn without_a_limit_a_question_waits_for_ever() {
    let config = Config { answer_within: None, start_within: Duration::from_secs(60), ..Config::default() };
    let transcript = play_with(config, "cli ready\nprompt go\ncli ask a\nwait 1000000");
    assert!(!transcript.contains("ask_closed"), "{transcript}");
}
