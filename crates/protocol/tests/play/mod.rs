//! Runs a script against the machine and records its outputs as a transcript.
//!
//! A line of a script is output of the CLI (`cli …`), a command of a client, or time that passes. In the transcript,
//! `>` is a line for the CLI, `*` an event, `!` a step to end the process, and `x` the reason of a refusal.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::disallowed_methods, reason = "a script needs a start time")]

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use watari_protocol::{
    Accepted, Answer, AskId, Command, Config, Event, HookOutput, Initialize, Machine, Output, PermissionMode,
    ProcessEnd, Prompt, PromptContent, RawJson, Request,
};

pub(crate) fn play(script: &str) -> String {
    play_with(Config { answer_timeout: Some(Duration::from_secs(60)), ..Config::default() }, script)
}

pub(crate) fn play_with(config: Config, script: &str) -> String {
    let mut now = Instant::now();
    let mut transcript = Vec::new();
    let mut machine = Machine::start(config, now);
    // The opening of a conversation has its own test.
    let _opening = machine.poll_output();
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "cli" => machine.handle_line(expand(rest).as_bytes(), now),
            "overlong" => machine.handle_overlong_line(rest.as_bytes(), 70_000_000),
            "wait" => {
                now += Duration::from_secs(rest.parse().unwrap());
                machine.handle_timeout(now);
            }
            "pause" | "blocked" => {
                let time = Duration::from_secs(rest.parse().unwrap());
                now += time;
                match word {
                    "pause" => machine.credit_pause(time, now),
                    _ => machine.credit_unread_time(time, now),
                }
                machine.handle_timeout(now);
            }
            "unread" => machine.reset_silence(now),
            "exit" => {
                machine.handle_exit(ProcessEnd { code: rest.parse().ok(), ..ProcessEnd::default() }, String::new())
            }
            _ => match machine.handle_command(command(word, rest), now) {
                Ok(Accepted::Prompt(_) | Accepted::Request(_) | Accepted::Done) => {}
                Err(refused) => transcript.push(format!("x {refused}")),
            },
        }
        drain(&mut machine, &mut transcript);
    }
    transcript.join("\n")
}

