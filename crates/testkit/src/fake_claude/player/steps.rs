//! The steps of a script.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use super::{Ending, Moment, Next, Player};
use crate::fake_claude::fields::Fields;
use crate::fake_claude::frames::{self, ToolResult, Turn};
use crate::fake_claude::input::Patience;
use crate::fake_claude::own;
use crate::fake_claude::script::{Deed, Outcome, Step};

impl Player {
    pub(super) fn step(&mut self, step: &Step, index: usize) -> Result<Next, Ending> {
        match step {
            Step::Prompt => self.prompt()?,
            Step::BeginMessage => self.begin_message()?,
            Step::EndMessage => self.end_message()?,
            Step::Block(block) => self.block(block)?,
            Step::Deltas(deltas) => self.deltas(*deltas)?,
            Step::ToolResult { id, text } => {
                let text = self.filled(text);
                self.tool_result(&ToolResult { id, text: &text, is_error: false })?;
            }
            Step::Ask { id, request, pace } => self.ask(id, request, *pace)?,
            Step::Await { id } => self.await_answer(id)?,
            Step::Cancel { id } => self.send(frames::cancel(id))?,
            Step::Result(outcome) => self.result(outcome)?,
            Step::Emit(json) => self.say(format!("{}\n", self.filled_json(json)).as_bytes())?,
            Step::Noise(text) => self.say(format!("{}\n", self.filled(text)).as_bytes())?,
            Step::Line { bytes } => self.long_line(*bytes)?,
            Step::RawJson(bytes) => {
                self.say(bytes)?;
                self.flush()?;
            }
            Step::State(state) => self.state(state)?,
            Step::Task { subtype, id, fields } => {
                let fields = self.filled_fields(fields);
                let frame = self.frames.task(subtype, id, fields);
                self.send(frame)?;
            }
            Step::WaitInterrupt => self.wait_interrupt()?,
            Step::WaitLine => self.wait_line()?,
            Step::Pause(duration) => self.pause(*duration)?,
            Step::Deaf => self.memory.is_deaf = true,
            Step::Mute => self.memory.is_mute = true,
            Step::Exit(code) => return Err(Ending::Exit(*code)),
            Step::Do(deed) => self.act(deed)?,
            Step::Repeat { times, end } => return Ok(self.repeat(index, *times, *end)),
            Step::EndRepeat { start } => return Ok(self.end_repeat(*start)),
        }
        Ok(Next::Step)
    }

    fn prompt(&mut self) -> Result<(), Ending> {
        let prompt = loop {
            if let Some(prompt) = self.memory.prompts.pop_front() {
                break prompt;
            }
            if self.receive(Patience::ForEver)? == Moment::End {
                return Err(Ending::Exit(0));
            }
        };
        self.memory.turn = Turn { prompt, ..Turn::default() };
        self.state("running")?;
        let init = self.frames.init();
        self.send(init)
    }

    fn state(&mut self, state: &str) -> Result<(), Ending> {
        let frame = self.frames.state(state);
        self.send(frame)
    }

    pub(super) fn tool_result(&mut self, result: &ToolResult<'_>) -> Result<(), Ending> {
        self.memory.turn.tool_results += 1;
        let frame = self.frames.tool_result(result);
        self.send(frame)
    }

    fn result(&mut self, outcome: &Outcome) -> Result<(), Ending> {
        let text = match outcome {
            Outcome::LastText | Outcome::Fields(_) => self.memory.turn.last_text.clone(),
            Outcome::Text(text) => self.filled(text),
        };
        let success = Fields::default().text("result", &text);
        let fields = match outcome {
            Outcome::LastText | Outcome::Text(_) => success,
            Outcome::Fields(fields) => match fields.string("subtype").as_deref() {
                Some("success") | None => success.merged(self.filled_fields(fields)),
                // A failed turn has no text.
                Some(_) => self.filled_fields(fields),
            },
        };
        self.end_turn(fields)
    }

    fn end_turn(&mut self, fields: Fields) -> Result<(), Ending> {
        let frame = self.frames.result(&self.memory.turn, fields);
        self.send(frame)?;
        self.state("idle")
    }

    fn wait_interrupt(&mut self) -> Result<(), Ending> {
        let id = loop {
            if let Some(id) = self.memory.interrupts.pop_front() {
                break id;
            }
            if self.receive(Patience::ForEver)? == Moment::End {
                return Err(Ending::Exit(0));
            }
        };
        self.answer(id.as_deref(), "interrupt")?;
        self.abandon_message()?;
        self.end_turn(frames::interrupted())
    }

    fn wait_line(&mut self) -> Result<(), Ending> {
        match self.receive(Patience::ForEver)? {
            Moment::Line | Moment::Nothing => Ok(()),
            Moment::End => Err(Ending::Exit(0)),
        }
    }

    fn pause(&mut self, duration: Duration) -> Result<(), Ending> {
        self.listen_until(Instant::now() + duration)
    }

    /// Lets time pass, and handles input in the default way.
    pub(super) fn listen_until(&mut self, instant: Instant) -> Result<(), Ending> {
        loop {
            match self.receive(Patience::Until(instant))? {
                Moment::Line => {}
                Moment::Nothing => return Ok(()),
                Moment::End => {
                    std::thread::sleep(instant.saturating_duration_since(Instant::now()));
                    return Ok(());
                }
            }
        }
    }

    /// Output of earlier steps is written before anything is done to the process.
    fn act(&mut self, deed: &Deed) -> Result<(), Ending> {
        self.flush()?;
        let done = match deed {
            Deed::Stderr(text) => writeln!(io::stderr(), "{}", self.filled(text)),
            Deed::Stall => own::stall(),
            Deed::Stop => own::stop(),
            Deed::Kill => own::kill(),
            Deed::Ignore(signal) => own::ignore(*signal),
            Deed::Child => own::start_child(&self.frames.session),
            Deed::Signal(path) => own::signal(path),
        };
        done.map_err(|error| Ending::failure("a step of the script failed", format!("{deed:?}: {error}")))
    }

    fn repeat(&mut self, index: usize, times: u64, end: usize) -> Next {
        match times.checked_sub(1) {
            Some(left) => {
                self.memory.loops.push(left);
                Next::At(index + 1)
            }
            None => Next::At(end + 1),
        }
    }

    fn end_repeat(&mut self, start: usize) -> Next {
        match self.memory.loops.pop() {
            Some(left) if left > 0 => {
                self.memory.loops.push(left - 1);
                Next::At(start + 1)
            }
            Some(_) | None => Next::Step,
        }
    }
}
