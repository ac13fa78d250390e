//! Turns of the real CLI beyond a prompt and its answer.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;

use common::{Room, Talk, summarize, transcript};
use serde_json::json;
use std::time::Duration;
use watari_sdk::{
    Event, Options, Prompt, PromptContent, PromptId, RawJson, StartFrom, TaskUpdate, TurnCause, TurnEnding, TurnFailure,
};
use watari_testkit::claude::{oldest_claude, pinned_claude};
use watari_testkit::{Fault, FaultPoint, Reply, Script};

fn bash(command: &str) -> serde_json::Value {
    json!({"command": command, "description": "run"})
}

/// A command that signals its start, and waits for a signal to continue.
const WAITS: &str = "echo x > started; until [ -e go ]; do sleep 0.02; done; echo on";

fn emit(room: &Room, name: &str) {
    std::fs::write(room.sandbox.cwd().join(name), "").unwrap();
}

fn causes(events: &[Event]) -> Vec<TurnCause> {
    let finished = events.iter().filter_map(|event| match event {
        Event::TurnFinished { cause, .. } => Some(*cause),
        _ => None,
    });
    finished.collect()
}

fn allowing_bash(room: &Room) -> Options {
    Options { allowed_tools: vec!["Bash".into()], ..room.options() }
}

#[tokio::test]
async fn a_prompt_sent_while_a_tool_runs_has_a_turn_of_its_own() {
    let room = Room::with_replies([
        Reply::tool_use("toolu_1", "Bash", bash(WAITS)),
        Reply::text("first"),
        Reply::text("second"),
    ])
    .await;
    let started = room.signal("started");
    let mut talk = Talk::connect(allowing_bash(&room)).await;
    talk.client.send("one").await.unwrap();
    started.written().await;
    talk.client.send("a wombat").await.unwrap();
    emit(&room, "go");
    let events = talk.until_idle().await;
    assert_eq!(causes(&events), [TurnCause::Prompt(PromptId(1)), TurnCause::Prompt(PromptId(2))]);
    assert!(
        !room.stub.model_calls()[1].to_string().contains("wombat"),
        "the second prompt was folded into the first turn"
    );
    talk.client.close().await;
}

#[tokio::test]
async fn a_background_agent_brings_a_second_result_and_prompts_are_answered_meanwhile() {
    let agent = json!({"description": "look", "prompt": "look around", "subagent_type": "general-purpose", "run_in_background": true});
    let script = Script::new()
        .reply(Reply::tool_use("toolu_ag", "Agent", agent))
        .reply(Reply::text("started it"))
        .reply(Reply::text("meanwhile"))
        .reply(Reply::text("it is back"))
        .for_agents([Reply::text("the agent's finding").paced(Duration::from_millis(150))]);
    let room = Room::new(script).await;
    let mut talk = Talk::connect(room.options()).await;
    talk.client.send("look around").await.unwrap();
    let mut events = talk.until_turn_finished().await;
    talk.client.send("and now?").await.unwrap();
    events.extend(talk.until_idle().await);
    let results: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::TurnFinished { cause, outcome } => Some((*cause, outcome.result.clone().unwrap())),
            _ => None,
        })
        .collect();
    assert_eq!(
        results,
        [
            (TurnCause::Prompt(PromptId(1)), "started it".to_owned()),
            (TurnCause::Prompt(PromptId(2)), "meanwhile".to_owned()),
            (TurnCause::Cli, "it is back".to_owned()),
        ]
    );
    let update: Vec<TaskUpdate> = events
        .iter()
        .filter_map(|event| match event {
            Event::TaskChanged { update, .. } => Some(*update),
            _ => None,
        })
        .collect();
    assert_eq!((update.first(), update.last()), (Some(&TaskUpdate::Started), Some(&TaskUpdate::Ended)), "{update:?}");
    let below =
        events.iter().filter(|event| matches!(event, Event::BlockFinished { parent: Some(_), streamed: false, .. }));
    assert_eq!(below.count(), 1);
    talk.client.close().await;
}

