//! Asks of the real CLI: several at the same time, questions, plans, forms, and their withdrawal.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use std::collections::BTreeMap;

use common::{ASKING_SERVER, Room, Talk, summarize};
use serde_json::json;
use watari_sdk::{
    Answer, AskId, AskKind, AskResolution, Event, Hook, HookOutput, McpServers, Options, PermissionPrompts, RawJson,
    Request, TurnEnding,
};
use watari_testkit::Reply;

fn touch(name: &str) -> serde_json::Value {
    json!({"command": format!("touch {name} && echo {name}"), "description": "make a file"})
}

#[tokio::test]
async fn two_questions_open_at_once_are_answered_in_reverse() {
    let outside = tempfile::tempdir().unwrap();
    for name in ["a.txt", "b.txt"] {
        std::fs::write(outside.path().join(name), format!("this is {name}")).unwrap();
    }
    let read = |name: &str| json!({"file_path": outside.path().join(name)});
    let reads = Reply::tool_use("toolu_a", "Read", read("a.txt")).and_tool_use("toolu_b", "Read", read("b.txt"));
    let room = Room::with_replies([reads, Reply::text("read")]).await;
    let mut talk = Talk::connect(room.asking_options()).await;
    talk.client.send("read both").await.unwrap();
    talk.until_asked().await;
    talk.until_asked().await;
    talk.client.answer(AskId(2), Answer::deny("not b")).await.unwrap();
    talk.client.answer(AskId(1), Answer::allow()).await.unwrap();
    let events = talk.until_idle().await;
    let returned: BTreeMap<String, bool> = events
        .iter()
        .filter_map(|event| match event {
            Event::ToolReturned { tool_use, is_error, .. } => Some((tool_use.0.clone(), *is_error)),
            _ => None,
        })
        .collect();
    assert_eq!(returned, BTreeMap::from([("toolu_a".to_owned(), false), ("toolu_b".to_owned(), true)]));
    talk.client.close().await;
}

#[tokio::test]
async fn a_no_that_interrupts_ends_the_turn() {
    let room = Room::with_replies([Reply::tool_use("toolu_1", "Bash", touch("made.txt")), Reply::text("fresh")]).await;
    let mut talk = Talk::connect(room.asking_options()).await;
    talk.client.send("go").await.unwrap();
    talk.until_asked().await;
    talk.client.answer(AskId(1), Answer::Deny { message: "stop".into(), interrupt: true }).await.unwrap();
    assert_eq!(summarize(&talk.until_idle().await).endings, [TurnEnding::Interrupted]);
    assert_eq!(room.stub.model_calls().len(), 1);
    talk.client.send("again").await.unwrap();
    assert_eq!(summarize(&talk.until_idle().await).endings, [TurnEnding::Completed]);
    talk.client.close().await;
}

#[tokio::test]
async fn an_interrupt_withdraws_what_is_asked() {
    let room = Room::with_replies([Reply::tool_use("toolu_1", "Bash", touch("made.txt"))]).await;
    let mut talk = Talk::connect(room.asking_options()).await;
    talk.client.send("go").await.unwrap();
    talk.until_asked().await;
    talk.client.interrupt().await.unwrap();
    let summary = summarize(&talk.until_idle().await);
    assert_eq!(summary.asks_closed, [(AskId(1), AskResolution::Withdrawn)]);
    assert_eq!(summary.endings, [TurnEnding::Interrupted]);
    assert!(talk.client.answer(AskId(1), Answer::allow()).await.is_err());
    assert!(!room.sandbox.cwd().join("made.txt").exists());
    talk.client.close().await;
}

#[tokio::test]
async fn suggestions_that_are_accepted_are_not_asked_again() {
    let room = Room::with_replies([
        Reply::tool_use("toolu_1", "Bash", touch("a.txt")),
        Reply::tool_use("toolu_2", "Bash", touch("a.txt")),
        Reply::text("done"),
    ])
    .await;
    let mut talk = Talk::connect(room.asking_options()).await;
    talk.client.send("go").await.unwrap();
    let asked = talk.until_asked().await;
    let Some(Event::AskOpened { kind: AskKind::Permission(ask), .. }) = asked.last() else { panic!("{asked:#?}") };
    assert!(ask.suggestions.is_some());
    let permissions =
        json!([{"type": "addRules", "behavior": "allow", "destination": "session", "rules": [{"toolName": "Bash"}]}]);
    let answer = Answer::Allow { input: None, permissions: Some(RawJson::from(permissions)) };
    talk.client.answer(AskId(1), answer).await.unwrap();
    let summary = summarize(&talk.until_idle().await);
    assert_eq!((summary.asks_opened, summary.endings), (0, vec![TurnEnding::Completed]));
    talk.client.close().await;
}

