//! Random frames of the CLI: of every family, in any order, with ids from small pools so that they match.

use serde_json::value::RawValue;

use super::dice::{Dice, TEXTS, quoted};

/// The family of the frames that a CLI sends most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Any,
    Control,
    Asks,
    Turns,
    Stream,
}

/// A CLI. Each of its asks has its own id, as with the real one, and it counts them. Half of its turns and messages are
/// in order, so that it makes progress.
#[derive(Debug)]
pub(super) struct Cli {
    favourite: Family,
    asked: u64,
    turn: std::iter::Cycle<std::slice::Iter<'static, &'static str>>,
    message: std::iter::Cycle<std::slice::Iter<'static, &'static str>>,
}

const TURN: &[&str] = &[
    r#"{"type":"system","subtype":"session_state_changed","state":"running"}"#,
    r#"{"type":"system","subtype":"init","session_id":"11111111-1111-4111-8111-111111111111"}"#,
    r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#,
    r#"{"type":"system","subtype":"session_state_changed","state":"idle"}"#,
];

const MESSAGE: &[&str] = &[
    r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1","model":"m"}}}"#,
    r#"{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}}"#,
    r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}}"#,
    r#"{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ñ😀"}}}"#,
    r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"añ😀"}]}}"#,
    r#"{"type":"stream_event","event":{"type":"content_block_stop","index":0}}"#,
    r#"{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"end_turn"}}}"#,
    r#"{"type":"stream_event","event":{"type":"message_stop"}}"#,
];

