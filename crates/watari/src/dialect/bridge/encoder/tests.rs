//! Lines of the CLI, and the lines that a client receives.

use std::time::{Duration, Instant};

use watari_protocol::{Command, Config, Machine, Output};

use super::*;
use crate::dialect::judge::BRIDGE;

const SESSION: &str = "11111111-1111-4111-8111-111111111111";

/// Plays lines of the CLI, and returns the lines for the client. A line that begins with `wait` lets time pass, a line
/// that begins with `prompt` sends a prompt.
fn play(streams: bool, script: &str) -> String {
    let mut now = Instant::now();
    let config = Config { answer_timeout: Some(Duration::from_secs(60)), ..Config::default() };
    let mut machine = Machine::start(config, now);
    let mut encoder = Encoder::new(streams);
    let mut out = Vec::new();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let message = match word {
            "ready" => {
                r#"{"type":"control_response","response":{"subtype":"success","request_id":"watari_1","response":{}}}"#
                    .to_owned()
            }
            "init" => format!(
                r#"{{"type":"system","subtype":"init","session_id":"{SESSION}","cwd":"/w","tools":["Bash"],"model":"m","permissionMode":"default","claude_code_version":"2.1.325","mcp_servers":[{{"name":"a","status":"connected"}}]}}"#
            ),
            "event" => format!(r#"{{"type":"stream_event","parent_tool_use_id":null,"event":{rest}}}"#),
            "block" => format!(
                r#"{{"type":"assistant","message":{{"id":"m1","content":[{rest}]}},"parent_tool_use_id":null}}"#
            ),
            "prompt" => {
                machine.handle_command(Command::Prompt("go".into()), now).unwrap();
                String::new()
            }
            "wait" => {
                now += Duration::from_secs(rest.parse().unwrap());
                machine.handle_timeout(now);
                String::new()
            }
            _ => line.to_owned(),
        };
        if !message.is_empty() {
            machine.handle_line(message.as_bytes(), now);
        }
        while let Some(output) = machine.poll_output() {
            if let Output::Event(event) = output {
                encoder.encode(event, &mut out);
            }
        }
    }
    text(out).replace(SESSION, "S")
}

/// The lines as a text, after they were validated against the schema.
fn text(lines: Vec<u8>) -> String {
    for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        // A number out of range is passed on unchanged, and not parsed here.
        let line = String::from_utf8_lossy(line).replace("1e400", "1e40");
        BRIDGE.judge("from_watari", &serde_json::from_str(&line).unwrap()).unwrap();
    }
    String::from_utf8(lines).unwrap()
}

