//! Records conversations with the real CLI. From the recording, the machine emits the same events as the live session,
//! and none of them is unknown.
//!
//! Every run makes new recordings, in `captures` of the target folder: they contain text of the CLI. Their snapshots
//! contain none; `UPDATE_CAPTURES=1` writes them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::wildcard_enum_match_arm,
    reason = "a test picks what it looks for, and fails when it meets something else"
)]

mod common;
mod replay;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use common::{Room, Talk};
use replay::line::{compared, difference, folded, line, lines, unlisted};
use replay::{Order, Recording};
use serde_json::json;
use watari_sdk::{
    Answer, AskId, Event, Hook, HookOutput, Options, PermissionPrompts, RawJson, SessionId, StartFrom, TaskUpdate,
};
use watari_testkit::claude::pinned_claude;
use watari_testkit::recorder::{CLAUDE_VARIABLE, FILE_VARIABLE};
use watari_testkit::{Reply, Script};

/// A recorded conversation and its live events.
struct Conversation {
    name: &'static str,
    talk: Talk,
    emitted: Vec<Event>,
    answer_timeout: Option<Duration>,
}

impl Conversation {
    async fn begin(name: &'static str, mut options: Options) -> Conversation {
        let file = recording(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        // There is none in the first run.
        drop(std::fs::remove_file(&file));
        let variables = [(CLAUDE_VARIABLE, pinned_claude()), (FILE_VARIABLE, file)];
        let text = |path: PathBuf| Some(path.into_os_string().into_string().unwrap());
        options.environment.set.extend(variables.map(|(name, path)| (name.to_owned(), text(path))));
        options.claude = Some(recorder());
        let answer_timeout = match options.permission_prompts {
            PermissionPrompts::Ask { answer_timeout } => answer_timeout,
            _ => None,
        };
        Conversation { name, talk: Talk::connect(options).await, emitted: Vec::new(), answer_timeout }
    }

    async fn say(&mut self, prompt: &str) {
        self.talk.client.send(prompt).await.unwrap();
    }

    async fn until(&mut self, wanted: impl Fn(&Event) -> bool) {
        self.emitted.extend(self.talk.until(wanted).await);
    }

    async fn until_idle(&mut self) {
        self.until(|event| matches!(event, Event::BecameIdle)).await;
    }

    /// Waits for the next ask and answers it.
    async fn answer(&mut self, ask: u64, answer: Answer) {
        self.until(|event| matches!(event, Event::AskOpened { .. })).await;
        self.talk.client.answer(AskId(ask), answer).await.unwrap();
    }

    /// Closes the session, replays the recording, and compares.
    async fn end(self) {
        let Conversation { name, talk: Talk { client, mut events }, mut emitted, answer_timeout } = self;
        client.close().await;
        while let Some(event) = events.next().await {
            emitted.push(event);
        }
        let played = Recording::read(&recording(name)).play(&Order::AsLive { live: &emitted, answer_timeout });
        assert_eq!(played.faults, Vec::<String>::new(), "{name}");
        let (live, again) = (lines(&emitted, &[]), lines(&played.events, &[]));
        assert!(
            live == again,
            "{name}: the machine emits other events from the recording:\n{}",
            difference(&live, &again)
        );
        assert_eq!(unlisted(&emitted), [], "{name}: unknown and not in the list");
        let wrong = compared(&format!("fresh-{name}"), &strands(&played.events));
        assert!(wrong.is_none(), "{}", wrong.unwrap());
    }
}

/// The events of each kind, in order. The CLI does several things at the same time, so the order of different kinds
/// differs from run to run.
fn strands(events: &[Event]) -> Vec<String> {
    const OF_SESSION: &[&str] = &["ready", "session", "prompt", "turn", "became", "ended"];
    /// Events whose number differs from run to run.
    const OFTEN: &[&str] = &["status", "tasks", "transcript"];
    let mut strands: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in events.iter().map(line) {
        let word = line.split([' ', ':']).next().unwrap_or_default();
        let kind = if OF_SESSION.contains(&word) { "" } else { word };
        let strand = strands.entry(kind.to_owned()).or_default();
        if !OFTEN.contains(&word) || !strand.contains(&line) {
            strand.push(line);
        }
    }
    strands.into_values().flat_map(|strand| folded(strand.into_iter())).collect()
}

/// The path of a recording; the tests are in `<target>/debug/deps`.
fn recording(name: &str) -> PathBuf {
    built().parent().unwrap().join("captures").join(format!("{name}.jsonl"))
}

/// The recorder, which cargo builds with the tests of the testkit.
fn recorder() -> PathBuf {
    let path = built().join("record-claude");
    assert!(path.is_file(), "{} is not there: run the tests of the whole workspace", path.display());
    path
}

fn built() -> PathBuf {
    std::env::current_exe().unwrap().parent().and_then(Path::parent).unwrap().to_owned()
}

fn bash(command: &str) -> serde_json::Value {
    json!({"command": command, "description": "run"})
}

/// A sandbox in which the model wants to create a file.
async fn room() -> Room {
    Room::with_replies([Reply::tool_use("toolu_1", "Bash", bash("touch made.txt")), Reply::text("so be it")]).await
}

#[tokio::test]
async fn a_greeting() {
    let room = Room::with_replies([Reply::thinking("hm").and_text("Hello there!")]).await;
    let mut talk = Conversation::begin("greeting", room.options()).await;
    talk.say("hello").await;
    talk.until_idle().await;
    talk.end().await;
}

#[tokio::test]
async fn a_permission_that_is_given() {
    let room = room().await;
    let mut talk = Conversation::begin("allowed", room.asking_options()).await;
    talk.say("make a file").await;
    talk.answer(1, Answer::allow()).await;
    talk.until_idle().await;
    talk.end().await;
}

#[tokio::test]
async fn a_permission_that_is_refused() {
    let room = room().await;
    let mut talk = Conversation::begin("denied", room.asking_options()).await;
    talk.say("make a file").await;
    talk.answer(1, Answer::deny("not on a Sunday")).await;
    talk.until_idle().await;
    talk.end().await;
}

#[tokio::test]
async fn a_permission_that_expires() {
    let room = room().await;
    let permission_prompts = PermissionPrompts::Ask { answer_timeout: Some(Duration::from_millis(300)) };
    let mut talk = Conversation::begin("expired", Options { permission_prompts, ..room.options() }).await;
    talk.say("make a file").await;
    talk.until_idle().await;
    talk.end().await;
}

#[tokio::test]
async fn hooks_before_a_prompt_and_a_tool() {
    let room = room().await;
    let hooks = vec![Hook::on("UserPromptSubmit"), Hook::on("PreToolUse")];
    let mut talk = Conversation::begin("hooks", Options { hooks, ..room.asking_options() }).await;
    talk.say("make a file").await;
    talk.answer(1, Answer::Hook(HookOutput::Context { text: "the moon is full".into() })).await;
    talk.answer(2, Answer::Hook(HookOutput::Allow { input: None })).await;
    talk.until_idle().await;
    talk.end().await;
}

#[tokio::test]
async fn two_prompts_at_once() {
    let room = Room::with_replies([Reply::text("one"), Reply::text("two")]).await;
    let mut talk = Conversation::begin("queued", room.options()).await;
    talk.say("first").await;
    talk.say("second").await;
    talk.until_idle().await;
    talk.end().await;
}

#[tokio::test]
async fn an_interrupt_while_the_model_writes() {
    let room = Room::with_replies([Reply::stall(), Reply::text("again")]).await;
    let mut talk = Conversation::begin("interrupted", room.options()).await;
    talk.say("go").await;
    talk.until(|event| matches!(event, Event::BlockDelta { .. })).await;
    talk.talk.client.interrupt().await.unwrap();
    talk.until_idle().await;
    talk.say("again").await;
    talk.until_idle().await;
    talk.end().await;
}

#[tokio::test]
async fn a_tool_in_the_background() {
    let waits = "until [ -e go ]; do sleep 0.02; done; echo on";
    let waits = json!({"command": waits, "description": "wait", "run_in_background": true});
    let replies = [Reply::tool_use("toolu_1", "Bash", waits), Reply::text("waiting"), Reply::text("it is over")];
    let room = Room::with_replies(replies).await;
    let options = Options { allowed_tools: vec!["Bash".into()], ..room.options() };
    let mut talk = Conversation::begin("background", options).await;
    talk.say("wait for it").await;
    talk.until_idle().await;
    std::fs::write(room.sandbox.cwd().join("go"), "").unwrap();
    talk.until(|event| matches!(event, Event::TaskChanged { update: TaskUpdate::Ended, .. })).await;
    talk.until_idle().await;
    talk.end().await;
}

#[tokio::test]
async fn a_subagent() {
    let agent = json!({"description": "look", "prompt": "look around", "subagent_type": "general-purpose", "run_in_background": false});
    let script = Script::new()
        .reply(Reply::tool_use("toolu_ag", "Agent", agent))
        .reply(Reply::text("it looks good"))
        .for_agents([Reply::tool_use("toolu_sub", "Bash", bash("echo hi")), Reply::text("nothing there")]);
    let room = Room::new(script).await;
    let options = Options { allowed_tools: vec!["Bash".into()], ..room.options() };
    let mut talk = Conversation::begin("subagent", options).await;
    talk.say("look around").await;
    talk.until_idle().await;
    talk.end().await;
}

#[tokio::test]
async fn a_question_to_the_user() {
    let question = json!({"questions": [{"question": "Which colour?", "header": "Colour", "multiSelect": false, "options": [
        {"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"},
    ]}]});
    let room = Room::with_replies([Reply::tool_use("toolu_1", "AskUserQuestion", question), Reply::text("blue")]).await;
    let mut talk = Conversation::begin("question", room.asking_options()).await;
    talk.say("ask me").await;
    let choice = BTreeMap::from([("Which colour?".to_owned(), "Blue".to_owned())]);
    talk.answer(1, Answer::Choose(choice)).await;
    talk.until_idle().await;
    talk.end().await;
}

#[tokio::test]
async fn clearing_and_compacting() {
    let room = Room::with_replies([Reply::text("one"), Reply::text("two"), Reply::text("a summary")]).await;
    let mut talk = Conversation::begin("cleared", room.options()).await;
    for prompt in ["an aardvark", "/clear", "a wombat", "/compact"] {
        talk.say(prompt).await;
        talk.until_idle().await;
    }
    talk.end().await;
}

#[tokio::test]
async fn an_error_of_the_api() {
    let room = Room::with_replies([Reply::status(529, "scripted")]).await;
    let room = Room { sandbox: room.sandbox.with_env("CLAUDE_CODE_MAX_RETRIES", "1"), ..room };
    let mut talk = Conversation::begin("api-error", room.options()).await;
    talk.say("go").await;
    talk.until_idle().await;
    talk.end().await;
}

#[tokio::test]
async fn an_answer_that_fits_a_schema() {
    let room = Room::with_replies([Reply::tool_use("toolu_1", "StructuredOutput", json!({"city": "Kyoto"}))]).await;
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]});
    let options = Options { output_schema: Some(RawJson::from(schema)), ..room.options() };
    let mut talk = Conversation::begin("structured", options).await;
    talk.say("which city?").await;
    talk.until_idle().await;
    talk.end().await;
}

#[tokio::test]
async fn a_conversation_that_goes_on() {
    let room = Room::with_replies([Reply::text("one"), Reply::text("two")]).await;
    let id = SessionId::parse("0f0e0d0c-0b0a-4908-8706-050403020100").unwrap();
    let sessions = [("begun", StartFrom::NewWithId(id.clone())), ("resumed", StartFrom::Resume(id))];
    for (name, session) in sessions {
        let mut talk =
            Conversation::begin(name, Options { start_from: session, mirror_transcript: true, ..room.options() }).await;
        talk.say("go on").await;
        talk.until_idle().await;
        talk.end().await;
    }
}
