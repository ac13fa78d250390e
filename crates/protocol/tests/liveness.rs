//! Transcripts of a CLI that does not react to an interrupt, to a probe or to a close.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails on anything that it does not expect")]

mod play;

use std::time::Duration;

use play::{play, play_with};
use watari_protocol::{Config, WatchdogLimits};

/// Runs a script in a running turn, and returns the part of the transcript that is about the script.
fn in_a_turn(script: &str) -> String {
    in_a_turn_with(WatchdogLimits::default(), script)
}

fn in_a_turn_with(watchdog: WatchdogLimits, script: &str) -> String {
    let config = Config { watchdog, answer_timeout: Some(Duration::from_secs(3600)), ..Config::default() };
    let start = "cli ready\nprompt one\ncli running\ncli init\n";
    let started = play_with(config.clone(), start);
    let all = play_with(config, &format!("{start}{script}"));
    all.strip_prefix(&started).unwrap().trim_start().to_owned()
}

#[test]
fn an_interrupt_without_effect_ends_the_cli_and_every_prompt_has_its_outcome() {
    insta::assert_snapshot!(in_a_turn("
        prompt two
        wait 100
        cli {}
        interrupt
        wait 4
        interrupt
        wait 1
        exit
    "), @r#"
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"mcp_status"}}
    * unknown
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"interrupt"}}
    > {"type":"control_request","request_id":"watari_4","request":{"subtype":"interrupt"}}
    ! Abort
    * prompt_dropped {"prompt":1,"reason":"cli_exited"}
    * prompt_dropped {"prompt":2,"reason":"cli_exited"}
    * request_answered {"reply":{"failed":"cli_exited"},"request":3}
    * request_answered {"reply":{"failed":"cli_exited"},"request":4}
    * cli_exited {"exit":{"reason":{"unresponsive":{"seconds":5,"to":"interrupt"}}}}
    "#);
}

#[test]
fn an_interrupt_that_ends_its_turn_in_time_ends_nothing_else() {
    insta::assert_snapshot!(in_a_turn(r#"
        prompt two
        interrupt
        wait 4
        cli answer 2
        wait 5
        cli result "subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools"
        cli running
        wait 20
    "#), @r#"
    * prompt_accepted {"content":"two","entry":"00000000-0000-4000-8000-000000000002","prompt":2}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"reply":{"interrupted":{"still_queued":[2]}},"request":2}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"interrupted","subtype":"error_during_execution","terminal_reason":"aborted_tools"}}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    "#);
}

