//! Lines of the log, and the lines that a client receives.

use super::*;
use crate::dialect::judge::SOCKET;

/// The lines that a client receives for these events, from the beginning.
fn received(has_positions: bool, lines: &[&str]) -> String {
    let mut encoder = Encoder { session_id: "s1".to_owned(), has_positions, ..Encoder::default() };
    let mut out = Vec::new();
    for line in lines {
        encoder.encode(line.as_bytes(), &mut out);
    }
    let text = String::from_utf8(out).unwrap().trim_end().to_owned();
    // Some have a number out of range or an unpaired surrogate, which a `Value` cannot hold.
    for line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        SOCKET.judge("from_watari", &line).unwrap();
    }
    text
}

const STREAMED: [&str; 6] = [
    r#"{"seq":"1:4","type":"block_started","block":3,"message":"m","index":0,"kind":{"type":"text"},"content":{}}"#,
    r#"{"after":"1:4","type":"block_delta","block":3,"at":0,"delta":{"type":"text","text":"渡り"}}"#,
    r#"{"after":"1:4","type":"block_delta","block":3,"at":2,"delta":{"type":"text","text":" \"x\""}}"#,
    r#"{"seq":"1:5","type":"block_finished","block":3,"message":"m","parent":null,"streamed":true,"source":{},"content":{"type":"text","text":"渡り \"x\""}}"#,
    r#"{"seq":"1:6","type":"block_finished","block":4,"message":"m","parent":null,"streamed":true,"source":{},"content":{"type":"tool_use","id":"t","name":"Bash","input":{"n":1e400}}}"#,
    r#"{"seq":"1:7","type":"turn_finished","cause":{"prompt":1},"outcome":{"ending":"completed","result":"","errors":[],"raw":{"usage":{"input_tokens":1}}}}"#,
];