/// Inputs of tools, including numbers and characters that no Rust type can hold.
const INPUTS: &[&str] = &[r#"{"command":"ls"}"#, "{}", r#"{"n":1e400}"#, r#"{"s":"\ud83d"}"#, "null", "7"];

const SESSIONS: &[&str] = &["11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222", "x"];

const MESSAGES: &[&str] = &["m1", "m1", "m1", "m2"];

const INDEXES: &[u64] = &[0, 0, 0, 1, 7];

const BLOCKS: &[&str] = &[
    r#"{"type":"text","text":"a"}"#,
    r#"{"type":"text","text":"a"}"#,
    r#"{"type":"text","text":"b"}"#,
    r#"{"type":"thinking","thinking":"hm"}"#,
    r#"{"type":"tool_use","id":"t1","name":"Bash","input":{}}"#,
    r#"{"type":"tool_use","id":"t2","name":"Read","input":{"n":1e400}}"#,
    r#"{"type":"redacted_thinking","data":"x"}"#,
    r#"{"type":"tool_use"}"#,
    "null",
];

/// Frames that only pass through.
const REMARKS: &[&str] = &[
    r#"{"type":"keep_alive"}"#,
    r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"}]}}"#,
    r#"{"type":"user","parent_tool_use_id":"t1","isSynthetic":true,"message":{"content":"stopped"}}"#,
    r#"{"type":"user","isReplay":7,"message":{"content":[{"type":"tool_result"},{"type":"text","text":"\ud83d"}]}}"#,
    r#"{"type":"system","subtype":"task_started","task_id":"k1"}"#,
    r#"{"type":"system","subtype":"task_progress","task_id":"k1"}"#,
    r#"{"type":"system","subtype":"task_updated","task_id":"k2"}"#,
    r#"{"type":"system","subtype":"task_notification","task_id":"k1","status":"completed"}"#,
    r#"{"type":"system","subtype":"background_tasks_changed","tasks":[]}"#,
    r#"{"type":"system","subtype":"hook_started","hook_id":"h","hook_name":"n","hook_event":"Stop"}"#,
    r#"{"type":"system","subtype":"hook_response","hook_id":"h"}"#,
    r#"{"type":"system","subtype":"permission_denied","tool_name":"Bash","message":"no"}"#,
    r#"{"type":"system","subtype":"thinking_tokens","estimated_tokens":18446744073709551615}"#,
    r#"{"type":"system","subtype":"status","status":null,"permissionMode":"plan"}"#,
    r#"{"type":"system","subtype":"api_retry","attempt":1,"retry_delay_ms":1e400}"#,
    r#"{"type":"system","subtype":"compact_boundary"}"#,
    r#"{"type":"system","subtype":"session_title_changed","title":"t"}"#,
    r#"{"type":"system","subtype":"commands_changed","commands":{}}"#,
    r#"{"type":"system","subtype":"informational","content":"by the way"}"#,
    r#"{"type":"system","subtype":"invented_tomorrow","x":1}"#,
    r#"{"type":"rate_limit_event","rate_limit_info":{}}"#,
    r#"{"type":"tool_progress","tool_use_id":"t1-heartbeat-1","parent_tool_use_id":"t1","tool_name":"Bash"}"#,
    r#"{"type":"conversation_reset"}"#,
    r#"{"type":"prompt_suggestion","suggestion":"go on"}"#,
    r#"{"type":"transcript_mirror","filePath":"f","entries":[1]}"#,
    r#"{"type":"active_goal","goal":null}"#,
    r#"{"type":"invented_tomorrow"}"#,
    r#"{"no":"type"}"#,
];

impl Cli {
    pub(super) fn favouring(favourite: Family) -> Cli {
        Cli { favourite, asked: 0, turn: TURN.iter().cycle(), message: MESSAGE.iter().cycle() }
    }

    /// Returns the number of asks.
    pub(super) fn asked(&self) -> u64 {
        self.asked
    }

    pub(super) fn line(&mut self, dice: &mut Dice<'_>) -> String {
        let families = [Family::Control, Family::Asks, Family::Turns, Family::Stream, Family::Any];
        let likes = self.favourite != Family::Any && dice.roll(4) != 0;
        match if likes { self.favourite } else { dice.pick(&families) } {
            Family::Control => reply(dice),
            Family::Asks => self.question(dice),
            Family::Turns if dice.is_heads() => self.turn.next().unwrap().to_string(),
            Family::Turns => turn(dice),
            Family::Stream if dice.is_heads() => self.message.next().unwrap().to_string(),
            Family::Stream => stream(dice),
            Family::Any => dice.pick(REMARKS).to_owned(),
        }
    }

    /// The answer to the `initialize` request.
    pub(super) fn ready(&self) -> String {
        answer_of(1, r#""subtype":"success""#, r#","response":{"claude_code_version":"9.9.9"}"#)
    }

    fn question(&mut self, dice: &mut Dice<'_>) -> String {
        if dice.roll(4) == 3 {
            return format!(r#"{{"type":"control_cancel_request","request_id":"r{}"}}"#, dice.one_of(self.asked));
        }
        self.asked += 1;
        let mut line = format!(r#"{{"type":"control_request","request_id":"r{}""#, self.asked);
        let request = match dice.roll(12) {
            0..=2 => tool(dice.pick(&["Bash", "Edit"]), dice.pick(INPUTS)),
            3..=5 => {
                hook(dice.one_of(2), dice.pick(&["PreToolUse", "Stop", "UserPromptSubmit", "PermissionRequest", ""]))
            }
            6 => tool("AskUserQuestion", dice.pick(&[r#"{"questions":[]}"#, "7", "{}"])),
            7 => tool("ExitPlanMode", r#"{"plan":"p"}"#),
            8 => r#"{"subtype":"elicitation","mcp_server_name":"s","message":7}"#.to_owned(),
            9 => dice
                .pick(&[
                    r#"{"subtype":"can_use_tool"}"#,
                    r#"{"subtype":"hook_callback","input":{"hook_event_name":"PreToolUse"}}"#,
                    r#"{"subtype":"hook_callback","callback_id":7}"#,
                ])
                .to_owned(),
            10 => format!(r#"{{"subtype":{}}}"#, quoted(dice.pick(TEXTS))),
            _ => dice.pick(&["null", "7", "{}", r#"{"subtype":7}"#]).to_owned(),
        };
        line.push_str(&format!(r#","request":{request}}}"#));
        line
    }
}

fn tool(name: &str, input: &str) -> String {
    format!(r#"{{"subtype":"can_use_tool","tool_name":"{name}","input":{input},"tool_use_id":"t1"}}"#)
}

fn hook(number: u64, event: &str) -> String {
    format!(
        r#"{{"subtype":"hook_callback","callback_id":"watari_hook_{number}","input":{{"hook_event_name":"{event}","tool_input":{{"n":1e400}}}}}}"#
    )
}

/// Returns an answer to one of our requests, which may not exist.
fn reply(dice: &mut Dice<'_>) -> String {
    let request = dice.one_of(7);
    match dice.roll(6) {
        0..=2 => answer_of(request, r#""subtype":"success""#, r#","response":{"still_queued":[]}"#),
        3 => answer_of(
            request,
            r#""subtype":"success""#,
            dice.pick(&["", r#","response":null"#, r#","response":1e400"#]),
        ),
        4 => answer_of(request, r#""subtype":"error""#, r#","error":"no","error_code":"busy""#),
        _ => answer_of(request, dice.pick(&[r#""subtype":"?""#, r#""subtype":7"#]), r#","error":7"#),
    }
}

fn answer_of(request: u64, subtype: &str, rest: &str) -> String {
    format!(r#"{{"type":"control_response","response":{{{subtype},"request_id":"watari_{request}"{rest}}}}}"#)
}

/// Returns a frame that starts or ends a turn.
fn turn(dice: &mut Dice<'_>) -> String {
    let state = |state| format!(r#"{{"type":"system","subtype":"session_state_changed","state":"{state}"}}"#);
    match dice.roll(16) {
        0..=3 => result(dice),
        4..=6 => state("idle"),
        7..=9 => state("running"),
        10 => state(dice.pick(&["requires_action", "invented_tomorrow"])),
        11..=14 => format!(
            r#"{{"type":"system","subtype":"init","session_id":"{}","tools":["Bash"],"model":"m"}}"#,
            dice.pick(SESSIONS)
        ),
        _ => format!(
            r#"{{"type":"command_lifecycle","command_uuid":"{}","state":"{}"}}"#,
            uuid_of(dice.one_of(3)),
            dice.pick(&["cancelled", "started"])
        ),
    }
}

fn result(dice: &mut Dice<'_>) -> String {
    let subtype = dice.pick(&["success", "error_during_execution", "error_max_turns", "invented_tomorrow"]);
    let prompts = match dice.roll(6) {
        0..=2 => String::new(),
        3 => format!(r#","user_message_uuids":["{}"]"#, uuid_of(dice.one_of(3))),
        4 => format!(r#","user_message_uuids":["x","{}"]"#, uuid_of(dice.one_of(3))),
        _ => dice.pick(&[r#","user_message_uuids":[]"#, r#","user_message_uuids":7"#]).to_owned(),
    };
    let origin = dice.pick(&["", "", r#","origin":{"kind":"task-notification"}"#]);
    let cost = dice.pick(&["0.5", "0", "1e400", "\"much\""]);
    format!(r#"{{"type":"result","subtype":"{subtype}"{prompts}{origin},"total_cost_usd":{cost},"errors":["e"]}}"#)
}

/// Returns the id that the machine gives to a prompt.
fn uuid_of(prompt: u64) -> String {
    format!("00000000-0000-4000-8000-{prompt:012x}")
}

/// Returns a frame of a message, streamed or complete.
fn stream(dice: &mut Dice<'_>) -> String {
    let event = |event: String| format!(r#"{{"type":"stream_event","parent_tool_use_id":null,"event":{event}}}"#);
    match dice.roll(16) {
        0..=2 => event(format!(
            r#"{{"type":"message_start","message":{{"id":"{}","model":"m"}}}}"#,
            dice.pick(MESSAGES)
        )),
        3..=5 => event(format!(
            r#"{{"type":"content_block_start","index":{},"content_block":{}}}"#,
            dice.pick(INDEXES),
            dice.pick(BLOCKS)
        )),
        6..=8 => event(format!(r#"{{"type":"content_block_delta","index":{},"delta":{}}}"#, dice.pick(INDEXES), delta(dice))),
        9..=12 => format!(
            r#"{{"type":"assistant","parent_tool_use_id":{},"message":{{"id":"{}","content":[{}]}}}}"#,
            dice.pick(&["null", "null", "\"t1\""]),
            dice.pick(MESSAGES),
            dice.pick(BLOCKS)
        ),
        13 => event(format!(r#"{{"type":"content_block_stop","index":{}}}"#, dice.pick(INDEXES))),
        14 => event(r#"{"type":"message_stop"}"#.to_owned()),
        _ => dice.pick(&[
            r#"{"type":"stream_event","event":{"type":"message_delta","delta":{"stop_reason":"end_turn"}}}"#,
            r#"{"type":"stream_event","event":{"type":"ping"}}"#,
            r#"{"type":"stream_event","parent_tool_use_id":"t1","event":{"type":"message_stop"}}"#,
            r#"{"type":"stream_event","event":7}"#,
            r#"{"type":"assistant","message":{"id":"m1","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}"#,
        ]).to_owned(),
    }
}

fn delta(dice: &mut Dice<'_>) -> String {
    let text = dice.pick(TEXTS);
    match dice.roll(5) {
        0 => format!(r#"{{"type":"text_delta","text":{}}}"#, quoted(text)),
        1 => format!(r#"{{"type":"thinking_delta","thinking":{}}}"#, quoted(text)),
        2 => format!(r#"{{"type":"input_json_delta","partial_json":{}}}"#, quoted(text)),
        3 => r#"{"type":"text_delta","text":"\ud83d\u0041"}"#.to_owned(),
        _ => dice.pick(&[r#"{"type":"signature_delta","signature":"s"}"#, r#"{"type":"text_delta"}"#, "7"]).to_owned(),
    }
}

/// Damages a line.
pub(super) fn damaged(line: &str, dice: &mut Dice<'_>) -> String {
    match dice.roll(4) {
        0 => line.chars().take(line.chars().count() * dice.roll(8) as usize / 8).collect(),
        1 => format!("{line}{}", dice.pick(&["}", " {}", ",", "\u{feff}"])),
        _ => with_member(line, dice),
    }
}

/// Replaces one member of a line, at any depth, with a value of another type.
fn with_member(line: &str, dice: &mut Dice<'_>) -> String {
    let places: Vec<usize> = line.match_indices("\":").map(|(place, _)| place).collect();
    let Some(place) = places.get(dice.roll(places.len().max(1) as u64) as usize) else { return line.to_owned() };
    let (head, tail) = line.split_at(place + "\":".len());
    let mut value = serde_json::Deserializer::from_str(tail).into_iter::<Box<RawValue>>();
    if !matches!(value.next(), Some(Ok(_))) {
        return line.to_owned();
    }
    // Two asks with the same id would have two answers, so an id is never replaced by another.
    let others = ["null", "7", "[]", "{}", "1e400", "true", r#""\ud83d""#, r#""x""#];
    let other = dice.pick(if head.ends_with("\"request_id\":") { &others[..5] } else { &others });
    format!("{head}{other}{}", &tail[value.byte_offset()..])
}
