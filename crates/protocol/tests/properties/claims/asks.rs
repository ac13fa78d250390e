//! Claims about asks: each is answered once, resolved once, and its event is emitted before its answer is written.

use std::collections::BTreeMap;

use watari_protocol::{
    Answer, AskId, AskKind, AskResolution, Command, Event, HookOutput, Output, Phase, RawJson, Request,
};

use super::ensure;
use crate::conversation::record::{Line, Moment, Record, read_line};
use crate::conversation::script::Step;

pub(crate) fn every_ask_is_resolved_once(record: &Record) -> Result<(), String> {
    let mut is_open = BTreeMap::<AskId, bool>::new();
    for event in record.events() {
        if let Event::AskOpened { ask, .. } = event {
            ensure(is_open.insert(*ask, true).is_none(), || format!("ask {ask} was opened twice"))?;
        }
        if let Event::AskResolved { ask, .. } = event {
            let before = is_open.insert(*ask, false);
            ensure(before == Some(true), || format!("ask {ask} was resolved, but was not open"))?;
        }
    }
    let open: Vec<&AskId> = is_open.iter().filter(|(_, is_open)| **is_open).map(|(ask, _)| ask).collect();
    ensure(open.is_empty(), || format!("asks {open:?} were never resolved"))
}

pub(crate) fn an_ask_ends_as_it_is_told(record: &Record) -> Result<(), String> {
    for (moment, output) in record.outputs() {
        let Output::Event(Event::AskResolved { ask, resolution, .. }) = output else { continue };
        let fits = match (resolution, &moment.step) {
            (
                AskResolution::Allowed | AskResolution::Denied | AskResolution::Answered,
                Step::Client(Command::Answer { ask: answered, .. }),
            ) => answered == ask,
            (AskResolution::Expired, Step::Wait(_)) => true,
            (AskResolution::Withdrawn, Step::Cli(line)) => line.contains("control_cancel_request"),
            (AskResolution::CliExited, Step::Client(Command::Close | Command::Abort) | Step::Exit(_)) => true,
            // The CLI does not react and is terminated.
            (AskResolution::CliExited, Step::Wait(_)) => moment.after.phase == Phase::Closing,
            // It refuses to be set up, and is terminated.
            (AskResolution::CliExited, Step::Cli(line)) => {
                line.contains("watari_1") && line.contains("error") && moment.after.phase == Phase::Closing
            }
            _ => false,
        };
        ensure(fits, || format!("ask {ask} was {resolution:?} by:\n{moment}"))?;
    }
    Ok(())
}

/// The history of an ask of the CLI.
#[derive(Debug, Default)]
struct Question {
    ask: Option<AskId>,
    resolution: Option<AskResolution>,
    answers: u32,
}

impl Question {
    /// An ask that the CLI withdrew needs no answer; an ask that is open at the end is denied by the end itself.
    fn answers_due(&self) -> u32 {
        match self.resolution {
            Some(AskResolution::Withdrawn | AskResolution::CliExited) => 0,
            Some(AskResolution::Allowed | AskResolution::Denied | AskResolution::Answered | AskResolution::Expired)
            | None => 1,
        }
    }
}

/// Returns the asks of a conversation. For every answer that is written, `check` is called with its ask.
fn questions(
    record: &Record,
    mut check: impl FnMut(&str, &Question) -> Result<(), String>,
) -> Result<BTreeMap<String, Question>, String> {
    let mut questions = BTreeMap::<String, Question>::new();
    for moment in &record.moments {
        let asked = moment.asks().filter(|_| moment.before.phase != Phase::Ended);
        if let Some(id) = &asked {
            questions.insert(id.clone(), Question::default());
        }
        for output in &moment.outputs {
            match output {
                Output::Event(Event::AskOpened { ask, .. }) => {
                    let question = asked.as_ref().and_then(|id| questions.get_mut(id));
                    question.ok_or_else(|| format!("ask {ask} was opened by:\n{moment}"))?.ask = Some(*ask);
                }
                Output::Event(Event::AskResolved { ask, resolution, .. }) => {
                    if let Some(question) = questions.values_mut().find(|question| question.ask == Some(*ask)) {
                        question.resolution = Some(*resolution);
                    }
                }
                Output::Write(line) | Output::WriteNow(line) => {
                    let Some(Line::Answer(id)) = read_line(line) else { continue };
                    let question = questions.get_mut(&id).ok_or_else(|| format!("{id} was answered but not asked"))?;
                    question.answers += 1;
                    check(&id, question)?;
                }
                Output::Event(_) | Output::Stop(_) => {}
            }
        }
    }
    Ok(questions)
}

