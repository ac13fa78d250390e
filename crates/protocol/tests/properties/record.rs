//! The record of a conversation, step by step, and its transcript.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use watari_protocol::{Accepted, Config, Event, Machine, Output, Phase, Refusal, SessionId};

use super::script::{Script, Step};

/// The maximum number of outputs of a step. Only an endless step has nearly as many.
pub(crate) const OUTPUTS_MAX: usize = 10_000;

/// The record of a conversation.
#[derive(Debug)]
pub(crate) struct Record {
    config: Config,
    /// The outputs before the first step.
    pub(crate) opening: Vec<Output>,
    pub(crate) moments: Vec<Moment>,
}

/// One step and its effects.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) step: Step,
    /// The time since the start.
    pub(crate) at: Duration,
    pub(crate) before: View,
    pub(crate) after: View,
    /// The reply to the client, if the step is a command.
    pub(crate) reply: Option<Result<Accepted, Refusal>>,
    pub(crate) outputs: Vec<Output>,
}

/// The visible state of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) phase: Phase,
    /// The machine's next timeout, counted from the start.
    pub(crate) timeout: Option<Duration>,
    pub(crate) session: Option<String>,
}

impl Record {
    /// Runs a script and records the conversation.
    pub(crate) fn of(script: Script) -> Record {
        let Script { config, steps } = script;
        let start = Instant::now();
        let mut machine = Machine::start(config.clone(), start);
        let opening = drain(&mut machine);
        let mut at = Duration::ZERO;
        let mut moments = Vec::new();
        for step in steps {
            if let Step::Wait(time) = step {
                at += time;
            }
            let before = view(&machine, start);
            let reply = take(&mut machine, &step, start + at);
            let outputs = drain(&mut machine);
            moments.push(Moment { step, at, before, after: view(&machine, start), reply, outputs });
        }
        Record { config, opening, moments }
    }

    /// Runs the same conversation without the steps for which `keep` is false. Of the CLI's output only the fact that
    /// it wrote remains.
    pub(crate) fn again_with(&self, keep: impl Fn(&Moment) -> bool) -> Record {
        // Every step happens at the same time as before, because no waiting step is removed.
        let steps = self.moments.iter().map(|moment| match (&moment.step, keep(moment)) {
            (step, true) => Some(step.clone()),
            // All output of the CLI shows that it is alive.
            (Step::Cli(_) | Step::Noise(_) | Step::Overlong(_), false) => Some(Step::Bytes),
            (Step::Bytes | Step::Client(_) | Step::Wait(_) | Step::Exit(_), false) => None,
        });
        let steps = steps.flatten();
        Record::of(Script { config: self.config.clone(), steps: steps.collect() })
    }

    /// Returns all outputs, each with its moment.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = (&Moment, &Output)> {
        self.moments.iter().flat_map(|moment| moment.outputs.iter().map(move |output| (moment, output)))
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.outputs().filter_map(|(_, output)| match output {
            Output::Event(event) => Some(event),
            Output::Write(_) | Output::WriteNow(_) | Output::Stop(_) => None,
        })
    }
}

