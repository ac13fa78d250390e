//! The events of asks: what was allowed, repeated asks, and that no ask is open that clients cannot see.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails on anything that it does not expect")]

mod play;

use std::time::Duration;

use play::{play, play_with};
use watari_protocol::{Config, Hook, Initialize};

/// Runs a script and returns the part of its transcript that is about asks.
fn asks(script: &str) -> String {
    let hooks = vec![Hook::on("PreToolUse"), Hook::on("PermissionRequest")];
    let initialize = Initialize { hooks, ..Initialize::default() };
    let config = Config { initialize, answer_timeout: Some(Duration::from_secs(60)), ..Config::default() };
    shown_of_asks(&play_with(config, &format!("cli ready\nprompt go\n{script}")))
}

fn shown_of_asks(transcript: &str) -> String {
    let is_shown = |line: &&str| {
        ["* ask_", "* unknown", "* turn_finished", "x "].iter().any(|start| line.starts_with(start))
            || line.contains("control_response")
    };
    transcript.lines().filter(is_shown).collect::<Vec<_>>().join("\n")
}

fn asked(request_id: &str, tool: &str, input: &str) -> String {
    format!(
        r#"cli {{"type":"control_request","request_id":"{request_id}","request":{{"subtype":"can_use_tool","tool_name":"{tool}","input":{input},"tool_use_id":"toolu_{request_id}"}}}}"#
    )
}

fn hook_asked(request_id: &str, hook: u32, event: &str) -> String {
    format!(
        r#"cli {{"type":"control_request","request_id":"{request_id}","request":{{"subtype":"hook_callback","callback_id":"watari_hook_{hook}","input":{{"hook_event_name":"{event}","tool_name":"Bash","tool_input":{{"command":"ls"}}}}}}}}"#
    )
}

/// Returns the event that resolves the only ask of a script.
fn closed(script: &str) -> String {
    let transcript = asks(script);
    let closed: Vec<&str> = transcript.lines().filter_map(|line| line.strip_prefix("* ask_resolved ")).collect();
    let [closed] = closed.as_slice() else { panic!("{transcript}") };
    (*closed).to_owned()
}

