//! Random commands: every command, with random arguments.

use watari_protocol::{
    Answer, AskId, Command, EntryId, HookOutput, PermissionMode, Prompt, PromptContent, RawJson, Request,
};

use super::dice::{Dice, TEXTS};

/// JSON that a client may send, including values that no Rust type can hold, and values of several lines.
const JSON: &[&str] = &[
    r#"{"command":"pwd"}"#,
    "{}",
    r#"{"b":1,"a":[2]}"#,
    r#"{"n":1e400}"#,
    r#"{"s":"\ud83d"}"#,
    "{\"x\":\n\t1,\r\n\"y\":2}",
    "7",
    "null",
    r#""text""#,
];

const BLOCKS: &[&str] = &[
    r#"[{"type":"text","text":"hello"}]"#,
    "[{\"type\":\"text\",\n\"text\":\"\\ud83d\"}]",
    r#"[{"type":"image","source":{"n":1e400}},{"type":"text","text":""}]"#,
    "[]",
    "{}",
    r#"[{"type":"text"}]"#,
    r#"[{"text":"no type"}]"#,
    "[7]",
    "not JSON",
];

/// Returns a command; `asked` is the number of asks of the CLI so far.
pub(super) fn command(dice: &mut Dice<'_>, asked: u64) -> Command {
    match dice.roll(64) {
        0..=15 => Command::Prompt(dice.pick(TEXTS).into()),
        16..=20 => Command::Prompt(Prompt { content: PromptContent::Blocks(RawJson::from(dice.pick(BLOCKS))) }),
        21..=44 => Command::Answer { ask: AskId(dice.one_of(asked)), answer: answer(dice), by: None },
        45..=52 => Command::Interrupt { cancel_queued: false },
        53..=54 => Command::Interrupt { cancel_queued: true },
        55..=61 => request(dice).into(),
        62 => Command::Close,
        _ => Command::Abort,
    }
}

fn json(dice: &mut Dice<'_>) -> RawJson {
    RawJson::from(dice.pick(JSON))
}

fn answer(dice: &mut Dice<'_>) -> Answer {
    match dice.roll(12) {
        0 => Answer::allow(),
        1 => Answer::deny(dice.pick(TEXTS)),
        2 | 3 => Answer::Hook(hook_output(dice)),
        4 => Answer::allow_with(json(dice)),
        5 => Answer::Allow { input: dice.is_heads().then(|| json(dice)), permissions: Some(json(dice)) },
        6 => Answer::Deny { message: dice.pick(TEXTS).to_owned(), interrupt: true },
        7 => Answer::Choose([(dice.pick(TEXTS).to_owned(), dice.pick(TEXTS).to_owned())].into()),
        8 => Answer::Accept(json(dice)),
        9 => Answer::Decline,
        10 => Answer::ToolResult { content: RawJson::from("[]"), is_error: false },
        _ => Answer::Cancel,
    }
}

fn hook_output(dice: &mut Dice<'_>) -> HookOutput {
    let reason = dice.pick(TEXTS).to_owned();
    match dice.roll(10) {
        0 => HookOutput::NoOpinion,
        1 => HookOutput::Allow { input: None },
        2 => HookOutput::Allow { input: Some(json(dice)) },
        3 => HookOutput::Deny { reason },
        4 => HookOutput::Ask { reason },
        5 => HookOutput::Defer,
        6 => HookOutput::Block { reason },
        7 => HookOutput::Context { text: reason },
        8 => HookOutput::Halt { reason },
        _ => HookOutput::Other(json(dice)),
    }
}

fn request(dice: &mut Dice<'_>) -> Request {
    let text = dice.pick(TEXTS).to_owned();
    match dice.roll(14) {
        0 => Request::McpStatus,
        1 => Request::SetModel(dice.is_heads().then_some(text)),
        2 => Request::SetPermissionMode(dice.pick(&PermissionMode::ALL)),
        3 => Request::SetThinking(dice.is_heads().then_some(u32::MAX)),
        4 => Request::SetMcpServers([(text, json(dice))].into()),
        5 => Request::ReconnectMcp { server: text },
        6 => Request::ToggleMcp { server: text, enabled: dice.is_heads() },
        7 => Request::ContextUsage,
        8 => Request::Rewind { entry: first_entry(), dry_run: dice.is_heads() },
        9 => Request::StopTask { task: text },
        10 => Request::ReadFile { path: text, max_bytes: dice.is_heads().then_some(u64::MAX) },
        11 => Request::Rename { title: text },
        12 => Request::Reinitialize,
        13 => Request::SetTools(Vec::new()),
        _ => Request::Other { subtype: text.clone(), fields: [(text, serde_json::Value::Null)].into_iter().collect() },
    }
}

fn first_entry() -> EntryId {
    "00000000-0000-4000-8000-000000000001".parse().unwrap()
}
