//! The words of a script: parses each line into a step.

use std::collections::BTreeSet;
use std::time::Duration;

use super::arguments::{Arguments, Complaint, number};
use super::{BadLine, Block, Deed, Deltas, Ignored, Outcome, Pace, Request, Step};

/// The default size of a delta.
const DELTA_BYTES: usize = 20;

/// The words that an `end` closes.
const MESSAGE: &str = "message";
const REPEAT: &str = "repeat";

pub(super) fn parse(text: &str) -> Result<Vec<Step>, BadLine> {
    let mut reading = Reading::default();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let line = index + 1;
        reading.add(line, word, rest).map_err(|complaint| BadLine { line, word: word.to_owned(), complaint })?;
    }
    match reading.open.pop() {
        Some(Open { line, word, .. }) => Err(BadLine { line, word: word.to_owned(), complaint: Complaint::NoEnd }),
        None => Ok(reading.steps),
    }
}

/// A script that is being parsed.
#[derive(Debug, Default)]
struct Reading {
    steps: Vec<Step>,
    /// The open words, innermost last.
    open: Vec<Open>,
    sent: BTreeSet<String>,
}

#[derive(Debug)]
struct Open {
    word: &'static str,
    line: usize,
    step: usize,
}

impl Reading {
    fn add(&mut self, line: usize, word: &str, rest: &str) -> Result<(), Complaint> {
        let mut arguments = Arguments::new(rest);
        let step = match word {
            "end" => self.end()?,
            _ => step(word, &mut arguments)?,
        };
        arguments.end()?;
        self.check(&step)?;
        if let Some(word) = [MESSAGE, REPEAT].into_iter().find(|opening| *opening == word) {
            self.open.push(Open { word, line, step: self.steps.len() });
        }
        self.steps.push(step);
        Ok(())
    }

    fn end(&mut self) -> Result<Step, Complaint> {
        let opened = self.open.pop().ok_or(Complaint::NothingToEnd)?;
        let here = self.steps.len();
        match self.steps.get_mut(opened.step) {
            Some(Step::Repeat { end, .. }) => {
                *end = here;
                Ok(Step::EndRepeat { start: opened.step })
            }
            Some(_) | None => Ok(Step::EndMessage),
        }
    }

    /// Checks what depends on earlier steps.
    fn check(&mut self, step: &Step) -> Result<(), Complaint> {
        if *step == Step::Mute && !self.steps.is_empty() {
            return Err(Complaint::NotFirst);
        }
        let in_message = self.open.iter().any(|open| open.word == MESSAGE);
        if in_message && matches!(step, Step::Prompt | Step::BeginMessage) {
            return Err(Complaint::InMessage);
        }
        if let Step::Ask { id, .. } = step {
            self.sent.insert(id.clone());
        }
        if let Step::Await { id } = step
            && !self.sent.contains(id)
        {
            return Err(Complaint::NotSent(id.clone()));
        }
        Ok(())
    }
}

fn step(word: &str, arguments: &mut Arguments<'_>) -> Result<Step, Complaint> {
    Ok(match word {
        "prompt" => Step::Prompt,
        MESSAGE => Step::BeginMessage,
        "text" => Step::Block(Block::Text(arguments.text())),
        "thinking" => Step::Block(Block::Thinking(arguments.text())),
        "tool" => Step::Block(Block::Tool {
            id: arguments.word("ID")?,
            name: arguments.word("NAME")?,
            input: arguments.object()?,
        }),
        "deltas" => Step::Deltas(deltas(arguments)?),
        "tool_result" => Step::ToolResult { id: arguments.word("ID")?, text: arguments.text() },
        "ask" | "ask!" | "hook" | "mcp" | "request" => ask(word, arguments)?,
        "await" => Step::Await { id: arguments.word("ID")? },
        "cancel" => Step::Cancel { id: arguments.word("ID")? },
        "result" => Step::Result(outcome(arguments)?),
        "emit" => Step::Emit(arguments.object()?),
        "noise" => Step::Noise(arguments.text()),
        "line" => Step::Line { bytes: arguments.number("BYTES")? },
        "raw" => Step::RawJson(arguments.bytes()?),
        "state" => Step::State(one_of(&["idle", "running", "requires_action"], "a state", arguments)?.to_owned()),
        "task" => task(arguments)?,
        REPEAT => Step::Repeat { times: arguments.number("N")?, end: 0 },
        _ => return doing(word, arguments),
    })
}