/// Expands the abbreviations of frequent frames.
fn expand(line: &str) -> String {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let session = "11111111-1111-4111-8111-111111111111";
    match word {
        "ready" => r#"{"type":"control_response","response":{"subtype":"success","request_id":"watari_1","response":{"claude_code_version":"2.1.325"}}}"#.to_owned(),
        "init" => format!(r#"{{"type":"system","subtype":"init","session_id":"{session}","cwd":"/w","tools":["Bash"],"model":"m","permissionMode":"default","claude_code_version":"2.1.325"}}"#),
        "running" | "idle" => format!(r#"{{"type":"system","subtype":"session_state_changed","state":"{word}","session_id":"{session}"}}"#),
        "result" if rest.is_empty() => r#"{"type":"result","subtype":"success","is_error":false,"result":"done","terminal_reason":"completed"}"#.to_owned(),
        "result" => format!(r#"{{"type":"result",{rest}}}"#),
        "event" => format!(r#"{{"type":"stream_event","parent_tool_use_id":null,"event":{rest}}}"#),
        "ask" => format!(r#"{{"type":"control_request","request_id":"{rest}","request":{{"subtype":"can_use_tool","tool_name":"Bash","input":{{"command":"ls"}},"tool_use_id":"toolu_{rest}"}}}}"#),
        "hook" => {
            let mut parts = rest.split(' ');
            let (request, hook, event) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
            format!(r#"{{"type":"control_request","request_id":"{request}","request":{{"subtype":"hook_callback","callback_id":"watari_hook_{hook}","tool_use_id":"u","input":{{"hook_event_name":"{event}"}}}}}}"#)
        }
        "answer" => {
            let (request, body) = rest.split_once(' ').unwrap_or((rest, "{}"));
            format!(r#"{{"type":"control_response","response":{{"subtype":"success","request_id":"watari_{request}","response":{body}}}}}"#)
        }
        _ => line.to_owned(),
    }
}

fn command(word: &str, rest: &str) -> Command {
    let (first, more) = rest.split_once(' ').unwrap_or((rest, ""));
    let ask = || AskId(first.parse().unwrap());
    match word {
        "prompt" => Command::Prompt(rest.into()),
        "interrupt" => Command::Interrupt { cancel_queued: rest == "all" },
        "blocks" => Command::Prompt(Prompt { content: PromptContent::Blocks(RawJson::from(rest)) }),
        "allow" if more.is_empty() => Command::Answer { ask: ask(), answer: Answer::allow(), by: None },
        "allow" => Command::Answer { ask: ask(), answer: Answer::allow_with(RawJson::from(more)), by: None },
        "deny" => Command::Answer { ask: ask(), answer: Answer::deny(more), by: None },
        "choose" => {
            Command::Answer { ask: ask(), answer: Answer::Choose(serde_json::from_str(more).unwrap()), by: None }
        }
        "hook" => Command::Answer { ask: ask(), answer: Answer::Hook(hook_output(more)), by: None },
        "accept" => Command::Answer { ask: ask(), answer: Answer::Accept(RawJson::from(more)), by: None },
        "result" => Command::Answer {
            ask: ask(),
            answer: Answer::ToolResult { content: RawJson::from(more), is_error: false },
            by: None,
        },
        "decline" => Command::Answer { ask: ask(), answer: Answer::Decline, by: None },
        "cancel" => Command::Answer { ask: ask(), answer: Answer::Cancel, by: None },
        "model" => Request::SetModel(Some(rest.to_owned())).into(),
        "mode" => Request::SetPermissionMode(rest.parse::<PermissionMode>().unwrap()).into(),
        "close" => Command::Close,
        "abort" => Command::Abort,
        other => panic!("unknown command in a script: {other}"),
    }
}

fn hook_output(text: &str) -> HookOutput {
    let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
    let reason = rest.to_owned();
    match word {
        "nothing" => HookOutput::NoOpinion,
        "allow" if rest.is_empty() => HookOutput::Allow { input: None },
        "allow" => HookOutput::Allow { input: Some(RawJson::from(rest)) },
        "deny" => HookOutput::Deny { reason },
        "ask" => HookOutput::Ask { reason },
        "defer" => HookOutput::Defer,
        "block" => HookOutput::Block { reason },
        "context" => HookOutput::Context { text: reason },
        "halt" => HookOutput::Halt { reason },
        _ => HookOutput::Other(RawJson::from(text)),
    }
}

fn drain(machine: &mut Machine, transcript: &mut Vec<String>) {
    while let Some(output) = machine.poll_output() {
        transcript.push(match output {
            Output::Write(line) | Output::WriteNow(line) => {
                format!("> {}", String::from_utf8(line).unwrap().trim_end())
            }
            Output::Event(event) => format!("* {}", show(&event)),
            Output::Stop(stop) => format!("! {stop:?}"),
        });
    }
}

/// Formats an event without the copies of the CLI's frames and without empty members.
fn show(event: &Event) -> String {
    // The CLI's JSON may be a value that no Rust type can hold; it is shown unchanged.
    let Ok(mut value) = serde_json::to_value(event) else { return serde_json::to_string(event).unwrap() };
    strip(&mut value);
    let kind = value.as_object_mut().unwrap().remove("type").unwrap();
    format!("{} {value}", kind.as_str().unwrap()).trim_end_matches(" {}").to_owned()
}

fn strip(value: &mut Value) {
    let Some(members) = value.as_object_mut() else { return };
    members.remove("raw");
    members.values_mut().for_each(strip);
    let empty = [json!(null), json!(0.0), json!([]), json!({}), json!("")];
    // A zero index is shown; a zero sum is not.
    members.retain(|name, member| !empty.contains(member) && (*member != json!(0) || name == "at" || name == "index"));
}

/// Returns the line that opens a conversation.
pub(crate) fn opening(initialize: Initialize) -> String {
    let mut machine = Machine::start(Config { initialize, ..Config::default() }, Instant::now());
    let mut transcript = Vec::new();
    drain(&mut machine, &mut transcript);
    transcript.join("\n")
}