#[tokio::test]
async fn a_prompt_sent_in_a_turn_that_the_cli_began_itself_has_its_outcome() {
    let room = Room::with_replies([
        Reply::tool_use(
            "toolu_1",
            "Bash",
            json!({"command": "until [ -e begin ]; do sleep 0.02; done", "description": "wait", "run_in_background": true}),
        ),
        Reply::text("waiting"),
        Reply::tool_use("toolu_2", "Bash", bash(WAITS)),
        Reply::text("both"),
    ])
    .await;
    let started = room.signal("started");
    let mut talk = Talk::connect(allowing_bash(&room)).await;
    talk.client.send("wait for it").await.unwrap();
    talk.until_idle().await;
    emit(&room, "begin");
    started.written().await;
    talk.client.send("and this").await.unwrap();
    emit(&room, "go");
    let events = talk.until_idle().await;
    let of_prompt = |event: &Event| matches!(event, Event::TurnFinished { cause: TurnCause::Prompt(PromptId(2)), .. });
    assert!(events.iter().any(of_prompt), "{}", transcript(&events));
    talk.client.close().await;
}

#[tokio::test]
async fn an_empty_block_does_not_take_the_next_ones_place() {
    let room =
        Room::with_replies([Reply::text("").and_tool_use("toolu_1", "Bash", bash("echo hi")), Reply::text("done")])
            .await;
    let mut talk = Talk::connect(allowing_bash(&room)).await;
    talk.client.send("go").await.unwrap();
    let events = talk.until_idle().await;
    let started = |wanted: u64| {
        events.iter().find_map(|event| match event {
            Event::BlockStarted { block, kind, .. } if block.0 == wanted => Some(kind.clone()),
            _ => None,
        })
    };
    for event in &events {
        if let Event::BlockFinished { block, content, .. } = event {
            assert_eq!(Some(&content.kind), started(block.0).as_ref(), "{}", transcript(&events));
        }
    }
    talk.client.close().await;
}

#[tokio::test]
async fn a_stream_that_is_cut_in_a_block_is_discarded_and_tried_again() {
    let room = Room::with_replies([Reply::cut(), Reply::text("whole")]).await;
    let room = Room { sandbox: room.sandbox.with_env("CLAUDE_CODE_MAX_RETRIES", "2"), ..room };
    let mut talk = Talk::connect(room.options()).await;
    talk.client.send("go").await.unwrap();
    let events = talk.until_idle().await;
    assert!(events.iter().any(|event| matches!(event, Event::BlockDiscarded { .. })), "{}", transcript(&events));
    let Some(Event::TurnFinished { outcome, .. }) =
        events.iter().find(|event| matches!(event, Event::TurnFinished { .. }))
    else {
        panic!()
    };
    assert_eq!((outcome.ending, outcome.result.as_deref()), (TurnEnding::Completed, Some("whole")));
    // Every message that was started was finished.
    let started = events.iter().filter(|event| matches!(event, Event::MessageStarted { .. })).count();
    let finished = events.iter().filter(|event| matches!(event, Event::MessageFinished { .. })).count();
    assert_eq!(started, finished);
    talk.client.close().await;
}

/// The older CLI does not report the aborted message, only that another one is complete.
#[tokio::test]
async fn a_discarded_stream_is_retracted_before_its_replacement() {
    for claude in [pinned_claude(), oldest_claude()] {
        for at in [FaultPoint::InBlock, FaultPoint::AfterBlocks] {
            let broken = Reply::text("first half").fault(Fault::Drop, at);
            let room = Room::with_replies([broken, Reply::text("whole answer")]).await;
            let mut talk = Talk::connect(Options { claude: Some(claude.clone()), ..room.options() }).await;
            talk.client.send("go").await.unwrap();
            let turn = transcript(&talk.until_turn_finished().await);
            let place = |text: &str| turn.find(text).unwrap_or_else(|| panic!("no {text:?} in\n{turn}"));
            let (given_up, answer) = (place("message msg_stub_1 finished"), place("whole answer"));
            assert!(given_up < answer, "{} {at:?}\n{turn}", claude.display());
            assert!(turn.rfind("discarded").is_none_or(|place| place < answer), "{} {at:?}\n{turn}", claude.display());
            talk.client.close().await;
        }
    }
}

