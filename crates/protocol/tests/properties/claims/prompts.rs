//! Claims about prompts and requests: each has one outcome, and the CLI holds only one prompt at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use watari_protocol::{Accepted, DropReason, Event, Output, Phase, PromptId, RequestId, TurnCause};

use super::ensure;
use crate::conversation::record::{Line, Record, read_line};
use crate::conversation::script::Step;

/// The history of a prompt.
#[derive(Debug, Default, PartialEq, Eq)]
struct Course {
    accepted: u32,
    started: u32,
    outcomes: u32,
}

pub(crate) fn every_prompt_has_one_outcome(record: &Record) -> Result<(), String> {
    let mut courses = BTreeMap::<PromptId, Course>::new();
    for event in record.events() {
        match event {
            Event::PromptAccepted { prompt, .. } => courses.entry(*prompt).or_default().accepted += 1,
            Event::TurnStarted { cause: TurnCause::Prompt(prompt) } => courses.entry(*prompt).or_default().started += 1,
            Event::TurnFinished { cause: TurnCause::Prompt(prompt), .. } => {
                let course = courses.entry(*prompt).or_default();
                ensure(course.started == 1, || format!("prompt {prompt} finished a turn that had not started"))?;
                course.outcomes += 1;
            }
            Event::PromptDropped { prompt, .. } => courses.entry(*prompt).or_default().outcomes += 1,
            _ => {}
        }
    }
    for (prompt, course) in &courses {
        let is_right = course.accepted == 1 && course.started <= 1 && course.outcomes == 1;
        ensure(is_right, || format!("prompt {prompt}: {course:?}"))?;
    }
    let prompt_of =
        |reply: &&Option<_>| if let Some(Ok(Accepted::Prompt(prompt))) = reply { Some(*prompt) } else { None };
    let accepted: Vec<PromptId> =
        record.moments.iter().map(|moment| &moment.reply).filter_map(|reply| prompt_of(&reply)).collect();
    let known: Vec<PromptId> = courses.into_keys().collect();
    ensure(accepted == known, || format!("the replies name the prompts {accepted:?}, the events {known:?}"))
}

pub(crate) fn every_request_has_one_answer(record: &Record) -> Result<(), String> {
    let mut open = BTreeSet::<RequestId>::new();
    for moment in &record.moments {
        if let Some(Ok(Accepted::Request(request))) = moment.reply {
            ensure(open.insert(request), || format!("request {request} was accepted twice"))?;
        }
        for output in &moment.outputs {
            let Output::Event(Event::RequestAnswered { request, .. }) = output else { continue };
            ensure(open.remove(request), || format!("request {request} was answered, but is not open:\n{moment}"))?;
        }
    }
    ensure(open.is_empty(), || format!("requests {open:?} were never answered"))
}

/// Prompts are also sent to the CLI in the order in which they were accepted.
pub(crate) fn one_prompt_is_with_the_cli_at_a_time(record: &Record) -> Result<(), String> {
    let mut names = BTreeMap::<String, PromptId>::new();
    let mut in_flight = None;
    let mut last = PromptId(0);
    for (moment, output) in record.outputs() {
        match output {
            Output::Event(Event::PromptAccepted { prompt, entry, .. }) => {
                names.insert(entry.to_string(), *prompt);
            }
            Output::Event(
                Event::TurnFinished { cause: TurnCause::Prompt(prompt), .. } | Event::PromptDropped { prompt, .. },
            ) if in_flight == Some(*prompt) => in_flight = None,
            Output::Event(Event::TurnFinished { cause: TurnCause::Prompt(prompt), .. }) => {
                return Err(format!("prompt {prompt} had a turn, but {in_flight:?} is with the CLI:\n{moment}"));
            }
            Output::Write(line) | Output::WriteNow(line) => {
                let Some(Line::Prompt(name)) = read_line(line) else { continue };
                let prompt = *names.get(&name).ok_or_else(|| format!("{name} was written, but is not a prompt"))?;
                ensure(in_flight.is_none(), || format!("{prompt} was written while {in_flight:?} is with the CLI"))?;
                ensure(prompt > last, || format!("{prompt} was written after {last}"))?;
                (in_flight, last) = (Some(prompt), prompt);
            }
            Output::Event(_) | Output::Stop(_) => {}
        }
    }
    Ok(())
}

pub(crate) fn a_turn_is_told_before_its_prompt_is_written(record: &Record) -> Result<(), String> {
    let mut started = BTreeSet::<PromptId>::new();
    let mut names = BTreeMap::<String, PromptId>::new();
    for (moment, output) in record.outputs() {
        match output {
            Output::Event(Event::PromptAccepted { prompt, entry, .. }) => {
                names.insert(entry.to_string(), *prompt);
            }
            Output::Event(Event::TurnStarted { cause: TurnCause::Prompt(prompt) }) => {
                started.insert(*prompt);
            }
            Output::Write(line) | Output::WriteNow(line) => {
                let Some(Line::Prompt(name)) = read_line(line) else { continue };
                let is_started = names.get(&name).is_some_and(|prompt| started.contains(prompt));
                ensure(is_started, || format!("{name} was written before its turn was reported:\n{moment}"))?;
            }
            Output::Event(_) | Output::Stop(_) => {}
        }
    }
    Ok(())
}

