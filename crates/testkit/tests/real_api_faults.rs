//! What the real CLIs, the oldest and the pinned one, make of an API that fails: how often they ask, and what they say.
//!
//! In the tables, the requests are before the bar: `s` is for one that streams, `n` for one that does not. Behind it
//! are the messages of the CLI up to the result; a text in quotes is one of the script.

// Nothing in it depends on the system.
#![cfg(not(watari_portable))]

mod faults;

use anyhow::{Context as _, Result};
use faults::{Fault, table};
use serde_json::Value;

type Environment = &'static [(&'static str, &'static str)];

const ONE_RETRY: Environment = &[("CLAUDE_CODE_MAX_RETRIES", "1")];
const TWO_RETRIES: Environment = &[("CLAUDE_CODE_MAX_RETRIES", "2")];
const THREE_RETRIES: Environment = &[("CLAUDE_CODE_MAX_RETRIES", "3")];

#[tokio::test]
async fn without_retries_a_failed_request_is_final() -> Result<()> {
    let faults = [
        Fault::new("529", "replies: [{status: 529}]"),
        Fault::new("500", "replies: [{status: 500}]"),
        Fault::new("429", "replies: [{status: 429}]"),
        Fault::new("401", "replies: [{status: 401}]"),
        Fault::refused("connection refused"),
    ];
    insta::assert_snapshot!(table(&faults).await?, @"
    529
      2.1.42   s | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s | system/init, assistant(text, error server_error), result/success(is_error)
    500
      2.1.42   s | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s | system/init, assistant(text, error server_error), result/success(is_error)
    429
      2.1.42   s | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s | system/init, assistant(text, error rate_limit), result/success(is_error)
    401
      2.1.42   s | system/init, assistant(text, error authentication_failed), result/success(is_error)
      2.1.325  s | system/init, assistant(text, error authentication_failed), result/success(is_error)
    connection refused
      2.1.42   none | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  none | system/init, assistant(text, error server_error), result/success(is_error)
    ");
    Ok(())
}

#[tokio::test]
async fn with_one_retry_a_failed_request_is_sent_twice() -> Result<()> {
    let faults = [
        Fault::new("529", "replies: [{status: 529}]"),
        Fault::new("500", "replies: [{status: 500}]"),
        Fault::new("429", "replies: [{status: 429}]"),
        Fault::new("401", "replies: [{status: 401}]"),
        Fault::refused("connection refused"),
    ];
    let faults = faults.map(|fault| fault.with(ONE_RETRY).waits_ms(&[400]));
    insta::assert_snapshot!(table(&faults).await?, @"
    529
      2.1.42   s ≥400ms s | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s ≥400ms s | system/init, system/api_retry, assistant(text, error server_error), result/success(is_error)
    500
      2.1.42   s ≥400ms s | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s ≥400ms s | system/init, system/api_retry, assistant(text, error server_error), result/success(is_error)
    429
      2.1.42   s ≥400ms s | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s ≥400ms s | system/init, system/api_retry, assistant(text, error rate_limit), result/success(is_error)
    401
      2.1.42   s ≥400ms s | system/init, assistant(text, error authentication_failed), result/success(is_error)
      2.1.325  s ≥400ms s | system/init, system/api_retry, assistant(text, error authentication_failed), result/success(is_error)
    connection refused
      2.1.42   none | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  none | system/init, system/api_retry, assistant(text, error server_error), result/success(is_error)
    ");
    Ok(())
}

#[tokio::test]
async fn with_two_retries_the_second_wait_is_longer() -> Result<()> {
    let faults = [
        Fault::new("529", "replies: [{status: 529}]"),
        Fault::new("500", "replies: [{status: 500}]"),
        Fault::new("429", "replies: [{status: 429}]"),
        Fault::new("401", "replies: [{status: 401}]"),
    ];
    let faults = faults.map(|fault| fault.with(TWO_RETRIES).waits_ms(&[400, 900]));
    insta::assert_snapshot!(table(&faults).await?, @"
    529
      2.1.42   s ≥400ms s ≥900ms s | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s ≥400ms s ≥900ms s | system/init, system/api_retry ×2, assistant(text, error server_error), result/success(is_error)
    500
      2.1.42   s ≥400ms s ≥900ms s | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s ≥400ms s ≥900ms s | system/init, system/api_retry ×2, assistant(text, error server_error), result/success(is_error)
    429
      2.1.42   s ≥400ms s ≥900ms s | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s ≥400ms s ≥900ms s | system/init, system/api_retry ×2, assistant(text, error rate_limit), result/success(is_error)
    401
      2.1.42   s ≥400ms s ≥900ms s | system/init, assistant(text, error authentication_failed), result/success(is_error)
      2.1.325  s ≥400ms s ≥900ms s | system/init, system/api_retry ×2, assistant(text, error authentication_failed), result/success(is_error)
    ");
    Ok(())
}

#[tokio::test]
async fn the_api_says_when_to_ask_again_and_whether() -> Result<()> {
    let faults = [
        // Left to themselves both would wait for 0.5, 1 and 2 seconds.
        Fault::new("retry-after: 1", "replies: [{status: 529, headers: {retry-after: '1'}}]")
            .with(THREE_RETRIES)
            .waits_ms(&[900, 900])
            .pinned_waits_ms(&[900, 900, 1900]),
        Fault::new("500, not to be retried", "replies: [{status: 500, headers: {x-should-retry: 'false'}}]")
            .with(TWO_RETRIES),
        Fault::new("529, not to be retried", "replies: [{status: 529, headers: {x-should-retry: 'false'}}]")
            .with(TWO_RETRIES),
    ];
    insta::assert_snapshot!(table(&faults).await?, @"
    retry-after: 1
      2.1.42   s ≥900ms s ≥900ms s s | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s ≥900ms s ≥900ms s ≥1900ms s | system/init, system/api_retry ×3, assistant(text, error server_error), result/success(is_error)
    500, not to be retried
      2.1.42   s | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s | system/init, assistant(text, error server_error), result/success(is_error)
    529, not to be retried
      2.1.42   s s s | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s | system/init, assistant(text, error server_error), result/success(is_error)
    ");
    Ok(())
}

#[tokio::test]
async fn a_failure_that_may_pass_is_survived_by_a_retry() -> Result<()> {
    let faults = [
        Fault::new("502", "replies: [{status: 502}, {text: second}]"),
        Fault::new("503", "replies: [{status: 503}, {text: second}]"),
        Fault::new("408", "replies: [{status: 408}, {text: second}]"),
        Fault::new("409", "replies: [{status: 409}, {text: second}]"),
    ];
    let faults = faults.map(|fault| fault.with(ONE_RETRY).waits_ms(&[400]));
    insta::assert_snapshot!(table(&faults).await?, @r#"
    502
      2.1.42   s ≥400ms s | system/init, assistant("second"), result/success
      2.1.325  s ≥400ms s | system/init, system/api_retry, assistant("second"), result/success
    503
      2.1.42   s ≥400ms s | system/init, assistant("second"), result/success
      2.1.325  s ≥400ms s | system/init, system/api_retry, assistant("second"), result/success
    408
      2.1.42   s ≥400ms s | system/init, assistant("second"), result/success
      2.1.325  s ≥400ms s | system/init, system/api_retry, assistant("second"), result/success
    409
      2.1.42   s ≥400ms s | system/init, assistant("second"), result/success
      2.1.325  s ≥400ms s | system/init, system/api_retry, assistant("second"), result/success
    "#);
    Ok(())
}

#[tokio::test]
async fn a_refusal_is_final_though_retries_are_allowed() -> Result<()> {
    let faults = [
        Fault::new("402", "replies: [{status: 402}]"),
        Fault::new("403", "replies: [{status: 403}]"),
        Fault::new("413", "replies: [{status: 413}]"),
        // The pinned one asks with fewer and fewer of its beta features.
        Fault::new("400", "replies: [{status: 400}]"),
        Fault::new("404", "replies: [{status: 404}]"),
    ];
    let faults = faults.map(|fault| fault.with(ONE_RETRY));
    insta::assert_snapshot!(table(&faults).await?, @"
    402
      2.1.42   s | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s | system/init, assistant(text, error unknown), result/success(is_error)
    403
      2.1.42   s | system/init, assistant(text, error authentication_failed), result/success(is_error)
      2.1.325  s | system/init, assistant(text, error authentication_failed), result/success(is_error)
    413
      2.1.42   s | system/init, assistant(text, error invalid_request), result/success(is_error)
      2.1.325  s | system/init, assistant(text, error invalid_request), result/success(is_error)
    400
      2.1.42   s | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s s s s s s | system/init, assistant(text, error unknown), result/success(is_error)
    404
      2.1.42   s n | system/init, assistant(text, error invalid_request), result/success(is_error)
      2.1.325  s n | system/init, assistant(text, error model_not_found), result/success(is_error)
    ");
    Ok(())
}

#[tokio::test]
async fn a_stream_that_fails_before_its_first_block_is_asked_for_as_a_whole() -> Result<()> {
    let faults = [
        Fault::new(
            "always overloaded",
            "replies: [{text: first, fault: {error: {at: before_start, type: overloaded_error}}}]",
        ),
        Fault::new(
            "another error",
            "replies: [{text: first, fault: {error: {at: before_start, type: api_error}}}, {text: second}]",
        ),
        Fault::new(
            "overloaded after message_start",
            "replies: [{text: first, fault: {error: {at: after_start, type: overloaded_error}}}, {text: second}]",
        ),
        Fault::new(
            "dropped after the headers",
            "replies: [{text: first, fault: {drop: {at: before_start}}}, {text: second}]",
        ),
        Fault::new(
            "dropped after message_start",
            "replies: [{text: first, fault: {drop: {at: after_start}}}, {text: second}]",
        ),
    ];
    insta::assert_snapshot!(table(&faults).await?, @r#"
    always overloaded
      2.1.42   s n | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s n | system/init, assistant(text, error server_error), result/success(is_error)
    another error
      2.1.42   s n | system/init, assistant("second"), result/success
      2.1.325  s n | system/init, assistant("second"), result/success
    overloaded after message_start
      2.1.42   s n | system/init, assistant("second"), result/success
      2.1.325  s n | system/init, assistant("second"), result/success
    dropped after the headers
      2.1.42   s n | system/init, assistant("second"), result/success
      2.1.325  s n | system/init, assistant("second"), result/success
    dropped after message_start
      2.1.42   s n | system/init, assistant("second"), result/success
      2.1.325  s n | system/init, assistant("second"), result/success
    "#);
    Ok(())
}

#[tokio::test]
async fn with_retries_the_pinned_version_asks_for_a_stream_again_first() -> Result<()> {
    // Each fails until the last request that the CLIs make.
    let overloaded = "{text: no, fault: {error: {at: before_start, type: overloaded_error}}}";
    let overloaded_later = "{text: no, fault: {error: {at: after_start, type: overloaded_error}}}";
    let dropped = "{text: no, fault: {drop: {at: before_start}}}";
    let dropped_later = "{text: no, fault: {drop: {at: after_start}}}";
    let dropped_in_block = "{text: no or yes, fault: {drop: {at: in_block}}}";
    let until_fourth = |fails| format!("replies: [{fails}, {fails}, {fails}, {{text: fourth}}]");
    let until_third = |fails| format!("replies: [{fails}, {fails}, {{text: third}}]");
    let faults = [
        Fault::new("overloaded, two retries", until_fourth(overloaded)).with(TWO_RETRIES),
        Fault::new("overloaded after message_start, two retries", until_fourth(overloaded_later)).with(TWO_RETRIES),
        Fault::new("dropped after the headers, one retry", until_third(dropped)).with(ONE_RETRY),
        Fault::new("dropped after message_start, one retry", until_third(dropped_later)).with(ONE_RETRY),
        Fault::new("dropped in a block, one retry", until_third(dropped_in_block)).with(ONE_RETRY),
    ];
    insta::assert_snapshot!(table(&faults).await?, @r#"
    overloaded, two retries
      2.1.42   s n n n | system/init, assistant("fourth"), result/success
      2.1.325  s s s n | system/init, assistant("fourth"), result/success
    overloaded after message_start, two retries
      2.1.42   s n n n | system/init, assistant("fourth"), result/success
      2.1.325  s s s n | system/init, assistant("fourth"), result/success
    dropped after the headers, one retry
      2.1.42   s n n | system/init, assistant("third"), result/success
      2.1.325  s s n | system/init, system/api_retry, assistant("third"), result/success
    dropped after message_start, one retry
      2.1.42   s n n | system/init, assistant("third"), result/success
      2.1.325  s s n | system/init, system/api_retry, assistant("third"), result/success
    dropped in a block, one retry
      2.1.42   s n n | system/init, assistant("third"), result/success
      2.1.325  s s n | system/init, system/api_retry, assistant("third"), result/success
    "#);
    Ok(())
}

#[tokio::test]
async fn a_block_that_is_cut_is_never_shown_and_one_that_is_whole_always() -> Result<()> {
    let faults = [
        Fault::new(
            "error in a block",
            "replies: [{text: first words, fault: {error: {at: in_block, type: api_error}}}, {text: second}]",
        ),
        Fault::new(
            "dropped in a block",
            "replies: [{text: first words, fault: {drop: {at: in_block}}}, {text: second}]",
        ),
        Fault::new(
            "error after a block",
            "replies: [{text: first, fault: {error: {at: after_blocks, type: api_error}}}, {text: second}]",
        ),
        // The pinned one asks three times to go on.
        Fault::new(
            "always an error after a block",
            "replies: [{text: first, fault: {error: {at: after_blocks, type: api_error}}}]",
        ),
    ];
    insta::assert_snapshot!(table(&faults).await?, @r#"
    error in a block
      2.1.42   s n | system/init, assistant("second"), result/success
      2.1.325  s n | system/init, assistant("second"), result/success
    dropped in a block
      2.1.42   s n | system/init, assistant("second"), result/success
      2.1.325  s n | system/init, assistant("second"), result/success
    error after a block
      2.1.42   s n | system/init, assistant("first"), assistant("second"), result/success
      2.1.325  s s | system/init, assistant("first"), user(text, synthetic), assistant("second"), result/success
    always an error after a block
      2.1.42   s n | system/init, assistant("first"), assistant(text, error unknown), result/success(is_error)
      2.1.325  s s s s | system/init, assistant("first"), user(text, synthetic), assistant("first"), user(text, synthetic), assistant("first"), user(text, synthetic), assistant("first"), assistant(text, error server_error), result/success(is_error)
    "#);
    Ok(())
}

#[tokio::test]
async fn the_pinned_version_misses_an_end_without_message_delta() -> Result<()> {
    let call = "tool: Write, input: {file_path: '${cwd}/made', content: made}";
    let faults = [
        Fault::new("ended", "replies: [{text: first, fault: {end: {at: after_blocks}}}]"),
        Fault::new("dropped", "replies: [{text: first, fault: {drop: {at: after_blocks}}}]"),
        Fault::new(
            "ended after a call of a tool",
            format!("replies: [{{{call}, fault: {{end: {{at: after_blocks}}}}}}, {{text: second}}]"),
        ),
        // The oldest one shows the call and never runs it.
        Fault::new(
            "dropped after a call of a tool",
            format!("replies: [{{{call}, fault: {{drop: {{at: after_blocks}}}}}}, {{text: second}}]"),
        ),
        Fault::new("ended without message_stop only", "replies: [{text: first, fault: {end: {at: before_stop}}}]"),
    ];
    insta::assert_snapshot!(table(&faults).await?, @r#"
    ended
      2.1.42   s | system/init, assistant("first"), result/success
      2.1.325  s s s s | system/init, assistant("first"), user(text, synthetic), assistant("first"), user(text, synthetic), assistant("first"), user(text, synthetic), assistant("first"), assistant(text, error server_error), result/success(is_error)
    dropped
      2.1.42   s n | system/init, assistant("first"), assistant(text, error unknown), result/success(is_error)
      2.1.325  s s s s | system/init, assistant("first"), user(text, synthetic), assistant("first"), user(text, synthetic), assistant("first"), user(text, synthetic), assistant("first"), assistant(text, error server_error), result/success(is_error)
    ended after a call of a tool
      2.1.42   s s | system/init, assistant(tool_use Write), user(tool_result), assistant("second"), result/success
      2.1.325  s s | system/init, assistant(tool_use Write), user(tool_result), assistant(text, error server_error), assistant("second"), result/success
    dropped after a call of a tool
      2.1.42   s n | system/init, assistant(tool_use Write), assistant("second"), result/success
      2.1.325  s s | system/init, assistant(tool_use Write), user(tool_result), assistant(text, error server_error), assistant("second"), result/success
    ended without message_stop only
      2.1.42   s | system/init, assistant("first"), result/success
      2.1.325  s | system/init, assistant("first"), result/success
    "#);
    Ok(())
}

#[tokio::test]
async fn a_stream_that_makes_no_sense_is_asked_for_as_a_whole() -> Result<()> {
    let (_, without_start) = STREAM.split_once("\n\n").context("there is one event only")?;
    let without_names = STREAM.split_inclusive('\n').filter(|line| !line.starts_with("event: "));
    let faults = [
        stream("an event that is not JSON", &but(STREAM, r#","text":"streamed"}}"#, "")),
        stream("a delta of a block that never began", &but(STREAM, r#"delta","index":0"#, r#"delta","index":7"#)),
        stream("an empty body", ""),
        stream("no names of events", &without_names.collect::<String>()),
        stream("no message_start", without_start),
    ];
    insta::assert_snapshot!(table(&faults).await?, @r#"
    an event that is not JSON
      2.1.42   s n | system/init, assistant("second"), result/success
      2.1.325  s n | system/init, assistant("second"), result/success
    a delta of a block that never began
      2.1.42   s n | system/init, assistant("second"), result/success
      2.1.325  s n | system/init, assistant("second"), result/success
    an empty body
      2.1.42   s n | system/init, assistant("second"), result/success
      2.1.325  s n | system/init, assistant("second"), result/success
    no names of events
      2.1.42   s n | system/init, assistant("second"), result/success
      2.1.325  s n | system/init, assistant("second"), result/success
    no message_start
      2.1.42   s n | system/init, assistant("second"), result/success
      2.1.325  s n | system/init, assistant("second"), result/success
    "#);
    Ok(())
}

#[tokio::test]
async fn a_stream_that_is_only_odd_is_taken() -> Result<()> {
    let without_usage = but(STREAM, r#","usage":{"input_tokens":10,"output_tokens":1}"#, "");
    let faults = [
        Fault::new(
            "a comment, a ping and an event nobody knows",
            r#"
            replies:
              - text: streamed
                fault:
                  insert:
                    at: in_block
                    text: |+
                      : nothing

                      event: ping
                      data: {"type":"ping"}

                      event: news
                      data: {"type":"news"}

              - text: second
            "#,
        ),
        stream("lines that end with CRLF", &STREAM.replace('\n', "\r\n")),
        stream(
            "message_start twice",
            &format!("{}{STREAM}", STREAM.split_inclusive("\n\n").take(1).collect::<String>()),
        ),
        stream("no usage", &but(&without_usage, r#","usage":{"output_tokens":5}"#, "")),
        stream("no reason to stop", &but(STREAM, r#""end_turn""#, "null")),
    ];
    insta::assert_snapshot!(table(&faults).await?, @r#"
    a comment, a ping and an event nobody knows
      2.1.42   s | system/init, assistant("streamed"), result/success
      2.1.325  s | system/init, assistant("streamed"), result/success
    lines that end with CRLF
      2.1.42   s | system/init, assistant("streamed"), result/success
      2.1.325  s | system/init, assistant("streamed"), result/success
    message_start twice
      2.1.42   s | system/init, assistant("streamed"), result/success
      2.1.325  s | system/init, assistant("streamed"), result/success
    no usage
      2.1.42   s | system/init, assistant("streamed"), result/success
      2.1.325  s | system/init, assistant("streamed"), result/success
    no reason to stop
      2.1.42   s | system/init, assistant("streamed"), result/success
      2.1.325  s | system/init, assistant("streamed"), result/success
    "#);
    Ok(())
}

#[tokio::test]
async fn an_answer_that_is_no_stream_is_asked_for_as_a_whole() -> Result<()> {
    let faults = [
        Fault::new("a page", "replies: [{status: 200, content_type: text/html, body: <html></html>}]"),
        Fault::new(
            "a page named JSON",
            "replies: [{status: 200, content_type: application/json, body: <html></html>}]",
        ),
        Fault::new(
            "a whole message",
            r#"
            replies:
              - status: 200
                content_type: application/json
                body: '{"id": "msg_1", "type": "message", "role": "assistant", "model": "stub",
                  "content": [{"type": "text", "text": "whole"}], "stop_reason": "end_turn", "stop_sequence": null,
                  "usage": {"input_tokens": 10, "output_tokens": 5}}'
            "#,
        ),
    ];
    insta::assert_snapshot!(table(&faults).await?, @r#"
    a page
      2.1.42   s n | system/init, result/error_during_execution
      2.1.325  s n | system/init, assistant(text, error unknown), result/success(is_error)
    a page named JSON
      2.1.42   s n | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s n | system/init, assistant(text, error unknown), result/success(is_error)
    a whole message
      2.1.42   s n | system/init, assistant("whole"), result/success
      2.1.325  s n | system/init, assistant("whole"), result/success
    "#);
    Ok(())
}

#[tokio::test]
async fn an_input_that_is_not_whole_is_an_error_of_the_tool() -> Result<()> {
    let (text, delta) = (r#"{"type":"text","text":""}"#, r#"{"type":"text_delta","text":"streamed"}"#);
    let call = but(STREAM, text, r#"{"type":"tool_use","id":"toolu_1","name":"Write","input":{}}"#);
    let call = but(&call, "end_turn", "tool_use");
    let half = r#"{"type":"input_json_delta","partial_json":"{\"file_path\": \"${cwd}/ma"}"#;
    let without_delta = call.split_inclusive("\n\n").filter(|event| !event.contains(delta));
    let faults = [stream("cut off", &but(&call, delta, half)), stream("missing", &without_delta.collect::<String>())];
    insta::assert_snapshot!(table(&faults).await?, @r#"
    cut off
      2.1.42   s s | system/init, assistant(tool_use Write), user(tool_result error), assistant("second"), result/success
      2.1.325  s s | system/init, assistant(tool_use Write), user(tool_result error), assistant("second"), result/success
    missing
      2.1.42   s s | system/init, assistant(tool_use Write), user(tool_result error), assistant("second"), result/success
      2.1.325  s s | system/init, assistant(tool_use Write), user(tool_result error), assistant("second"), result/success
    "#);
    Ok(())
}

#[tokio::test]
async fn the_environment_limits_the_wait_and_forbids_to_ask_for_the_whole() -> Result<()> {
    let faults = [
        Fault::new("no headers", "replies: [{text: first, fault: {stall: {at: before_headers}}}, {text: second}]")
            .with(&[("API_TIMEOUT_MS", "2000"), ("CLAUDE_CODE_MAX_RETRIES", "1")])
            .waits_ms(&[2400]),
        // The oldest one does not know the variable.
        Fault::new(
            "overloaded",
            "replies: [{text: first, fault: {error: {at: before_start, type: overloaded_error}}}]",
        )
        .with(&[("CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK", "1"), ("CLAUDE_CODE_MAX_RETRIES", "2")]),
    ];
    insta::assert_snapshot!(table(&faults).await?, @r#"
    no headers
      2.1.42   s ≥2400ms s | system/init, assistant("second"), result/success
      2.1.325  s ≥2400ms s | system/init, system/api_retry, assistant("second"), result/success
    overloaded
      2.1.42   s n n n | system/init, assistant(text, error unknown), result/success(is_error)
      2.1.325  s s s | system/init, assistant(text, error unknown), result/success(is_error)
    "#);
    Ok(())
}

/// A stream as the API sends it, to be spoiled.
const STREAM: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"stub","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"streamed"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}

event: message_stop
data: {"type":"message_stop"}

"#;

/// The same text with something else in one place, which has to be there.
fn but(text: &str, before: &str, after: &str) -> String {
    assert_eq!(text.matches(before).count(), 1, "{before} in {text}");
    text.replace(before, after)
}

/// A first answer that is this stream, and a second one that is in order.
fn stream(name: &'static str, body: &str) -> Fault {
    // A text in JSON is one in YAML.
    let body = Value::from(body);
    Fault::new(name, format!("replies: [{{status: 200, body: {body}}}, {{text: second}}]"))
}