/// Parses the steps that write nothing to stdout by themselves.
fn doing(word: &str, arguments: &mut Arguments<'_>) -> Result<Step, Complaint> {
    Ok(match word {
        "wait" => match one_of(&["interrupt", "line"], "`interrupt` or `line`", arguments)? {
            "line" => Step::WaitLine,
            _ => Step::WaitInterrupt,
        },
        "pause" => Step::Pause(Duration::from_millis(arguments.number("MILLISECONDS")?)),
        "deaf" => Step::Deaf,
        "mute" => Step::Mute,
        "exit" => Step::Exit(arguments.number("N")?),
        "stderr" => Step::Do(Deed::Stderr(arguments.text())),
        "stall" => Step::Do(Deed::Stall),
        "stop" => Step::Do(Deed::Stop),
        "kill" => Step::Do(Deed::Kill),
        "ignore" => Step::Do(Deed::Ignore(match one_of(&["TERM", "INT"], "`TERM` or `INT`", arguments)? {
            "INT" => Ignored::Int,
            _ => Ignored::Term,
        })),
        "child" => Step::Do(Deed::Child),
        "signal" => match arguments.text() {
            path if path.is_empty() => return Err(Complaint::Missing("PATH")),
            path => Step::Do(Deed::Signal(path.into())),
        },
        _ => return Err(Complaint::NoSuchWord),
    })
}

fn deltas(arguments: &mut Arguments<'_>) -> Result<Deltas, Complaint> {
    let mut deltas = Deltas { count: arguments.number("N")?, bytes: DELTA_BYTES, per_second: None, timed: false };
    while let Some(word) = arguments.next() {
        match word {
            "of" => deltas.bytes = arguments.number("BYTES")?,
            "at" => {
                let rate = arguments.word("RATE/s")?;
                let wrong = || Complaint::Wrong { found: rate.clone(), wanted: "a rate such as 500/s" };
                let per_second = rate.strip_suffix("/s").and_then(|digits| number(digits).ok());
                deltas.per_second = Some(per_second.filter(|rate| *rate > 0).ok_or_else(wrong)?);
            }
            "timed" => deltas.timed = true,
            _ => return Err(Complaint::Wrong { found: word.to_owned(), wanted: "`of`, `at` or `timed`" }),
        }
    }
    if deltas.bytes == 0 {
        return Err(Complaint::Wrong { found: "0".to_owned(), wanted: "a size of a delta" });
    }
    Ok(deltas)
}

fn ask(word: &str, arguments: &mut Arguments<'_>) -> Result<Step, Complaint> {
    let id = arguments.word("ID")?;
    let request = match word {
        "hook" => Request::Hook {
            callback: arguments.word("CALLBACK")?,
            event: arguments.word("EVENT")?,
            input: arguments.fields()?,
        },
        "mcp" => Request::Mcp { server: arguments.word("SERVER")?, message: arguments.object()? },
        "request" => Request::Other { subtype: arguments.word("SUBTYPE")?, fields: arguments.fields()? },
        _ => Request::CanUseTool { tool: arguments.word("TOOL")?, input: arguments.object()? },
    };
    let pace = if word == "ask!" { Pace::GoOn } else { Pace::Wait };
    Ok(Step::Ask { id, request, pace })
}

fn outcome(arguments: &mut Arguments<'_>) -> Result<Outcome, Complaint> {
    Ok(match arguments.text() {
        text if text.is_empty() => Outcome::LastText,
        text if text.starts_with('{') => Outcome::Fields(Arguments::new(&text).fields()?),
        text => Outcome::Text(text),
    })
}

fn task(arguments: &mut Arguments<'_>) -> Result<Step, Complaint> {
    let subtype = match one_of(&["started", "progress", "updated", "ended"], "a task update", arguments)? {
        "started" => "task_started",
        "progress" => "task_progress",
        "updated" => "task_updated",
        _ => "task_notification",
    };
    Ok(Step::Task { subtype, id: arguments.word("ID")?, fields: arguments.fields()? })
}

fn one_of(
    known: &[&'static str],
    wanted: &'static str,
    arguments: &mut Arguments<'_>,
) -> Result<&'static str, Complaint> {
    let found = arguments.next().ok_or(Complaint::Missing(wanted))?;
    let known = known.iter().copied().find(|word| *word == found);
    known.ok_or_else(|| Complaint::Wrong { found: found.to_owned(), wanted })
}