const MESSAGE: &str = r#"
    ready
    prompt
    init
    event {"type":"message_start","message":{"id":"m1","model":"m"}}
    event {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}
    event {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me"}}
    event {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}
    block {"type":"thinking","thinking":"Let me","signature":"c2ln"}
    event {"type":"content_block_stop","index":0}
    event {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}
    event {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"He\"re\n渡"}}
    block {"type":"text","text":"He\"re\n渡"}
    event {"type":"content_block_stop","index":1}
    event {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"tool_01","name":"Edit","input":{}}}
    event {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"n\":1e400}"}}
    block {"type":"tool_use","id":"tool_01","name":"Edit","input":{"n":1e400}}
    event {"type":"content_block_stop","index":2}
    event {"type":"message_delta","delta":{"stop_reason":"tool_use"}}
    event {"type":"message_stop"}
    {"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"tool_01","content":"done","is_error":false}]},"parent_tool_use_id":null}
    {"type":"result","subtype":"success","is_error":false,"result":"He","num_turns":2,"total_cost_usd":0.5,"usage":{"input_tokens":1,"service_tier":"x"},"terminal_reason":"completed"}
"#;

#[test]
fn a_message_is_streamed_and_then_sent_complete() {
    insta::assert_snapshot!(play(true, MESSAGE), @r#"
    {"type":"session_init","sessionId":"S","model":"m","claudeCodeVersion":"2.1.325","tools":["Bash"],"mcpServers":[{"name":"a","status":"connected"}],"permissionMode":"default"}
    {"type":"stream_message_start","sessionId":"S"}
    {"type":"stream_content_start","sessionId":"S","index":0,"blockType":"thinking"}
    {"type":"stream_content_delta","sessionId":"S","index":0,"deltaType":"thinking_delta","text":"Let me"}
    {"type":"stream_content_stop","sessionId":"S","index":0}
    {"type":"stream_content_start","sessionId":"S","index":1,"blockType":"text"}
    {"type":"stream_content_delta","sessionId":"S","index":1,"deltaType":"text_delta","text":"He\"re\n渡"}
    {"type":"stream_content_stop","sessionId":"S","index":1}
    {"type":"stream_content_start","sessionId":"S","index":2,"blockType":"tool_use","blockId":"tool_01","toolName":"Edit"}
    {"type":"stream_content_delta","sessionId":"S","index":2,"deltaType":"input_json_delta","text":"{\"n\":1e400}"}
    {"type":"stream_content_stop","sessionId":"S","index":2}
    {"type":"stream_message_stop","sessionId":"S"}
    {"type":"assistant_message","sessionId":"S","parentToolUseId":null,"content":[{"type":"thinking","thinking":"Let me","signature":"c2ln"},{"type":"text","text":"He\"re\n渡"},{"type":"tool_use","id":"tool_01","name":"Edit","input":{"n":1e400}}]}
    {"type":"tool_result","toolUseId":"tool_01","content":"done","isError":false}
    {"type":"turn_result","sessionId":"S","subtype":"success","totalCostUsd":0.5,"numTurns":2,"isError":false,"usage":{"input_tokens":1,"service_tier":"x"},"result":"He","origin":"prompt"}
    "#);
}

#[test]
fn without_streaming_the_same_messages_are_sent() {
    let without_stream = |lines: &str| {
        lines.lines().filter(|line| !line.contains(r#""type":"stream_"#)).map(str::to_owned).collect::<Vec<_>>()
    };
    let silent = play(false, MESSAGE);
    assert_eq!(silent.lines().collect::<Vec<_>>(), without_stream(&play(true, MESSAGE)));
    assert!(silent.contains("assistant_message"));
}

#[test]
fn blocks_that_are_not_streamed_are_sent_as_they_arrive() {
    insta::assert_snapshot!(play(true, r#"
        ready
        prompt
        init
        {"type":"assistant","message":{"id":"s1","content":[{"type":"text","text":"from a subagent"}]},"parent_tool_use_id":"toolu_1"}
        {"type":"assistant","message":{"id":"e1","model":"<synthetic>","content":[{"type":"text","text":"API Error"}]},"parent_tool_use_id":null,"error":"server_error"}
        {"type":"result","subtype":"success","is_error":true,"result":"API Error","num_turns":1,"total_cost_usd":0}
    "#), @r#"
    {"type":"session_init","sessionId":"S","model":"m","claudeCodeVersion":"2.1.325","tools":["Bash"],"mcpServers":[{"name":"a","status":"connected"}],"permissionMode":"default"}
    {"type":"assistant_message","sessionId":"S","parentToolUseId":"toolu_1","content":[{"type":"text","text":"from a subagent"}]}
    {"type":"assistant_message","sessionId":"S","parentToolUseId":null,"content":[{"type":"text","text":"API Error"}]}
    {"type":"turn_result","sessionId":"S","subtype":"success","totalCostUsd":0.0,"numTurns":1,"isError":true,"usage":{},"result":"API Error","origin":"prompt"}
    "#);
}

#[test]
fn an_abandoned_message_has_its_stops_and_is_not_sent_complete() {
    insta::assert_snapshot!(play(true, r#"
        ready
        prompt
        init
        event {"type":"message_start","message":{"id":"m1","model":"m"}}
        event {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}
        event {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Half"}}
        {"type":"result","subtype":"error_during_execution","is_error":true,"errors":["stopped"],"terminal_reason":"aborted_streaming"}
    "#), @r#"
    {"type":"session_init","sessionId":"S","model":"m","claudeCodeVersion":"2.1.325","tools":["Bash"],"mcpServers":[{"name":"a","status":"connected"}],"permissionMode":"default"}
    {"type":"stream_message_start","sessionId":"S"}
    {"type":"stream_content_start","sessionId":"S","index":0,"blockType":"text"}
    {"type":"stream_content_delta","sessionId":"S","index":0,"deltaType":"text_delta","text":"Half"}
    {"type":"stream_content_stop","sessionId":"S","index":0}
    {"type":"stream_message_stop","sessionId":"S"}
    {"type":"turn_result","sessionId":"S","subtype":"error_during_execution","totalCostUsd":0.0,"numTurns":0,"isError":true,"usage":{},"errors":["stopped"],"origin":"prompt"}
    "#);
}

#[test]
fn asks_are_numbered_and_reported_if_they_end_without_the_client() {
    let ask = |id: &str| {
        format!(
            r#"{{"type":"control_request","request_id":"{id}","request":{{"subtype":"can_use_tool","tool_name":"Bash","input":{{"command":"ls"}},"tool_use_id":"toolu_{id}"}}}}"#
        )
    };
    let script = format!(
        "ready\nprompt\ninit\n{}\n{}\n{}\nwait 61",
        ask("a"),
        ask("b"),
        r#"{"type":"control_cancel_request","request_id":"a"}"#
    );
    insta::assert_snapshot!(play(true, &script), @r#"
    {"type":"session_init","sessionId":"S","model":"m","claudeCodeVersion":"2.1.325","tools":["Bash"],"mcpServers":[{"name":"a","status":"connected"}],"permissionMode":"default"}
    {"type":"permission_request","requestId":"req_1","toolName":"Bash","toolInput":{"command":"ls"},"toolUseId":"toolu_a"}
    {"type":"permission_request","requestId":"req_2","toolName":"Bash","toolInput":{"command":"ls"},"toolUseId":"toolu_b"}
    {"type":"permission_closed","requestId":"req_1","reason":"cancelled"}
    {"type":"permission_closed","requestId":"req_2","reason":"expired"}
    "#);
}

#[test]
fn lines_with_a_session_id_wait_until_it_is_known() {
    insta::assert_snapshot!(play(true, r#"
        ready
        prompt
        {"type":"system","subtype":"status","status":"compacting"}
        {"type":"tool_progress","tool_use_id":"toolu_1-heartbeat-0","parent_tool_use_id":"toolu_1","tool_name":"Bash","elapsed_time_seconds":3.5}
        init
        {"type":"system","subtype":"status","status":null,"permissionMode":"plan"}
    "#), @r#"
    {"type":"session_init","sessionId":"S","model":"m","claudeCodeVersion":"2.1.325","tools":["Bash"],"mcpServers":[{"name":"a","status":"connected"}],"permissionMode":"default"}
    {"type":"status","sessionId":"S","status":"compacting"}
    {"type":"tool_progress","sessionId":"S","toolName":"Bash","toolUseId":"toolu_1","elapsedSeconds":3.5}
    {"type":"status","sessionId":"S","status":null,"permissionMode":"plan"}
    "#);
}

#[test]
fn unread_deltas_are_joined_and_deltas_that_were_read_are_not() {
    let (one, two) = (BlockId(1), BlockId(2));
    let mut encoder = Encoder::new(true);
    encoder.session_id = Some("S".to_owned());
    let indices = vec![(one, 0), (two, 1)];
    encoder.streaming = Some(Streaming { message: MessageId("m".to_owned()), indices, content: Vec::new() });
    let mut out = Vec::new();
    let mut grow = |encoder: &mut Encoder, block, text: &str, unwritten_offset| {
        encoder.set_unwritten_offset(unwritten_offset);
        encoder.encode(Event::BlockDelta { block, at: 0, delta: Delta::Text(text.to_owned()) }, &mut out);
        out.len()
    };
    grow(&mut encoder, one, "read as it comes", None);
    let waits_at = grow(&mut encoder, one, " and so is this", None);
    grow(&mut encoder, one, " \"this\"", Some(waits_at));
    grow(&mut encoder, one, " has\nto wait", Some(waits_at));
    grow(&mut encoder, two, "another", Some(waits_at));
    let begun = grow(&mut encoder, two, " block", Some(waits_at)) - 5;
    grow(&mut encoder, two, " that was begun", Some(begun));
    grow(&mut encoder, two, ", joined", Some(begun));
    encoder.lines_moved();
    grow(&mut encoder, two, " and moved", Some(begun));
    insta::assert_snapshot!(text(out), @r#"
    {"type":"stream_content_delta","sessionId":"S","index":0,"deltaType":"text_delta","text":"read as it comes"}
    {"type":"stream_content_delta","sessionId":"S","index":0,"deltaType":"text_delta","text":" and so is this"}
    {"type":"stream_content_delta","sessionId":"S","index":0,"deltaType":"text_delta","text":" \"this\" has\nto wait"}
    {"type":"stream_content_delta","sessionId":"S","index":1,"deltaType":"text_delta","text":"another block"}
    {"type":"stream_content_delta","sessionId":"S","index":1,"deltaType":"text_delta","text":" that was begun, joined"}
    {"type":"stream_content_delta","sessionId":"S","index":1,"deltaType":"text_delta","text":" and moved"}
    "#);
}

/// Decoding, the machine and encoding; the session between them is counted in `crates/sdk/tests/allocations.rs`.
#[test]
fn a_delta_costs_at_most_two_allocations() {
    const DELTAS: u64 = 1000;
    let now = Instant::now();
    for text in ["twenty bytes of text", r#"a \"quoted\" line\n\ttwo"#, r"渡り \u6e21\u308a", &"long ".repeat(400)] {
        let mut machine = Machine::start(Config::default(), now);
        let mut encoder = Encoder::new(true);
        let mut out = Vec::with_capacity(4 * 1024 * 1024);
        let mut feed = |line: &str| {
            machine.handle_line(line.as_bytes(), now);
            while let Some(output) = machine.poll_output() {
                if let Output::Event(event) = output {
                    encoder.encode(event, &mut out);
                }
            }
        };
        feed(&format!(r#"{{"type":"system","subtype":"init","session_id":"{SESSION}","model":"m"}}"#));
        let event = |event: &str| format!(r#"{{"type":"stream_event","event":{event},"parent_tool_use_id":null}}"#);
        feed(&event(r#"{"type":"message_start","message":{"id":"m1","model":"m"}}"#));
        feed(&event(r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#));
        let delta =
            format!(r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"{text}"}}}}"#);
        let delta = event(&delta);
        feed(&delta);
        let counted = allocation_counter::measure(|| (0..DELTAS).for_each(|_| feed(&delta)));
        assert_eq!(out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count() as u64, 4 + DELTAS);
        assert!(counted.count_total <= 2 * DELTAS, "{} for {DELTAS} deltas of {text:?}", counted.count_total);
    }
}