#[tokio::test]
async fn a_question_to_the_user_is_answered_by_a_choice() {
    let question = json!({"questions": [{"question": "Which colour?", "header": "Colour", "multiSelect": false, "options": [
        {"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"},
    ]}]});
    let room =
        Room::with_replies([Reply::tool_use("toolu_1", "AskUserQuestion", question), Reply::text("blue it is")]).await;
    let mut talk = Talk::connect(room.asking_options()).await;
    talk.client.send("ask me").await.unwrap();
    let asked = talk.until_asked().await;
    assert!(matches!(asked.last(), Some(Event::AskOpened { kind: AskKind::Question(ask), .. }) if ask.needs_person));
    let choice = BTreeMap::from([("Which colour?".to_owned(), "Blue".to_owned())]);
    talk.client.answer(AskId(1), Answer::Choose(choice)).await.unwrap();
    assert_eq!(summarize(&talk.until_idle().await).endings, [TurnEnding::Completed]);
    assert!(room.stub.model_calls()[1].to_string().contains("Blue"));
    talk.client.close().await;
}

#[tokio::test]
async fn a_plan_is_a_plan() {
    let room = Room::with_replies([
        Reply::tool_use("toolu_1", "ExitPlanMode", json!({"plan": "1. do it"})),
        Reply::text("begun"),
    ])
    .await;
    let options = Options { permission_mode: Some(watari_sdk::PermissionMode::Plan), ..room.asking_options() };
    let mut talk = Talk::connect(options).await;
    talk.client.send("plan").await.unwrap();
    let asked = talk.until_asked().await;
    assert!(matches!(asked.last(), Some(Event::AskOpened { kind: AskKind::Plan(_), .. })), "{asked:#?}");
    talk.client.answer(AskId(1), Answer::allow()).await.unwrap();
    assert_eq!(summarize(&talk.until_idle().await).endings, [TurnEnding::Completed]);
    talk.client.close().await;
}

/// A hook and the permission callback answer the same request: the first answer counts.
async fn hook_against_callback(hook_first: bool) -> (common::Summary, bool) {
    let room = Room::with_replies([Reply::tool_use("toolu_1", "Bash", touch("made.txt")), Reply::text("done")]).await;
    let options = Options { hooks: vec![Hook::on("PermissionRequest")], ..room.asking_options() };
    let mut talk = Talk::connect(options).await;
    talk.client.send("go").await.unwrap();
    let mut events = talk.until_asked().await;
    events.extend(talk.until_asked().await);
    let asks = common::open_asks(&events);
    let (hook, permission) = (asks["hook"], asks["permission"]);
    let deny = Answer::Hook(HookOutput::Deny { reason: "the hook says no".into() });
    if hook_first {
        talk.client.answer(hook, deny).await.unwrap();
    } else {
        talk.client.answer(permission, Answer::allow()).await.unwrap();
    }
    events.extend(talk.until_idle().await);
    talk.client.close().await;
    (summarize(&events), room.sandbox.cwd().join("made.txt").exists())
}

#[tokio::test]
async fn a_hook_that_is_faster_than_the_callback_decides() {
    let (summary, made) = hook_against_callback(true).await;
    assert!(!made);
    assert!(summary.asks_closed.iter().any(|(_, resolution)| *resolution == AskResolution::Withdrawn), "{summary:?}");
}

#[tokio::test]
async fn a_callback_that_is_faster_than_the_hook_decides() {
    let (_, made) = hook_against_callback(false).await;
    assert!(made);
}

/// Starts a session that decides about permissions like this, with a prompt whose tool shows a form.
async fn greeting(permission_prompts: PermissionPrompts) -> (Room, Talk) {
    let room = Room::with_replies([Reply::tool_use("toolu_1", "mcp__el__greet", json!({})), Reply::text("done")]).await;
    let server = room.sandbox.root().join("server.sh");
    std::fs::write(&server, ASKING_SERVER).unwrap();
    let config = json!({"command": "/bin/sh", "args": [server]});
    let options = Options {
        mcp_servers: McpServers::Inline(BTreeMap::from([("el".to_owned(), RawJson::from(config))])),
        allowed_tools: vec!["mcp__el__greet".into()],
        permission_prompts,
        ..room.options()
    };
    let talk = Talk::connect(options).await;
    talk.client.send("greet").await.unwrap();
    (room, talk)
}

