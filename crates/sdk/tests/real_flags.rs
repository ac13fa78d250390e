//! The real CLI accepts every flag that options can produce.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use std::collections::BTreeMap;

use common::{Room, Talk};
use watari_sdk::{
    Client, Effort, EntryId, McpServers, Options, PermissionMode, PermissionPrompts, Plugin, RawJson, SessionId,
    SettingSource, Settings, StartFrom, SystemPrompt, Thinking, ThinkingDisplay, ToolSet,
};
use watari_testkit::Reply;

/// Every option, each with the values that make a different flag.
fn table(room: &Room) -> Vec<(&'static str, Options)> {
    let base = || room.options();
    let root = room.sandbox.root();
    let file = |name: &str, content: &str| {
        let path = root.join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let raw_map = |name: &str, json: &str| BTreeMap::from([(name.to_owned(), RawJson::from(json))]);
    let mut table = vec![
        ("nothing", base()),
        ("debug file", Options { debug_file: Some(root.join("debug.log")), ..base() }),
        (
            "new with id",
            Options { start_from: StartFrom::NewWithId(id("0f0e0d0c-0b0a-4908-8706-050403020100")), ..base() },
        ),
        ("continue", Options { start_from: StartFrom::Continue, ..base() }),
        ("forget", Options { no_persistence: true, ..base() }),
        ("mirror", Options { mirror_transcript: true, ..base() }),
        ("checkpoints", Options { checkpoints: true, ..base() }),
        ("title", Options { title: Some("a title".into()), ..base() }),
        ("model", Options { model: Some("claude-sonnet-4-5".into()), ..base() }),
        ("fallback model", Options { fallback_model: Some("claude-haiku-4-5".into()), ..base() }),
        ("betas", Options { betas: vec!["context-1m-2025-08-07".into(), "another".into()], ..base() }),
        ("max turns", Options { max_turns: Some(3), ..base() }),
        ("budget", Options { max_budget_usd: Some(0.5), ..base() }),
        ("task budget", Options { task_budget: Some(5000), ..base() }),
        ("output schema", Options { output_schema: Some(RawJson::from(r#"{"type":"object"}"#)), ..base() }),
        ("empty prompt", Options { system_prompt: SystemPrompt::Empty, ..base() }),
        ("only prompt", Options { system_prompt: SystemPrompt::Custom("Be brief.".into()), ..base() }),
        ("more prompt", Options { system_prompt: SystemPrompt::Append("Be brief.".into()), ..base() }),
        ("agent", Options { agent: Some("general-purpose".into()), ..base() }),
        ("agents", Options { agents: raw_map("rev", r#"{"description":"d","prompt":"p"}"#), ..base() }),
        ("default tools", Options { tools: Some(ToolSet::Default), ..base() }),
        ("some tools", Options { tools: Some(ToolSet::Only(vec!["Bash".into(), "Read".into()])), ..base() }),
        ("no tools", Options { tools: Some(ToolSet::Only(vec![])), ..base() }),
        ("allowed", Options { allowed_tools: vec!["Read".into(), "Bash(ls:*)".into()], ..base() }),
        ("disallowed", Options { disallowed_tools: vec!["WebFetch".into()], ..base() }),
        ("allow bypass", Options { allow_bypass: true, ..base() }),
        ("never ask", Options { permission_prompts: PermissionPrompts::DenyAlsoElicitations, ..base() }),
        ("ask", room.asking_options()),
        ("ask a tool", Options { permission_prompts: PermissionPrompts::Tool("mcp__a__b".into()), ..base() }),
        ("directories", Options { additional_directories: vec!["/usr".into(), "/tmp".into()], ..base() }),
        (
            "inline servers",
            Options { mcp_servers: McpServers::Inline(raw_map("a", r#"{"command":"true"}"#)), ..base() },
        ),
        (
            "file of servers",
            Options { mcp_servers: McpServers::File(file("mcp.json", r#"{"mcpServers":{}}"#)), ..base() },
        ),
        ("strict servers", Options { strict_mcp_config: true, ..base() }),
        (
            "inline settings",
            Options { settings: Some(Settings::Inline(RawJson::from(r#"{"model":"opus"}"#))), ..base() },
        ),
        ("file of settings", Options { settings: Some(Settings::File(file("settings.json", "{}"))), ..base() }),
        (
            "managed settings",
            Options { managed_settings: Some(RawJson::from(r#"{"permissions":{"deny":["WebFetch"]}}"#)), ..base() },
        ),
        ("project root", Options { project_config_root: Some(room.sandbox.cwd().to_owned()), ..base() }),
        // These two read the configuration above the folder; at least no server from there is started.
        (
            "all sources",
            Options {
                setting_sources: Some(vec![SettingSource::User, SettingSource::Project, SettingSource::Local]),
                strict_mcp_config: true,
                ..base()
            },
        ),
        ("usual sources", Options { setting_sources: None, strict_mcp_config: true, ..base() }),
        ("hook events", Options { include_hook_events: true, ..base() }),
        ("replay", Options { echo_prompts: true, ..base() }),
        ("subagent text", Options { forward_subagent_text: true, ..base() }),
        ("suggestions", Options { prompt_suggestions: true, ..base() }),
    ];
    let plugin = |without_mcp| Plugin { directory: room.sandbox.cwd().to_owned(), without_mcp };
    table.push(("plugins", Options { plugins: vec![plugin(false), plugin(true)], ..base() }));
    for mode in PermissionMode::ALL {
        let allow_bypass = mode == PermissionMode::BypassPermissions;
        table.push((mode.as_str(), Options { permission_mode: Some(mode), allow_bypass, ..base() }));
    }
    for thinking in [Thinking::Adaptive, Thinking::Disabled, Thinking::Budget(2048)] {
        table.push(("thinking", Options { thinking: Some(thinking), ..base() }));
    }
    for display in [ThinkingDisplay::Summarized, ThinkingDisplay::Highlights, ThinkingDisplay::Omitted] {
        table.push(("thinking display", Options { thinking_display: Some(display), ..base() }));
    }
    for effort in [Effort::Low, Effort::Medium, Effort::High, Effort::ExtraHigh, Effort::Max] {
        table.push(("effort", Options { effort: Some(effort), ..base() }));
    }
    table
}

fn id(text: &str) -> SessionId {
    SessionId::parse(text).unwrap()
}

#[tokio::test]
async fn no_flag_is_refused() {
    let room = Room::with_replies([Reply::text("hello")]).await;
    let bait = room.bait();
    let table = table(&room);
    for batch in table.chunks(3) {
        let mut starts = tokio::task::JoinSet::new();
        for (name, options) in batch.iter().cloned() {
            starts.spawn(async move {
                match Client::connect(options).await {
                    Ok((client, _events)) => {
                        // A flag with a warning would have no effect.
                        let exit = client.close().await;
                        (name, exit.stderr)
                    }
                    Err(error) => panic!("{name}: {error}"),
                }
            });
        }
        while let Some(started) = starts.join_next().await {
            let (name, stderr) = started.unwrap();
            let expected = name == "betas" && stderr.contains("'another'");
            assert!(stderr.is_empty() || expected, "{name}: {stderr}");
        }
    }
    assert!(!bait.exists());
}

#[tokio::test]
async fn flags_that_name_a_stored_session_are_taken() {
    let room = Room::with_replies([Reply::text("one"), Reply::text("two")]).await;
    let session = id("0f0e0d0c-0b0a-4908-8706-050403020100");
    let mut talk = Talk::connect(Options { start_from: StartFrom::NewWithId(session.clone()), ..room.options() }).await;
    for prompt in ["first", "second"] {
        talk.client.send(prompt).await.unwrap();
        talk.until_idle().await;
    }
    talk.client.close().await;
    let (user, assistant) = stored_entries(&room, &session);
    for (name, session) in [
        ("resume", StartFrom::Resume(session.clone())),
        (
            "resume at",
            StartFrom::ResumeAt { conversation: session.clone(), entry: assistant[0].clone(), dropped_turn: None },
        ),
        (
            "resume at and drop",
            StartFrom::ResumeAt {
                conversation: session.clone(),
                entry: assistant[0].clone(),
                dropped_turn: Some(user[1].clone()),
            },
        ),
        ("fork", StartFrom::Fork { from: session.clone(), into: None }),
        (
            "fork into",
            StartFrom::Fork { from: session.clone(), into: Some(id("1f1e1d1c-1b1a-4918-8716-151413121110")) },
        ),
    ] {
        match Client::connect(Options { start_from: session, ..room.options() }).await {
            Ok((client, _events)) => drop(client.close().await),
            Err(error) => panic!("{name}: {error}"),
        }
    }
}

/// The ids of the prompts and of the answers in the stored conversation.
fn stored_entries(room: &Room, session: &SessionId) -> (Vec<EntryId>, Vec<EntryId>) {
    let projects = std::fs::read_dir(room.sandbox.home().join(".claude/projects")).unwrap();
    let folder = projects.map(|entry| entry.unwrap().path()).next().unwrap();
    let text = std::fs::read_to_string(folder.join(format!("{session}.jsonl"))).unwrap();
    let entries: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids = |kind: &str| {
        let of_kind = entries.iter().filter(|entry| entry["type"] == kind);
        of_kind.map(|entry| EntryId::parse(entry["uuid"].as_str().unwrap()).unwrap()).collect()
    };
    (ids("user"), ids("assistant"))
}

#[tokio::test]
async fn settings_and_servers_given_inline_have_their_effect() {
    let room = Room::with_replies([Reply::text("hello")]).await;
    let options = Options {
        settings: Some(Settings::Inline(RawJson::from(r#"{"permissions":{"deny":["WebFetch"]}}"#))),
        managed_settings: Some(RawJson::from(r#"{"permissions":{"deny":["WebSearch"]}}"#)),
        ..room.options()
    };
    let talk = Talk::connect(options).await;
    let settings = talk
        .client
        .request(watari_sdk::Request::Other { subtype: "get_settings".into(), fields: serde_json::Map::new() })
        .await
        .unwrap();
    for rule in ["WebFetch", "WebSearch"] {
        assert!(settings.as_str().contains(rule), "{settings:?}");
    }
    talk.client.close().await;
}
