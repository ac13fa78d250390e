//! Plays a script: the only owner of the fake CLI's pipes and of its state.

mod asks;
mod steps;
mod stream;
mod template;

use std::collections::{BTreeMap, VecDeque};
use std::io;

use super::fields::{Fields, quoted};
use super::frames::{self, Frames, Turn};
use super::incoming::{Incoming, Prompt};
use super::input::{Input, Patience, Received};
use super::log::Log;
use super::output::Output;
use super::script::Script;
use asks::Asked;
use stream::Message;

/// How many prompts or interrupts may wait for a step of the script. More make the fake CLI fail: such a script waits
/// for something else forever.
const WAITING_MAX: usize = 100_000;

/// Why the fake CLI exits.
#[derive(Debug)]
pub(super) enum Ending {
    Exit(u8),
    Failure { code: u8, message: String },
}

impl Ending {
    fn failure(what: &str, error: impl std::fmt::Display) -> Ending {
        Ending::Failure { code: 1, message: format!("{what}: {error}") }
    }
}

/// Where the script continues.
#[derive(Debug, Clone, Copy)]
enum Next {
    Step,
    At(usize),
}

/// The fake CLI while it plays.
#[derive(Debug)]
pub(super) struct Player {
    pub(super) input: Input,
    pub(super) output: Output,
    pub(super) log: Log,
    pub(super) frames: Frames,
    pub(super) memory: Memory,
}

/// What the fake CLI has received, and what its script has switched on.
#[derive(Debug, Default)]
pub(super) struct Memory {
    turn: Turn,
    /// The message between `message` and `end`.
    message: Option<Message>,
    /// Prompts that no step has used.
    prompts: VecDeque<Prompt>,
    /// Interrupts that wait for a `wait interrupt`, by their request ids.
    interrupts: VecDeque<Option<String>>,
    /// Whether an interrupt is for a later step.
    awaits_interrupt: bool,
    /// The requests sent to the client, by id.
    asked: BTreeMap<String, Asked>,
    /// The remaining iterations of each running loop, innermost last.
    loops: Vec<u64>,
    is_deaf: bool,
    is_mute: bool,
}

impl Player {
    /// Plays to the end of the script and of stdin.
    pub(super) fn play(mut self, script: &Script) -> Ending {
        let ending = match self.play_steps(script) {
            Ok(()) => Ending::Exit(0),
            Err(ending) => ending,
        };
        match self.output.flush() {
            Ok(()) => ending,
            Err(error) => Ending::failure("cannot write to stdout", error),
        }
    }

    fn play_steps(&mut self, script: &Script) -> Result<(), Ending> {
        let mut index = 0;
        while let Some(step) = script.step(index) {
            self.await_interrupts(script.awaits_interrupt(index))?;
            index = match self.step(step, index)? {
                Next::Step => index + 1,
                Next::At(index) => index,
            };
            if self.output.was_full() {
                self.receive_available()?;
            }
        }
        self.await_interrupts(false)?;
        while self.receive(Patience::ForEver)? != Moment::End {}
        Ok(())
    }

    /// Sets whether interrupts are stored for a step; if not, answers the stored ones.
    fn await_interrupts(&mut self, awaits_interrupt: bool) -> Result<(), Ending> {
        self.memory.awaits_interrupt = awaits_interrupt;
        while !awaits_interrupt && let Some(id) = self.memory.interrupts.pop_front() {
            self.answer(id.as_deref(), "interrupt")?;
        }
        Ok(())
    }

    /// Handles everything that has arrived, without waiting.
    fn receive_available(&mut self) -> Result<(), Ending> {
        while self.receive(Patience::None)? == Moment::Line {}
        Ok(())
    }

    /// Receives one line. Buffered output is written before it waits.
    fn receive(&mut self, patience: Patience) -> Result<Moment, Ending> {
        match patience {
            Patience::None => {}
            Patience::Until(_) | Patience::ForEver => self.flush()?,
        }
        let received = self.input.line(patience).map_err(|error| Ending::failure("cannot read stdin", error))?;
        match received {
            Received::Line(line) => self.take(&line).map(|()| Moment::Line),
            Received::Nothing => Ok(Moment::Nothing),
            Received::End => Ok(Moment::End),
        }
    }

    /// Handles a line in the default way; what a step may wait for is stored.
    fn take(&mut self, line: &[u8]) -> Result<(), Ending> {
        let incoming = Incoming::read(line);
        let logged = if incoming.is_ok() { self.log.line(line) } else { self.log.malformed(line) };
        logged.map_err(cannot_log)?;
        match incoming.map_err(|error| Ending::Failure { code: 1, message: error.to_string() })? {
            Incoming::Prompt(prompt) => self.memory.prompts.push_back(prompt),
            Incoming::Request { id, subtype } if subtype == "interrupt" && self.memory.awaits_interrupt => {
                self.memory.interrupts.push_back(id);
            }
            Incoming::Request { id, subtype } => self.answer(id.as_deref(), &subtype)?,
            Incoming::Answer { id, answer } => {
                // Only the first answer to a known request counts.
                if let Some(asked) = self.memory.asked.get_mut(&id) {
                    asked.answer.get_or_insert(answer);
                }
            }
            Incoming::Other => {}
        }
        match self.memory.prompts.len().max(self.memory.interrupts.len()) {
            0..=WAITING_MAX => Ok(()),
            waiting => Err(Ending::failure("no step of the script takes them", format!("{waiting} lines"))),
        }
    }

    /// Answers a control request, unless the script is deaf or mute to it.
    fn answer(&mut self, id: Option<&str>, subtype: &str) -> Result<(), Ending> {
        if self.memory.is_deaf || (self.memory.is_mute && subtype == "initialize") {
            return Ok(());
        }
        self.send(frames::answer(id, subtype))
    }

    fn send(&mut self, frame: Fields) -> Result<(), Ending> {
        self.say(format!("{frame}\n").as_bytes())
    }

    fn say(&mut self, bytes: &[u8]) -> Result<(), Ending> {
        self.output.write(bytes).map_err(cannot_write)
    }

    fn flush(&mut self) -> Result<(), Ending> {
        self.output.flush().map_err(cannot_write)
    }

    /// A text of the script with its variables replaced.
    fn filled(&self, text: &str) -> String {
        text.replace("$SESSION", &self.frames.session).replace("$PROMPT", &self.memory.turn.prompt.text)
    }

    /// Does the same for JSON, whose strings may contain variables.
    fn filled_json(&self, json: &str) -> String {
        let session = quoted(&self.frames.session);
        let prompt = quoted(&self.memory.turn.prompt.text);
        json.replace("$SESSION", inside(&session)).replace("$PROMPT", inside(&prompt))
    }

    fn filled_fields(&self, fields: &Fields) -> Fields {
        // An object stays one when texts in its strings are replaced.
        Fields::parse(&self.filled_json(&fields.to_string())).unwrap_or_default()
    }
}

/// The result of receiving.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Line,
    Nothing,
    End,
}

/// The content of a JSON string, without the quotes.
fn inside(quoted: &str) -> &str {
    quoted.get(1..quoted.len() - 1).unwrap_or_default()
}

fn cannot_write(error: io::Error) -> Ending {
    Ending::failure("cannot write to stdout", error)
}

fn cannot_log(error: io::Error) -> Ending {
    Ending::failure("cannot write the log", error)
}