impl Moment {
    /// Returns the CLI's id of the ask of this step, if the step is an ask.
    pub(crate) fn asks(&self) -> Option<String> {
        match &self.step {
            Step::Cli(line) => {
                let frame = members(line)?;
                let is_question = text(&frame, "type")? == "control_request";
                text(&frame, "request_id").filter(|_| is_question)
            }
            Step::Overlong(line) => {
                let rest = line.strip_prefix(r#"{"type":"control_request","request_id":""#)?;
                rest.split_once('"').map(|(id, _)| id.to_owned())
            }
            Step::Noise(_) | Step::Bytes | Step::Client(_) | Step::Wait(_) | Step::Exit(_) => None,
        }
    }

    /// Returns the state that the CLI reports in this step.
    pub(crate) fn cli_state(&self) -> Option<String> {
        let Step::Cli(line) = &self.step else { return None };
        let frame = members(line)?;
        let is_state = text(&frame, "type")? == "system" && text(&frame, "subtype")? == "session_state_changed";
        text(&frame, "state").filter(|_| is_state)
    }

    /// Returns whether the CLI describes the session, as it does when a turn starts.
    pub(crate) fn says_init(&self) -> bool {
        let Step::Cli(line) = &self.step else { return false };
        let Some(frame) = members(line) else { return false };
        let is = |name: &str, value: &str| text(&frame, name).is_some_and(|text| text == value);
        let has_id = text(&frame, "session_id").is_some_and(|id| id.parse::<SessionId>().is_ok());
        is("type", "system") && is("subtype", "init") && has_id
    }
}

/// A decoded line for the CLI.
pub(crate) enum Line {
    /// A prompt, by its id for the CLI.
    Prompt(String),
    /// The answer to the ask with this id.
    Answer(String),
    /// A request, by its name.
    Request(String),
}

/// Decodes a line for the CLI; none when it is of no known type.
pub(crate) fn read_line(line: &[u8]) -> Option<Line> {
    let frame = members(std::str::from_utf8(line).ok()?)?;
    match text(&frame, "type")?.as_str() {
        "user" => text(&frame, "uuid").map(Line::Prompt),
        "control_request" => text(&frame, "request_id").map(Line::Request),
        "control_response" => text(&members(frame.get("response")?.get())?, "request_id").map(Line::Answer),
        _ => None,
    }
}

/// Returns the members of a JSON object, unchanged.
pub(crate) fn members(json: &str) -> Option<BTreeMap<String, Box<RawValue>>> {
    serde_json::from_str(json).ok()
}

fn text(members: &BTreeMap<String, Box<RawValue>>, name: &str) -> Option<String> {
    serde_json::from_str(members.get(name)?.get()).ok()
}

fn take(machine: &mut Machine, step: &Step, now: Instant) -> Option<Result<Accepted, Refusal>> {
    match step {
        Step::Cli(line) => machine.handle_line(line.as_bytes(), now),
        Step::Noise(bytes) => machine.handle_line(bytes, now),
        Step::Overlong(beginning) => machine.handle_overlong_line(beginning.as_bytes(), 100_000_000),
        Step::Bytes => machine.note_output(now),
        Step::Client(command) => return Some(machine.handle_command(command.clone(), now)),
        Step::Wait(_) => machine.handle_timeout(now),
        Step::Exit(end) => machine.handle_exit(end.clone(), String::new()),
    }
    None
}

fn drain(machine: &mut Machine) -> Vec<Output> {
    std::iter::from_fn(|| machine.poll_output()).take(OUTPUTS_MAX).collect()
}

fn view(machine: &Machine, start: Instant) -> View {
    View {
        phase: machine.phase(),
        timeout: machine.poll_timeout().map(|timeout| timeout.duration_since(start)),
        session: machine.session_id().map(ToString::to_string),
    }
}

/// Formats a record as a transcript: the machine's inputs and, indented, its outputs.
impl fmt::Display for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "answers within {:?}, starts within {:?}",
            self.config.answer_timeout, self.config.start_timeout
        )?;
        for moment in &self.moments {
            writeln!(formatter, "{moment}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.step {
            Step::Cli(line) => write!(formatter, "cli {line}"),
            Step::Noise(bytes) => write!(formatter, "cli noise {:?}", String::from_utf8_lossy(bytes)),
            Step::Overlong(beginning) => write!(formatter, "cli overlong {beginning}"),
            Step::Bytes => write!(formatter, "cli …"),
            Step::Client(command) => write!(formatter, "client {command:?}"),
            Step::Wait(time) => write!(formatter, "wait {time:?}"),
            Step::Exit(_) => write!(formatter, "exit"),
        }?;
        if let Some(Err(refused)) = &self.reply {
            write!(formatter, "\n    x {refused}")?;
        }
        for output in &self.outputs {
            match output {
                Output::Write(line) | Output::WriteNow(line) => {
                    write!(formatter, "\n    > {}", String::from_utf8_lossy(line).trim_end())
                }
                Output::Event(event) => write!(formatter, "\n    * {event:?}"),
                Output::Stop(stop) => write!(formatter, "\n    ! {stop:?}"),
            }?;
        }
        if self.before.phase != self.after.phase {
            write!(formatter, "\n    = {}", self.after.phase)?;
        }
        Ok(())
    }
}