#[test]
fn an_answer_that_changes_what_runs_is_recorded_whatever_the_kind_of_ask() {
    let permission = asked("a", "Bash", r#"{"command":"touch harmless","timeout":5}"#);
    let question = asked("a", "AskUserQuestion", r#"{"questions":[{"question":"Which?"}]}"#);
    let plan = asked("a", "ExitPlanMode", r#"{"plan":"one"}"#);
    let (pre, request) = (hook_asked("a", 1, "PreToolUse"), hook_asked("a", 2, "PermissionRequest"));
    let with = |ask: &str, answer: &str| closed(&format!("{ask}\n{answer}"));
    insta::assert_snapshot!([
        with(&permission, r#"allow 1 {"command":"rm other"}"#),
        with(&question, r#"choose 1 {"Which?":"this"}"#),
        with(&question, r#"allow 1 {"questions":[],"answers":{"Which?":"that"}}"#),
        with(&plan, r#"allow 1 {"plan":"two"}"#),
        with(&pre, r#"hook 1 allow {"command":"rm other"}"#),
        with(&pre, r#"hook 1 {"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow","updatedInput":{"command":"rm raw"}}}"#),
        with(&request, r#"hook 1 {"hookSpecificOutput":{"decision":{"behavior":"allow","updatedInput":{"command":"rm raw"},"updatedPermissions":[{"type":"setMode"}]}}}"#),
    ].join("\n"), @r#"
    {"ask":1,"edited":true,"input":{"command":"rm other"},"kind":"permission","resolution":"allowed","tool_use":"toolu_a"}
    {"ask":1,"edited":true,"input":{"answers":{"Which?":"this"},"questions":[{"question":"Which?"}]},"kind":"question","resolution":"answered","tool_use":"toolu_a"}
    {"ask":1,"edited":true,"input":{"answers":{"Which?":"that"}},"kind":"question","resolution":"allowed","tool_use":"toolu_a"}
    {"ask":1,"edited":true,"input":{"plan":"two"},"kind":"plan","resolution":"allowed","tool_use":"toolu_a"}
    {"ask":1,"edited":true,"input":{"command":"rm other"},"kind":"hook","resolution":"answered"}
    {"ask":1,"edited":true,"input":{"command":"rm raw"},"kind":"hook","resolution":"answered"}
    {"ask":1,"edited":true,"input":{"command":"rm raw"},"kind":"hook","permissions":[{"type":"setMode"}],"resolution":"answered"}
    "#);
}

#[test]
fn an_answer_that_changes_nothing_is_not_an_edit_and_stores_no_input_twice() {
    let permission = asked("a", "Bash", r#"{"command":"touch 渡り","timeout":5}"#);
    let as_asked = r#"{"ask":1,"kind":"permission","resolution":"allowed","tool_use":"toolu_a"}"#;
    for answer in [
        "allow 1",
        "allow 1 {}",
        r#"allow 1 {"command":"touch 渡り","timeout":5}"#,
        r#"allow 1 { "timeout": 5.0, "command": "touch \u6e21\u308a" }"#,
    ] {
        assert_eq!(closed(&format!("{permission}\n{answer}")), as_asked, "{answer}");
    }
    let denied = closed(&format!("{permission}\ndeny 1 no"));
    assert_eq!(denied, r#"{"ask":1,"kind":"permission","resolution":"denied","tool_use":"toolu_a"}"#);
    let hook = closed(&format!("{}\nhook 1 allow {{\"command\":\"ls\"}}", hook_asked("a", 1, "PreToolUse")));
    assert_eq!(hook, r#"{"ask":1,"kind":"hook","resolution":"answered"}"#);
}

#[test]
fn a_second_ask_about_one_tool_use_says_so_whether_the_first_is_open_or_not() {
    let ask = |request: &str| {
        format!(
            r#"cli {{"type":"control_request","request_id":"{request}","request":{{"subtype":"can_use_tool","tool_name":"Bash","input":{{"command":"{request}"}},"tool_use_id":"toolu_1"}}}}"#
        )
    };
    let script = [ask("a"), ask("b"), "allow 1".into(), "deny 2 no".into(), ask("c"), "allow 1".into()].join("\n");
    insta::assert_snapshot!(asks(&script), @r#"
    * ask_opened {"ask":1,"input":{"command":"a"},"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"toolu_1"}
    * ask_opened {"ask":2,"input":{"command":"b"},"kind":"permission","needs_person":false,"repeated":true,"tool":"Bash","tool_use":"toolu_1"}
    * ask_resolved {"ask":1,"kind":"permission","resolution":"allowed","tool_use":"toolu_1"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"allow","updatedInput":{"command":"a"}}}}
    * ask_resolved {"ask":2,"kind":"permission","repeated":true,"resolution":"denied","tool_use":"toolu_1"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"b","response":{"behavior":"deny","interrupt":false,"message":"no"}}}
    * ask_opened {"ask":3,"input":{"command":"c"},"kind":"permission","needs_person":false,"repeated":true,"tool":"Bash","tool_use":"toolu_1"}
    x ask 1 is not open: it was answered, withdrawn, expired, or never existed
    "#);
}

#[test]
fn an_ask_whose_input_has_another_shape_is_denied_and_never_opened() {
    for input in ["null", "7", "\"rm\"", "[]", r#"["rm"]"#, "true"] {
        let transcript = asks(&asked("a", "Bash", input));
        assert!(!transcript.contains("ask_opened"), "{transcript}");
        assert!(transcript.contains("* unknown"), "{transcript}");
        assert!(transcript.contains(r#""behavior":"deny""#), "{transcript}");
    }
    let call = |arguments: &str| {
        format!(
            r#"cli {{"type":"control_request","request_id":"a","request":{{"subtype":"mcp_message","server_name":"client","message":{{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{{"name":"add","arguments":{arguments}}}}}}}}}"#
        )
    };
    let with_tools = |script: &str| {
        let initialize = Initialize { tools_can_be_added: true, ..Initialize::default() };
        shown_of_asks(&play_with(
            Config { initialize, ..Config::default() },
            &format!("cli ready\nprompt go\n{script}"),
        ))
    };
    for arguments in ["7", "\"rm\"", "[]", "true"] {
        let transcript = with_tools(&call(arguments));
        assert!(!transcript.contains("ask_opened"), "{transcript}");
        assert!(transcript.contains(r#""isError":true"#), "{transcript}");
    }
    // Null arguments count as an empty object.
    assert!(with_tools(&call("null")).contains("ask_opened"), "{}", with_tools(&call("null")));
}

/// A hook that the program did not register has no deadline, and no client knows how to answer it.
#[test]
fn a_call_of_an_unregistered_hook_is_answered_at_once_as_its_gate_fails() {
    insta::assert_snapshot!(asks(&hook_asked("a", 9, "PreToolUse")), @r#"> {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"deny","permissionDecisionReason":"No hook with this id is registered"}}}}"#);
}

/// Of a repeated key the last one counts, as for the CLI's own parser.
#[test]
fn a_frame_with_a_key_that_occurs_twice_is_not_lost() {
    let twice = play(
        r#"
        cli ready
        prompt go
        cli {"type":"control_request","request_id":"x","request_id":"a","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{},"tool_use_id":"t"}}
        allow 1
        cli {"type":"result","subtype":"error","subtype":"success","result":"done","usage":1,"usage":{"input_tokens":1}}
    "#,
    );
    insta::assert_snapshot!(shown_of_asks(&twice), @r#"
    * ask_opened {"ask":1,"kind":"permission","needs_person":false,"tool":"Bash","tool_use":"t"}
    * ask_resolved {"ask":1,"kind":"permission","resolution":"allowed","tool_use":"t"}
    > {"type":"control_response","response":{"subtype":"success","request_id":"a","response":{"behavior":"allow","updatedInput":{}}}}
    * turn_finished {"cause":{"prompt":1},"outcome":{"ending":"completed","result":"done","subtype":"success","usage":{"input_tokens":1}}}
    "#);
}

/// A list is not a message, whatever it contains.
#[test]
fn a_line_that_is_a_list_is_not_taken_for_a_frame() {
    let transcript = play("cli ready\nprompt go\ncli [\"result\",\"success\",false]\ncli [\"keep_alive\"]");
    assert_eq!(transcript.matches("* unparsed_line_skipped").count(), 2, "{transcript}");
}
