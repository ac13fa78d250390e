//! Claims about the session as a whole: its lines, its clock, its phases and its end.

use serde_json::value::RawValue;
use watari_protocol::{Event, Output, Phase, TRANSITIONS};

use super::ensure;
use crate::conversation::record::{Moment, OUTPUTS_MAX, Record, read_line};
use crate::conversation::script::Step;

pub(crate) fn a_step_has_an_end(record: &Record) -> Result<(), String> {
    let endless = record.moments.iter().find(|moment| moment.outputs.len() >= OUTPUTS_MAX);
    ensure(endless.is_none(), || "a step has endless outputs".to_owned())
}

pub(crate) fn what_is_written_is_one_line_of_json(record: &Record) -> Result<(), String> {
    let outputs = record.opening.iter().chain(record.outputs().map(|(_, output)| output));
    for output in outputs {
        if let Output::Write(line) | Output::WriteNow(line) = output {
            is_one_line(line)?;
        }
    }
    Ok(())
}

/// Checks one line: JSON that the CLI knows, with a line break at its end and nowhere else.
pub(crate) fn is_one_line(line: &[u8]) -> Result<(), String> {
    let shown = String::from_utf8_lossy(line);
    let (end, body) = line.split_last().ok_or("nothing was written")?;
    ensure(*end == b'\n', || format!("no line break: {shown:?}"))?;
    ensure(!body.contains(&b'\n') && !body.contains(&b'\r'), || format!("more than one line: {shown:?}"))?;
    ensure(serde_json::from_slice::<&RawValue>(body).is_ok(), || format!("not JSON: {shown}"))?;
    ensure(read_line(body).is_some(), || format!("not a frame that the CLI knows: {shown}"))
}

pub(crate) fn after_a_timeout_the_next_lies_ahead(record: &Record) -> Result<(), String> {
    for moment in &record.moments {
        let is_ahead = moment.after.timeout.is_none_or(|timeout| timeout > moment.at);
        let is_timeout = matches!(moment.step, Step::Wait(_));
        ensure(!is_timeout || is_ahead, || {
            format!("at {:?} the machine waits for the past: {:?}", moment.at, moment.after)
        })?;
        let waits_for_nothing = moment.after.phase == Phase::Ended && moment.after.timeout.is_some();
        ensure(!waits_for_nothing, || format!("the machine has ended and waits: {:?}", moment.after))?;
    }
    Ok(())
}

pub(crate) fn phases_move_along_the_table(record: &Record) -> Result<(), String> {
    let mut last = Phase::Starting;
    for moment in &record.moments {
        let (from, to) = (moment.before.phase, moment.after.phase);
        ensure(from == last, || format!("the session was {last} and is {from} without a step"))?;
        // One step of a conversation may be several steps of the table.
        let mut reached = vec![from];
        for _ in TRANSITIONS {
            let next = TRANSITIONS.iter().filter(|(from, _, _)| reached.contains(from)).map(|(_, _, to)| *to);
            reached = reached.iter().copied().chain(next.collect::<Vec<_>>()).collect();
            reached.dedup();
        }
        ensure(reached.contains(&to), || format!("no steps lead from {from} to {to}:\n{moment}"))?;
        let is_exit = matches!(moment.step, Step::Exit(_));
        ensure(!is_exit || to == Phase::Ended, || format!("the CLI has exited, and the session is {to}"))?;
        ensure(is_exit || from == Phase::Ended || to != Phase::Ended, || format!("ended by:\n{moment}"))?;
        last = to;
    }
    Ok(())
}

/// The end itself is reported once.
pub(crate) fn nothing_comes_after_the_end(record: &Record) -> Result<(), String> {
    let ends = record.events().filter(|event| matches!(event, Event::CliExited { .. })).count();
    ensure(ends == 1, || format!("the end was reported {ends} times"))?;
    let mut outputs =
        record.outputs().skip_while(|(_, output)| !matches!(output, Output::Event(Event::CliExited { .. })));
    let late = outputs.nth(1);
    ensure(late.is_none(), || late.map(|(moment, _)| format!("after the end:\n{moment}")).unwrap_or_default())
}

/// The rest of the conversation is the same as without the command.
pub(crate) fn a_refused_command_changes_nothing(record: &Record) -> Result<(), String> {
    let is_refused = |moment: &Moment| matches!(moment.reply, Some(Err(_)));
    for moment in record.moments.iter().filter(|moment| is_refused(moment)) {
        ensure(moment.outputs.is_empty(), || format!("a refused command had an effect:\n{moment}"))?;
        ensure(moment.before == moment.after, || format!("{:?} became {:?}:\n{moment}", moment.before, moment.after))?;
    }
    is_the_same_without(record, is_refused)
}

/// Unparsed lines and unknown frames are passed on, and the rest of the conversation is the same as without them.
pub(crate) fn what_is_not_known_changes_nothing(record: &Record) -> Result<(), String> {
    let is_not_known = |moment: &Moment| {
        let is_line = matches!(moment.step, Step::Cli(_) | Step::Noise(_));
        let [Output::Event(Event::Unknown { .. } | Event::UnparsedLineSkipped { .. })] = &moment.outputs[..] else {
            return false;
        };
        is_line
    };
    is_the_same_without(record, is_not_known)
}

fn is_the_same_without(record: &Record, removed: impl Fn(&Moment) -> bool) -> Result<(), String> {
    let rest: Vec<&Moment> = record.moments.iter().filter(|moment| !removed(moment)).collect();
    if rest.len() == record.moments.len() {
        return Ok(());
    }
    let again = record.again_with(|moment| !removed(moment));
    let others = again.moments.iter().filter(|moment| !matches!(moment.step, Step::Bytes));
    for (with, without) in rest.into_iter().zip(others) {
        let same = with.to_string() == without.to_string() && with.after == without.after;
        ensure(same, || format!("with it:\n{with}\nwithout it:\n{without}"))?;
    }
    Ok(())
}
