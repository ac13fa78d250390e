//! Requests to the real CLI: each typed request is answered, and a refusal contains the CLI's own text.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use std::collections::BTreeMap;

use common::{Room, Talk};
use serde_json::json;
use watari_sdk::{EntryId, Event, Options, RawJson, Request, RequestError, RequestFailure};
use watari_testkit::Reply;

fn refusal(answer: Result<RawJson, RequestError>) -> String {
    match answer {
        Err(RequestError::Failed(RequestFailure::Refused { message, .. })) => message,
        other => panic!("expected a refusal: {other:?}"),
    }
}

#[tokio::test]
async fn what_changes_the_session_is_answered() {
    let room = Room::with_replies([Reply::text("ok")]).await;
    let mut talk = Talk::connect(room.options()).await;
    talk.client.request(Request::SetThinking(Some(2048))).await.unwrap();
    talk.client.request(Request::SetThinking(None)).await.unwrap();
    talk.client.request(Request::Rename { title: "a title of ours".into() }).await.unwrap();
    talk.until(|event| matches!(event, Event::TitleChanged { title } if title == "a title of ours")).await;
    talk.client.request(Request::StopTask { task: "none".into() }).await.unwrap();
    let again = talk.client.request(Request::Reinitialize).await.unwrap();
    assert!(again.as_str().contains("claude_code_version"));
    talk.client.send("still there?").await.unwrap();
    talk.until_idle().await;
    talk.client.close().await;
}

#[tokio::test]
async fn what_only_looks_is_answered() {
    let room = Room::with_replies([Reply::text("ok")]).await;
    std::fs::write(room.sandbox.cwd().join("note.txt"), "words of ours").unwrap();
    let talk = Talk::connect(room.options()).await;
    let usage = talk.client.request(Request::ContextUsage).await.unwrap();
    assert!(usage.as_str().contains("totalTokens"), "{usage:?}");
    let path = room.sandbox.cwd().join("note.txt").display().to_string();
    let file = talk.client.request(Request::ReadFile { path, max_bytes: Some(1000) }).await.unwrap();
    assert!(file.as_str().contains("words of ours"), "{file:?}");
    let missing = Request::ReadFile { path: "/no/such/file".into(), max_bytes: None };
    assert!(!refusal(talk.client.request(missing).await).is_empty());
    talk.client.close().await;
}

#[tokio::test]
async fn servers_are_set_listed_switched_and_connected_again() {
    let room = Room::with_replies([Reply::text("ok")]).await;
    let talk = Talk::connect(room.options()).await;
    let broken = json!({"command": "/no/such/server"});
    let servers = BTreeMap::from([("mine".to_owned(), RawJson::from(broken))]);
    talk.client.request(Request::SetMcpServers(servers)).await.unwrap();
    let status = talk.client.request(Request::McpStatus).await.unwrap();
    assert!(status.as_str().contains("\"mine\""), "{status:?}");
    for enabled in [false, true] {
        talk.client.request(Request::ToggleMcp { server: "mine".into(), enabled }).await.ok();
    }
    let unknown = refusal(talk.client.request(Request::ReconnectMcp { server: "nobody".into() }).await);
    assert!(unknown.contains("nobody"), "{unknown}");
    talk.client.close().await;
}

#[tokio::test]
async fn files_are_brought_back_to_what_they_were_before_a_prompt() {
    let room = Room::with_replies([Reply::text("")]).await;
    let file = room.sandbox.cwd().join("poem.txt");
    std::fs::write(&file, "before").unwrap();
    let edit = json!({"file_path": file, "content": "after"});
    let read = json!({"file_path": file});
    let room = Room {
        stub: watari_testkit::StubApi::start(
            watari_testkit::Script::new()
                .reply(Reply::tool_use("toolu_1", "Read", read))
                .reply(Reply::tool_use("toolu_2", "Write", edit))
                .reply(Reply::text("written")),
        )
        .await
        .unwrap(),
        ..room
    };
    let room = Room { sandbox: room.sandbox.with_env("ANTHROPIC_BASE_URL", room.stub.base_url()), ..room };
    let options = Options { checkpoints: true, allowed_tools: vec!["Write".into(), "Read".into()], ..room.options() };
    let mut talk = Talk::connect(options).await;
    talk.client.send("rewrite it").await.unwrap();
    let entry = talk.until_idle().await.into_iter().find_map(|event| match event {
        Event::PromptAccepted { entry, .. } => Some(entry),
        _ => None,
    });
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "after");
    let rewind = |dry_run| Request::Rewind { entry: entry.clone().unwrap(), dry_run };
    let dry = talk.client.request(rewind(true)).await.unwrap();
    assert!(dry.as_str().contains("\"canRewind\":true"), "{dry:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "after");
    talk.client.request(rewind(false)).await.unwrap();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
    let unknown = EntryId::parse("0f0e0d0c-0b0a-4908-8706-050403020100").unwrap();
    assert!(!refusal(talk.client.request(Request::Rewind { entry: unknown, dry_run: false }).await).is_empty());
    talk.client.close().await;
}

#[tokio::test]
async fn stored_entries_are_reported_on_request() {
    let room = Room::with_replies([Reply::text("an answer of ours")]).await;
    let mut talk = Talk::connect(Options { mirror_transcript: true, ..room.options() }).await;
    talk.client.send("hello").await.unwrap();
    let events = talk.until_idle().await;
    let stored: String = events
        .iter()
        .filter_map(|event| match event {
            Event::TranscriptWritten { entries, .. } => Some(entries.as_str()),
            _ => None,
        })
        .collect();
    assert!(stored.contains("an answer of ours"), "{stored}");
    talk.client.close().await;
}
