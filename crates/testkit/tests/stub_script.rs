//! Scripts as people write them: what is sent, and what is said of one that is wrong.

mod http;

use std::path::PathBuf;

use anyhow::Result;
use http::{request, send};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use watari_testkit::{Script, StubApi};

fn script_file(text: &str) -> Result<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("script.yaml");
    std::fs::write(&path, text)?;
    Ok((folder, path))
}

async fn stub(text: &str) -> Result<StubApi> {
    let (_folder, path) = script_file(text)?;
    Ok(StubApi::start(Script::load(&path)?).await?)
}

/// All that comes for one call, also if the connection is cut: the status, and the names of the events in the stream.
async fn received(stub: &StubApi, streams: bool, prompt: &str) -> Result<String> {
    let message = json!({"role": "user", "content": prompt});
    let call = json!({"model": "m", "stream": streams, "tools": [{"name": "Bash"}], "messages": [message]});
    let mut connection = send(stub, &request("POST", "/v1/messages", "", &call.to_string())).await?;
    let mut bytes = Vec::new();
    let ended = connection.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let status = text.get(9..12).unwrap_or("---").to_owned();
    let whole = ended.is_ok() && (!text.contains("chunked") || text.ends_with("\r\n0\r\n\r\n"));
    let events: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    let events = if streams { events.join(" ") } else { text.lines().last().unwrap_or_default().to_owned() };
    let events = events.replace("content_block_", "").replace("message_", "message ");
    Ok(format!("{status} {events}{}", if whole { "" } else { " (cut)" }))
}