pub(crate) fn an_idle_session_has_no_prompt(record: &Record) -> Result<(), String> {
    let mut open = BTreeSet::<PromptId>::new();
    for moment in &record.moments {
        for output in &moment.outputs {
            match output {
                Output::Event(Event::PromptAccepted { prompt, .. }) => {
                    open.insert(*prompt);
                }
                Output::Event(
                    Event::TurnFinished { cause: TurnCause::Prompt(prompt), .. } | Event::PromptDropped { prompt, .. },
                ) => {
                    open.remove(prompt);
                }
                Output::Event(Event::BecameIdle) => {
                    ensure(open.is_empty(), || format!("idle was reported with {open:?} open:\n{moment}"))?;
                }
                Output::Event(_) | Output::Write(_) | Output::WriteNow(_) | Output::Stop(_) => {}
            }
        }
        let is_idle = moment.after.phase == Phase::Idle;
        ensure(!is_idle || open.is_empty(), || format!("the session is idle with {open:?} open:\n{moment}"))?;
    }
    Ok(())
}

/// What happened since the last prompt was written, for the claims about lost prompts.
#[derive(Debug, Default)]
struct Since {
    /// The prompt that the CLI holds.
    prompt: Option<String>,
    /// The requests that were written after it.
    requests: BTreeSet<String>,
    /// True when the CLI ran after it received the prompt.
    ran: bool,
    /// How much time has passed since the CLI first ended a turn of its own, if it did.
    after_own_turn: Option<Duration>,
}

impl Since {
    /// Returns whether the CLI reports that it started the prompt.
    fn is_started_by(&self, step: &Step) -> bool {
        let Step::Cli(line) = step else { return false };
        let named = self.prompt.as_ref().is_some_and(|prompt| line.contains(prompt.as_str()));
        named && line.contains("command_lifecycle") && line.contains("started")
    }

    /// Checks every output; `lost` is called for every prompt that is reported as lost.
    fn follow(record: &Record, mut lost: impl FnMut(&Since, &Step) -> Result<(), String>) -> Result<(), String> {
        let mut since = Since::default();
        for moment in &record.moments {
            let runs = matches!(moment.cli_state().as_deref(), Some("running" | "requires_action"));
            if runs || since.is_started_by(&moment.step) {
                since.ran = true;
            }
            if let (Step::Wait(time), Some(after)) = (&moment.step, &mut since.after_own_turn) {
                *after += *time;
            }
            for output in &moment.outputs {
                match output {
                    Output::Event(Event::PromptDropped { reason: DropReason::Lost, .. }) => {
                        lost(&since, &moment.step).map_err(|why| format!("{why}:\n{moment}"))?;
                    }
                    Output::Event(Event::TurnFinished { cause: TurnCause::Cli, .. }) => {
                        since.after_own_turn.get_or_insert(Duration::ZERO);
                    }
                    Output::Write(line) | Output::WriteNow(line) => match read_line(line) {
                        Some(Line::Prompt(name)) => {
                            since = Since { prompt: Some(name), ..Since::default() };
                        }
                        Some(Line::Request(name)) => {
                            since.requests.insert(name);
                        }
                        Some(Line::Answer(_)) | None => {}
                    },
                    Output::Event(_) | Output::Stop(_) => {}
                }
            }
        }
        Ok(())
    }
}

/// The CLI answers in order: its answer to an interrupt that it received before a prompt says nothing about the prompt.
pub(crate) fn a_prompt_is_lost_only_by_an_interrupt_that_came_after_it(record: &Record) -> Result<(), String> {
    Since::follow(record, |since, step| {
        let Step::Cli(line) = step else {
            // The CLI may have merged it into a turn of its own, which nothing reports.
            let is_unseen = since.after_own_turn.is_some_and(|after| after >= Duration::from_secs(600));
            return ensure(is_unseen, || "a prompt was lost without a frame of the CLI".to_owned());
        };
        let is_reply = line.contains("control_response");
        let is_after = since.requests.iter().any(|name| line.contains(&format!("\"{name}\"")));
        ensure(!is_reply || is_after, || format!("the CLI received {:?} only after the interrupt", since.prompt))
    })
}

pub(crate) fn a_prompt_is_lost_only_by_an_idle_after_it_ran(record: &Record) -> Result<(), String> {
    Since::follow(record, |since, step| {
        let is_idle = matches!(step, Step::Cli(line) if line.contains("session_state_changed"));
        ensure(!is_idle || since.ran, || format!("the CLI never reported that it runs with {:?}", since.prompt))
    })
}

pub(crate) fn a_cli_that_wakes_from_idle_has_a_turn_of_its_own(record: &Record) -> Result<(), String> {
    let mut was_idle = false;
    for moment in &record.moments {
        let has_own_turn = moment
            .outputs
            .iter()
            .any(|output| matches!(output, Output::Event(Event::TurnStarted { cause: TurnCause::Cli })));
        let wakes = was_idle && moment.before.phase == Phase::Idle && moment.says_init();
        ensure(!wakes || has_own_turn, || format!("the CLI started a turn, and none was reported:\n{moment}"))?;
        for output in &moment.outputs {
            match output {
                Output::Event(Event::BecameIdle) => was_idle = true,
                Output::Event(Event::TurnStarted { .. }) => was_idle = false,
                Output::Event(_) | Output::Write(_) | Output::WriteNow(_) | Output::Stop(_) => {}
            }
        }
    }
    Ok(())
}