#[tokio::test]
async fn an_answer_that_was_not_streamed_is_emitted_block_by_block() {
    let room = Room::with_replies([
        Reply::stream_error("api_error", "broken"),
        Reply::text("fallen back").and_tool_use("toolu_1", "Bash", bash("echo hi")),
        Reply::text("streamed again"),
    ])
    .await;
    let mut talk = Talk::connect(allowing_bash(&room)).await;
    talk.client.send("go").await.unwrap();
    let events = talk.until_idle().await;
    let unstreamed: Vec<String> = events
        .iter()
        .filter_map(|event| match event {
            Event::BlockFinished { streamed: false, content, .. } => Some(content.raw.as_str().to_owned()),
            _ => None,
        })
        .collect();
    assert_eq!(unstreamed.len(), 2, "{}", transcript(&events));
    assert!(unstreamed[0].contains("fallen back") && unstreamed[1].contains("toolu_1"));
    talk.client.close().await;
}

#[tokio::test]
async fn api_errors_are_seen_as_retries_and_then_as_what_they_are() {
    // 400 is retried once with fewer features; the others are retried as often as the CLI is configured to.
    for (status, retried) in [(400, false), (401, true), (429, true), (500, true), (529, true)] {
        let room = Room::with_replies([Reply::status(status, "scripted")]).await;
        let room = Room { sandbox: room.sandbox.with_env("CLAUDE_CODE_MAX_RETRIES", "1"), ..room };
        let mut talk = Talk::connect(room.options()).await;
        talk.client.send("go").await.unwrap();
        let events = talk.until_idle().await;
        let retries: Vec<_> = events
            .iter()
            .filter_map(|event| match event {
                Event::ApiRetryScheduled { attempt, status, .. } => Some((*attempt, *status)),
                _ => None,
            })
            .collect();
        let expected = if retried { vec![(1, Some(u64::from(status)))] } else { vec![] };
        assert_eq!(retries, expected, "{status}: {}", transcript(&events));
        assert_eq!(summarize(&events).endings, [TurnEnding::Failed(TurnFailure::Api)], "{status}");
        talk.client.close().await;
    }
}

#[tokio::test]
async fn an_api_that_stalls_is_seen_as_retries_and_then_as_a_failure() {
    let room = Room::with_replies([Reply::text("too late").delay(Duration::from_secs(600))]).await;
    // By default the CLI waits six minutes.
    let sandbox = room.sandbox.with_env("CLAUDE_CODE_MAX_RETRIES", "1").with_env("API_TIMEOUT_MS", "1000");
    let room = Room { sandbox, ..room };
    let mut talk = Talk::connect(room.options()).await;
    talk.client.send("go").await.unwrap();
    let events = talk.until_idle().await;
    assert!(events.iter().any(|event| matches!(event, Event::ApiRetryScheduled { .. })), "{}", transcript(&events));
    assert_eq!(summarize(&events).endings, [TurnEnding::Failed(TurnFailure::Api)], "{}", transcript(&events));
    talk.client.close().await;
}

#[tokio::test]
#[ignore = "takes five minutes, which is how long the CLI waits; ./check --full runs it"]
async fn a_stream_that_goes_silent_is_given_up_and_asked_for_again() {
    let room = Room::with_replies([Reply::stall(), Reply::text("whole")]).await;
    let mut talk = Talk::connect(room.options()).await;
    talk.client.send("go").await.unwrap();
    let events = talk.until_idle().await;
    let seen = transcript(&events);
    assert!(events.iter().any(|event| matches!(event, Event::BlockDiscarded { .. })), "{seen}");
    assert_eq!(summarize(&events).endings, [TurnEnding::Completed], "{seen}");
    talk.client.close().await;
}