#[tokio::test]
async fn a_fault_happens_at_its_point() -> Result<()> {
    let mut seen = Vec::new();
    for at in ["before_start", "after_start", "in_block", "after_blocks", "before_stop"] {
        for what in ["drop", "end", "error"] {
            let more = if what == "error" { ", type: overloaded_error" } else { "" };
            let script = format!("replies: [{{text: abcdefgh, fault: {{{what}: {{at: {at}{more}}}}}}}]");
            seen.push(format!("{at} {what}: {}", received(&stub(&script).await?, true, "").await?));
        }
    }
    insta::assert_snapshot!(seen.join("\n"), @"
    before_start drop: 200  (cut)
    before_start end: 200 
    before_start error: 200 error
    after_start drop: 200 message start (cut)
    after_start end: 200 message start
    after_start error: 200 message start error
    in_block drop: 200 message start start delta (cut)
    in_block end: 200 message start start delta
    in_block error: 200 message start start delta error
    after_blocks drop: 200 message start start delta delta stop (cut)
    after_blocks end: 200 message start start delta delta stop
    after_blocks error: 200 message start start delta delta stop error
    before_stop drop: 200 message start start delta delta stop message delta (cut)
    before_stop end: 200 message start start delta delta stop message delta
    before_stop error: 200 message start start delta delta stop message delta error
    ");
    Ok(())
}

#[tokio::test]
async fn a_stall_goes_on_and_what_is_put_in_comes_as_it_is() -> Result<()> {
    let mut seen = Vec::new();
    for at in ["before_headers", "before_start", "after_start", "in_block", "after_blocks", "before_stop"] {
        let stall = stub(&format!("replies: [{{text: abcdefgh, fault: {{stall: {{at: {at}, ms: 20}}}}}}]")).await?;
        seen.push(format!("{at} stall: {}", received(&stall, true, "").await?));
    }
    let insert =
        stub("replies: [{tool: Bash, fault: {insert: {at: in_block, text: \"event: odd\\ndata: {\\n\\n\"}}}]").await?;
    seen.push(format!("insert: {}", received(&insert, true, "").await?));
    insta::assert_snapshot!(seen.join("\n"), @"
    before_headers stall: 200 message start start delta delta stop message delta message stop
    before_start stall: 200 message start start delta delta stop message delta message stop
    after_start stall: 200 message start start delta delta stop message delta message stop
    in_block stall: 200 message start start delta delta stop message delta message stop
    after_blocks stall: 200 message start start delta delta stop message delta message stop
    before_stop stall: 200 message start start delta delta stop message delta message stop
    insert: 200 message start start delta odd delta stop message delta message stop
    ");
    Ok(())
}

#[tokio::test]
async fn a_client_that_does_not_stream_sees_faults_in_its_own_way() -> Result<()> {
    let mut seen = Vec::new();
    for fault in [
        "error: {at: in_block, type: overloaded_error}",
        "error: {at: in_block, type: rate_limit_error, message: slow down}",
        "drop: {at: after_start}",
        "end: {at: after_start}",
        "stall: {at: in_block, ms: 20}",
    ] {
        let stub = stub(&format!("replies: [{{text: whole, fault: {{{fault}}}}}]")).await?;
        seen.push(format!("{fault}: {}", received(&stub, false, "").await?));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    error: {at: in_block, type: overloaded_error}: 529 {"error":{"message":"overloaded error","type":"overloaded_error"},"type":"error"}
    error: {at: in_block, type: rate_limit_error, message: slow down}: 429 {"error":{"message":"slow down","type":"rate_limit_error"},"type":"error"}
    drop: {at: after_start}: 500 {"error":{"message":"cut","type":"api_error"},"type":"error"}
    end: {at: after_start}: 200 {"id":"msg_stub_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"whole"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
    stall: {at: in_block, ms: 20}: 200 {"id":"msg_stub_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"whole"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}
    "#);
    Ok(())
}

#[tokio::test]
async fn a_status_has_its_headers_and_its_body() -> Result<()> {
    let script = "
replies:
  - {status: 429, message: slow down, headers: {retry-after: \"1\", x-should-retry: \"false\"}}
  - {status: 200, body: \"<p>hello</p>\", content_type: text/html}
  - {status: 503}
";
    let stub = stub(script).await?;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let mut connection = send(&stub, &request("POST", "/v1/messages", "", r#"{"tools":[{}]}"#)).await?;
        let mut text = String::new();
        connection.read_to_string(&mut text).await?;
        seen.push(text.lines().filter(|line| !line.starts_with("date:")).collect::<Vec<_>>().join("\n"));
    }
    insta::assert_snapshot!(seen.join("\n\n"), @r#"
    HTTP/1.1 429 Too Many Requests
    content-type: application/json
    retry-after: 1
    x-should-retry: false
    content-length: 74
    connection: close

    {"error":{"message":"slow down","type":"rate_limit_error"},"type":"error"}

    HTTP/1.1 200 OK
    content-type: text/html
    content-length: 12
    connection: close

    <p>hello</p>

    HTTP/1.1 503 Service Unavailable
    content-type: application/json
    content-length: 67
    connection: close

    {"error":{"message":"api error","type":"api_error"},"type":"error"}
    "#);
    Ok(())
}

#[tokio::test]
async fn every_agent_begins_at_the_first_reply_of_its_list() -> Result<()> {
    let script = "
replies: [{text: main}]
agents:
  - prompt: You are the scout
    replies: [{text: scout one}, {text: scout two}]
  - replies: [{text: other}]
side_calls: [{text: a title}]
";
    let stub = stub(script).await?;
    let mut seen = Vec::new();
    for (agent, prompt) in [
        ("a1", "You are the scout: go."),
        ("a2", "You are the scout: go."),
        ("a1", "You are the scout: go."),
        ("a3", "Do something."),
        // An older CLI does not identify a subagent, except in its prompt.
        ("", "You are the scout: go."),
        ("", "Do something."),
        ("", "You are the scout: go."),
    ] {
        let header = if agent.is_empty() { String::new() } else { format!("x-claude-code-agent-id: {agent}\r\n") };
        let messages = json!([{"role": "user", "content": [{"type": "text", "text": prompt}]}]);
        let call = json!({"model": "m", "tools": [{"name": "Bash"}], "messages": messages});
        let answer = http::exchange(&stub, &request("POST", "/v1/messages", &header, &call.to_string())).await?;
        let answer: Value = serde_json::from_str(&answer.body)?;
        seen.push(format!("{agent:2} {prompt}: {}", answer["content"][0]["text"]));
    }
    let side = http::post(&stub, "/v1/messages", &json!({"model": "m", "messages": []})).await?;
    seen.push(format!("side: {}", serde_json::from_str::<Value>(&side.body)?["content"][0]["text"]));
    insta::assert_snapshot!(seen.join("\n"), @r#"
    a1 You are the scout: go.: "scout one"
    a2 You are the scout: go.: "scout one"
    a1 You are the scout: go.: "scout two"
    a3 Do something.: "other"
       You are the scout: go.: "scout one"
       Do something.: "main"
       You are the scout: go.: "scout two"
    side: "a title"
    "#);
    let calls: Vec<String> = stub.requests().iter().map(|request| format!("{:?}", request.call)).collect();
    assert_eq!(calls.join(" "), "Agent Agent Agent Agent Agent Main Agent Side");
    Ok(())
}

#[test]
fn what_is_wrong_is_said_with_its_line() -> Result<()> {
    let mut seen = Vec::new();
    for text in [
        "replies:\n  - txet: a",
        "replies:\n  - {}",
        "replies:\n  - text: a\n    blocks: []",
        "replies:\n  - text: a\n    status: 500",
        "replies:\n  - text: a\n    headers: {a: b}",
        "replies:\n  - text: a\n    input: {}",
        "replies:\n  - status: 99",
        "replies:\n  - status: 500\n    pace_ms: 3",
        "replies:\n  - status: 500\n    message: a\n    body: b",
        "replies:\n  - status: 500\n    content_type: text/html",
        "replies:\n  - status: 500\n    headers: {\"a b\": c}",
        "replies:\n  - text: a\n    fault: {drop: {at: nowhere}}",
        "replies:\n  - text: a\n    fault: {drop: {at: before_headers}}",
        "replies:\n  - blocks: []\n    fault: {drop: {at: in_block}}",
        "replies:\n  - text: a\n    fault: {explode: {at: in_block}}",
        "replies:\n  - text: \"a",
        "replies: text",
        "- text: a",
        "agents:\n  - prompt: a",
        "",
    ] {
        let (_folder, path) = script_file(text)?;
        let error =
            Script::load(&path).map(|_| "nothing is wrong".to_owned()).unwrap_or_else(|error| error.to_string());
        let first = error.lines().next().unwrap_or_default();
        seen.push(first.replace(&path.display().to_string(), "script").to_owned());
    }
    insta::assert_snapshot!(seen.join("\n"), @"
    script:2:5: unknown field `txet`, expected one of thinking, text, tool, input, id, blocks, stop_reason, usage, pace_ms, chunk_chars, delay_ms, fault, status, message, body, content_type, headers
    script:2:5: a reply needs one of text, thinking, tool, blocks or status
    script:2:5: a reply has blocks or text, thinking and tool, not both
    script:2:5: a reply is a message or has a status, not both
    script:2:5: headers needs a status
    script:2:5: input needs a tool
    script:2:5: 99 is not a valid status; use one from 200 to 599
    script:2:5: pace_ms is for messages only, not for a status
    script:2:5: a status has a message or a body, not both
    script:2:5: content_type needs a body
    script:2:5: a b: c is not a header
    script:3:24: unknown variant `nowhere`, expected one of before_headers, before_start, after_start, in_block, after_blocks, before_stop
    script:2:5: before the headers only a stall is possible
    script:2:5: the message has no block for the fault
    script:3:13: unknown variant `explode`, expected one of error, drop, end, stall, insert
    script:2:11: unclosed quote
    script:1:10: expected a list
    script:1:1: expected a mapping
    script:2:5: missing field `replies`
    nothing is wrong
    ");
    Ok(())
}

#[test]
fn words_are_words_and_json_is_yaml() -> Result<()> {
    for text in [
        "replies: [{tool: Bash, input: {answer: no, sure: yes}}]",
        r#"{"replies": [{"tool": "Bash", "input": {"answer": "no", "sure": "yes"}}]}"#,
    ] {
        let (_folder, path) = script_file(text)?;
        let script = format!("{:?}", Script::load(&path)?);
        assert!(script.contains(r#""answer": String("no"), "sure": String("yes")"#), "{script}");
    }
    Ok(())
}
