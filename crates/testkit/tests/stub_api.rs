//! The stub speaks the Messages API as the real one does, and follows its script.

mod http;

use std::time::{Duration, Instant};

use anyhow::Result;
use http::{exchange, post, read_until, request, send};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use watari_testkit::{Reply, Script, StubApi};

const MESSAGES: &str = "/v1/messages?beta=true";

fn model_call() -> Value {
    json!({"model": "claude-test", "tools": [{"name": "Bash"}], "messages": []})
}

fn streamed_model_call() -> Value {
    let mut call = model_call();
    call["stream"] = json!(true);
    call
}

/// What the stub says to each of these calls, one line each.
async fn texts(stub: &StubApi, calls: &[Value]) -> Result<String> {
    let mut lines = Vec::new();
    for call in calls {
        let answer: Value = serde_json::from_str(&post(stub, MESSAGES, call).await?.body)?;
        lines.push(format!("{} {}", answer["id"], answer["content"][0]["text"]));
    }
    Ok(lines.join("\n"))
}

#[tokio::test]
async fn a_streamed_reply_is_a_transcript_of_events() -> Result<()> {
    let reply =
        Reply::thinking("hm").and_text("Grüße!").and_tool_use("toolu_1", "Bash", json!({"command": "ls"})).usage(7, 9);
    let stub = StubApi::start(Script::new().reply(reply)).await?;
    let answer = post(&stub, MESSAGES, &streamed_model_call()).await?;
    assert_eq!((answer.status, answer.content_type.as_str()), (200, "text/event-stream"));
    insta::assert_snapshot!(answer.body, @r#"
    event: message_start
    data: {"type":"message_start","message":{"id":"msg_stub_1","type":"message","role":"assistant","model":"claude-test","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":7,"output_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}}

    event: content_block_start
    data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}

    event: content_block_stop
    data: {"type":"content_block_stop","index":0}

    event: content_block_start
    data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Grüß"}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"e!"}}

    event: content_block_stop
    data: {"type":"content_block_stop","index":1}

    event: content_block_start
    data: {"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"comman"}}

    event: content_block_delta
    data: {"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"d\":\"ls\"}"}}

    event: content_block_stop
    data: {"type":"content_block_stop","index":2}

    event: message_delta
    data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":9}}

    event: message_stop
    data: {"type":"message_stop"}
    "#);
    Ok(())
}

#[tokio::test]
async fn a_reply_that_is_not_streamed_is_one_message() -> Result<()> {
    let reply = Reply::thinking("hm").and_text("a").and_tool_use("toolu_1", "Bash", json!({"command": "ls"}));
    let stub = StubApi::start(Script::new().reply(reply)).await?;
    let answer = post(&stub, MESSAGES, &model_call()).await?;
    assert_eq!((answer.status, answer.content_type.as_str()), (200, "application/json"));
    insta::assert_snapshot!(answer.body, @r#"{"id":"msg_stub_1","type":"message","role":"assistant","model":"claude-test","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"text","text":"a"},{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}}],"stop_reason":"tool_use","stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0}}"#);
    Ok(())
}

#[tokio::test]
async fn the_last_reply_is_repeated() -> Result<()> {
    let stub = StubApi::start(Script::new().reply(Reply::text("one")).reply(Reply::text("two"))).await?;
    let calls = [model_call(), model_call(), model_call()];
    insta::assert_snapshot!(texts(&stub, &calls).await?, @r#"
    "msg_stub_1" "one"
    "msg_stub_2" "two"
    "msg_stub_3" "two"
    "#);
    Ok(())
}

#[tokio::test]
async fn an_empty_script_says_hello() -> Result<()> {
    let stub = StubApi::start(Script::new()).await?;
    insta::assert_snapshot!(texts(&stub, &[model_call()]).await?, @r#""msg_stub_1" "Hello!""#);
    Ok(())
}

#[tokio::test]
async fn side_calls_do_not_use_up_the_script() -> Result<()> {
    let stub = StubApi::start(Script::new().reply(Reply::text("one")).reply(Reply::text("two"))).await?;
    let side = json!({"model": "claude-small", "tools": [], "messages": []});
    let calls = [side.clone(), model_call(), side, model_call()];
    insta::assert_snapshot!(texts(&stub, &calls).await?, @r#"
    "msg_stub_1" "ok"
    "msg_stub_2" "one"
    "msg_stub_3" "ok"
    "msg_stub_4" "two"
    "#);
    assert_eq!((stub.requests().len(), stub.model_calls().len()), (4, 2));
    Ok(())
}

#[tokio::test]
async fn subagents_have_their_own_list() -> Result<()> {
    let script = Script::new().reply(Reply::text("main")).for_agents([Reply::text("first"), Reply::text("second")]);
    for (script, expected) in [(script, ["first", "second", "second"]), (Script::new(), ["sub done"; 3])] {
        let stub = StubApi::start(script).await?;
        let call = request("POST", MESSAGES, "X-Claude-Code-Agent-Id: a1\r\n", &model_call().to_string());
        for text in expected {
            let answer: Value = serde_json::from_str(&exchange(&stub, &call).await?.body)?;
            assert_eq!(answer["content"][0]["text"], text);
        }
        assert_eq!(stub.model_calls().len(), 3);
    }
    Ok(())
}

#[tokio::test]
async fn an_error_has_its_status_and_the_shape_of_the_api() -> Result<()> {
    let stub = StubApi::start(Script::new().reply(Reply::status(529, "overloaded"))).await?;
    let answer = post(&stub, MESSAGES, &streamed_model_call()).await?;
    insta::assert_snapshot!(format!("{} {}", answer.status, answer.body), @r#"529 {"error":{"message":"overloaded","type":"overloaded_error"},"type":"error"}"#);
    Ok(())
}

#[tokio::test]
async fn other_paths_are_answered_too() -> Result<()> {
    let stub = StubApi::start(Script::new()).await?;
    let mut seen = Vec::new();
    for (method, path, body) in [
        ("POST", "/v1/messages/count_tokens?beta=true", "{}"),
        ("HEAD", "/api/hello", ""),
        ("GET", "/v1/models", ""),
        ("POST", "/v1/messages", "not json"),
    ] {
        let answer = exchange(&stub, &request(method, path, "", body)).await?;
        seen.push(format!("{method} {path}: {} {}", answer.status, answer.body));
    }
    insta::assert_snapshot!(seen.join("\n"), @r#"
    POST /v1/messages/count_tokens?beta=true: 200 {"input_tokens":10}
    HEAD /api/hello: 200 
    GET /v1/models: 404 {"error":{"message":"the stub does not know this path","type":"not_found_error"},"type":"error"}
    POST /v1/messages: 400 {"error":{"message":"the body is not a JSON object","type":"invalid_request_error"},"type":"error"}
    "#);
    let recorded = stub.requests();
    assert_eq!(recorded.last().map(|request| request.body.clone()), Some(json!("not json")));
    assert!(recorded[0].headers.contains(&("host".to_owned(), "127.0.0.1".to_owned())));
    Ok(())
}

#[tokio::test]
async fn a_held_reply_ends_when_the_stub_is_dropped() -> Result<()> {
    let stub = StubApi::start(Script::new().reply(Reply::stall().and_text("so"))).await?;
    let mut streamed = send(&stub, &request("POST", MESSAGES, "", &streamed_model_call().to_string())).await?;
    let mut waiting = send(&stub, &request("POST", MESSAGES, "", &model_call().to_string())).await?;
    let seen = read_until(&mut streamed, "…").await?;
    assert!(seen.contains(r#"{"type":"text_delta","text":"so"}"#) && !seen.contains("message_delta"), "{seen}");
    stub.wait_for_model_calls(2).await;

    drop(stub);
    let mut rest = Vec::new();
    // A reset is as good an end as a close.
    streamed.read_to_end(&mut rest).await.unwrap_or_default();
    waiting.read_to_end(&mut rest).await.unwrap_or_default();
    assert!(!String::from_utf8_lossy(&rest).contains("message_stop"));
    Ok(())
}

#[tokio::test]
async fn waiting_for_model_calls_ends_with_the_last_of_them() -> Result<()> {
    let stub = StubApi::start(Script::new().reply(Reply::stall())).await?;
    stub.wait_for_model_calls(0).await;
    let call = request("POST", MESSAGES, "", &model_call().to_string());
    let ((), connections) = tokio::join!(stub.wait_for_model_calls(2), async {
        anyhow::Ok([send(&stub, &call).await?, send(&stub, &call).await?])
    });
    connections?;
    assert_eq!(stub.model_calls(), [model_call(), model_call()]);
    Ok(())
}

#[tokio::test]
async fn a_pace_holds_back_every_text_delta() -> Result<()> {
    let pace = Duration::from_millis(20);
    let reply = Reply::text("abcdef").chunks_of(2).paced(pace).delay(pace).stop_reason("max_tokens");
    let stub = StubApi::start(Script::new().reply(reply)).await?;
    let started = Instant::now();
    let body = post(&stub, MESSAGES, &streamed_model_call()).await?.body;
    assert!(started.elapsed() >= 4 * pace);
    assert_eq!(body.matches("text_delta").count(), 3);
    assert!(body.contains(r#""stop_reason":"max_tokens""#));
    Ok(())
}

#[tokio::test]
async fn a_large_text_and_a_large_request_pass() -> Result<()> {
    const BYTES: usize = 16 * 1024 * 1024;
    let stub = StubApi::start(Script::new().reply(Reply::text("x".repeat(BYTES)).chunks_of(64 * 1024))).await?;
    let mut call = streamed_model_call();
    call["messages"] = json!([{"role": "user", "content": "y".repeat(BYTES)}]);
    let body = post(&stub, MESSAGES, &call).await?.body;
    assert!(body.len() > BYTES && body.ends_with("{\"type\":\"message_stop\"}\n\n"));
    assert_eq!(stub.model_calls(), [call]);
    Ok(())
}
