//! Bytes that are not frames, or almost: they are cut into lines, which a machine in one of its phases gets.

#![no_main]
#![allow(dead_code, unused_imports, reason = "a target looks at some of the claims")]

#[path = "../../crates/protocol/tests/properties/mod.rs"]
mod conversation;

use std::time::{Duration, Instant};

use conversation::claims::session::is_one_line;
use libfuzzer_sys::fuzz_target;
use watari_protocol::{Command, Config, Machine, Output, Phase, ProcessEnd};

/// The lines that bring a session into the phase in which it gets the bytes; the first byte chooses them.
const BEGINNINGS: &[&[&str]] = &[&[], &[READY], &[READY, ASK, MESSAGE, BLOCK], &[READY, STATE, ASK]];

const READY: &str = r#"{"type":"control_response","response":{"subtype":"success","request_id":"watari_1"}}"#;
const STATE: &str = r#"{"type":"system","subtype":"session_state_changed","state":"running"}"#;
const ASK: &str =
    r#"{"type":"control_request","request_id":"a","request":{"subtype":"can_use_tool","tool_name":"T","input":{}}}"#;
const MESSAGE: &str = r#"{"type":"stream_event","event":{"type":"message_start","message":{"id":"m","model":"m"}}}"#;
const BLOCK: &str =
    r#"{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text"}}}"#;

fuzz_target!(|bytes: &[u8]| {
    let Some((setup, lines)) = bytes.split_first() else { return };
    let now = Instant::now();
    let config = Config { answer_timeout: Some(Duration::from_secs(1)), ..Config::default() };
    let mut machine = Machine::start(config, now);
    for line in BEGINNINGS[usize::from(setup & 3)] {
        machine.handle_line(line.as_bytes(), now);
    }
    let commands = [Command::Prompt("hello".into()), Command::Prompt("again".into()), Command::Close];
    for command in commands.into_iter().take(usize::from(setup >> 2 & 3)) {
        machine.handle_command(command, now).expect("a session that has not ended takes it");
    }
    drain(&mut machine);
    for line in lines.split(|byte| *byte == b'\n') {
        // This mark begins a line that is too long to be stored.
        match line.strip_prefix(b"!") {
            Some(beginning) => machine.handle_overlong_line(beginning, 1 << 40),
            None => machine.handle_line(line, now),
        }
        drain(&mut machine);
    }
    machine.handle_timeout(now + Duration::from_secs(1));
    assert!(machine.poll_timeout().is_none_or(|timeout| timeout > now + Duration::from_secs(1)));
    drain(&mut machine);
    machine.handle_exit(ProcessEnd::default(), String::new());
    drain(&mut machine);
    assert_eq!(machine.phase(), Phase::Ended);
    machine.handle_line(lines, now);
    assert!(machine.poll_output().is_none() && machine.poll_timeout().is_none());
});

/// Every output can be written to the CLI or sent to a client.
fn drain(machine: &mut Machine) {
    while let Some(output) = machine.poll_output() {
        match output {
            Output::Write(line) => is_one_line(&line).unwrap_or_else(|why| panic!("{why}")),
            Output::Event(event) => {
                serde_json::to_string(&event).unwrap_or_else(|why| panic!("{why}: {event:?}"));
                assert!(event.weight_bytes() > 0);
            }
            Output::Stop(_) => {}
        }
    }
}