#[tokio::test]
async fn a_stalled_stream_can_be_interrupted() {
    let room = Room::with_replies([Reply::stall(), Reply::text("again")]).await;
    let mut talk = Talk::connect(room.options()).await;
    talk.client.send("go").await.unwrap();
    talk.until(|event| matches!(event, Event::BlockDelta { .. })).await;
    talk.client.interrupt().await.unwrap();
    assert_eq!(summarize(&talk.until_idle().await).endings, [TurnEnding::Interrupted]);
    talk.client.close().await;
}

#[tokio::test]
async fn limits_of_steps_and_cost_end_a_turn() {
    let room = Room::with_replies([Reply::tool_use("toolu_1", "Bash", bash("echo hi"))]).await;
    let mut talk = Talk::connect(Options { max_turns: Some(1), ..allowing_bash(&room) }).await;
    talk.client.send("go").await.unwrap();
    assert_eq!(summarize(&talk.until_idle().await).endings, [TurnEnding::Failed(TurnFailure::MaxTurns)]);
    talk.client.close().await;

    let room =
        Room::with_replies([Reply::tool_use("toolu_1", "Bash", bash("echo hi")).usage(1_000_000, 1_000_000)]).await;
    let mut talk = Talk::connect(Options { max_budget_usd: Some(0.01), ..allowing_bash(&room) }).await;
    talk.client.send("go").await.unwrap();
    let events = talk.until_idle().await;
    assert_eq!(summarize(&events).endings, [TurnEnding::Failed(TurnFailure::MaxBudget)]);
    let Some(Event::TurnFinished { outcome, .. }) =
        events.iter().find(|event| matches!(event, Event::TurnFinished { .. }))
    else {
        panic!()
    };
    assert!(outcome.total_cost_usd > 0.01 && outcome.cost_usd == Some(outcome.total_cost_usd));
    talk.client.close().await;
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Weather {
    city: String,
    degrees: i32,
}

async fn asked_for_weather(replies: Vec<Reply>) -> (Vec<TurnEnding>, Option<Weather>) {
    let room = Room::with_replies(replies).await;
    let schema = r#"{"type":"object","properties":{"city":{"type":"string"},"degrees":{"type":"integer"}},"required":["city","degrees"]}"#;
    let mut talk = Talk::connect(Options { output_schema: Some(RawJson::from(schema)), ..room.options() }).await;
    talk.client.send("how is the weather?").await.unwrap();
    let events = talk.until_idle().await;
    talk.client.close().await;
    let outcome = events.iter().find_map(|event| match event {
        Event::TurnFinished { outcome, .. } => Some(outcome),
        _ => None,
    });
    (summarize(&events).endings, outcome.unwrap().structured::<Weather>().map(Result::unwrap))
}

#[tokio::test]
async fn an_answer_is_read_into_a_rust_type() {
    let right = Reply::tool_use("toolu_1", "StructuredOutput", json!({"city": "Kyoto", "degrees": 21}));
    let (endings, weather) = asked_for_weather(vec![right]).await;
    assert_eq!(endings, [TurnEnding::Completed]);
    assert_eq!(weather, Some(Weather { city: "Kyoto".into(), degrees: 21 }));
}

#[tokio::test]
async fn an_answer_that_never_fits_is_a_failure_and_one_that_never_comes_is_none() {
    let wrong = Reply::tool_use("toolu_1", "StructuredOutput", json!({"city": 5}));
    assert_eq!(asked_for_weather(vec![wrong]).await, (vec![TurnEnding::Failed(TurnFailure::StructuredOutput)], None));
    assert_eq!(asked_for_weather(vec![Reply::text("fine")]).await, (vec![TurnEnding::Completed], None));
}

#[tokio::test]
async fn images_and_documents_reach_the_model() {
    let room = Room::with_replies([Reply::text("I see")]).await;
    let mut talk = Talk::connect(room.options()).await;
    let dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    let blocks = json!([
        {"type": "text", "text": "look at these"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": dot}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a document of ours"}},
    ]);
    talk.client.send(Prompt { content: PromptContent::Blocks(RawJson::from(blocks)) }).await.unwrap();
    assert_eq!(summarize(&talk.until_idle().await).endings, [TurnEnding::Completed]);
    let call = room.stub.model_calls()[0].to_string();
    for part in ["look at these", dot, "a document of ours"] {
        assert!(call.contains(part), "the model was not given {part}");
    }
    talk.client.close().await;
}

