//! Whatever a client writes, an invalid line gets one error, and a session can still be started.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that meets what it does not expect has failed")]

mod judge;

use std::process::Stdio;
use std::time::Duration;

use judge::BRIDGE;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// How long a program may take for all its lines.
const WITHIN: Duration = Duration::from_secs(60);

const ABORT: &[u8] = b"{\"type\":\"abort\"}";

/// Writes lines to a `watari stdio` that has no session, then `abort`; returns the replies.
/// There is no CLI where it looks, so one that were started could only fail.
async fn replies_to(lines: &[Vec<u8>]) -> Vec<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_watari"))
        .args(["stdio", "--claude", "/nowhere/claude"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut bytes = lines.join(&b'\n');
    bytes.push(b'\n');
    bytes.extend_from_slice(ABORT);
    bytes.push(b'\n');
    let write = async {
        stdin.write_all(&bytes).await.unwrap();
        // The end of the input would end it too: only `abort` may.
        stdin
    };
    let talk = async { tokio::join!(write, child.wait_with_output()) };
    let (_open, output) = tokio::time::timeout(WITHIN, talk).await.unwrap();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(0));
    let mut received = output.stdout.strip_suffix(b"\n").unwrap().split(|byte| *byte == b'\n');
    assert_eq!(received.next(), Some(b"{\"type\":\"ready\"}".as_slice()));
    received.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// Whether something is an error line of the document that does not end the session.
fn is_small_error(line: &Value) -> bool {
    BRIDGE.judge("from_watari", line).is_ok()
        && line["type"] == "error"
        && line["fatal"] == false
        && line["message"].as_str().is_some_and(|message| !message.is_empty())
}

/// Every line except blank ones gets one error, and nothing else is sent.
async fn each_gets_one_error(lines: &[Vec<u8>]) {
    let bad = lines.iter().filter(|line| !line.trim_ascii().is_empty()).count();
    let received = replies_to(lines).await;
    assert!(received.iter().all(is_small_error), "{received:#?}");
    assert_eq!(received.len(), bad, "{received:#?}");
}

/// Messages that would be understood, each with everything it can have.
fn whole_messages() -> Vec<Value> {
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}});
    vec![
        json!({"type": "start", "prompt": "渡り鳥 goes", "options": options()}),
        json!({"type": "user_message", "text": "渡り鳥", "images": [image], "documents": []}),
        json!({"type": "permission_response", "requestId": "req_1", "result": {"behavior": "deny", "message": "no"}}),
        json!({"type": "permission_response", "requestId": "req_1", "result": {"behavior": "allow", "updatedInput": {}}}),
        json!({"type": "interrupt", "cancelQueued": true}),
        json!({"type": "set_model", "model": "opus"}),
        json!({"type": "set_permission_mode", "mode": "plan"}),
    ]
}

