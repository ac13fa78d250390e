//! What the machine did in a conversation, step by step, and how it reads.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use watari_protocol::{Accepted, Config, Event, Machine, Output, Phase, Refusal, SessionId};

use super::script::{Script, Step};

/// How many outputs one step may have. None has nearly as many, unless it would go on for ever.
pub(crate) const OUTPUTS_MAX: usize = 10_000;

/// A conversation that was had.
#[derive(Debug)]
pub(crate) struct Record {
    config: Config,
    /// What came out before anything happened.
    pub(crate) opening: Vec<Output>,
    pub(crate) moments: Vec<Moment>,
}

/// One step, and what came of it.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) step: Step,
    /// How long after the start it was.
    pub(crate) at: Duration,
    pub(crate) before: View,
    pub(crate) after: View,
    /// What the client was told, if it was a client's step.
    pub(crate) reply: Option<Result<Accepted, Refusal>>,
    pub(crate) outputs: Vec<Output>,
}

/// What can be seen of the machine without changing it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) phase: Phase,
    /// When it wants to be told the time, counted from the start.
    pub(crate) timeout: Option<Duration>,
    pub(crate) session: Option<String>,
}

impl Record {
    /// Has the conversation.
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

    /// The same conversation without the steps for which this is false: of what the CLI wrote, only that it wrote.
    pub(crate) fn again_with(&self, keep: impl Fn(&Moment) -> bool) -> Record {
        // The time at which a step comes is the same, because no step that waits is left out.
        let steps = self.moments.iter().map(|moment| match (&moment.step, keep(moment)) {
            (step, true) => Some(step.clone()),
            // Whatever the CLI writes shows that it lives.
            (Step::Cli(_) | Step::Noise(_) | Step::Overlong(_), false) => Some(Step::Bytes),
            (Step::Bytes | Step::Client(_) | Step::Wait(_) | Step::Exit(_), false) => None,
        });
        let steps = steps.flatten();
        Record::of(Script { config: self.config.clone(), steps: steps.collect() })
    }

    /// Everything that came out, with the moment it came out in.
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
    /// The CLI's id of the question that it asks in this step, if it does.
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

    /// The state that the CLI says it is in.
    pub(crate) fn cli_state(&self) -> Option<String> {
        let Step::Cli(line) = &self.step else { return None };
        let frame = members(line)?;
        let is_state = text(&frame, "type")? == "system" && text(&frame, "subtype")? == "session_state_changed";
        text(&frame, "state").filter(|_| is_state)
    }

    /// Whether the CLI describes the session, as it does when a turn begins.
    pub(crate) fn says_init(&self) -> bool {
        let Step::Cli(line) = &self.step else { return false };
        let Some(frame) = members(line) else { return false };
        let is = |name: &str, value: &str| text(&frame, name).is_some_and(|text| text == value);
        let has_id = text(&frame, "session_id").is_some_and(|id| id.parse::<SessionId>().is_ok());
        is("type", "system") && is("subtype", "init") && has_id
    }
}

/// A line for the CLI, told apart.
pub(crate) enum Line {
    /// A prompt, by the id that the CLI knows it by.
    Prompt(String),
    /// An answer to the question with this id.
    Answer(String),
    /// A request of ours, by its name.
    Request(String),
}

/// What a line says. None when it is not one of those that there are.
pub(crate) fn read_line(line: &[u8]) -> Option<Line> {
    let frame = members(std::str::from_utf8(line).ok()?)?;
    match text(&frame, "type")?.as_str() {
        "user" => text(&frame, "uuid").map(Line::Prompt),
        "control_request" => text(&frame, "request_id").map(Line::Request),
        "control_response" => text(&members(frame.get("response")?.get())?, "request_id").map(Line::Answer),
        _ => None,
    }
}

/// The members of a JSON object, each as it came.
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
        Step::Bytes => machine.handle_bytes(now),
        Step::Client(command) => return Some(machine.handle_command(command.clone(), now)),
        Step::Wait(_) => machine.handle_timeout(now),
        Step::Exit(end) => machine.handle_exit(*end, String::new()),
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

/// A record reads as a transcript: what is done to the machine, and indented what it does.
impl fmt::Display for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "answers within {:?}, starts within {:?}",
            self.config.answer_within, self.config.start_within
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