#[tokio::test]
async fn clearing_gives_the_session_another_id_and_compacting_is_reported() {
    let room = Room::with_replies([Reply::text("one"), Reply::text("two"), Reply::text("a summary")]).await;
    let mut talk = Talk::connect(room.options()).await;
    let mut sessions = Vec::new();
    let mut seen = String::new();
    for prompt in ["an aardvark", "/clear", "a wombat", "/compact"] {
        talk.client.send(prompt).await.unwrap();
        let events = talk.until_idle().await;
        sessions.extend(events.iter().filter_map(|event| match event {
            Event::SessionOpened { session } => Some(session.session_id.clone()),
            _ => None,
        }));
        seen.push_str(&transcript(&events));
    }
    sessions.dedup();
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    assert_ne!(sessions[0], sessions[1]);
    assert!(seen.contains("conversation cleared") && seen.contains("compacted"), "{seen}");
    assert!(!room.stub.model_calls()[1].to_string().contains("aardvark"), "what was cleared was sent again");
    talk.client.close().await;
}

#[tokio::test]
async fn a_conversation_goes_on_from_an_earlier_point() {
    let room = Room::with_replies([Reply::text("plum"), Reply::text("kumquat"), Reply::text("fig")]).await;
    let mut talk = Talk::connect(room.options()).await;
    let mut entries = Vec::new();
    let mut session = None;
    for prompt in ["an aardvark", "a wombat"] {
        talk.client.send(prompt).await.unwrap();
        for event in talk.until_idle().await {
            match event {
                Event::PromptAccepted { entry, .. } => entries.push(entry),
                Event::SessionOpened { session: opened } => session = Some(opened.session_id),
                _ => {}
            }
        }
    }
    talk.client.close().await;
    // A prompt has the same id in the stored conversation.
    let at = StartFrom::ResumeAt { conversation: session.unwrap(), entry: entries[0].clone(), dropped_turn: None };
    let mut talk = Talk::connect(Options { start_from: at, ..room.options() }).await;
    talk.client.send("a capybara").await.unwrap();
    talk.until_idle().await;
    let call = room.stub.model_calls().pop().unwrap().to_string();
    assert!(call.contains("aardvark") && call.contains("capybara"));
    assert!(!call.contains("wombat") && !call.contains("kumquat"), "what came later was sent again");
    talk.client.close().await;
}

#[tokio::test]
async fn json_over_several_lines_is_taken_by_the_cli() {
    let room = Room::with_replies([Reply::text("ok")]).await;
    let schema = RawJson::from("{\n  \"type\": \"object\"\n}");
    let agents = [("rev".to_owned(), RawJson::from("{\n\"description\": \"d\",\n\"prompt\": \"p\"\n}"))];
    let options = Options { output_schema: Some(schema), agents: agents.into(), ..room.options() };
    let mut talk = Talk::connect(options).await;
    let blocks = RawJson::from("[\n{\"type\": \"text\",\n\"text\": \"hello\"}\n]");
    talk.client.send(Prompt { content: PromptContent::Blocks(blocks) }).await.unwrap();
    assert_eq!(summarize(&talk.until_idle().await).endings, [TurnEnding::Completed]);
    talk.client.close().await;
}