#[test]
fn text_is_sent_once_even_if_parts_are_repeated() {
    insta::assert_snapshot!(received(false, &STREAMED), @r#"
    {"type":"text_delta","text":"渡り"}
    {"type":"text_delta","text":" \"x\""}
    {"type":"tool_use","request_id":"t","tool":"Bash","input":{"n":1e400}}
    {"type":"done","usage":{"input_tokens":1},"message_id":1}
    "#);
    // A client that lagged behind: the text so far is repeated, and then the complete block.
    let again = [
        STREAMED[1],
        r#"{"after":"1:4","type":"block_delta","block":3,"at":0,"delta":{"type":"text","text":"渡り \""}}"#,
        STREAMED[3],
    ];
    insta::assert_snapshot!(received(false, &again), @r#"
    {"type":"text_delta","text":"渡り"}
    {"type":"text_delta","text":" \""}
    {"type":"text_delta","text":"x\""}
    "#);
    // The complete block fills a gap.
    insta::assert_snapshot!(received(false, &[STREAMED[2], STREAMED[3]]), @r#"{"type":"text_delta","text":"渡り \"x\""}"#);
    // With positions, and from the log alone.
    insta::assert_snapshot!(received(true, &[STREAMED[0], STREAMED[3], STREAMED[4], STREAMED[5]]), @r#"
    {"type":"text_delta","text":"渡り \"x\"","seq":"1:5"}
    {"type":"tool_use","request_id":"t","tool":"Bash","input":{"n":1e400},"seq":"1:6"}
    {"type":"done","usage":{"input_tokens":1},"message_id":1,"seq":"1:7"}
    "#);
}

#[test]
fn discarded_text_is_withdrawn() {
    let discarded = r#"{"seq":"1:5","type":"block_discarded","block":3}"#;
    insta::assert_snapshot!(received(true, &[STREAMED[1], discarded, discarded]), @r#"
    {"type":"text_delta","text":"渡り"}
    {"type":"text_reset","of":"text","characters":2,"seq":"1:5"}
    "#);
}

#[test]
fn asks_are_named_after_their_tool_use() {
    insta::assert_snapshot!(received(true, &[
        r#"{"seq":"1:8","type":"ask_opened","ask":5,"kind":"permission","tool":"Bash","input":{"command":"ls"},"tool_use":"t","agent":null,"suggestions":null,"needs_person":false,"raw":{}}"#,
        r#"{"seq":"1:9","type":"ask_resolved","ask":5,"kind":"permission","tool_use":"t","resolution":"denied","by":"client 2"}"#,
        r#"{"seq":"1:11","type":"ask_opened","ask":6,"kind":"permission","tool":"Bash","input":{},"tool_use":null}"#,
        r#"{"seq":"1:12","type":"ask_resolved","ask":6,"kind":"permission","tool_use":null,"resolution":"expired","by":null}"#,
        r#"{"seq":"1:13","type":"ask_opened","ask":7,"kind":"elicitation","server":"s","message":"Who?","schema":{"type":"object"},"url":null,"raw":{}}"#,
        r#"{"seq":"1:14","type":"ask_resolved","ask":7,"kind":"elicitation","tool_use":null,"resolution":"withdrawn","by":null}"#,
        r#"{"seq":"1:14","type":"ask_opened","ask":11,"kind":"elicitation","server":"s","message":"Sign in","schema":null,"url":"https://s.example/login","raw":{}}"#,
        r#"{"seq":"1:14","type":"ask_opened","ask":10,"kind":"permission","tool":"Bash","input":{"command":"rm"},"tool_use":"t","repeated":true}"#,
        r#"{"seq":"1:14","type":"ask_resolved","ask":10,"kind":"permission","tool_use":"t","repeated":true,"resolution":"allowed","by":"client 2","edited":true,"input":{"command":"ls"},"permissions":[{"type":"setMode"}]}"#,
        r#"{"seq":"1:15","type":"ask_opened","ask":8,"kind":"tool_call","tool":"add","input":{"a":1},"tool_use":"t"}"#,
        r#"{"seq":"1:16","type":"ask_opened","ask":9,"kind":"hook","hook":1,"event":"Stop","tool_use":null,"input":{}}"#,
    ]), @r#"
    {"type":"approval_request","request_id":"t","tool":"Bash","input":{"command":"ls"},"seq":"1:8"}
    {"type":"approval_resolved","request_id":"t","decision":"denied","by":"client 2","seq":"1:9"}
    {"type":"approval_request","request_id":"ask_6","tool":"Bash","input":{},"seq":"1:11"}
    {"type":"approval_resolved","request_id":"ask_6","decision":"expired","seq":"1:12"}
    {"type":"approval_request","request_id":"form_7","tool":"Form","input":{"message":"Who?","schema":{"type":"object"},"server":"s"},"seq":"1:13"}
    {"type":"approval_resolved","request_id":"form_7","decision":"cancelled","seq":"1:14"}
    {"type":"approval_request","request_id":"form_11","tool":"Form","input":{"message":"Sign in","schema":null,"server":"s","url":"https://s.example/login"},"seq":"1:14"}
    {"type":"approval_request","request_id":"ask_10","tool_use_id":"t","tool":"Bash","input":{"command":"rm"},"seq":"1:14"}
    {"type":"approval_resolved","request_id":"ask_10","decision":"approved","by":"client 2","edited":true,"input":{"command":"ls"},"permissions":[{"type":"setMode"}],"seq":"1:14"}
    {"type":"tool_call","call_id":"call_8","name":"add","input":{"a":1},"seq":"1:15"}
    "#);
}

/// A server may write JSON that no Rust value holds.
#[test]
fn a_form_is_sent_as_its_server_wrote_it() {
    let deep = format!("{}1e400{}", "[".repeat(1000), "]".repeat(1000));
    let line = format!(
        r#"{{"seq":"1:1","type":"ask_opened","ask":7,"kind":"elicitation","server":"s","message":"Who?","schema":{deep},"url":null,"raw":{{}}}}"#
    );
    let text = received(false, &[&line]);
    assert!(text.starts_with(r#"{"type":"approval_request","request_id":"form_7","tool":"Form","input":{"#), "{text}");
    assert!(text.contains(&format!(r#""schema":{deep}"#)), "{text}");
}

#[test]
fn a_subagent_is_not_part_of_the_text() {
    insta::assert_snapshot!(received(false, &[
        r#"{"seq":"1:5","type":"block_finished","block":3,"message":"m","parent":"t","streamed":false,"source":{},"content":{"type":"text","text":"sub"}}"#,
        r#"{"seq":"1:6","type":"block_finished","block":4,"message":"m","parent":"t","streamed":false,"source":{},"content":{"type":"tool_use","id":"u","name":"Read","input":{}}}"#,
        r#"{"seq":"1:7","type":"tool_returned","tool_use":"u","parent":"t","is_error":true,"content":[{"type":"text","text":"a"},{"type":"image","source":{}},{"type":"text","text":"half \ud83d"}],"result":null}"#,
        r#"{"seq":"1:8","type":"tool_returned","tool_use":"v","parent":null,"is_error":false,"content":null,"result":null}"#,
    ]), @r#"
    {"type":"subagent_text","parent_request_id":"t","text":"sub"}
    {"type":"tool_use","request_id":"u","tool":"Read","input":{},"parent_request_id":"t"}
    {"type":"tool_result","request_id":"u","output":"a\n[image]\nhalf �","is_error":true,"content":[{"type":"text","text":"a"},{"type":"image","source":{}},{"type":"text","text":"half \ud83d"}],"parent_request_id":"t"}
    {"type":"tool_result","request_id":"v","output":""}
    "#);
}

#[test]
fn every_message_has_one_done_and_errors_precede_it() {
    let failed = |ending: &str, rest: &str| {
        format!(
            r#"{{"seq":"1:7","type":"turn_finished","cause":"cli","outcome":{{"ending":{ending},{rest}"raw":{{}}}}}}"#
        )
    };
    let dropped = |reason: &str| format!(r#"{{"seq":"1:8","type":"prompt_dropped","prompt":3,"reason":"{reason}"}}"#);
    let ended = |reason: &str| {
        format!(
            r#"{{"seq":"1:9","type":"cli_exited","exit":{{"code":3,"signal":null,"left":0,"stderr":"boom","errors":[],"reason":"{reason}"}}}}"#
        )
    };
    let ready = r#"{"seq":"1:2","type":"ready","cli":{}}"#;
    let shown = |lines: &[String]| received(true, &lines.iter().map(String::as_str).collect::<Vec<_>>());
    insta::assert_snapshot!(shown(&[
        failed(r#""interrupted""#, r#""errors":["aborted"],"#),
        failed(r#"{"failed":"api"}"#, r#""result":"API Error: 529","errors":[],"#),
        failed(r#"{"failed":"max_turns"}"#, r#""errors":["too many"],"#),
        failed(r#"{"failed":"execution"}"#, ""),
        dropped("cancelled"),
        dropped("lost"),
    ]), @r#"
    {"type":"error","message":"the turn was interrupted","kind":"turn"}
    {"type":"done","usage":{"input_tokens":0,"output_tokens":0},"seq":"1:7"}
    {"type":"error","message":"API Error: 529","kind":"turn"}
    {"type":"done","usage":{"input_tokens":0,"output_tokens":0},"seq":"1:7"}
    {"type":"error","message":"too many","kind":"turn"}
    {"type":"done","usage":{"input_tokens":0,"output_tokens":0},"seq":"1:7"}
    {"type":"error","message":"the turn failed, and the CLI gave no reason","kind":"turn"}
    {"type":"done","usage":{"input_tokens":0,"output_tokens":0},"seq":"1:7"}
    {"type":"error","message":"a queued message was cancelled","kind":"turn"}
    {"type":"done","usage":{"input_tokens":0,"output_tokens":0},"message_id":3,"seq":"1:8"}
    {"type":"error","message":"the CLI gave no result for a message; it may have run: check before you send it again","kind":"turn"}
    {"type":"done","usage":{"input_tokens":0,"output_tokens":0},"message_id":3,"seq":"1:8"}
    "#);
    // The CLI exits: with two messages, with none, on request, and before it was ready.
    insta::assert_snapshot!(shown(&[
        ready.to_owned(), dropped("cli_exited"), dropped("cli_exited"), ended("by_itself"),
        ready.to_owned(), ended("owner_killed"),
        ready.to_owned(), ended("requested"),
        ended("by_itself"),
    ]), @r#"
    {"type":"error","message":"Claude Code exited unexpectedly with code 3; stderr: boom; the next message starts it again","kind":"session"}
    {"type":"done","usage":{"input_tokens":0,"output_tokens":0},"message_id":3}
    {"type":"error","message":"Claude Code exited unexpectedly with code 3; stderr: boom; the next message starts it again","kind":"session"}
    {"type":"done","usage":{"input_tokens":0,"output_tokens":0},"message_id":3,"seq":"1:9"}
    {"type":"error","message":"the host of this session was killed, and Claude Code with it","kind":"session"}
    {"type":"done","usage":{"input_tokens":0,"output_tokens":0},"seq":"1:9"}
    "#);
}

#[test]
fn events_of_the_host_are_sent() {
    insta::assert_snapshot!(received(true, &[
        r#"{"seq":"1:1","type":"host_started","key":"k","session_id":"s1","cwd":"/","version":"0"}"#,
        r#"{"seq":"1:2","type":"session_opened","session":{"session_id":"s2","model":"m"}}"#,
        r#"{"seq":"1:3","type":"session_opened","session":{"session_id":"s2","model":"m"}}"#,
        r#"{"seq":"1:4","type":"context_lost","session_id":"s2"}"#,
        r#"{"seq":"1:5","type":"start_failed","message":"no CLI"}"#,
        r#"{"after":"1:5","type":"storage_failed","message":"full"}"#,
        r#"{"after":"1:5","type":"storage_recovered"}"#,
        r#"{"seq":"1:6","type":"events_dropped","count":7}"#,
        r#"{"seq":"1:7","type":"log_restored","message":"the log was deleted, and was written again"}"#,
        r#"{"seq":"1:8","type":"events_lost","through":20}"#,
        r#"{"seq":"1:21","type":"unparsed_lines_omitted","lines":3,"bytes":9}"#,
        r#"{"seq":"1:22","type":"host_stopping","reason":"told to"}"#,
        r#"{"seq":"1:23","type":"something_newer"}"#,
        "not a line",
    ]), @r#"
    {"type":"init","session_id":"s2","seq":"1:2"}
    {"type":"error","message":"context lost: Claude Code does not have this conversation, so it starts a new one","kind":"session","seq":"1:4"}
    {"type":"error","message":"no CLI","kind":"session","seq":"1:5"}
    {"type":"error","message":"full","kind":"storage"}
    {"type":"error","message":"7 events were dropped, because they could not be stored","kind":"storage","seq":"1:6"}
    {"type":"error","message":"the log was deleted, and was written again","kind":"storage","seq":"1:7"}
    {"type":"error","message":"events are lost here: another program removed them from the log","kind":"storage","seq":"1:8"}
    {"type":"error","message":"the session ends: told to","kind":"session","seq":"1:22"}
    "#);
}

/// Every event of the session and of the host is encoded, or listed as one that is not.
#[test]
fn every_event_is_encoded_or_listed_as_not_encoded() {
    let page = include_str!("../../../../../../docs/events.md");
    let names: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("## `")?.split('`').next()).collect();
    assert!(names.len() > 30, "{names:?}");
    let source = include_str!("../encoder.rs");
    let (code, _) = source.split_once("/// Sends the part of a block that the client does not have.").unwrap();
    for name in names {
        assert!(code.contains(&format!("\"{name}\"")), "{name} is not encoded");
    }
    assert!(UNTOLD.contains(&"became_idle"));
}
