//! The fake CLI: what each word of its scripts does, over plain pipes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod fake;

use fake::{Fake, answer, brief, play, prompt, request};
use serde_json::json;

#[test]
fn a_turn_is_begun_streamed_and_ended() {
    let said = play("prompt\ntext You said $PROMPT\nresult", &[request("r1", "initialize"), prompt("hi")]);
    insta::assert_snapshot!(said.transcript(), @r#"
    control_response "r1" initialized
    system {"state":"running","subtype":"session_state_changed"}
    system init
    stream_event "message_start"
    stream_event "content_block_start" 0 {"text":"","type":"text"}
    stream_event 0 {"text":"You ","type":"text_delta"}
    stream_event 0 {"text":"said ","type":"text_delta"}
    stream_event 0 {"text":"hi","type":"text_delta"}
    assistant [{"text":"You said hi","type":"text"}]
    stream_event "content_block_stop" 0
    stream_event "message_delta"
    stream_event "message_stop"
    result "success" false "You said hi" "completed" 1 null
    system {"state":"idle","subtype":"session_state_changed"}
    exit 0
    "#);
}

#[test]
fn frames_are_spelled_as_the_real_cli_spells_them() {
    let said = play("prompt\ndeltas 1 of 5\ntool_result t1 done\nresult", &[prompt("hi")]);
    let lines = String::from_utf8(said.stdout).unwrap();
    let picked: Vec<&str> =
        lines.lines().enumerate().filter(|(at, _)| [0, 4, 5, 9, 10].contains(at)).map(|(_, line)| line).collect();
    insta::assert_snapshot!(picked.join("\n"), @r#"
    {"type":"system","subtype":"session_state_changed","state":"running","sdk_host_only":true,"uuid":"00000000-0000-4000-8000-000000000000","session_id":"fa4ec1a0-de00-4000-8000-000000000000"}
    {"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"0000 "}},"session_id":"fa4ec1a0-de00-4000-8000-000000000000","parent_tool_use_id":null,"uuid":"00000000-0000-4000-8000-000000000004","api_message_id":"msg_fake_1"}
    {"type":"assistant","message":{"id":"msg_fake_1","type":"message","role":"assistant","model":"claude-opus-5-5","content":[{"type":"text","text":"0000 "}],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0},"context_management":null},"parent_tool_use_id":null,"session_id":"fa4ec1a0-de00-4000-8000-000000000000","uuid":"00000000-0000-4000-8000-000000000005","timestamp":"2026-11-15T08:00:00.000Z","request_id":"req_fake_1"}
    {"type":"user","message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result","content":"done","is_error":false}]},"parent_tool_use_id":null,"session_id":"fa4ec1a0-de00-4000-8000-000000000000","uuid":"00000000-0000-4000-8000-000000000009","timestamp":"2026-11-15T08:00:00.000Z","tool_use_result":"done"}
    {"duration_api_ms":20,"stop_reason":"end_turn","session_id":"fa4ec1a0-de00-4000-8000-000000000000","total_cost_usd":0.00014,"usage":{"input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0},"modelUsage":{},"permission_denials":[],"terminal_reason":"completed","is_error":false,"num_turns":2,"subtype":"success","result":"","type":"result","duration_ms":94,"uuid":"00000000-0000-4000-8000-00000000000a","queued_turn_count":0,"result_index":0}
    "#);
}

#[test]
fn blocks_between_message_and_end_are_one_message() {
    let script = r#"
        # Comments and blank lines are passed over.
        message
        thinking let me
        text one two
        tool toolu_1 Bash {"command": "ls $SESSION"}
        end
        tool_result toolu_1 a b
    "#;
    insta::assert_snapshot!(play(script, &[]).transcript(), @r#"
    stream_event "message_start"
    stream_event "content_block_start" 0 {"thinking":"","type":"thinking"}
    stream_event 0 {"thinking":"let ","type":"thinking_delta"}
    stream_event 0 {"thinking":"me","type":"thinking_delta"}
    stream_event 0 {"signature":"c2ln","type":"signature_delta"}
    assistant [{"signature":"c2ln","thinking":"let me","type":"thinking"}]
    stream_event "content_block_stop" 0
    stream_event "content_block_start" 1 {"text":"","type":"text"}
    stream_event 1 {"text":"one ","type":"text_delta"}
    stream_event 1 {"text":"two","type":"text_delta"}
    assistant [{"text":"one two","type":"text"}]
    stream_event "content_block_stop" 1
    stream_event "content_block_start" 2 {"id":"toolu_1","input":{},"name":"Bash","type":"tool_use"}
    stream_event 2 {"partial_json":"{\"command\": ","type":"input_json_delta"}
    stream_event 2 {"partial_json":"\"ls ","type":"input_json_delta"}
    stream_event 2 {"partial_json":"fa4ec1a0-de00-4000-8000-000000000000\"}","type":"input_json_delta"}
    assistant [{"id":"toolu_1","input":{"command":"ls fa4ec1a0-de00-4000-8000-000000000000"},"name":"Bash","type":"tool_use"}]
    stream_event "content_block_stop" 2
    stream_event "message_delta"
    stream_event "message_stop"
    user [{"content":"a b","is_error":false,"tool_use_id":"toolu_1","type":"tool_result"}]
    exit 0
    "#);
}

#[test]
fn deltas_are_numbered_and_have_ids_of_their_own() {
    let said = play("deltas 12 of 3\nmessage\ntext a\ndeltas 2 at 1000/s\nend", &[]);
    let uuids: std::collections::BTreeSet<_> = said.lines().iter().map(|frame| frame["uuid"].to_string()).collect();
    assert_eq!(uuids.len(), said.lines().len());
    insta::assert_snapshot!(said.transcript(), @r#"
    stream_event "message_start"
    stream_event "content_block_start" 0 {"text":"","type":"text"}
    stream_event 0 {"text":"00 ","type":"text_delta"}
    stream_event 0 {"text":"01 ","type":"text_delta"}
    stream_event 0 {"text":"02 ","type":"text_delta"}
    stream_event 0 {"text":"03 ","type":"text_delta"}
    stream_event 0 {"text":"04 ","type":"text_delta"}
    stream_event 0 {"text":"05 ","type":"text_delta"}
    stream_event 0 {"text":"06 ","type":"text_delta"}
    stream_event 0 {"text":"07 ","type":"text_delta"}
    stream_event 0 {"text":"08 ","type":"text_delta"}
    stream_event 0 {"text":"09 ","type":"text_delta"}
    stream_event 0 {"text":"10 ","type":"text_delta"}
    stream_event 0 {"text":"11 ","type":"text_delta"}
    assistant [{"text":"00 01 02 03 04 05 06 07 08 09 10 11 ","type":"text"}]
    stream_event "content_block_stop" 0
    stream_event "message_delta"
    stream_event "message_stop"
    stream_event "message_start"
    stream_event "content_block_start" 0 {"text":"","type":"text"}
    stream_event 0 {"text":"a","type":"text_delta"}
    assistant [{"text":"a","type":"text"}]
    stream_event "content_block_stop" 0
    stream_event "content_block_start" 1 {"text":"","type":"text"}
    stream_event 1 {"text":"0000000000000000000 ","type":"text_delta"}
    stream_event 1 {"text":"0000000000000000001 ","type":"text_delta"}
    assistant [{"text":"0000000000000000000 0000000000000000001 ","type":"text"}]
    stream_event "content_block_stop" 1
    stream_event "message_delta"
    stream_event "message_stop"
    exit 0
    "#);
}

#[test]
fn a_flood_is_no_reason_not_to_answer() {
    let said = play("deltas 20000\nresult", &[request("r1", "set_model")]);
    let lines = said.lines();
    let answer = lines.iter().position(|frame| frame["type"] == "control_response").unwrap();
    assert!(answer < lines.len() - 10, "it was answered in line {answer} of {}", lines.len());
}

#[test]
fn an_ask_says_in_the_tools_result_what_was_answered() {
    let script = r#"
        prompt
        ask t1 Bash {"command":"rm $PROMPT"}
        ask t2 Bash {"command":"ls"}
        ask t3 Bash
        ask t4 Bash
        ask t5 Bash
        result {"is_error":true,"result":"$PROMPT"}
    "#;
    let refusal = json!({"type": "control_response", "response": {"subtype": "error", "request_id": "t4", "error": "no handler"}});
    let stdin = [
        prompt("\"x\""),
        answer("t1", json!({"behavior": "allow", "updatedInput": {"z": 1, "a": 2}})),
        answer("t2", json!({"behavior": "allow"})),
        answer("t3", json!({"behavior": "deny", "message": "not now"})),
        refusal.to_string(),
    ];
    insta::assert_snapshot!(play(script, &stdin).transcript(), @r#"
    system {"state":"running","subtype":"session_state_changed"}
    system init
    control_request {"request":{"display_name":"Bash","input":{"command":"rm \"x\""},"permission_suggestions":[],"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"t1"},"request_id":"t1"}
    user [{"content":"allowed {\"a\":2,\"z\":1}","is_error":false,"tool_use_id":"t1","type":"tool_result"}]
    control_request {"request":{"display_name":"Bash","input":{"command":"ls"},"permission_suggestions":[],"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"t2"},"request_id":"t2"}
    user [{"content":"allowed {\"command\":\"ls\"}","is_error":false,"tool_use_id":"t2","type":"tool_result"}]
    control_request {"request":{"display_name":"Bash","input":{},"permission_suggestions":[],"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"t3"},"request_id":"t3"}
    user [{"content":"denied not now","is_error":true,"tool_use_id":"t3","type":"tool_result"}]
    control_request {"request":{"display_name":"Bash","input":{},"permission_suggestions":[],"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"t4"},"request_id":"t4"}
    user [{"content":"denied no handler","is_error":true,"tool_use_id":"t4","type":"tool_result"}]
    control_request {"request":{"display_name":"Bash","input":{},"permission_suggestions":[],"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"t5"},"request_id":"t5"}
    user [{"content":"denied stdin ended","is_error":true,"tool_use_id":"t5","type":"tool_result"}]
    result "success" true "\"x\"" "completed" 6 null
    system {"state":"idle","subtype":"session_state_changed"}
    exit 0
    "#);
}

#[test]
fn what_comes_while_another_answer_is_awaited_is_kept() {
    let script = "ask! a Bash\nask! b Bash\ncancel c\nawait a\nawait b\nprompt\nresult $PROMPT";
    let stdin = [
        answer("b", json!({"behavior": "deny", "message": "the first answer"})),
        prompt("early"),
        request("r1", "mcp_status"),
        answer("b", json!({"behavior": "allow"})),
        answer("unknown", json!({})),
        answer("a", json!({"behavior": "allow"})),
    ];
    insta::assert_snapshot!(play(script, &stdin).transcript(), @r#"
    control_request {"request":{"display_name":"Bash","input":{},"permission_suggestions":[],"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"a"},"request_id":"a"}
    control_request {"request":{"display_name":"Bash","input":{},"permission_suggestions":[],"subtype":"can_use_tool","tool_name":"Bash","tool_use_id":"b"},"request_id":"b"}
    control_cancel_request {"request_id":"c"}
    control_response {"response":{"request_id":"r1","response":{},"subtype":"success"}}
    user [{"content":"allowed {}","is_error":false,"tool_use_id":"a","type":"tool_result"}]
    user [{"content":"denied the first answer","is_error":true,"tool_use_id":"b","type":"tool_result"}]
    system {"state":"running","subtype":"session_state_changed"}
    system init
    result "success" false "early" "completed" 1 null
    system {"state":"idle","subtype":"session_state_changed"}
    exit 0
    "#);
}

#[test]
fn hooks_mcp_messages_and_other_requests_wait_for_their_answers() {
    let script = r#"
        hook h1 hook_0 PreToolUse {"tool_name":"Bash","tool_use_id":"toolu_1"}
        mcp m1 calc {"jsonrpc":"2.0","id":1,"method":"tools/list"}
        request q1 elicitation {"message":"Your name?"}
        noise done
    "#;
    let folder = std::env::current_dir().unwrap();
    let stdin =
        [answer("h1", json!({})), answer("m1", json!({"mcp_response": {}})), answer("q1", json!({"action": "cancel"}))];
    let said = play(script, &stdin);
    insta::assert_snapshot!(said.transcript().replace(folder.to_str().unwrap(), "<cwd>"), @r#"
    control_request {"request":{"callback_id":"hook_0","input":{"cwd":"<cwd>","hook_event_name":"PreToolUse","permission_mode":"default","session_id":"fa4ec1a0-de00-4000-8000-000000000000","tool_name":"Bash","tool_use_id":"toolu_1","transcript_path":"<cwd>/fa4ec1a0-de00-4000-8000-000000000000.jsonl"},"subtype":"hook_callback","tool_use_id":"toolu_1"},"request_id":"h1"}
    control_request {"request":{"message":{"id":1,"jsonrpc":"2.0","method":"tools/list"},"server_name":"calc","subtype":"mcp_message"},"request_id":"m1"}
    control_request {"request":{"message":"Your name?","subtype":"elicitation"},"request_id":"q1"}
    ? done
    exit 0
    "#);
}

#[test]
fn every_line_and_every_answer_is_logged() {
    let said = play(
        "prompt\nask t1 Bash\nask t2 Bash",
        &[
            prompt("hi"),
            request("r1", "initialize"),
            answer("t1", json!({"behavior": "allow"})),
            "  {\"type\":\"keep_alive\"} \r".to_owned(),
        ],
    );
    insta::assert_snapshot!(said.log, @r#"
    {"in":{"message":{"content":[{"text":"hi","type":"text"}],"role":"user"},"type":"user"}}
    {"in":{"request":{"subtype":"initialize"},"request_id":"r1","type":"control_request"}}
    {"in":{"response":{"request_id":"t1","response":{"behavior":"allow"},"subtype":"success"},"type":"control_response"}}
    {"answer":"t1","response":{"behavior":"allow"}}
    {"in":{"type":"keep_alive"}}
    {"answer":"t2","error":null}
    "#);
}

#[test]
fn a_malformed_line_ends_it() {
    let mut results = Vec::new();
    for line in [
        "{\"type\":",
        r#"{"type":"user","message":{"role":"assistant"}}"#,
        r#"{"type":"control_request","request_id":"r1"}"#,
    ] {
        let said = play("prompt", &[String::new(), "17".to_owned(), r#"{"type":"new"}"#.to_owned(), line.to_owned()]);
        results.push(format!("{}\n{}", said.transcript(), said.log.lines().last().unwrap()));
    }
    insta::assert_snapshot!(results.join("\n"), @r#"
    stderr: fake-claude: a line of 8 bytes on stdin is not JSON: EOF while parsing a value at line 1 column 8
    exit 1
    {"bad":"{\"type\":"}
    stderr: fake-claude: a user line on stdin does not have the role `user`
    exit 1
    {"bad":"{\"type\":\"user\",\"message\":{\"role\":\"assistant\"}}"}
    stderr: fake-claude: a control_request on stdin has no request
    exit 1
    {"bad":"{\"type\":\"control_request\",\"request_id\":\"r1\"}"}
    "#);
}

#[test]
fn an_interrupt_ends_the_turn_where_it_is_waited_for() {
    let script = "prompt\nmessage\ntext so\npause 1\nwait interrupt\nend\nprompt\nresult";
    let stdin = [
        request("r0", "interrupt"),
        prompt("one"),
        request("r1", "interrupt"),
        request("r2", "interrupt"),
        prompt("two"),
    ];
    insta::assert_snapshot!(play(script, &stdin).transcript(), @r#"
    control_response {"response":{"request_id":"r0","response":{"still_queued":[]},"subtype":"success"}}
    system {"state":"running","subtype":"session_state_changed"}
    system init
    stream_event "message_start"
    stream_event "content_block_start" 0 {"text":"","type":"text"}
    stream_event 0 {"text":"so","type":"text_delta"}
    assistant [{"text":"so","type":"text"}]
    stream_event "content_block_stop" 0
    control_response {"response":{"request_id":"r1","response":{"still_queued":[]},"subtype":"success"}}
    stream_event "message_delta"
    stream_event "message_stop"
    result "error_during_execution" true null "aborted_streaming" 1 null
    system {"state":"idle","subtype":"session_state_changed"}
    control_response {"response":{"request_id":"r2","response":{"still_queued":[]},"subtype":"success"}}
    system {"state":"running","subtype":"session_state_changed"}
    system init
    result "success" false "" "completed" 1 null
    system {"state":"idle","subtype":"session_state_changed"}
    exit 0
    "#);
}

#[test]
fn states_tasks_and_lines_of_any_kind_are_said() {
    let script = r#"
        state requires_action
        task started b1 {"description":"sleep"}
        task progress b1
        task updated b1
        task ended b1 {"status":"failed"}
        emit {"type":"new","z":"$SESSION","a":[1]}
        noise not JSON
        raw 7b 7D0a 3f0A
        stderr oh
        result {"subtype":"error_max_turns","is_error":true,"terminal_reason":"max_turns"}
    "#;
    insta::assert_snapshot!(play(script, &[]).transcript(), @r#"
    system {"state":"requires_action","subtype":"session_state_changed"}
    system {"description":"sleep","subtype":"task_started","task_id":"b1","task_type":"local_bash"}
    system {"description":"b1","subtype":"task_progress","task_id":"b1"}
    system {"patch":{"status":"completed"},"subtype":"task_updated","task_id":"b1"}
    system {"output_file":"","status":"failed","subtype":"task_notification","summary":"b1","task_id":"b1"}
    new {"a":[1],"z":"fa4ec1a0-de00-4000-8000-000000000000"}
    ? not JSON
     {}
    ? ?
    result "error_max_turns" true null "max_turns" 1 null
    system {"state":"idle","subtype":"session_state_changed"}
    stderr: oh
    exit 0
    "#);
}

#[test]
fn a_line_has_the_length_that_was_asked_for() {
    for bytes in [2000, 3 << 20] {
        let said = play(&format!("line {bytes}"), &[]);
        assert_eq!(said.stdout.len(), bytes);
        assert_eq!(said.lines()[0]["type"], "assistant");
    }
}

#[test]
fn loops_may_stand_in_loops() {
    let script = "repeat 2\nnoise a\nrepeat 2\nnoise b\nend\nrepeat 0\nnoise never\nend\nend\nnoise c";
    insta::assert_snapshot!(play(script, &[]).transcript(), @"
    ? a
    ? b
    ? b
    ? a
    ? b
    ? b
    ? c
    exit 0
    ");
}

#[test]
fn the_deaf_hear_and_the_mute_do_not_say_hello() {
    let stdin = [request("r1", "initialize"), request("r2", "set_model"), prompt("hi")];
    insta::assert_snapshot!(play("mute\nprompt\nresult", &stdin).transcript(), @r#"
    control_response {"response":{"request_id":"r2","response":{},"subtype":"success"}}
    system {"state":"running","subtype":"session_state_changed"}
    system init
    result "success" false "" "completed" 1 null
    system {"state":"idle","subtype":"session_state_changed"}
    exit 0
    "#);
    let said = play("deaf\nprompt\nresult", &stdin);
    insta::assert_snapshot!(said.transcript(), @r#"
    system {"state":"running","subtype":"session_state_changed"}
    system init
    result "success" false "" "completed" 1 null
    system {"state":"idle","subtype":"session_state_changed"}
    exit 0
    "#);
    assert_eq!(said.log.lines().count(), 3);
}

#[test]
fn the_session_is_named_by_a_flag_or_a_variable() {
    let mut results = Vec::new();
    for flags in [&[][..], &["--verbose", "--resume=from-resume"], &["--session-id=from-flag"]] {
        let fake =
            Fake::start_with("noise $SESSION", |command| command.args(flags).env("FAKE_CLAUDE_SESSION_ID", "from-env"));
        results.push(fake.rest().transcript());
    }
    results.push(Fake::start_with("stall", |command| command.arg("--version")).rest().transcript());
    insta::assert_snapshot!(results.join("\n"), @"
    ? from-env
    exit 0
    ? from-resume
    exit 0
    ? from-flag
    exit 0
    ? 2.1.325 (Claude Code)
    exit 0
    ");
}

#[test]
fn a_bad_script_is_told_with_its_line_and_its_word() {
    let scripts = [
        "prompt\n\n# a comment\npromt",
        "text hi\nmute",
        "await a",
        "repeat 2\ntext hi",
        "message\nrepeat 2\nend\nprompt",
        "end",
        "prompt now",
        "deltas many",
        "deltas 5 at 3",
        "deltas 5 off 3",
        "deltas 5 of 0",
        "tool t1",
        "tool t1 Bash {\"a\":}",
        "emit [1]",
        "raw 7",
        "state happy",
        "wait a minute",
        "ignore KILL",
        "exit 256",
        "signal",
    ];
    let results: Vec<String> = scripts.iter().map(|script| play(script, &[]).transcript()).collect();
    let missing = Fake::start_with("", |command| command.env("FAKE_CLAUDE_SCRIPT", "/no/such/script")).rest();
    let unset = Fake::start_with("", |command| command.env_remove("FAKE_CLAUDE_SCRIPT")).rest();
    let results =
        format!("{}\n{}\n{}", results.join("\n").replace("\nexit 64", ""), missing.transcript(), unset.transcript());
    insta::assert_snapshot!(results, @r#"
    stderr: fake-claude: <folder>/script:4: promt: unknown step
    stderr: fake-claude: <folder>/script:2: mute: it can only be the first step
    stderr: fake-claude: <folder>/script:1: await: no earlier step sends `a`
    stderr: fake-claude: <folder>/script:1: repeat: it has no end
    stderr: fake-claude: <folder>/script:4: prompt: it is not allowed in a message
    stderr: fake-claude: <folder>/script:1: end: there is nothing to end
    stderr: fake-claude: <folder>/script:1: prompt: unexpected `now`
    stderr: fake-claude: <folder>/script:1: deltas: `many` is not a number that fits
    stderr: fake-claude: <folder>/script:1: deltas: `3` is not a rate such as 500/s
    stderr: fake-claude: <folder>/script:1: deltas: `off` is not `of`, `at` or `timed`
    stderr: fake-claude: <folder>/script:1: deltas: `0` is not a size of a delta
    stderr: fake-claude: <folder>/script:1: tool: NAME is missing
    stderr: fake-claude: <folder>/script:1: tool: `{"a":}` is not a JSON object: expected value at line 1 column 6
    stderr: fake-claude: <folder>/script:1: emit: `[1]` is not a JSON object: invalid type: sequence, expected a JSON object at line 1 column 0
    stderr: fake-claude: <folder>/script:1: raw: `7` is not a byte of two hexadecimal digits
    stderr: fake-claude: <folder>/script:1: state: `happy` is not a state
    stderr: fake-claude: <folder>/script:1: wait: `a` is not `interrupt` or `line`
    stderr: fake-claude: <folder>/script:1: ignore: `KILL` is not `TERM` or `INT`
    stderr: fake-claude: <folder>/script:1: exit: `256` is not a number that fits
    stderr: fake-claude: <folder>/script:1: signal: PATH is missing
    stderr: fake-claude: cannot read the script /no/such/script: No such file or directory (os error 2)
    exit 64
    stderr: fake-claude: FAKE_CLAUDE_SCRIPT names no script
    exit 64
    "#);
}

#[test]
fn it_ends_as_it_is_told() {
    let results = ["exit 7", "text hi\nkill", "wait line", "wait interrupt", "pause 1\nraw 7b\nexit 0"];
    let results = results.map(|script| play(script, &[]).transcript());
    insta::assert_snapshot!(results.join("\n"), @r#"
    exit 7
    stream_event "message_start"
    stream_event "content_block_start" 0 {"text":"","type":"text"}
    stream_event 0 {"text":"hi","type":"text_delta"}
    assistant [{"text":"hi","type":"text"}]
    stream_event "content_block_stop" 0
    stream_event "message_delta"
    stream_event "message_stop"
    signal 9
    exit 0
    exit 0
    ? {
    exit 0
    "#);
}

#[test]
fn a_line_is_waited_for_whatever_it_is() {
    let mut fake = Fake::start("wait line\nnoise one\nwait line\nnoise two\nwait line");
    let mut results = Vec::new();
    for line in [request("r1", "initialize"), prompt("hi")] {
        fake.say(&line);
        results.push(fake.line());
    }
    results.push(fake.line());
    let results = results.iter().map(|line| brief(line)).collect::<Vec<_>>().join("\n");
    insta::assert_snapshot!(results, @r#"
    control_response "r1" initialized
    ? one
    ? two
    "#);
}
