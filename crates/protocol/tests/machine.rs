//! Conversations as transcripts: the machine's outputs for frames of the CLI and commands of clients.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test matches what it expects, and fails on anything else"
)]

mod play;

use std::time::Duration;

use play::{opening, play, play_with};
use watari_protocol::{Config, Hook, Initialize, ProgramTool, RawJson, SystemPrompt};

/// A tool of the program.
fn add() -> ProgramTool {
    ProgramTool { name: "add".into(), description: "Adds.".into(), input_schema: RawJson::from(r#"{"type":"object"}"#) }
}

#[test]
fn the_opening_carries_what_must_not_be_in_arguments() {
    insta::assert_snapshot!(opening(Initialize::default()), @r#"> {"type":"control_request","request_id":"watari_1","request":{"subtype":"initialize"}}"#);
    let everything = Initialize {
        system_prompt: SystemPrompt::Empty,
        json_schema: Some(RawJson::from(r#"{"type":"object"}"#)),
        agents: [("rev".to_owned(), RawJson::from(r#"{"prompt":"p"}"#))].into(),
        hooks: vec![
            Hook::on("Stop"),
            Hook { matcher: Some("Bash".into()), answer_timeout: Duration::from_secs(3), ..Hook::on("PreToolUse") },
        ],
        tools_can_be_added: false,
        tools: vec![add()],
        forward_subagent_text: true,
        title: Some("a title".into()),
        prompt_suggestions: true,
        more: [("newer".to_owned(), RawJson::from("1")), ("subtype".to_owned(), RawJson::from("1"))].into(),
    };
    insta::assert_snapshot!(opening(everything), @r#"> {"type":"control_request","request_id":"watari_1","request":{"agents":{"rev":{"prompt":"p"}},"forwardSubagentText":true,"hooks":{"PreToolUse":[{"hookCallbackIds":["watari_hook_2"],"matcher":"Bash","onFailure":"block","timeout":8}],"Stop":[{"hookCallbackIds":["watari_hook_1"],"timeout":65}]},"jsonSchema":{"type":"object"},"newer":1,"promptSuggestions":true,"sdkMcpServers":["client"],"subtype":"initialize","systemPrompt":[""],"title":"a title"}}"#);
}

/// The frames come in the order in which 2.1.325 wrote them (recording 12a, without the thinking). docs/events.md prints
/// the events of this transcript.
#[test]
fn the_events_of_one_plain_turn_come_in_this_order() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt hello
        cli running
        cli init
        cli {"type":"system","subtype":"status","status":"requesting"}
        cli event {"type":"message_start","message":{"id":"msg_1","model":"m"}}
        cli event {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
        cli event {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hell"}}
        cli event {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"o wo"}}
        cli event {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"rld"}}
        cli {"type":"assistant","message":{"id":"msg_1","content":[{"type":"text","text":"hello world"}]}}
        cli event {"type":"content_block_stop","index":0}
        cli event {"type":"message_delta","delta":{"stop_reason":"end_turn"}}
        cli event {"type":"message_stop"}
        cli result
        cli idle
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"hello","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"hello","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * status_changed {"status":"requesting"}
    * message_started {"message":"msg_1","model":"m"}
    * block_started {"block":1,"content":{"type":"text"},"index":0,"kind":{"type":"text"},"message":"msg_1"}
    * block_delta {"at":0,"block":1,"delta":{"text":"hell","type":"text"}}
    * block_delta {"at":4,"block":1,"delta":{"text":"o wo","type":"text"}}
    * block_delta {"at":8,"block":1,"delta":{"text":"rld","type":"text"}}
    * block_finished {"block":1,"content":{"text":"hello world","type":"text"},"message":"msg_1","source":{"author":"model","cut_short":false},"streamed":true}
    * message_finished {"blocks":[1],"message":"msg_1","stop_reason":"end_turn"}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    "#);
}

#[test]
fn a_prompt_waits_for_the_cli_and_is_reported_from_its_start_to_its_result() {
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
    * prompt_accepted {"content":"hello","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"hello","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * message_started {"message":"msg_1","model":"m"}
    * block_started {"block":1,"content":{"type":"text"},"index":0,"kind":{"type":"text"},"message":"msg_1"}
    * block_delta {"at":0,"block":1,"delta":{"text":"añ","type":"text"}}
    * block_delta {"at":2,"block":1,"delta":{"text":"b","type":"text"}}
    * block_finished {"block":1,"content":{"text":"añb","type":"text"},"message":"msg_1","source":{"author":"model","cut_short":false},"streamed":true}
    * message_finished {"blocks":[1],"message":"msg_1","stop_reason":"end_turn"}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    "#);
}

/// The results of 2.1.42, whose usage shows that the model was not called.
#[test]
fn what_only_the_result_says_is_emitted_and_a_prompt_for_which_nothing_was_done_is_explained() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt /unknown
        cli result "subtype":"success","is_error":false,"result":"Unknown skill: unknown","usage":{"input_tokens":0}
        prompt blocked without a word
        cli result "subtype":"success","is_error":false,"result":"","usage":{"input_tokens":0}
        prompt blocked
        cli {"type":"system","subtype":"informational","content":"blocked by hook","prevent_continuation":true}
        cli result "subtype":"success","is_error":false,"result":"blocked by hook","usage":{"input_tokens":0}
        prompt /cost
        cli {"type":"assistant","message":{"id":"msg_1","content":[{"type":"text","text":"$0"}]}}
        cli result "subtype":"success","is_error":false,"result":"$0","usage":{"input_tokens":0}
        prompt /compact
        cli {"type":"user","message":{"role":"user","content":"Compacted"}}
        cli result "subtype":"success","is_error":false,"result":"","usage":{"input_tokens":0}
        prompt interrupted
        cli result "subtype":"success","is_error":false,"terminal_reason":"aborted_streaming","usage":{"input_tokens":0}
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"/unknown","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"/unknown","type":"text"}]},"parent_tool_use_id":null}
    * block_finished {"block":1,"content":{"text":"Unknown skill: unknown","type":"text"},"message":"result_1","source":{"author":"command","cut_short":false},"streamed":false}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"Unknown skill: unknown","subtype":"success"}}
    * became_idle
    * prompt_accepted {"content":"blocked without a word","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"blocked without a word","type":"text"}]},"parent_tool_use_id":null}
    * notice_reported {"about":"blocked","text":"Claude Code did nothing for this message and gave no reason: a hook in its settings may have blocked it"}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"completed","subtype":"success"}}
    * became_idle
    * prompt_accepted {"content":"blocked","entry":"00000000-0000-4000-8000-000000000003","prompt":3}
    * turn_started {"cause":{"prompt":3}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000003","session_id":"","message":{"role":"user","content":[{"text":"blocked","type":"text"}]},"parent_tool_use_id":null}
    * notice_reported {"about":"blocked","text":"blocked by hook"}
    * turn_finished {"cause":{"prompt":3},"outcome":{"ending":"completed","result":"blocked by hook","subtype":"success"}}
    * became_idle
    * prompt_accepted {"content":"/cost","entry":"00000000-0000-4000-8000-000000000004","prompt":4}
    * turn_started {"cause":{"prompt":4}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000004","session_id":"","message":{"role":"user","content":[{"text":"/cost","type":"text"}]},"parent_tool_use_id":null}
    * block_finished {"block":2,"content":{"text":"$0","type":"text"},"message":"msg_1","source":{"author":"model","cut_short":false},"streamed":false}
    * turn_finished {"cause":{"prompt":4},"outcome":{"ending":"completed","result":"$0","subtype":"success"}}
    * became_idle
    * prompt_accepted {"content":"/compact","entry":"00000000-0000-4000-8000-000000000005","prompt":5}
    * turn_started {"cause":{"prompt":5}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000005","session_id":"","message":{"role":"user","content":[{"text":"/compact","type":"text"}]},"parent_tool_use_id":null}
    * context_injected {"content":"Compacted","repeated":false,"synthetic":false}
    * turn_finished {"cause":{"prompt":5},"outcome":{"ending":"completed","subtype":"success"}}
    * became_idle
    * prompt_accepted {"content":"interrupted","entry":"00000000-0000-4000-8000-000000000006","prompt":6}
    * turn_started {"cause":{"prompt":6}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000006","session_id":"","message":{"role":"user","content":[{"text":"interrupted","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":6},"outcome":{"ending":"interrupted","subtype":"success","terminal_reason":"aborted_streaming"}}
    * became_idle
    "#);
}

#[test]
fn a_discarded_stream_is_retracted_before_its_replacement() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt hello
        cli running
        cli event {"type":"message_start","message":{"id":"msg_1","model":"m"}}
        cli event {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
        cli {"type":"assistant","message":{"id":"msg_1","content":[{"type":"text","text":"whole"}]}}
        cli event {"type":"content_block_stop","index":0}
        cli event {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
        cli event {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"half"}}
        cli {"type":"assistant","message":{"id":"msg_sub","content":[{"type":"text","text":"a subagent gives up nothing"}]},"parent_tool_use_id":"toolu_1"}
        cli {"type":"assistant","message":{"id":"msg_2","content":[{"type":"text","text":"instead"}]}}
        cli result
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"hello","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"hello","type":"text"}]},"parent_tool_use_id":null}
    * message_started {"message":"msg_1","model":"m"}
    * block_started {"block":1,"content":{"type":"text"},"index":0,"kind":{"type":"text"},"message":"msg_1"}
    * block_finished {"block":1,"content":{"text":"whole","type":"text"},"message":"msg_1","source":{"author":"model","cut_short":false},"streamed":true}
    * block_started {"block":2,"content":{"type":"text"},"index":1,"kind":{"type":"text"},"message":"msg_1"}
    * block_delta {"at":0,"block":2,"delta":{"text":"half","type":"text"}}
    * block_finished {"block":3,"content":{"text":"a subagent gives up nothing","type":"text"},"message":"msg_sub","parent":"toolu_1","source":{"author":"model","cut_short":false},"streamed":false}
    * block_discarded {"block":2}
    * message_finished {"blocks":[1],"message":"msg_1"}
    * block_finished {"block":4,"content":{"text":"instead","type":"text"},"message":"msg_2","source":{"author":"model","cut_short":false},"streamed":false}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
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
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
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
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
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
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * task_changed {"task":"a1","update":"ended"}
    * turn_started {"cause":"cli"}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_finished {"cause":"cli","outcome":{"ending":"completed","result":"task done","subtype":"success"}}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    "#);
}

#[test]
fn a_prompt_waits_for_a_turn_of_the_clis_own_where_an_interrupt_can_drop_it() {
    // The frames of a CLI after a command in the background has ended.
    let own_turn = "
        cli ready
        cli running
        cli init
        prompt one
        prompt two
    ";
    insta::assert_snapshot!(play(&format!("{own_turn}
        interrupt
        cli answer 2
        cli result \"subtype\":\"error_during_execution\",\"origin\":{{\"kind\":\"task-notification\"}}
    ")), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_started {"cause":"cli"}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"reply":{"interrupted":{"still_queued":[1,2]}},"request":2}
    * turn_finished {"cause":"cli","outcome":{"ending":"interrupted","subtype":"error_during_execution"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    "#);
    insta::assert_snapshot!(play(&format!("{own_turn}
        interrupt all
        cli answer 2
        cli idle
    ")), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_started {"cause":"cli"}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * prompt_dropped {"prompt":1,"reason":"cancelled"}
    * prompt_dropped {"prompt":2,"reason":"cancelled"}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"reply":{"interrupted":{"cancelled":[1,2]}},"request":2}
    * became_idle
    "#);
    // Without a result, the CLI's `idle` state ends the turn.
    insta::assert_snapshot!(play(&format!("{own_turn}
        cli idle
    ")), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_started {"cause":"cli"}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    "#);
}

#[test]
fn a_prompt_in_the_clis_queue_behind_a_turn_of_its_own_is_taken_out_by_an_interrupt() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli running
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000001","state":"started"}
        cli init
        cli result
        prompt two
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000002","state":"queued"}
        cli init
        interrupt
        cli answer 2
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000002","state":"cancelled"}
        cli answer 3
        cli result "subtype":"error_during_execution","origin":{"kind":"task-notification"}
        cli idle
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_started {"cause":"cli"}
    > {"type":"control_request","request_id":"watari_2","request":{"message_uuid":"00000000-0000-4000-8000-000000000002","subtype":"cancel_async_message"}}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"interrupt"}}
    * prompt_dropped {"prompt":2,"reason":"cancelled"}
    * request_answered {"request":3}
    * turn_finished {"cause":"cli","outcome":{"ending":"interrupted","subtype":"error_during_execution"}}
    * became_idle
    "#);
}

#[test]
fn a_prompt_that_the_cli_says_it_took_out_of_its_queue_is_dropped_and_its_own_turn_still_has_to_end() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli running
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000001","state":"started"}
        cli init
        cli result
        prompt two
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000002","state":"queued"}
        cli init
        interrupt
        cli {"type":"control_response","response":{"subtype":"success","request_id":"watari_2","response":{"cancelled":true}}}
        cli answer 3
        wait 10
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_started {"cause":"cli"}
    > {"type":"control_request","request_id":"watari_2","request":{"message_uuid":"00000000-0000-4000-8000-000000000002","subtype":"cancel_async_message"}}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"interrupt"}}
    * prompt_dropped {"prompt":2,"reason":"cancelled"}
    * request_answered {"request":3}
    ! Abort
    "#);
}

#[test]
fn a_prompt_that_the_cli_queues_after_its_own_turn_shows_is_taken_out_by_an_interrupt_too() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli running
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000001","state":"started"}
        cli init
        cli result
        prompt two
        cli init
        interrupt
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000002","state":"queued"}
        cli answer 2
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000002","state":"cancelled"}
        cli result "subtype":"error_during_execution","origin":{"kind":"task-notification"}
        cli idle
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * turn_started {"cause":"cli"}
    > {"type":"control_request","request_id":"watari_3","request":{"message_uuid":"00000000-0000-4000-8000-000000000002","subtype":"cancel_async_message"}}
    * request_answered {"request":2}
    * prompt_dropped {"prompt":2,"reason":"cancelled"}
    * turn_finished {"cause":"cli","outcome":{"ending":"interrupted","subtype":"error_during_execution"}}
    * became_idle
    "#);
}

#[test]
fn a_prompt_waits_from_when_the_cli_wakes_up_and_an_interrupt_ends_the_turn_that_then_shows() {
    insta::assert_snapshot!(play(r#"
        cli ready
        cli idle
        cli running
        prompt one
        interrupt
        cli answer 2
        cli init
        cli result "subtype":"error_during_execution","origin":{"kind":"task-notification"}
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"reply":{"interrupted":{"still_queued":[1]}},"request":2}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"interrupt"}}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_started {"cause":"cli"}
    * turn_finished {"cause":"cli","outcome":{"ending":"interrupted","subtype":"error_during_execution"}}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    "#);
}

/// A CLI that does not report its state runs nothing after a result, whatever it reported before.
#[test]
fn a_prompt_does_not_wait_for_a_turn_of_the_cli_that_another_result_has_ended() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        prompt two
        cli {"type":"system","subtype":"task_notification","task_id":"a1","status":"completed"}
        cli result "user_message_uuids":["00000000-0000-4000-8000-000000000001"]
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * task_changed {"task":"a1","update":"ended"}
    * turn_started {"cause":"cli"}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":{"failed":"execution"}}}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    "#);
}

/// The CLI's output was not read for a while, for example because the disk was full: the prompt is handed over while the
/// CLI already runs, or has even ended, a turn that it had scheduled.
#[test]
fn the_result_of_a_scheduled_turn_is_not_the_result_of_the_prompt_that_is_handed_over_meanwhile() {
    let started = |uuid: &str| format!(r#"{{"type":"command_lifecycle","command_uuid":"{uuid}","state":"started"}}"#);
    let (one, two) = ("00000000-0000-4000-8000-000000000001", "00000000-0000-4000-8000-000000000002");
    let script = |scheduled: &str| {
        format!(
            "
            cli ready
            prompt one
            prompt two
            prompt three
            cli running
            cli {}
            cli init
            cli result \"user_message_uuids\":[\"{one}\"]
            cli idle
            cli running
            {scheduled}
            cli init
            cli result \"subtype\":\"success\",\"result\":\"scheduled\"
            cli idle
            cli running
            cli {}
            cli init
            cli result \"user_message_uuids\":[\"{two}\"]
            ",
            started(one),
            started(two)
        )
    };
    let turns = |played: &str| {
        let turns = played.lines().filter(|line| line.starts_with("* turn"));
        turns.map(|line| line.split(",\"outcome").next().unwrap().to_owned()).collect::<Vec<_>>().join("\n")
    };
    let reported = started("99999999-0000-4000-8000-000000000009");
    insta::assert_snapshot!(turns(&play(&script(&format!("cli {reported}")))), @r#"
    * turn_started {"cause":{"prompt":1}}
    * turn_finished {"cause":{"prompt":1}
    * turn_started {"cause":{"prompt":2}}
    * turn_started {"cause":"cli"}
    * turn_finished {"cause":"cli"
    * turn_finished {"cause":{"prompt":2}
    * turn_started {"cause":{"prompt":3}}
    "#);
    // Without its report it is still known by its result.
    insta::assert_snapshot!(turns(&play(&script(""))), @r#"
    * turn_started {"cause":{"prompt":1}}
    * turn_finished {"cause":{"prompt":1}
    * turn_started {"cause":{"prompt":2}}
    * turn_finished {"cause":"cli"
    * turn_finished {"cause":{"prompt":2}
    * turn_started {"cause":{"prompt":3}}
    "#);
}

/// As 2.1.325 does, if the prompt reaches it while its own turn uses a tool.
#[test]
fn a_prompt_that_was_merged_into_a_turn_of_the_cli_and_interrupted_with_it_may_have_run() {
    let lifecycle = |state: &str| {
        let uuid = "00000000-0000-4000-8000-000000000001";
        format!(r#"cli {{"type":"command_lifecycle","command_uuid":"{uuid}","state":"{state}"}}"#)
    };
    let [queued, started, cancelled] = ["queued", "started", "cancelled"].map(lifecycle);
    let script =
        format!("cli ready\ncli idle\nprompt one\ncli running\ncli init\n{queued}\n{started}\ninterrupt\n{cancelled}");
    insta::assert_snapshot!(play(&script).lines().skip(5).collect::<Vec<_>>().join("\n"), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * prompt_dropped {"prompt":1,"reason":"lost"}
    "#);
}

/// As 2.1.42 does, if the turn uses a tool. Nothing reports it.
#[test]
fn a_prompt_that_the_cli_has_merged_into_its_own_turn_is_lost_and_the_next_one_runs() {
    let script = r#"
        cli ready
        prompt one
        cli init
        prompt two
        prompt three
        cli result
        cli {"type":"system","subtype":"task_notification","task_id":"a1","status":"completed"}
        cli init
        cli result "subtype":"success","result":"about the task and two"
    "#;
    let after = |more: &str| {
        let (before, all) = (play(script), play(&format!("{script}{more}")));
        all.strip_prefix(&before).unwrap().trim_start().to_owned()
    };
    insta::assert_snapshot!(after("wait 599\nwait 1"), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"mcp_status"}}
    * prompt_dropped {"prompt":2,"reason":"lost"}
    * turn_started {"cause":{"prompt":3}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000003","session_id":"","message":{"role":"user","content":[{"text":"three","type":"text"}]},"parent_tool_use_id":null}
    "#);
    // The model polls: further turns of the CLI's own do not give the prompt more time. One that runs may end with it.
    let task_ended = r#"cli {"type":"system","subtype":"task_notification","task_id":"a2","status":"completed"}"#;
    let poll = format!("{task_ended}\ncli init");
    let polls = format!("wait 300\n{poll}\ncli result\nwait 299\n{poll}\nwait 20\ncli result\nwait 0");
    insta::assert_snapshot!(after(&polls), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"mcp_status"}}
    * task_changed {"task":"a2","update":"ended"}
    * turn_started {"cause":"cli"}
    * turn_finished {"cause":"cli","outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"mcp_status"}}
    * task_changed {"task":"a2","update":"ended"}
    * turn_started {"cause":"cli"}
    * turn_finished {"cause":"cli","outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * prompt_dropped {"prompt":2,"reason":"lost"}
    * turn_started {"cause":{"prompt":3}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000003","session_id":"","message":{"role":"user","content":[{"text":"three","type":"text"}]},"parent_tool_use_id":null}
    "#);
    // The CLI answers an interrupt, and no turn begins: it does not have the prompt any more.
    insta::assert_snapshot!(after("interrupt\ncli answer 2\nwait 9\nwait 1"), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"reply":{"interrupted":{"still_queued":[3]}},"request":2}
    * prompt_dropped {"prompt":2,"reason":"lost"}
    * turn_started {"cause":{"prompt":3}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000003","session_id":"","message":{"role":"user","content":[{"text":"three","type":"text"}]},"parent_tool_use_id":null}
    "#);
    // A CLI that does not answer it hangs.
    insta::assert_snapshot!(after("interrupt\nwait 4\nwait 1"), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    ! Abort
    "#);
    // A hook may have delayed its turn.
    insta::assert_snapshot!(after("wait 599\ncli init\nwait 5\ncli result"), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"mcp_status"}}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * turn_started {"cause":{"prompt":3}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000003","session_id":"","message":{"role":"user","content":[{"text":"three","type":"text"}]},"parent_tool_use_id":null}
    "#);
}

#[test]
fn a_prompt_that_is_reported_as_done_without_a_result_is_lost_when_the_cli_is_idle() {
    let lifecycle = |state: &str| {
        format!(
            r#"cli {{"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000001","state":"{state}"}}"#
        )
    };
    let script =
        format!("cli ready\nprompt one\n{}\ncli running\n{}\ncli idle", lifecycle("queued"), lifecycle("completed"));
    insta::assert_snapshot!(play(&script).lines().skip(4).collect::<Vec<_>>().join("\n"), @r#"
    * prompt_dropped {"prompt":1,"reason":"lost"}
    * became_idle
    "#);
}

#[test]
fn a_turn_of_the_clis_own_that_ends_without_a_result_has_no_time_limit_any_more() {
    insta::assert_snapshot!(play(r#"
        cli ready
        cli idle
        cli running
        cli init
        prompt one
        interrupt
        cli answer 2
        cli idle
        wait 25
    "#).lines().skip_while(|line| !line.contains("interrupt")).collect::<Vec<_>>().join("\n"), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"reply":{"interrupted":{"still_queued":[1]}},"request":2}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    "#);
}

/// The frames of 2.1.42, which does not report its state: the prompt was handed over as the CLI turned to the task.
#[test]
fn a_task_that_ended_has_its_turn_before_the_prompt_and_the_prompt_keeps_its_own_result() {
    let script = r#"
        cli ready
        prompt one
        cli init
        prompt two
        prompt three
        cli result
        cli {"type":"system","subtype":"task_notification","task_id":"a1","status":"completed"}
        cli init
    "#;
    insta::assert_snapshot!(play(&format!("{script}
        cli result \"subtype\":\"success\",\"result\":\"about the task\"
        cli init
        cli result \"subtype\":\"success\",\"result\":\"two\"
    ")), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * prompt_accepted {"content":"three","entry":"00000000-0000-4000-8000-000000000003","prompt":3}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * task_changed {"task":"a1","update":"ended"}
    * turn_started {"cause":"cli"}
    * turn_finished {"cause":"cli","outcome":{"ending":"completed","result":"about the task","subtype":"success"}}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"completed","result":"two","subtype":"success"}}
    * turn_started {"cause":{"prompt":3}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000003","session_id":"","message":{"role":"user","content":[{"text":"three","type":"text"}]},"parent_tool_use_id":null}
    "#);
    // The interrupt is also for the prompt, which was reported as running.
    insta::assert_snapshot!(play(&format!("{script}
        interrupt
        cli answer 2
        cli result \"subtype\":\"error_during_execution\"
        cli init
        cli result \"subtype\":\"error_during_execution\"
    ")), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * prompt_accepted {"content":"three","entry":"00000000-0000-4000-8000-000000000003","prompt":3}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * task_changed {"task":"a1","update":"ended"}
    * turn_started {"cause":"cli"}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"reply":{"interrupted":{"still_queued":[3]}},"request":2}
    * turn_finished {"cause":"cli","outcome":{"ending":"interrupted","subtype":"error_during_execution"}}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"interrupt"}}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"interrupted","subtype":"error_during_execution"}}
    * turn_started {"cause":{"prompt":3}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000003","session_id":"","message":{"role":"user","content":[{"text":"three","type":"text"}]},"parent_tool_use_id":null}
    "#);
}

#[test]
fn an_interrupt_is_repeated_as_soon_as_the_cli_says_that_it_runs_and_again_when_the_turn_shows() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli running
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000001","state":"started"}
        cli init
        cli result
        cli idle
        prompt two
        interrupt
        cli {"type":"control_response","response":{"subtype":"success","request_id":"watari_2","response":{"still_queued":["00000000-0000-4000-8000-000000000002"]}}}
        cli running
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000002","state":"queued"}
        cli result "subtype":"error_during_execution","origin":{"kind":"task-notification"}
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000002","state":"started"}
        cli init
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"request":2}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"interrupt"}}
    * turn_finished {"cause":"cli","outcome":{"ending":"interrupted","subtype":"error_during_execution"}}
    > {"type":"control_request","request_id":"watari_4","request":{"subtype":"interrupt"}}
    "#);
}

#[test]
fn an_interrupt_that_is_repeated_before_the_turn_shows_ends_no_cli_and_is_repeated_once() {
    // A hook may delay the turn for long, and the CLI may say again what it is doing.
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli running
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000001","state":"started"}
        cli init
        cli result
        cli idle
        prompt two
        interrupt
        cli {"type":"control_response","response":{"subtype":"success","request_id":"watari_2","response":{"still_queued":["00000000-0000-4000-8000-000000000002"]}}}
        cli running
        cli running
        cli answer 3
        wait 25
    "#).lines().skip_while(|line| !line.contains("interrupt")).collect::<Vec<_>>().join("\n"), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"request":2}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"interrupt"}}
    "#);
}

#[test]
fn a_turn_of_the_clis_own_that_is_interrupted_and_does_not_end_ends_the_cli() {
    insta::assert_snapshot!(play("
        cli ready
        cli running
        cli init
        interrupt
        cli answer 2
        wait 9
        wait 1
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_started {"cause":"cli"}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"request":2}
    ! Abort
    "#);
}

#[test]
fn an_interrupt_without_a_turn_is_answered_and_not_passed_on() {
    // The CLI would end the subagents that work in the background. It reports `running` as long as they work.
    insta::assert_snapshot!(play("
        cli ready
        interrupt
        prompt one
        cli running
        cli init
        cli result
        interrupt all
        cli idle
        interrupt
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * request_answered {"request":2}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * request_answered {"request":3}
    * became_idle
    * request_answered {"request":4}
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
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
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
    * prompt_accepted {"content":"go","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * ask_opened {"ask":2,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_b"}
    * ask_resolved {"ask":2,"kind":"permission","resolution":"denied","tool_use":"toolu_b"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"b","response":{"behavior":"deny","interrupt":false,"message":"not that"}}}
    * ask_resolved {"ask":1,"edited":true,"input":{"command":"pwd"},"kind":"permission","resolution":"allowed","tool_use":"toolu_a"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"allow","updatedInput":{"command":"pwd"}}}}
    x ask 1 is not open: it was answered, withdrawn, expired, or never existed
    x ask 7 is not open: it was answered, withdrawn, expired, or never existed
    x ask 2 is not open: it was answered, withdrawn, expired, or never existed
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
    * prompt_accepted {"content":"go","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * ask_resolved {"ask":1,"kind":"permission","resolution":"allowed","tool_use":"toolu_a"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"allow","updatedInput":{"command":"ls"}}}}
    * ask_opened {"ask":2,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_b"}
    x the edited tool input must be a JSON object
    * ask_resolved {"ask":2,"kind":"permission","resolution":"allowed","tool_use":"toolu_b"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"b","response":{"behavior":"allow","updatedInput":{"command":"ls"}}}}
    "#);
}

#[test]
fn an_unanswered_ask_is_denied_after_a_minute() {
    insta::assert_snapshot!(play("
        cli ready
        prompt go
        cli ask a
        wait 59
        wait 1
        allow 1
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"go","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * ask_resolved {"ask":1,"kind":"permission","resolution":"expired","tool_use":"toolu_a"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"deny","interrupt":false,"message":"Permission request timed out"}}}
    x ask 1 is not open: it was answered, withdrawn, expired, or never existed
    "#);
}

#[test]
fn an_ask_that_the_cli_withdraws_is_closed_without_an_answer() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt go
        cli ask a
        cli {"type":"control_cancel_request","request_id":"a"}
        cli {"type":"control_cancel_request","request_id":"unknown"}
        deny 1 late
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"go","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * ask_resolved {"ask":1,"kind":"permission","resolution":"withdrawn","tool_use":"toolu_a"}
    x ask 1 is not open: it was answered, withdrawn, expired, or never existed
    "#);
}

#[test]
fn an_unreadable_ask_is_denied_and_an_unknown_request_is_declined() {
    insta::assert_snapshot!(play(r#"
        cli ready
        cli {"type":"control_request","request_id":"a","request":{"subtype":"can_use_tool","tool":"?"}}
        cli {"type":"control_request","request_id":"b","request":{"subtype":"paint_the_house"}}
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * unknown {"frame":{"request":{"subtype":"can_use_tool","tool":"?"},"request_id":"a","type":"control_request"}}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"deny","interrupt":false,"message":"The request could not be read"}}}
    * unknown {"frame":{"request":{"subtype":"paint_the_house"},"request_id":"b","type":"control_request"}}
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
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * prompt_dropped {"prompt":1,"reason":"cancelled"}
    * request_answered {"reply":{"interrupted":{"cancelled":[1],"still_queued":[2]}},"request":2}
    * ready {"cli":{"version":"2.1.325"}}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    "#);
}

#[test]
fn an_interrupt_reports_what_still_waits_and_what_was_dropped() {
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
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * prompt_accepted {"content":"three","entry":"00000000-0000-4000-8000-000000000003","prompt":3}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"reply":{"interrupted":{"still_queued":[2,3]}},"request":2}
    * prompt_dropped {"prompt":2,"reason":"cancelled"}
    * prompt_dropped {"prompt":3,"reason":"cancelled"}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"interrupt"}}
    * request_answered {"reply":{"interrupted":{"cancelled":[2,3]}},"request":3}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"interrupted","errors":["x"],"subtype":"error_during_execution","terminal_reason":"aborted_streaming"}}
    * became_idle
    "#);
}

#[test]
fn a_failed_turn_of_an_old_cli_counts_as_interrupted_after_an_interrupt() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        interrupt
        cli result "subtype":"error_during_execution","is_error":false
        prompt two
        cli result "subtype":"error_during_execution","is_error":false
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"interrupted","subtype":"error_during_execution"}}
    * became_idle
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":{"failed":"execution"},"subtype":"error_during_execution"}}
    * became_idle
    "#);
}

#[test]
fn a_prompt_the_cli_drops_is_reported_and_the_next_one_runs() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        prompt two
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000001","state":"cancelled"}
        cli result
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * prompt_dropped {"prompt":1,"reason":"cancelled"}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    "#);
}

#[test]
fn the_endings_of_turns_are_distinguished() {
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
    * prompt_accepted {"content":"1","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"1","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":{"failed":"api"},"result":"API Error: 529","subtype":"success","terminal_reason":"api_error"}}
    * became_idle
    * prompt_accepted {"content":"2","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"2","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":{"failed":"max_turns"},"errors":["too many"],"num_turns":2,"subtype":"error_max_turns"}}
    * became_idle
    * prompt_accepted {"content":"3","entry":"00000000-0000-4000-8000-000000000003","prompt":3}
    * turn_started {"cause":{"prompt":3}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000003","session_id":"","message":{"role":"user","content":[{"text":"3","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":3},"outcome":{"cost_usd":0.5,"ending":{"failed":"max_budget"},"subtype":"error_max_budget_usd","total_cost_usd":0.5,"usage":{"input_tokens":1,"output_tokens":2}}}
    * became_idle
    * prompt_accepted {"content":"4","entry":"00000000-0000-4000-8000-000000000004","prompt":4}
    * turn_started {"cause":{"prompt":4}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000004","session_id":"","message":{"role":"user","content":[{"text":"4","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":4},"outcome":{"ending":{"failed":"structured_output"},"subtype":"error_max_structured_output_retries"}}
    * became_idle
    * prompt_accepted {"content":"5","entry":"00000000-0000-4000-8000-000000000005","prompt":5}
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
    * prompt_accepted {"content":"go","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * message_started {"message":"msg_1","model":"m"}
    * block_started {"block":1,"content":{"type":"text"},"index":0,"kind":{"type":"text"},"message":"msg_1"}
    * block_delta {"at":0,"block":1,"delta":{"text":"lost","type":"text"}}
    * block_discarded {"block":1}
    * message_finished {"message":"msg_1"}
    * block_finished {"block":2,"content":{"text":"not streamed","type":"text"},"message":"msg_2","source":{"author":"model","cut_short":false},"streamed":false}
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
    * prompt_accepted {"content":"go","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * message_started {"message":"msg_1","model":"m"}
    * block_started {"block":1,"content":{"type":"text"},"index":0,"kind":{"type":"text"},"message":"msg_1"}
    * block_finished {"block":2,"content":{"text":"from below","type":"text"},"message":"msg_s","parent":"toolu_9","source":{"author":"model","cut_short":false},"streamed":false}
    * tool_returned {"content":"ok","is_error":false,"parent":"toolu_9","tool_use":"toolu_s"}
    * block_finished {"block":1,"content":{"text":"from above","type":"text"},"message":"msg_1","source":{"author":"model","cut_short":false},"streamed":true}
    * message_finished {"blocks":[1],"message":"msg_1"}
    "#);
}

#[test]
fn closing_climbs_the_ladder_while_the_cli_does_not_exit() {
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
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * prompt_dropped {"prompt":2,"reason":"cli_exited"}
    * ask_resolved {"ask":1,"kind":"permission","resolution":"cli_exited","tool_use":"toolu_a"}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    x cannot prompt: the process of Claude Code is closing
    ! CloseStdin
    ! Terminate
    ! Kill
    * prompt_dropped {"prompt":1,"reason":"cli_exited"}
    * cli_exited {"exit":{"code":137,"reason":"requested"}}
    x cannot close: the process of Claude Code is ended
    "#);
}

#[test]
fn closing_stops_climbing_when_the_cli_exits() {
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
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"interrupted","subtype":"error_during_execution","terminal_reason":"aborted_tools"}}
    ! CloseStdin
    * cli_exited {"exit":{"code":1,"reason":"requested"}}
    "#);
    insta::assert_snapshot!(play("
        cli ready
        close
        exit 0
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    ! CloseStdin
    * cli_exited {"exit":{"reason":"requested"}}
    "#);
}

#[test]
fn closing_while_the_cli_starts_aborts_at_once() {
    insta::assert_snapshot!(play("
        prompt one
        close
        close
        exit
    "), @r#"
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    ! Abort
    * prompt_dropped {"prompt":1,"reason":"cli_exited"}
    * cli_exited {"exit":{"reason":"requested"}}
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
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    ! Abort
    ! Kill
    * prompt_dropped {"prompt":1,"reason":"cli_exited"}
    * cli_exited {"exit":{"reason":"requested"}}
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
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * ask_resolved {"ask":1,"kind":"permission","resolution":"cli_exited","tool_use":"toolu_a"}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    ! Abort
    * prompt_dropped {"prompt":1,"reason":"cli_exited"}
    * cli_exited {"exit":{"reason":"requested"}}
    "#);
}

#[test]
fn an_ask_while_closing_is_denied() {
    insta::assert_snapshot!(play("
        cli ready
        prompt one
        close
        cli ask a
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"deny","interrupt":false,"message":"The session is closing"}}}
    "#);
}

#[test]
fn a_cli_that_does_not_answer_is_terminated_after_a_minute() {
    insta::assert_snapshot!(play("
        prompt one
        wait 59
        wait 1
        exit
    "), @r#"
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    ! Abort
    * prompt_dropped {"prompt":1,"reason":"cli_exited"}
    * cli_exited {"exit":{"reason":"start_timed_out"}}
    "#);
}

#[test]
fn a_cli_that_refuses_the_opening_is_ended() {
    insta::assert_snapshot!(play(r#"
        prompt one
        cli {"type":"control_response","response":{"subtype":"error","request_id":"watari_1","error":"bad schema","error_code":"invalid"}}
        exit 0
    "#), @r#"
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    ! Abort
    * prompt_dropped {"prompt":1,"reason":"cli_exited"}
    * cli_exited {"exit":{"reason":{"start_refused":{"refused":{"code":"invalid","message":"bad schema"}}}}}
    "#);
}

#[test]
fn when_the_cli_exits_everything_open_is_closed() {
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
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * request_sent {"body":{"model":"sonnet","subtype":"set_model"},"request":2}
    > {"type":"control_request","request_id":"watari_2","request":{"model":"sonnet","subtype":"set_model"}}
    * ask_resolved {"ask":1,"kind":"permission","resolution":"cli_exited","tool_use":"toolu_a"}
    * prompt_dropped {"prompt":1,"reason":"cli_exited"}
    * prompt_dropped {"prompt":2,"reason":"cli_exited"}
    * request_answered {"reply":{"failed":"cli_exited"},"request":2}
    * cli_exited {"exit":{"code":1,"reason":"by_itself"}}
    x cannot prompt: the process of Claude Code is ended
    "#);
}

#[test]
fn errors_before_the_cli_was_ready_are_in_its_exit() {
    insta::assert_snapshot!(play(r#"
        cli {"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found"]}
        exit 1
    "#), @r#"* cli_exited {"exit":{"code":1,"errors":["No conversation found"],"reason":"by_itself"}}"#);
}

#[test]
fn settings_change_by_request_and_a_refusal_carries_the_clis_message() {
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
    * request_sent {"body":{"model":"sonnet","subtype":"set_model"},"request":2}
    > {"type":"control_request","request_id":"watari_2","request":{"model":"sonnet","subtype":"set_model"}}
    * request_sent {"body":{"mode":"plan","subtype":"set_permission_mode"},"request":3}
    > {"type":"control_request","request_id":"watari_3","request":{"mode":"plan","subtype":"set_permission_mode"}}
    * request_answered {"reply":{"done":{"model":"sonnet"}},"request":2}
    * request_answered {"reply":{"failed":{"refused":{"code":"invalid_mode","message":"no such mode"}}},"request":3}
    * status_changed {"permission_mode":"plan"}
    "#);
}

#[test]
fn unknown_frames_are_passed_on_whole_and_unparsed_lines_are_skipped() {
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
    * turn_finished {"cause":"cli","outcome":{"ending":{"failed":"execution"}}}
    * unknown {"frame":{"no_type":true}}
    * unparsed_line_skipped {"beginning":"[1,2]","bytes":5}
    * unparsed_line_skipped {"beginning":"Welcome to the CLI!","bytes":19}
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
        cli event {"delta":{"text":"\ude00 joined","type":"text_delta"},"index":0,"type":"content_block_delta"}
        cli {"message":{"content":[{"text":"half \ud83d","type":"text"}],"id":"msg_1"},"type":"assistant"}
        cli {"is_error":false,"result":"half \ud83d","subtype":"success","type":"result"}
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"go","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * message_started {"message":"msg_1","model":"m"}
    * block_started {"block":1,"content":{"type":"text"},"index":0,"kind":{"type":"text"},"message":"msg_1"}
    * block_delta {"at":0,"block":1,"delta":{"text":"half ","type":"text"}}
    * block_delta {"at":5,"block":1,"delta":{"text":"😀 joined","type":"text"}}
    * {"type":"block_finished","block":1,"message":"msg_1","parent":null,"streamed":true,"source":{"entry":null,"agent":null,"cut_short":false,"author":"model"},"content":{"text":"half \ud83d","type":"text"}}
    * message_finished {"blocks":[1],"message":"msg_1"}
    * {"type":"turn_finished","cause":{"prompt":1},"outcome":{"ending":"completed","subtype":"success","terminal_reason":null,"result":"half �","errors":[],"structured_output":null,"deferred_tool":null,"permission_denials":[],"usage":{"input_tokens":0,"output_tokens":0,"cache_creation_input_tokens":0,"cache_read_input_tokens":0},"cost_usd":0.0,"total_cost_usd":0.0,"duration_ms":0.0,"num_turns":0,"raw":{"is_error":false,"result":"half \ud83d","subtype":"success","type":"result"}}}
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
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    * prompt_accepted {"content":"three","entry":"00000000-0000-4000-8000-000000000003","prompt":3}
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
        ["x 1024 prompts are already waiting: wait for a turn to end"]
    );
}

#[test]
fn without_a_limit_an_ask_waits_for_ever() {
    let config = Config { answer_timeout: None, start_timeout: Duration::from_secs(60), ..Config::default() };
    let transcript = play_with(config, "cli ready\nprompt go\ncli ask a\nwait 1000000");
    assert!(!transcript.contains("ask_resolved"), "{transcript}");
}

#[test]
fn a_prompt_merged_into_a_turn_of_the_clis_own_ends_with_that_turn() {
    // The prompt and the CLI's `running` state were sent at the same time.
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli running
        cli init
        cli result
        cli idle
        prompt two
        cli running
        cli init
        cli result "subtype":"success","result":"both","origin":{"kind":"task-notification"},"user_message_uuids":["00000000-0000-4000-8000-000000000002"]
        cli idle
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"completed","result":"both","subtype":"success"}}
    * became_idle
    "#);
}

#[test]
fn a_prompt_the_cli_forgets_is_reported_as_lost() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli running
        cli init
        cli idle
        prompt two
        cli idle
        interrupt
        cli answer 2 {"still_queued":[]}
        prompt three
        cli running
        cli result
        cli idle
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * prompt_dropped {"prompt":1,"reason":"lost"}
    * became_idle
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * prompt_dropped {"prompt":2,"reason":"lost"}
    * became_idle
    * request_answered {"request":2}
    * prompt_accepted {"content":"three","entry":"00000000-0000-4000-8000-000000000003","prompt":3}
    * turn_started {"cause":{"prompt":3}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000003","session_id":"","message":{"role":"user","content":[{"text":"three","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":3},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    "#);
}

#[test]
fn a_block_is_completed_by_one_of_its_kind() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt go
        cli event {"type":"message_start","message":{"id":"msg_1","model":"m"}}
        cli event {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
        cli event {"type":"content_block_stop","index":0}
        cli event {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
        cli {"type":"assistant","message":{"id":"msg_1","content":[{"type":"text","text":"second"}]}}
        cli event {"type":"content_block_stop","index":1}
        cli event {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}}
        cli {"type":"assistant","message":{"id":"msg_1","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}]}}
        cli {"type":"assistant","message":{"id":"msg_1","content":[{"type":"tool_use","id":"toolu_9","name":"Read","input":{}}]}}
        cli event {"type":"message_stop"}
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"go","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * message_started {"message":"msg_1","model":"m"}
    * block_started {"block":1,"content":{"type":"text"},"index":0,"kind":{"type":"text"},"message":"msg_1"}
    * block_started {"block":2,"content":{"type":"text"},"index":1,"kind":{"type":"text"},"message":"msg_1"}
    * block_finished {"block":2,"content":{"text":"second","type":"text"},"message":"msg_1","source":{"author":"model","cut_short":false},"streamed":true}
    * block_started {"block":3,"content":{"id":"toolu_1","name":"Bash","type":"tool_use"},"index":2,"kind":{"id":"toolu_1","name":"Bash","type":"tool_use"},"message":"msg_1"}
    * block_finished {"block":3,"content":{"id":"toolu_1","name":"Bash","type":"tool_use"},"message":"msg_1","source":{"author":"model","cut_short":false},"streamed":true}
    * block_finished {"block":4,"content":{"id":"toolu_9","name":"Read","type":"tool_use"},"message":"msg_1","source":{"author":"model","cut_short":false},"streamed":false}
    * block_discarded {"block":1}
    * message_finished {"blocks":[2,3],"message":"msg_1"}
    "#);
}

#[test]
fn json_of_several_lines_goes_out_as_one() {
    let schema = RawJson::from("{\n  \"type\":\r\n \"object\", \"title\": \"a\\nb\"\n}");
    let initialize = Initialize { json_schema: Some(schema), ..Initialize::default() };
    insta::assert_snapshot!(opening(initialize), @r#"> {"type":"control_request","request_id":"watari_1","request":{"jsonSchema":{   "type":   "object", "title": "a\nb" },"subtype":"initialize"}}"#);
}

#[test]
fn a_prompt_the_cli_would_drop_silently_is_refused() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt
        blocks []
        blocks 5
        blocks {"type":"text","text":"not a list"}
        blocks [{"text":"no type"}]
        blocks [{"type":"text"}]
        blocks [{"type":"text","text":5}]
        blocks [{"type":"text","text":"good"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    x the prompt has no content: give it text or at least one block
    x the prompt has no content: give it text or at least one block
    x the prompt's blocks must be a JSON array of objects with a type, and text blocks must have a text
    x the prompt's blocks must be a JSON array of objects with a type, and text blocks must have a text
    x the prompt's blocks must be a JSON array of objects with a type, and text blocks must have a text
    x the prompt's blocks must be a JSON array of objects with a type, and text blocks must have a text
    x the prompt's blocks must be a JSON array of objects with a type, and text blocks must have a text
    * prompt_accepted {"content":[{"text":"good","type":"text"},{"source":{"data":"aGk=","media_type":"image/png","type":"base64"},"type":"image"}],"entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"type":"text","text":"good"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]},"parent_tool_use_id":null}
    "#);
}

#[test]
fn a_frame_with_a_member_of_the_wrong_type_still_counts() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli {"type":"result","subtype":5,"event":7,"request_id":{},"parent_tool_use_id":[1]}
        prompt two
        cli {"type":"result","subtype":"success","result":"ok","event":{"no":"type"}}
        cli {"type":"control_request","request_id":"a","event":1,"request":{"subtype":"can_use_tool","tool_name":"Bash","input":{}}}
        cli {"type":"control_request","request_id":"b","request":{"no":"subtype"}}
        cli {"type":"control_request","request_id":"c"}
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":{"failed":"execution"}}}
    * became_idle
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"completed","result":"ok","subtype":"success"}}
    * became_idle
    * ask_opened {"ask":1,"kind":"permission","needs_person":false,"tool":"Bash"}
    * unknown {"frame":{"request":{"no":"subtype"},"request_id":"b","type":"control_request"}}
    > {"response":{"error":"Unsupported control request subtype: ?","error_code":"unsupported_request","request_id":"b","subtype":"error"},"type":"control_response"}
    * unknown {"frame":{"request_id":"c","type":"control_request"}}
    > {"response":{"error":"Unsupported control request subtype: ?","error_code":"unsupported_request","request_id":"c","subtype":"error"},"type":"control_response"}
    "#);
}

#[test]
fn hooks_are_asked_answered_and_fail_closed_where_they_are_gates() {
    let hook = |event: &str| Hook { answer_timeout: Duration::from_secs(3), ..Hook::on(event) };
    let hooks = vec![hook("PreToolUse"), hook("UserPromptSubmit"), hook("Stop"), hook("PermissionRequest")];
    let initialize = Initialize { hooks, ..Initialize::default() };
    insta::assert_snapshot!(play_with(Config { initialize, ..Config::default() }, r#"
        cli ready
        cli hook a 1 PreToolUse
        hook 1 allow {"command":"pwd"}
        cli hook b 1 PreToolUse
        hook 2 deny not that
        cli hook c 1 PreToolUse
        hook 3 ask
        cli hook d 1 PreToolUse
        hook 4 defer
        cli hook e 2 UserPromptSubmit
        hook 5 block not now
        cli hook f 3 Stop
        hook 6 halt enough
        cli hook g 4 PermissionRequest
        hook 7 deny never
        cli hook h 3 Stop
        hook 8 {"systemMessage":"raw"}
        cli hook i 1 PreToolUse
        cli hook j 2 UserPromptSubmit
        cli hook k 3 Stop
        cli hook l 4 PermissionRequest
        wait 3
        cli {"type":"control_request","request_id":"m","request":{"subtype":"hook_callback","callback_id":"somebody_elses","input":{"hook_event_name":"PreToolUse"}}}
        cli {"type":"control_request","request_id":"n","request":{"subtype":"hook_callback","callback_id":5}}
        cli hook o 1 PreToolUse
        allow 13
        cli hook p 3 Stop
        hook 14 context by the way
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * ask_opened {"ask":1,"event":"PreToolUse","hook":1,"input":{"hook_event_name":"PreToolUse"},"kind":"hook"}
    * ask_resolved {"ask":1,"edited":true,"input":{"command":"pwd"},"kind":"hook","resolution":"answered"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"pwd"}}}}}
    * ask_opened {"ask":2,"event":"PreToolUse","hook":1,"input":{"hook_event_name":"PreToolUse"},"kind":"hook"}
    * ask_resolved {"ask":2,"kind":"hook","resolution":"answered"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"b","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"not that"}}}}
    * ask_opened {"ask":3,"event":"PreToolUse","hook":1,"input":{"hook_event_name":"PreToolUse"},"kind":"hook"}
    * ask_resolved {"ask":3,"kind":"hook","resolution":"answered"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"c","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"ask","permissionDecisionReason":""}}}}
    * ask_opened {"ask":4,"event":"PreToolUse","hook":1,"input":{"hook_event_name":"PreToolUse"},"kind":"hook"}
    * ask_resolved {"ask":4,"kind":"hook","resolution":"answered"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"d","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"defer"}}}}
    * ask_opened {"ask":5,"event":"UserPromptSubmit","hook":2,"input":{"hook_event_name":"UserPromptSubmit"},"kind":"hook"}
    * ask_resolved {"ask":5,"kind":"hook","resolution":"answered"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"e","response":{"decision":"block","reason":"not now"}}}
    * ask_opened {"ask":6,"event":"Stop","hook":3,"input":{"hook_event_name":"Stop"},"kind":"hook"}
    * ask_resolved {"ask":6,"kind":"hook","resolution":"answered"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"f","response":{"continue":false,"stopReason":"enough"}}}
    * ask_opened {"ask":7,"event":"PermissionRequest","hook":4,"input":{"hook_event_name":"PermissionRequest"},"kind":"hook"}
    * ask_resolved {"ask":7,"kind":"hook","resolution":"answered"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"g","response":{"hookSpecificOutput":{"decision":{"behavior":"deny","message":"never"},"hookEventName":"PermissionRequest"}}}}
    * ask_opened {"ask":8,"event":"Stop","hook":3,"input":{"hook_event_name":"Stop"},"kind":"hook"}
    * ask_resolved {"ask":8,"kind":"hook","resolution":"answered"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"h","response":{"systemMessage":"raw"}}}
    * ask_opened {"ask":9,"event":"PreToolUse","hook":1,"input":{"hook_event_name":"PreToolUse"},"kind":"hook"}
    * ask_opened {"ask":10,"event":"UserPromptSubmit","hook":2,"input":{"hook_event_name":"UserPromptSubmit"},"kind":"hook"}
    * ask_opened {"ask":11,"event":"Stop","hook":3,"input":{"hook_event_name":"Stop"},"kind":"hook"}
    * ask_opened {"ask":12,"event":"PermissionRequest","hook":4,"input":{"hook_event_name":"PermissionRequest"},"kind":"hook"}
    * ask_resolved {"ask":9,"kind":"hook","resolution":"expired"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"i","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"No client answered in time"}}}}
    * ask_resolved {"ask":10,"kind":"hook","resolution":"expired"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"j","response":{"decision":"block","reason":"No client answered in time"}}}
    * ask_resolved {"ask":11,"kind":"hook","resolution":"expired"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"k","response":{}}}
    * ask_resolved {"ask":12,"kind":"hook","resolution":"expired"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"l","response":{}}}
    * unknown {"frame":{"request":{"callback_id":"somebody_elses","input":{"hook_event_name":"PreToolUse"},"subtype":"hook_callback"},"request_id":"m","type":"control_request"}}
    > {"type":"control_response","response":{"subtype":"success","request_id":"m","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"The request could not be read"}}}}
    * unknown {"frame":{"request":{"callback_id":5,"subtype":"hook_callback"},"request_id":"n","type":"control_request"}}
    > {"response":{"error":"The request could not be read","error_code":"invalid_request","request_id":"n","subtype":"error"},"type":"control_response"}
    * ask_opened {"ask":13,"event":"PreToolUse","hook":1,"input":{"hook_event_name":"PreToolUse"},"kind":"hook"}
    x ask 13 does not accept this answer, because it is a hook: answer it with a hook output
    * ask_opened {"ask":14,"event":"Stop","hook":3,"input":{"hook_event_name":"Stop"},"kind":"hook"}
    * ask_resolved {"ask":14,"kind":"hook","resolution":"answered"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"p","response":{"hookSpecificOutput":{"additionalContext":"by the way","hookEventName":"Stop"}}}}
    "#);
}

#[test]
fn questions_plans_and_forms_are_asks_of_their_own_kinds() {
    insta::assert_snapshot!(play(r#"
        cli ready
        cli {"type":"control_request","request_id":"a","request":{"subtype":"can_use_tool","tool_name":"AskUserQuestion","input":{"questions":[{"question":"Which?"}]}}}
        choose 1 {"Which?":"Blue"}
        cli {"type":"control_request","request_id":"b","request":{"subtype":"can_use_tool","tool_name":"ExitPlanMode","input":{}}}
        choose 2 {}
        deny 2 not yet
        cli {"type":"control_request","request_id":"c","request":{"subtype":"elicitation","mcp_server_name":"el","message":"Name?","requested_schema":{"type":"object"}}}
        accept 3 {"name":"x"}
        cli {"type":"control_request","request_id":"d","request":{"subtype":"elicitation","mcp_server_name":"el","message":"Go there","mode":"url","url":"https://example.invalid"}}
        allow 4
        decline 4
        cli {"type":"control_request","request_id":"e","request":{"subtype":"elicitation"}}
        cancel 5
        cli {"type":"control_request","request_id":"f","request":{"subtype":"elicitation","message":"?"}}
        wait 60
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * ask_opened {"ask":1,"input":{"questions":[{"question":"Which?"}]},"kind":"question","needs_person":true,"tool":"AskUserQuestion"}
    * ask_resolved {"ask":1,"edited":true,"input":{"answers":{"Which?":"Blue"},"questions":[{"question":"Which?"}]},"kind":"question","resolution":"answered"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"allow","updatedInput":{"answers":{"Which?":"Blue"},"questions":[{"question":"Which?"}]}}}}
    * ask_opened {"ask":2,"kind":"plan","needs_person":true,"tool":"ExitPlanMode"}
    x ask 2 does not accept this answer, because it is a plan: answer it with allow or deny
    * ask_resolved {"ask":2,"kind":"plan","resolution":"denied"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"b","response":{"behavior":"deny","interrupt":false,"message":"not yet"}}}
    * ask_opened {"ask":3,"kind":"elicitation","message":"Name?","schema":{"type":"object"},"server":"el"}
    * ask_resolved {"ask":3,"input":{"name":"x"},"kind":"elicitation","resolution":"answered"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"c","response":{"action":"accept","content":{"name":"x"}}}}
    * ask_opened {"ask":4,"kind":"elicitation","message":"Go there","server":"el","url":"https://example.invalid"}
    x ask 4 does not accept this answer, because it is an elicitation: answer it with accept, decline or cancel
    * ask_resolved {"ask":4,"kind":"elicitation","resolution":"denied"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"d","response":{"action":"decline"}}}
    * ask_opened {"ask":5,"kind":"elicitation"}
    * ask_resolved {"ask":5,"kind":"elicitation","resolution":"denied"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"e","response":{"action":"cancel"}}}
    * ask_opened {"ask":6,"kind":"elicitation","message":"?"}
    * ask_resolved {"ask":6,"kind":"elicitation","resolution":"expired"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"f","response":{"action":"cancel"}}}
    "#);
}

#[test]
fn an_unanswered_request_fails_after_a_minute() {
    insta::assert_snapshot!(play("
        cli ready
        model sonnet
        wait 60
        cli answer 2
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * request_sent {"body":{"model":"sonnet","subtype":"set_model"},"request":2}
    > {"type":"control_request","request_id":"watari_2","request":{"model":"sonnet","subtype":"set_model"}}
    * request_answered {"reply":{"failed":"timed_out"},"request":2}
    "#);
}

#[test]
fn notices_of_the_cli_are_passed_on() {
    insta::assert_snapshot!(play(r#"
        cli ready
        cli {"type":"system","subtype":"informational","content":"a remark","level":"warning"}
        cli {"type":"system","subtype":"notification","key":"k","text":"look"}
        cli {"type":"system","subtype":"permission_denied","tool_name":"Bash","tool_use_id":"toolu_1","message":"no"}
        cli {"type":"system","subtype":"hook_started","hook_id":"h1","hook_name":"lint","hook_event":"Stop"}
        cli {"type":"system","subtype":"hook_response","hook_id":"h1","hook_name":"lint","hook_event":"Stop","exit_code":0}
        cli {"type":"system","subtype":"background_tasks_changed","tasks":[{"task_id":"t"}]}
        cli {"type":"system","subtype":"commands_changed","commands":[{"name":"x"}]}
        cli {"type":"system","subtype":"session_title_changed","title":"a title"}
        cli {"type":"system","subtype":"thinking_tokens","estimated_tokens":7}
        cli {"type":"system","subtype":"compact_boundary","compact_metadata":{}}
        cli {"type":"conversation_reset","new_conversation_id":"x"}
        cli {"type":"prompt_suggestion","suggestion":"go on"}
        cli {"type":"transcript_mirror","filePath":"/x.jsonl","entries":[{"uuid":"u"}]}
        cli {"type":"rate_limit_event","rate_limit_info":{"status":"allowed"}}
        cli {"type":"auth_status","isAuthenticating":true}
        cli {"type":"tool_use_summary","summary":"read two files"}
        cli {"type":"active_goal","value":null}
        cli {"type":"user","isReplay":true,"message":{"role":"user","content":"said before"}}
        cli {"type":"user","isSynthetic":true,"message":{"content":[{"type":"text","text":"go on"},{"type":"tool_result","tool_use_id":"toolu_1","is_error":true}]}}
        cli {"type":"system","subtype":"worker_shutting_down","reason":"update"}
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * notice_reported {"about":"information","text":"a remark"}
    * notice_reported {"about":"notification","text":"look"}
    * permission_denied {"message":"no","tool":"Bash","tool_use":"toolu_1"}
    * hook_changed {"event":"Stop","hook_run":"h1","name":"lint","update":"started"}
    * hook_changed {"event":"Stop","hook_run":"h1","name":"lint","update":"ended"}
    * tasks_listed {"tasks":[{"task_id":"t"}]}
    * commands_listed {"commands":[{"name":"x"}]}
    * title_changed {"title":"a title"}
    * thinking_counted {"tokens":7}
    * compacted
    * conversation_cleared
    * prompt_suggested {"suggestion":"go on"}
    * transcript_written {"entries":[{"uuid":"u"}],"path":"/x.jsonl"}
    * notice_reported {"about":"rate_limit"}
    * notice_reported {"about":"authentication"}
    * notice_reported {"about":"tool_summary","text":"read two files"}
    * notice_reported {"about":"goal"}
    * context_injected {"content":"said before","repeated":true,"synthetic":false}
    * tool_returned {"is_error":true,"tool_use":"toolu_1"}
    * context_injected {"content":[{"text":"go on","type":"text"},{"is_error":true,"tool_use_id":"toolu_1","type":"tool_result"}],"repeated":false,"synthetic":true}
    * notice_reported {"about":"shutting_down","text":"update"}
    "#);
}

#[test]
fn cost_is_reported_per_turn_and_in_total() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli result "subtype":"success","total_cost_usd":0.25
        prompt two
        cli result "subtype":"success","total_cost_usd":0.75
        prompt /clear
        cli result "subtype":"success","total_cost_usd":0.125
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":1},"outcome":{"cost_usd":0.25,"ending":"completed","subtype":"success","total_cost_usd":0.25}}
    * became_idle
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":2},"outcome":{"cost_usd":0.5,"ending":"completed","subtype":"success","total_cost_usd":0.75}}
    * became_idle
    * prompt_accepted {"content":"/clear","entry":"00000000-0000-4000-8000-000000000003","prompt":3}
    * turn_started {"cause":{"prompt":3}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000003","session_id":"","message":{"role":"user","content":[{"text":"/clear","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":3},"outcome":{"cost_usd":0.125,"ending":"completed","subtype":"success","total_cost_usd":0.125}}
    * became_idle
    "#);
    let resumed = Config { cost_so_far_usd: None, ..Config::default() };
    insta::assert_snapshot!(play_with(resumed, r#"
        cli ready
        prompt one
        cli result "subtype":"success","total_cost_usd":1.25
        prompt two
        cli result "subtype":"success","total_cost_usd":1.5
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","subtype":"success","total_cost_usd":1.25}}
    * became_idle
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":2},"outcome":{"cost_usd":0.25,"ending":"completed","subtype":"success","total_cost_usd":1.5}}
    * became_idle
    "#);
}

#[test]
fn a_line_too_long_to_keep_leaves_nobody_waiting() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli running
        model sonnet
        overlong {"type":"control_request","request_id":"a","request":{"subtype":"can_use_tool","tool_name":"Write","input":{"content":"xxx
        overlong {"type":"control_request","request_id":"b","request":{"subtype":"hook_callback","callback_id":"watari_hook_1","input":{"hook_event_name":"PreToolUse","x":"xxx
        overlong {"type":"control_response","response":{"subtype":"success","request_id":"watari_2","response":{"x":"xxx
        overlong {"duration_ms":5,"type":"result","result":"xxx
        cli idle
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * request_sent {"body":{"model":"sonnet","subtype":"set_model"},"request":2}
    > {"type":"control_request","request_id":"watari_2","request":{"model":"sonnet","subtype":"set_model"}}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"deny","interrupt":false,"message":"The request was too long to be read"}}}
    * unparsed_line_skipped {"beginning":"{\"type\":\"control_request\",\"request_id\":\"a\",\"request\":{\"subtype\":\"can_use_tool\",\"tool_name\":\"Write\",\"input\":{\"content\":\"xxx","bytes":70000000}
    > {"type":"control_response","response":{"subtype":"success","request_id":"b","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"The request was too long to be read"}}}}
    * unparsed_line_skipped {"beginning":"{\"type\":\"control_request\",\"request_id\":\"b\",\"request\":{\"subtype\":\"hook_callback\",\"callback_id\":\"watari_hook_1\",\"input\":{\"hook_event_name\":\"PreToolUse\",\"x\":\"xxx","bytes":70000000}
    * request_answered {"reply":{"failed":"too_long"},"request":2}
    * unparsed_line_skipped {"beginning":"{\"type\":\"control_response\",\"response\":{\"subtype\":\"success\",\"request_id\":\"watari_2\",\"response\":{\"x\":\"xxx","bytes":70000000}
    * unparsed_line_skipped {"beginning":"{\"duration_ms\":5,\"type\":\"result\",\"result\":\"xxx","bytes":70000000}
    * prompt_dropped {"prompt":1,"reason":"lost"}
    * became_idle
    "#);
}

#[test]
fn an_interrupt_while_background_work_keeps_the_cli_running_does_not_lose_the_prompt() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli running
        cli init
        cli result
        prompt two
        interrupt
        cli answer 2 {"still_queued":["00000000-0000-4000-8000-000000000002"]}
        cli result "subtype":"error_during_execution","terminal_reason":"aborted_streaming"
        cli idle
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"request":2}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"interrupted","subtype":"error_during_execution","terminal_reason":"aborted_streaming"}}
    * became_idle
    "#);
}

#[test]
fn unknown_messages_of_a_future_cli_break_nothing() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt go
        cli {"type":"system","subtype":"session_state_changed","state":"dreaming"}
        cli {"type":"system","subtype":"status","status":"levitating","mood":"good"}
        cli {"type":"assistant","message":{"id":"m","content":[{"type":"hologram","depth":3}]},"new_field":[1]}
        cli event {"type":"message_start","message":{"id":"m2","model":"m","new":{}}}
        cli event {"type":"content_block_start","index":0,"content_block":{"type":"hologram"}}
        cli event {"type":"content_block_delta","index":0,"delta":{"type":"hologram_delta","layer":1}}
        cli event {"type":"content_block_wobble","index":0}
        cli {"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"Teleport","input":{},"mode":"new"}}
        cli {"type":"system","subtype":"task_started","task_id":"t","task_type":"cloud_agent"}
        cli result "subtype":"success","terminal_reason":"transcended","is_error":false,"result":"done"
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"go","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"go","type":"text"}]},"parent_tool_use_id":null}
    * unknown {"frame":{"state":"dreaming","subtype":"session_state_changed","type":"system"}}
    * status_changed {"status":"levitating"}
    * block_finished {"block":1,"content":{"depth":3,"type":"hologram"},"message":"m","source":{"author":"model","cut_short":false},"streamed":false}
    * message_started {"message":"m2","model":"m"}
    * block_started {"block":2,"content":{"type":"hologram"},"index":0,"kind":{"name":"hologram","type":"other"},"message":"m2"}
    * unknown {"frame":{"event":{"index":0,"type":"content_block_wobble"},"type":"stream_event"}}
    * ask_opened {"ask":1,"kind":"permission","needs_person":false,"tool":"Teleport"}
    * task_changed {"task":"t","update":"started"}
    * block_discarded {"block":2}
    * message_finished {"message":"m2"}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"transcended"}}
    * became_idle
    "#);
}

#[test]
fn depth_and_size_that_no_rust_value_can_hold_are_carried_through() {
    let deep = format!("{}1e400{}", "[".repeat(100_000), "]".repeat(100_000));
    let ask = format!(
        r#"cli {{"type":"control_request","request_id":"a","request":{{"subtype":"can_use_tool","tool_name":"Bash","input":{{"deep":{deep}}}}}}}"#
    );
    let hook = format!(r#"hook 2 allow {{"deep":{deep}}}"#);
    let initialize = Initialize { hooks: vec![Hook::on("PreToolUse")], ..Initialize::default() };
    let script = format!("cli ready\n{ask}\nallow 1\ncli hook b 1 PreToolUse\n{hook}");
    let transcript = play_with(Config { initialize, ..Config::default() }, &script);
    let written: Vec<&str> = transcript.lines().filter(|line| line.starts_with('>')).collect();
    assert_eq!(written.len(), 2);
    assert!(written.iter().all(|line| line.contains(&deep)));
}

#[test]
fn a_repeated_request_is_one_ask_and_an_abort_does_not_change_why_a_session_ends() {
    insta::assert_snapshot!(play(r#"
        cli {"type":"control_response","response":{"subtype":"error","request_id":"watari_1","error":"bad schema"}}
        abort
        exit
    "#), @r#"
    ! Abort
    ! Kill
    * cli_exited {"exit":{"reason":{"start_refused":{"refused":{"message":"bad schema"}}}}}
    "#);
    insta::assert_snapshot!(play("
        cli ready
        cli ask a
        cli ask a
        allow 1
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * ask_resolved {"ask":1,"kind":"permission","resolution":"allowed","tool_use":"toolu_a"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"allow","updatedInput":{"command":"ls"}}}}
    "#);
}

#[test]
fn an_answer_that_the_cli_would_take_for_no_opinion_is_refused() {
    let hooks = vec![Hook::on("PreToolUse"), Hook::on("UserPromptSubmit"), Hook::on("PermissionRequest")];
    let initialize = Initialize { hooks, ..Initialize::default() };
    insta::assert_snapshot!(play_with(Config { initialize, ..Config::default() }, r#"
        cli ready
        cli hook a 2 UserPromptSubmit
        hook 1 deny no
        hook 1 ask
        hook 1 allow
        cli hook b 1 PreToolUse
        hook 2 block no
        hook 2 allow 5
        cli hook c 3 PermissionRequest
        hook 3 defer
        wait 60
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * ask_opened {"ask":1,"event":"UserPromptSubmit","hook":2,"input":{"hook_event_name":"UserPromptSubmit"},"kind":"hook"}
    x ask 1 does not accept this answer, because it is a hook whose event has no such output: answer it with block
    x ask 1 does not accept this answer, because it is a hook whose event has no such output: answer it with no opinion or block
    x ask 1 does not accept this answer, because it is a hook whose event has no such output: answer it with no opinion or block
    * ask_opened {"ask":2,"event":"PreToolUse","hook":1,"input":{"hook_event_name":"PreToolUse"},"kind":"hook"}
    x ask 2 does not accept this answer, because it is a hook whose event has no such output: answer it with deny
    x the edited tool input must be a JSON object
    * ask_opened {"ask":3,"event":"PermissionRequest","hook":3,"input":{"hook_event_name":"PermissionRequest"},"kind":"hook"}
    x ask 3 does not accept this answer, because it is a hook whose event has no such output: answer it with no opinion, allow or deny
    * ask_resolved {"ask":1,"kind":"hook","resolution":"expired"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"decision":"block","reason":"No client answered in time"}}}
    * ask_resolved {"ask":2,"kind":"hook","resolution":"expired"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"b","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"No client answered in time"}}}}
    * ask_resolved {"ask":3,"kind":"hook","resolution":"expired"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"c","response":{}}}
    "#);
}

#[test]
fn a_session_that_starts_a_turn_before_it_answers_is_running() {
    insta::assert_snapshot!(play(r#"
        cli running
        cli init
        cli ready
        close
        cli result "subtype":"success","result":"gone on"
        exit 0
    "#), @r#"
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_started {"cause":"cli"}
    * ready {"cli":{"version":"2.1.325"}}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * turn_finished {"cause":"cli","outcome":{"ending":"completed","result":"gone on","subtype":"success"}}
    ! CloseStdin
    * cli_exited {"exit":{"reason":"requested"}}
    "#);
}

#[test]
fn a_prompt_is_lost_by_reports_on_it_and_not_on_others() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000001","state":"started"}
        cli running
        cli result
        prompt two
        cli running
        cli result "subtype":"success","result":"a task's","origin":{"kind":"task-notification"}
        cli idle
        cli {"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000002","state":"started"}
        cli idle
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * turn_finished {"cause":"cli","outcome":{"ending":"completed","result":"a task's","subtype":"success"}}
    * prompt_dropped {"prompt":2,"reason":"lost"}
    * became_idle
    "#);
}

#[test]
fn tools_of_the_program_are_served_and_each_call_is_an_ask() {
    let script = r#"
        cli {"type":"control_request","request_id":"a","request":{"subtype":"mcp_message","server_name":"client","message":{"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{}},"jsonrpc":"2.0","id":0}}}
        cli {"type":"control_request","request_id":"b","request":{"subtype":"mcp_message","server_name":"client","message":{"jsonrpc":"2.0","method":"notifications/initialized"}}}
        cli {"type":"control_request","request_id":"c","request":{"subtype":"mcp_message","server_name":"client","message":{"method":"tools/list","jsonrpc":"2.0","id":1}}}
        cli {"type":"control_request","request_id":"d","request":{"subtype":"mcp_message","server_name":"client","message":{"method":"resources/list","jsonrpc":"2.0","id":"x"}}}
        cli ready
        cli {"type":"control_request","request_id":"e","request":{"subtype":"mcp_message","server_name":"client","message":{"method":"tools/call","params":{"name":"add","arguments":{"a":1e400},"_meta":{"claudecode/toolUseId":"toolu_1"}},"jsonrpc":"2.0","id":2}}}
        wait 590
        allow 1
        result 1 {"type":"text"}
        result 1 [{"type":"text","text":"5"}]
        cli {"type":"control_request","request_id":"f","request":{"subtype":"mcp_message","server_name":"client","message":{"method":"tools/call","params":{"name":"add"},"jsonrpc":"2.0","id":3}}}
        deny 2 not now
        cli {"type":"control_request","request_id":"g","request":{"subtype":"mcp_message","server_name":"client","message":{"method":"tools/call","params":{"name":"add"},"jsonrpc":"2.0","id":4}}}
        cli {"type":"control_cancel_request","request_id":"g"}
        cli {"type":"control_request","request_id":"h","request":{"subtype":"mcp_message","server_name":"other","message":{"method":"ping","jsonrpc":"2.0","id":5}}}
    "#;
    let initialize = Initialize { tools: vec![add()], ..Initialize::default() };
    let config = Config { initialize, answer_timeout: Some(Duration::from_secs(60)), ..Config::default() };
    insta::assert_snapshot!(play_with(config, script), @r#"
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"mcp_response":{"jsonrpc":"2.0","id":0,"result":{"capabilities":{"tools":{"listChanged":true}},"protocolVersion":"2025-06-18","serverInfo":{"name":"client","version":"0.1.0"}}}}}}
    > {"type":"control_response","response":{"subtype":"success","request_id":"b","response":{"mcp_response":{"jsonrpc":"2.0","result":{}}}}}
    > {"type":"control_response","response":{"subtype":"success","request_id":"c","response":{"mcp_response":{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"add","description":"Adds.","inputSchema":{"type":"object"},"_meta":{"anthropic/alwaysLoad":true}}]}}}}}
    > {"type":"control_response","response":{"subtype":"success","request_id":"d","response":{"mcp_response":{"jsonrpc":"2.0","id":"x","error":{"code":-32601,"message":"Method not found: resources/list"}}}}}
    * ready {"cli":{"version":"2.1.325"}}
    * {"type":"ask_opened","ask":1,"kind":"tool_call","tool":"add","input":{"a":1e400},"tool_use":"toolu_1"}
    x ask 1 does not accept this answer, because it is a tool call: answer it with a tool result or deny
    x the tool result must be a list of blocks in MCP's format
    * ask_resolved {"ask":1,"kind":"tool_call","resolution":"answered","tool_use":"toolu_1"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"e","response":{"mcp_response":{"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"5"}],"isError":false}}}}}
    * ask_opened {"ask":2,"kind":"tool_call","tool":"add"}
    * ask_resolved {"ask":2,"kind":"tool_call","resolution":"denied"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"f","response":{"mcp_response":{"jsonrpc":"2.0","id":3,"result":{"content":[{"text":"not now","type":"text"}],"isError":true}}}}}
    * ask_opened {"ask":3,"kind":"tool_call","tool":"add"}
    * ask_resolved {"ask":3,"kind":"tool_call","resolution":"withdrawn"}
    * unknown {"frame":{"request":{"message":{"id":5,"jsonrpc":"2.0","method":"ping"},"server_name":"other","subtype":"mcp_message"},"request_id":"h","type":"control_request"}}
    > {"response":{"error":"Unsupported control request subtype: mcp_message","error_code":"unsupported_request","request_id":"h","subtype":"error"},"type":"control_response"}
    "#);
    // Without tools, the name belongs to another server.
    insta::assert_snapshot!(play(script.lines().nth(1).unwrap()), @r#"> {"response":{"error":"Unsupported control request subtype: mcp_message","error_code":"unsupported_request","request_id":"a","subtype":"error"},"type":"control_response"}"#);
}

#[test]
fn an_unanswered_tool_call_is_an_error_after_ten_minutes() {
    let script = r#"
        cli ready
        cli {"type":"control_request","request_id":"e","request":{"subtype":"mcp_message","server_name":"client","message":{"method":"tools/call","params":{"name":"add"},"jsonrpc":"2.0","id":2}}}
        wait 600
        result 1 [{"type":"text","text":"5"}]
    "#;
    let initialize = Initialize { tools: vec![add()], ..Initialize::default() };
    insta::assert_snapshot!(play_with(Config { initialize, ..Config::default() }, script), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * ask_opened {"ask":1,"kind":"tool_call","tool":"add"}
    * ask_resolved {"ask":1,"kind":"tool_call","resolution":"expired"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"e","response":{"mcp_response":{"jsonrpc":"2.0","id":2,"result":{"content":[{"text":"No client answered in time","type":"text"}],"isError":true}}}}}
    x ask 1 is not open: it was answered, withdrawn, expired, or never existed
    "#);
}

#[test]
fn a_call_that_the_cli_cancels_is_closed_and_its_late_result_is_refused() {
    let script = r#"
        cli ready
        cli {"type":"control_request","request_id":"e","request":{"subtype":"mcp_message","server_name":"client","message":{"method":"tools/call","params":{"name":"add"},"jsonrpc":"2.0","id":2}}}
        cli {"type":"control_request","request_id":"f","request":{"subtype":"mcp_message","server_name":"client","message":{"method":"tools/call","params":{"name":"add"},"jsonrpc":"2.0","id":3}}}
        cli {"type":"control_request","request_id":"g","request":{"subtype":"mcp_message","server_name":"client","message":{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2,"reason":"AbortError"}}}}
        cli {"type":"control_request","request_id":"h","request":{"subtype":"mcp_message","server_name":"client","message":{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}}}
        result 1 [{"type":"text","text":"5"}]
        result 2 [{"type":"text","text":"5"}]
    "#;
    let initialize = Initialize { tools: vec![add()], ..Initialize::default() };
    insta::assert_snapshot!(play_with(Config { initialize, ..Config::default() }, script), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * ask_opened {"ask":1,"kind":"tool_call","tool":"add"}
    * ask_opened {"ask":2,"kind":"tool_call","tool":"add"}
    * ask_resolved {"ask":1,"kind":"tool_call","resolution":"withdrawn"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"g","response":{"mcp_response":{"jsonrpc":"2.0","result":{}}}}}
    > {"type":"control_response","response":{"subtype":"success","request_id":"h","response":{"mcp_response":{"jsonrpc":"2.0","result":{}}}}}
    x ask 1 is not open: it was answered, withdrawn, expired, or never existed
    * ask_resolved {"ask":2,"kind":"tool_call","resolution":"answered"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"f","response":{"mcp_response":{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"5"}],"isError":false}}}}}
    "#);
}

#[test]
fn whatever_the_cli_says_of_a_prompt_after_a_server_took_the_tools_name_the_end_says_why() {
    let taken = r#"{"type":"system","subtype":"init","session_id":"11111111-1111-4111-8111-111111111111","cwd":"/w","tools":[],"model":"m","permissionMode":"default","claude_code_version":"2.1.325","mcp_servers":[{"name":"client","status":"connected","source":"project"}]}"#;
    let cancelled =
        r#"{"type":"command_lifecycle","command_uuid":"00000000-0000-4000-8000-000000000001","state":"cancelled"}"#;
    let failed = r#"result "subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming""#;
    for frame in [cancelled, failed, "running\ncli idle"] {
        let script = format!("cli ready\nprompt go\ncli running\ncli {taken}\ncli {frame}\nexit 0");
        let initialize = Initialize { tools: vec![add()], ..Initialize::default() };
        let played = play_with(Config { initialize, ..Config::default() }, &script);
        let ends: Vec<&str> =
            played.lines().filter(|line| line.contains("prompt_dropped") || line.contains("turn_f")).collect();
        assert_eq!(ends, [r#"* prompt_dropped {"prompt":1,"reason":"cli_exited"}"#], "{played}");
        assert!(played.contains(r#""reason":"server_name_conflict""#), "{played}");
    }
}

#[test]
fn only_texts_images_and_documents_are_a_prompt_and_others_are_named_with_their_place() {
    let prompt = |blocks: &str| format!("cli ready\nblocks {blocks}");
    let first_output = |blocks: &str| play(&prompt(blocks)).lines().nth(1).unwrap_or_default().to_owned();
    for name in ["tool_result", "tool_use", "thinking", "TEXT", ""] {
        let blocks =
            format!(r#"[{{"type":"text","text":"a"}},{{"type":"{name}","tool_use_id":"toolu_1","content":"yes"}}]"#);
        let why = format!("x block 1 of the prompt has the type {name:?}: use blocks of type text, image and document");
        assert_eq!(first_output(&blocks), why);
    }
    for name in ["image", "document"] {
        let accepted = first_output(&format!(r#"[{{"type":"{name}"}}]"#));
        assert!(accepted.starts_with("* prompt_accepted"), "{accepted}");
    }
}

#[test]
fn a_model_name_that_could_not_be_an_argument_is_refused() {
    let long = "x".repeat(257);
    let script = format!("cli ready\nmodel a\u{0}b\nmodel {long}\nmodel sonnet");
    insta::assert_snapshot!(play(&script), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    x a model name has 1 to 256 bytes and no control characters
    x a model name has 1 to 256 bytes and no control characters
    * request_sent {"body":{"model":"sonnet","subtype":"set_model"},"request":2}
    > {"type":"control_request","request_id":"watari_2","request":{"model":"sonnet","subtype":"set_model"}}
    "#);
}