pub(crate) fn every_question_has_one_answer(record: &Record) -> Result<(), String> {
    let questions = questions(record, |id, question| {
        ensure(question.answers <= question.answers_due(), || format!("one answer too many to {id}: {question:?}"))
    })?;
    let unanswered = questions.iter().find(|(_, question)| question.answers < question.answers_due());
    ensure(unanswered.is_none(), || format!("no answer to {unanswered:?}"))
}

pub(crate) fn an_ask_is_told_closed_before_its_answer_is_written(record: &Record) -> Result<(), String> {
    let is_resolved = |question: &Question| question.ask.is_none() || question.resolution.is_some();
    questions(record, |id, question| {
        ensure(is_resolved(question), || format!("{id} was answered before it was resolved"))
    })?;
    Ok(())
}

/// A client's JSON is written unchanged.
pub(crate) fn what_a_client_gives_is_written_as_it_came(record: &Record) -> Result<(), String> {
    for moment in &record.moments {
        let sent = match &moment.step {
            Step::Client(Command::Answer { answer: Answer::Allow { input, permissions }, .. }) => {
                let input = input.iter().filter(|input| input.as_str() != "{}");
                input.chain(permissions).collect()
            }
            Step::Client(Command::Answer { answer: Answer::Hook(HookOutput::Other(raw)), .. })
            | Step::Client(Command::Answer { answer: Answer::Hook(HookOutput::Allow { input: Some(raw) }), .. })
            | Step::Client(Command::Answer { answer: Answer::Accept(raw), .. }) => vec![raw],
            Step::Client(Command::Request { request: Request::SetMcpServers(servers), .. }) => {
                servers.values().collect()
            }
            _ => Vec::new(),
        };
        all_written(moment, &sent)?;
    }
    for (moment, output) in record.outputs() {
        let Output::Event(Event::PromptAccepted { content, entry, .. }) = output else { continue };
        let mut lines = record.outputs().filter_map(|(_, output)| match output {
            Output::Write(line) | Output::WriteNow(line) if matches!(read_line(line), Some(Line::Prompt(id)) if id == entry.as_str()) => {
                Some(line)
            }
            Output::Write(_) | Output::WriteNow(_) | Output::Event(_) | Output::Stop(_) => None,
        });
        let is_whole = lines.all(|line| holds(line, content));
        ensure(is_whole, || format!("a prompt was changed when it was written:\n{moment}"))?;
    }
    Ok(())
}

/// An ask that is allowed without an edit gets its own input back.
pub(crate) fn an_allowed_input_is_the_one_that_was_asked_for(record: &Record) -> Result<(), String> {
    let mut inputs = BTreeMap::<AskId, &RawJson>::new();
    for (moment, output) in record.outputs() {
        match (output, &moment.step) {
            (
                Output::Event(Event::AskOpened {
                    ask,
                    kind: AskKind::Permission(asked) | AskKind::Question(asked) | AskKind::Plan(asked),
                }),
                _,
            ) => {
                inputs.insert(*ask, &asked.input);
            }
            (
                Output::Write(line) | Output::WriteNow(line),
                Step::Client(Command::Answer { ask, answer: Answer::Allow { input: None, .. }, .. }),
            ) => {
                let input = inputs.get(ask).ok_or_else(|| format!("ask {ask} was allowed, but has no input"))?;
                let allowed = format!("\"updatedInput\":{}", input.as_str());
                let is_own = String::from_utf8_lossy(line).contains(&allowed);
                ensure(is_own, || format!("ask {ask} was allowed with another input than {input:?}:\n{moment}"))?;
            }
            _ => {}
        }
    }
    Ok(())
}

fn all_written(moment: &Moment, sent: &[&RawJson]) -> Result<(), String> {
    if !matches!(moment.reply, Some(Ok(_))) {
        return Ok(());
    }
    for raw in sent {
        let is_written = moment.outputs.iter().any(|output| match output {
            Output::Write(line) | Output::WriteNow(line) => holds(line, raw),
            Output::Event(_) | Output::Stop(_) => false,
        });
        ensure(is_written, || format!("{raw:?} was changed when it was written:\n{moment}"))?;
    }
    Ok(())
}

/// Returns whether a line contains this JSON. A line break between values is written as a space.
fn holds(line: &[u8], raw: &RawJson) -> bool {
    let written = raw.as_str().replace(['\n', '\r'], " ");
    String::from_utf8_lossy(line).contains(&written)
}
