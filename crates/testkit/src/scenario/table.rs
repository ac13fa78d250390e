//! The result of a check as text.

use std::fmt::Write;

use super::report::{ClaimReport, Report, ScenarioReport, Verdict};

/// How much of a CLI's or a tool's output is shown.
const OUTPUT_CHARS_MAX: usize = 300;

/// The report as a table: scenarios, then claims about single messages.
pub fn table(report: &Report) -> String {
    let mut text = String::new();
    let width = report.scenarios.iter().map(|scenario| scenario.name.len()).max().unwrap_or_default();
    for scenario in &report.scenarios {
        let number = scenario.number.map(|number| number.to_string()).unwrap_or_default();
        let line = format!(
            "{mark} {number:>2}  {name:width$}  {verdict:7}  {note}",
            mark = mark(scenario.as_expected),
            name = scenario.name,
            verdict = scenario.verdict.word(),
            note = note(scenario),
        );
        push_line(&mut text, &line);
        if let Some(said) = scenario.said.as_ref().filter(|_| !scenario.as_expected) {
            let beginning: String = said.chars().take(OUTPUT_CHARS_MAX).collect();
            push_line(&mut text, &format!("      it said: {beginning}"));
        }
    }
    if !report.claims.is_empty() {
        push_line(&mut text, "");
    }
    let width = report.claims.iter().map(|claim| claim.message.len()).max().unwrap_or_default();
    for claim in &report.claims {
        let line = format!(
            "{mark} {message:width$}  {verdict:7}  {not}{says}{instead}{expected}",
            mark = mark(claim.as_expected),
            message = claim.message,
            verdict = claim.verdict.word(),
            not = if claim.verdict == Verdict::Holds { "" } else { "not: " },
            says = claim.says,
            instead = claim.instead.as_ref().map(|instead| format!("; instead: {instead}")).unwrap_or_default(),
            expected = expected(claim.as_expected, claim.expected),
        );
        push_line(&mut text, &line);
    }
    push_line(&mut text, "");
    push_line(&mut text, &summary(report));
    text
}

fn summary(report: &Report) -> String {
    let Report { version, expected_of, as_expected, scenarios, claims } = report;
    let [holds, changed, gone] = [Verdict::Holds, Verdict::Changed, Verdict::Gone].map(|verdict| report.count(verdict));
    let claims_hold = claims.iter().filter(|claim| claim.verdict == Verdict::Holds).count();
    let mut text =
        format!("Claude Code {version}: of {} scenarios {holds} hold, {changed} changed, {gone} gone", scenarios.len());
    if !claims.is_empty() {
        // Writing to a string does not fail.
        let _written = write!(text, "; of {} claims {claims_hold} hold", claims.len());
    }
    let worse = scenarios.iter().filter(|scenario| !scenario.as_expected).count()
        + claims.iter().filter(|claim: &&ClaimReport| !claim.as_expected).count();
    match (version == expected_of, as_expected) {
        (true, true) => text += ", as expected.",
        (true, false) => text += &format!(". {worse} not as expected: see the lines marked with !"),
        (false, true) => text += &format!(". Untested version; as expected of {expected_of}, the nearest tested one."),
        (false, false) => {
            text += &format!(
                ". Untested version; {worse} not as with {expected_of}, the nearest tested one: see the lines marked with !"
            );
        }
    }
    text
}

fn note(scenario: &ScenarioReport) -> String {
    let came = || scenario.sequence.join(" → ");
    let reason = scenario.reason.as_deref().unwrap_or_default();
    let note = match (scenario.verdict, &scenario.form) {
        (Verdict::Holds, None) => String::new(),
        (Verdict::Holds, Some(form)) => format!("{form} (else: {reason})"),
        (Verdict::Changed, _) if scenario.sequence.is_empty() => reason.to_owned(),
        (Verdict::Changed, _) => format!("{reason}; came: {}", came()),
        (Verdict::Gone, _) => reason.to_owned(),
    };
    note + &expected(scenario.as_expected, scenario.expected)
}

fn mark(as_expected: bool) -> char {
    if as_expected { ' ' } else { '!' }
}

fn expected(as_expected: bool, expected: Verdict) -> String {
    if as_expected { String::new() } else { format!(" (expected: {})", expected.word()) }
}

/// Appends a line. It may contain output of a CLI, whose control characters must not reach the terminal.
fn push_line(text: &mut String, line: &str) {
    text.extend(line.trim_end().chars().map(|letter| if letter.is_control() { '\u{fffd}' } else { letter }));
    text.push('\n');
}