/// Answers the form, and returns the tool's result.
async fn greeted(answer: Answer, permission_prompts: PermissionPrompts) -> String {
    let (_room, mut talk) = greeting(permission_prompts).await;
    let asked = talk.until_asked().await;
    let Some(Event::AskOpened { ask, kind: AskKind::Elicitation(form) }) = asked.last() else { panic!("{asked:#?}") };
    assert_eq!((form.server.as_str(), form.message.as_str()), ("el", "Your name?"));
    assert!(form.schema.is_some());
    talk.client.answer(*ask, answer).await.unwrap();
    let returned = talk.until_idle().await.into_iter().find_map(|event| match event {
        Event::ToolReturned { content, .. } => Some(content.as_str().to_owned()),
        _ => None,
    });
    talk.client.close().await;
    returned.unwrap()
}

#[tokio::test]
async fn a_form_is_submitted_declined_or_dismissed() {
    let asking = || PermissionPrompts::Ask { answer_timeout: None };
    let submitted = greeted(Answer::Accept(RawJson::from(json!({"name": "Ada"}))), asking()).await;
    assert!(submitted.contains("accept Ada"), "{submitted}");
    let declined = greeted(Answer::Decline, asking()).await;
    assert!(declined.contains("decline"), "{declined}");
    let dismissed = greeted(Answer::Cancel, asking()).await;
    assert!(dismissed.contains("cancel"), "{dismissed}");
}

#[tokio::test]
async fn a_form_is_asked_even_in_a_session_that_is_not_asked_for_permissions() {
    let declined = greeted(Answer::Decline, PermissionPrompts::Deny).await;
    assert!(declined.contains("decline"), "{declined}");
}

#[tokio::test]
async fn a_form_is_not_asked_in_a_session_that_denies_forms_too() {
    let (_room, mut talk) = greeting(PermissionPrompts::DenyAlsoElicitations).await;
    let events = talk.until_idle().await;
    assert!(!events.iter().any(|event| matches!(event, Event::AskOpened { .. })), "{events:#?}");
    assert!(events.iter().any(|event| matches!(event, Event::ToolReturned { .. })), "{events:#?}");
    talk.client.close().await;
}

/// A request can run a tool too. The CLI runs it immediately, unless the request makes it ask first.
#[tokio::test]
async fn a_tool_that_a_request_runs_is_asked_for_and_one_that_would_not_be_is_refused() {
    let room = Room::with_replies([Reply::text("hello")]).await;
    let server = room.sandbox.root().join("server.sh");
    std::fs::write(&server, ASKING_SERVER).unwrap();
    let config = json!({"command": "/bin/sh", "args": [server]});
    let mcp_servers = McpServers::Inline(BTreeMap::from([("el".to_owned(), RawJson::from(config))]));
    let mut talk = Talk::connect(Options { mcp_servers, ..room.asking_options() }).await;
    // The first turn waits for the server.
    talk.client.send("hi").await.unwrap();
    talk.until_idle().await;
    let call = |fields: serde_json::Value| {
        let serde_json::Value::Object(mut fields) = fields else { panic!("fields are an object") };
        fields.insert("tool".to_owned(), json!("mcp__el__greet"));
        fields.insert("arguments".to_owned(), json!({"env": {"command": "on record"}}));
        Request::Other { subtype: "mcp_call".to_owned(), fields }
    };
    for fields in [json!({}), json!({"check_permissions": false})] {
        let refused = talk.client.request(call(fields)).await.unwrap_err();
        assert!(refused.to_string().contains("mcp_call runs without asking"), "{refused}");
    }
    let Talk { client, events } = &mut talk;
    let answered = client.request(call(json!({"check_permissions": true})));
    let asked = async {
        let mut sent = None;
        loop {
            match events.next().await.unwrap() {
                Event::RequestSent { body, .. } => sent = Some(body),
                Event::AskOpened { ask, kind: AskKind::Permission(asked) } => {
                    assert_eq!(asked.tool, "mcp__el__greet");
                    client.answer(ask, Answer::deny("no")).await.unwrap();
                    return sent.unwrap();
                }
                _ => {}
            }
        }
    };
    let (answered, sent) = tokio::join!(answered, asked);
    assert!(sent.as_str().contains(r#"{"env":{"command":"on record"}}"#), "{sent:?}");
    assert!(!format!("{answered:?}").contains("accept"), "{answered:?}");
    talk.client.close().await;
}