#[test]
fn an_interrupt_that_is_answered_and_not_obeyed_ends_the_cli() {
    insta::assert_snapshot!(in_a_turn("
        interrupt
        cli answer 2
        wait 9
        wait 1
    "), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"request":2}
    ! Abort
    "#);
}

#[test]
fn an_answered_interrupt_does_not_end_a_cli_whose_turn_was_not_known_to_run() {
    // The prompt waits in the CLI's queue: an interrupt leaves it there, and it runs later.
    insta::assert_snapshot!(play("
        cli ready
        prompt one
        interrupt
        cli answer 2
        wait 25
    "), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"request":2}
    "#);
}

#[test]
fn silence_in_a_turn_is_probed_and_an_answered_probe_is_not_reported() {
    insta::assert_snapshot!(in_a_turn("
        wait 29
        wait 1
        cli answer 2
        wait 29
        wait 1
        cli answer 3
        cli result
        cli idle
        wait 3600
    "), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"mcp_status"}}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"mcp_status"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    "#);
}

#[test]
fn a_cli_that_does_not_answer_a_probe_is_reported_once_and_its_recovery_too() {
    insta::assert_snapshot!(in_a_turn("
        wait 30
        wait 10
        wait 600
        cli answer 2
        wait 29
        wait 1
        wait 10
    "), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"mcp_status"}}
    * cli_stalled {"silent_seconds":40}
    * cli_recovered {"silent_seconds":640}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"mcp_status"}}
    * cli_stalled {"silent_seconds":40}
    "#);
}

#[test]
fn a_stalled_cli_is_ended_if_so_configured() {
    let watchdog = WatchdogLimits { end_stalled: true, ..WatchdogLimits::default() };
    insta::assert_snapshot!(in_a_turn_with(watchdog, "
        wait 30
        wait 10
        exit
    "), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"mcp_status"}}
    * cli_stalled {"silent_seconds":40}
    ! Abort
    * prompt_dropped {"prompt":1,"reason":"cli_exited"}
    * cli_exited {"exit":{"reason":{"unresponsive":{"seconds":40,"to":"probe"}}}}
    "#);
}

#[test]
fn silence_counts_only_in_a_turn_and_while_nothing_is_asked() {
    insta::assert_snapshot!(in_a_turn("
        cli ask a
        wait 30
        wait 1800
        allow 1
        wait 29
        cli result
        cli idle
        wait 3600
    "), @r#"
    * ask_opened {"ask":1,"input":{"command":"ls"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_a"}
    * ask_resolved {"ask":1,"kind":"permission","resolution":"allowed","tool_use":"toolu_a"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"allow","updatedInput":{"command":"ls"}}}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    "#);
}

#[test]
fn a_byte_postpones_the_probe_and_does_not_move_the_timer() {
    insta::assert_snapshot!(in_a_turn("
        wait 20
        cli {}
        wait 29
        wait 1
    "), @r#"
    * unknown
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"mcp_status"}}
    "#);
}

#[test]
fn a_cli_whose_output_is_not_read_is_neither_stalled_nor_deaf_to_an_interrupt() {
    insta::assert_snapshot!(in_a_turn("
        wait 20
        unread
        wait 29
        wait 1
        wait 5
        unread
        interrupt
        wait 4
        unread
        wait 4
        wait 1
    "), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"mcp_status"}}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"interrupt"}}
    ! Abort
    "#);
}

#[test]
fn limits_that_no_clock_can_hold_mean_never() {
    let watchdog = WatchdogLimits {
        interrupt_answer_timeout: Duration::MAX,
        interrupt_end_timeout: Duration::MAX,
        probe_after: Duration::MAX,
        probe_timeout: Duration::MAX,
        end_stalled: true,
    };
    insta::assert_snapshot!(in_a_turn_with(watchdog, "
        interrupt
        wait 86400
    "), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"reply":{"failed":"timed_out"},"request":2}
    "#);
}

#[test]
fn closing_a_stalled_cli_skips_the_steps_that_need_its_reaction() {
    insta::assert_snapshot!(in_a_turn("
        wait 30
        wait 10
        close
    "), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"mcp_status"}}
    * cli_stalled {"silent_seconds":40}
    ! Abort
    "#);
}

#[test]
fn a_second_abort_does_not_wait_for_the_conversation_to_be_stored() {
    insta::assert_snapshot!(in_a_turn("
        close
        abort
        abort
    "), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    ! Abort
    ! Kill
    "#);
}

/// Measured on 2.1.325 and 2.1.42: the CLI answers an interrupt that it reads before it has started the turn, but the
/// interrupt has no effect.
#[test]
fn an_interrupt_that_comes_before_the_cli_has_begun_the_turn_is_repeated_when_the_turn_shows() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        interrupt
        cli running
        cli answer 2 {"still_queued":[]}
        cli init
        cli answer 3 {"still_queued":[]}
        cli {"type":"stream_event","event":{"type":"message_start","message":{"id":"m1","model":"m","content":[]}},"parent_tool_use_id":null}
        wait 9
        wait 1
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"request":2}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"interrupt"}}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    > {"type":"control_request","request_id":"watari_4","request":{"subtype":"interrupt"}}
    * message_started {"message":"m1","model":"m"}
    ! Abort
    "#);
}

#[test]
fn a_repeated_interrupt_reaches_no_turn_but_the_one_that_was_interrupted() {
    insta::assert_snapshot!(play(r#"
        cli ready
        prompt one
        prompt two
        interrupt
        cli running
        cli answer 2 {"still_queued":[]}
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
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"reply":{"interrupted":{"still_queued":[2]}},"request":2}
    * prompt_dropped {"prompt":1,"reason":"lost"}
    * turn_started {"cause":{"prompt":2}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000002","session_id":"","message":{"role":"user","content":[{"text":"two","type":"text"}]},"parent_tool_use_id":null}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":2},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    * became_idle
    "#);
}

/// Measured on 2.1.325: while a command runs in the background, an interrupt right after a prompt finds it in the CLI's
/// queue.
#[test]
fn a_prompt_in_the_clis_queue_is_not_lost_and_is_interrupted_when_it_runs() {
    insta::assert_snapshot!(play(r#"
        cli ready
        cli idle
        prompt one
        interrupt
        cli answer 2 {"still_queued":["00000000-0000-4000-8000-000000000001"]}
        cli running
        cli init
        cli answer 3 {"still_queued":[]}
        cli result "subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming"
        cli idle
    "#), @r#"
    * ready {"cli":{"version":"2.1.325"}}
    * prompt_accepted {"content":"one","entry":"00000000-0000-4000-8000-000000000001","prompt":1}
    * turn_started {"cause":{"prompt":1}}
    > {"type":"user","uuid":"00000000-0000-4000-8000-000000000001","session_id":"","message":{"role":"user","content":[{"text":"one","type":"text"}]},"parent_tool_use_id":null}
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"request":2}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"interrupt"}}
    * session_opened {"session":{"cwd":"/w","model":"m","permission_mode":"default","session_id":"11111111-1111-4111-8111-111111111111","tools":["Bash"],"version":"2.1.325"}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"interrupted","subtype":"error_during_execution","terminal_reason":"aborted_streaming"}}
    * became_idle
    "#);
}

/// The CLI may have been paused with this program, and has not had its time.
#[test]
fn a_pause_of_this_program_counts_against_no_time_limit_of_the_cli() {
    insta::assert_snapshot!(in_a_turn("
        interrupt
        wait 2
        pause 100
        wait 2
        cli answer 2
        wait 3
        pause 100
        wait 2
        cli result
        close
        pause 100
        wait 2
    "), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"request":2}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","terminal_reason":"completed"}}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"interrupt"}}
    "#);
    insta::assert_snapshot!(play("
        wait 30
        pause 100
        wait 29
        cli ready
    "), @r#"* ready {"cli":{"version":"2.1.325"}}"#);
}

#[test]
fn after_a_pause_a_cli_that_does_not_react_is_ended_in_its_time() {
    insta::assert_snapshot!(in_a_turn("
        interrupt
        wait 3
        pause 100
        wait 1
        pause 100
        wait 1
    "), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    ! Abort
    "#);
}

/// As 2.1.42 speaks: it reports neither its state nor its prompts, only the beginning of a turn.
#[test]
fn an_interrupted_turn_of_a_cli_that_reports_no_state_must_end_too() {
    insta::assert_snapshot!(play("
        cli ready
        prompt one
        cli init
        interrupt
        cli answer 2
        wait 9
        wait 1
    ").lines().skip(5).collect::<Vec<_>>().join("\n"), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"request":2}
    ! Abort
    "#);
}

#[test]
fn a_cli_that_reads_its_stdin_has_never_less_time_than_before() {
    insta::assert_snapshot!(in_a_turn("
        interrupt
        wait 1
        cli answer 2
        unread
        wait 8
        unread
        wait 4
        wait 1
    "), @r#"
    > {"type":"control_request","request_id":"watari_2","request":{"subtype":"interrupt"}}
    * request_answered {"request":2}
    ! Abort
    "#);
}

/// The reply may wait unread: whoever waits for it must not wait forever.
#[test]
fn time_in_which_nobody_reads_counts_for_requests_and_not_for_interrupts() {
    insta::assert_snapshot!(in_a_turn("
        model opus
        interrupt
        blocked 59
        blocked 1
        wait 5
    "), @r#"
    * request_sent {"body":{"model":"opus","subtype":"set_model"},"request":2}
    > {"type":"control_request","request_id":"watari_2","request":{"model":"opus","subtype":"set_model"}}
    > {"type":"control_request","request_id":"watari_3","request":{"subtype":"interrupt"}}
    * request_answered {"reply":{"failed":"timed_out"},"request":2}
    * request_answered {"reply":{"failed":"timed_out"},"request":3}
    ! Abort
    "#);
}
