//! A conversation to run: its configuration and its steps.

use std::time::Duration;

use watari_protocol::{Command, Config, Hook, Initialize, ProcessEnd, WatchdogLimits};

use super::cli::{Cli, Family, damaged};
use super::client::command;
use super::dice::Dice;

/// One input of the machine.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// The CLI writes a line.
    Cli(String),
    /// The CLI writes bytes that may not even be text.
    Noise(Vec<u8>),
    /// The CLI writes a line that is too long; this is its start.
    Overlong(String),
    /// The CLI writes a part of a line.
    Bytes,
    /// A client sends a command.
    Client(Command),
    /// Time passes.
    Wait(Duration),
    /// The CLI exits.
    Exit(ProcessEnd),
}

/// A conversation to run.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    pub(crate) config: Config,
    pub(crate) steps: Vec<Step>,
}

/// The number of random bytes of a step.
pub(crate) const STEP_BYTES: usize = 10;

impl Script {
    /// Reads a conversation from bytes. The first few determine its configuration.
    pub(crate) fn read(bytes: &[u8]) -> Script {
        let (setup, rest) = bytes.split_at(bytes.len().min(STEP_BYTES));
        let mut dice = Dice(setup);
        let mut cli = Cli::favouring(dice.pick(&[
            Family::Any,
            Family::Control,
            Family::Asks,
            Family::Turns,
            Family::Stream,
            Family::Any,
        ]));
        let mut steps = Vec::new();
        if dice.roll(8) != 7 {
            steps.push(Step::Cli(cli.ready()));
        }
        let config = config(&mut dice);
        for chunk in rest.chunks(STEP_BYTES) {
            steps.push(step(&mut Dice(chunk), &mut cli));
        }
        Script { config, steps: ended(steps) }
    }
}

fn config(dice: &mut Dice<'_>) -> Config {
    let limits =
        [Some(Duration::from_secs(4)), Some(Duration::from_secs(90)), None, Some(Duration::ZERO), Some(Duration::MAX)];
    let hook = |event, seconds| Hook { answer_timeout: Duration::from_secs(seconds), ..Hook::on(event) };
    Config {
        initialize: Initialize { hooks: vec![hook("PreToolUse", 3), hook("Stop", 0)], ..Initialize::default() },
        answer_timeout: dice.pick(&limits),
        start_timeout: dice.pick(&[60, 60, 2, u64::MAX].map(Duration::from_secs)),
        watchdog: WatchdogLimits {
            probe_after: dice.pick(&[30, 0, 0, u64::MAX].map(Duration::from_secs)),
            probe_timeout: dice.pick(&[10, 0, 0].map(Duration::from_secs)),
            end_stalled: dice.roll(4) == 3,
            ..WatchdogLimits::default()
        },
        ..Config::default()
    }
}

fn step(dice: &mut Dice<'_>, cli: &mut Cli) -> Step {
    match dice.roll(256) {
        0..=149 => Step::Cli(cli.line(dice)),
        150..=207 => Step::Client(command(dice, cli.asked())),
        208..=225 => Step::Wait(Duration::from_secs(dice.pick(&[1, 0, 0, 1, 3, 5, 61]))),
        226..=241 => Step::Cli(damaged(&cli.line(dice), dice)),
        242..=245 => Step::Noise(noise(dice)),
        246..=254 => Step::Overlong(cli.line(dice).chars().take(dice.pick(&[300, 90, 60, 20, 0])).collect()),
        _ => Step::Exit(ProcessEnd { code: Some(0), ..ProcessEnd::default() }),
    }
}

fn noise(dice: &mut Dice<'_>) -> Vec<u8> {
    let mut bytes = dice.pick(&["", "{", "[]", "7", "null", "{}", "warning: ", "{\"type\":\""]).as_bytes().to_vec();
    bytes.extend_from_slice(dice.0);
    bytes
}

/// Ends a conversation, and adds inputs that come too late.
fn ended(mut steps: Vec<Step>) -> Vec<Step> {
    let late = r#"{"type":"control_request","request_id":"late","request":{"subtype":"can_use_tool","tool_name":"T","input":{}}}"#;
    steps.push(Step::Exit(ProcessEnd::default()));
    steps.push(Step::Cli(late.to_owned()));
    steps.push(Step::Wait(Duration::from_secs(1000)));
    steps.push(Step::Client(Command::Abort));
    steps.push(Step::Exit(ProcessEnd::default()));
    steps.push(Step::Overlong(late.to_owned()));
    steps
}