/// The documented options.
fn options() -> Value {
    json!({
        "cwd": "/path", "resume": "33333333-3333-4333-8333-333333333333", "model": "sonnet", "systemPrompt": "You",
        "permissionMode": "default", "disallowedTools": [], "maxTurns": 10, "maxThinkingTokens": 16000,
        "maxBudgetUsd": 5.0, "settingSources": ["user"], "env": {"A": null}, "includePartialMessages": true,
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((".{0,6}", inner), 0..4).prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// A value of none of the types that are meant. An option is taken as absent when it is null.
fn wrong_for(right: &Value) -> BoxedStrategy<Value> {
    let (is_text, is_list, is_map) = (right.is_string(), right.is_array(), right.is_object());
    let (is_number, is_switch) = (right.is_number(), right.is_boolean());
    let wrong = any_value().prop_filter("it would be right", move |value| {
        !(value.is_null()
            || is_text && value.is_string()
            || is_list && value.is_array()
            || is_map && value.is_object()
            || is_number && value.is_number()
            || is_switch && value.is_boolean())
    });
    wrong.boxed()
}

/// A `start` with one wrong option, which must not start anything.
fn wrong_option() -> impl Strategy<Value = Value> {
    let all: Vec<(String, Value)> = options().as_object().unwrap().clone().into_iter().collect();
    proptest::sample::select(all).prop_flat_map(|(name, right)| {
        wrong_for(&right)
            .prop_map(move |wrong| json!({"type": "start", "prompt": "go", "options": {name.as_str(): wrong}}))
    })
}

/// A message of which one member is missing or of a wrong type.
fn wrong_member() -> impl Strategy<Value = Value> {
    let members = |message: Value| {
        let names: Vec<String> = message.as_object().unwrap().keys().cloned().collect();
        names.into_iter().map(move |name| (message.clone(), name)).collect::<Vec<_>>()
    };
    let all: Vec<(Value, String)> = whole_messages().into_iter().flat_map(members).collect();
    proptest::sample::select(all).prop_flat_map(|(message, name)| {
        let wrong = wrong_for(&message[&name]);
        wrong.prop_map(move |wrong| {
            let mut message = message.clone();
            message[&name] = wrong;
            message
        })
    })
}

fn deep() -> impl Strategy<Value = String> {
    let nested = (1usize..2_000, any::<bool>()).prop_map(|(depth, is_list)| {
        if is_list {
            format!("{}{}", "[".repeat(depth), "]".repeat(depth))
        } else {
            format!("{}1{}", "{\"type\":".repeat(depth), "}".repeat(depth))
        }
    });
    (nested, 0..5usize).prop_map(|(deep, place)| match place {
        0 => deep,
        1 => format!("{{\"type\":{deep}}}"),
        2 => format!("{{\"type\":\"start\",\"prompt\":{deep}}}"),
        3 => format!("{{\"type\":\"start\",\"prompt\":\"a\",\"options\":{{\"model\":{deep}}}}}"),
        _ => format!("{{\"type\":\"user_message\",\"text\":\"a\",\"images\":{deep}}}"),
    })
}

/// Part of a message: every beginning of an object lacks its end.
fn cut() -> impl Strategy<Value = Vec<u8>> {
    let message = proptest::sample::select(whole_messages()).prop_map(|message| message.to_string().into_bytes());
    (message, any::<proptest::sample::Index>()).prop_map(|(mut bytes, place)| {
        bytes.truncate(place.index(bytes.len() - 1) + 1);
        bytes
    })
}

/// A line that must get exactly one error, or none if it is blank.
fn bad_line() -> impl Strategy<Value = Vec<u8>> {
    let bytes = vec(any::<u8>().prop_filter("the end of a line", |byte| *byte != b'\n'), 0..200);
    let of_json = |message: Value| message.to_string().into_bytes();
    let line = prop_oneof![
        4 => bytes,
        4 => "\\PC{0,80}".prop_map(String::into_bytes),
        2 => "[ \t\r]{0,5}".prop_map(String::into_bytes),
        4 => cut(),
        4 => wrong_member().prop_map(of_json),
        4 => wrong_option().prop_map(of_json),
        2 => any_value().prop_map(of_json),
        2 => any_value().prop_map(move |value| of_json(json!({"type": value}))),
        // Right, but too early.
        2 => proptest::sample::select(whole_messages()[1..].to_vec()).prop_map(of_json),
        1 => deep().prop_map(String::into_bytes),
    ];
    (line, any::<bool>()).prop_map(|(mut line, is_from_windows)| {
        if is_from_windows {
            line.push(b'\r');
        }
        line
    })
}

proptest! {
    #[test]
    fn every_bad_line_gets_exactly_one_error_and_the_session_can_still_be_ended(lines in vec(bad_line(), 0..24)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(each_gets_one_error(&lines));
    }
}

#[tokio::test]
async fn a_line_over_the_limit_gets_one_error_and_one_below_it_is_read() {
    const MIB: usize = 1024 * 1024;
    let message = |bytes: usize| {
        let text = "x".repeat(bytes);
        // In a field that means nothing: those that are forwarded have limits of their own.
        format!("{{\"type\":\"user_message\",\"text\":\"a\",\"pad\":\"{text}\"}}").into_bytes()
    };
    let deep = vec![b'['; 63 * MIB];
    let lines = [message(65 * MIB), vec![b'['; 65 * MIB], message(63 * MIB), deep, b"short".to_vec()];
    let received = replies_to(&lines).await;
    assert!(received.iter().all(is_small_error), "{received:#?}");
    let is_early: Vec<bool> =
        received.iter().map(|line| line["message"].as_str().unwrap().contains("send start first")).collect();
    assert_eq!(is_early, [false, false, true, false, false], "{received:#?}");
}
