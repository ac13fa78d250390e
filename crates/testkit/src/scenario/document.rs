//! Prints the protocol document from reports.

use std::fmt::Write;

use serde_json::{Value, json};

use super::claims::{MessageKind, message_kinds};
use super::file::{Form, Step};
use super::report::{Report, ScenarioReport, Verdict};
use super::{Scenario, shape, table};
use crate::hand_written::InputFileError;

/// The CLI's protocol as the reports show it: tables, scenarios, messages.
pub fn document(reports: &[Report]) -> Result<String, InputFileError> {
    let mut page = Page { text: INTRODUCTION.to_owned() };
    page.line("## Results by version");
    for report in reports {
        page.line(&format!("\n### Claude Code {}\n", report.version));
        page.line(&format!("```text\n{}```", table::table(report)));
    }
    page.line("\n## Scenarios");
    for scenario in Scenario::all()? {
        page.scenario(&scenario, reports);
    }
    page.line(
        "\n## Messages\n\nThe samples are shortened, with made-up values. The tables below them show results of the scenarios.",
    );
    for kind in message_kinds()? {
        page.message(&kind, reports);
    }
    Ok(page.text)
}

const INTRODUCTION: &str = "\
# The stream-json protocol of Claude Code

The messages that Claude Code (the CLI) writes and reads when a program drives it: `claude -p --verbose --input-format
stream-json --output-format stream-json`. The page is generated from reports of `watari check`, which runs test
conversations ([scenarios](../crates/testkit/scenarios)) with the real CLI, offline, against a stub of the API. A test
repeats the runs and compares the page. Only messages with claims are described under [Messages](#messages); the others
occur in the scenarios. Clients of Watari do not need this page: they read other messages, those of
[`watari stdio`](clients/stdio.md) or [`watari socket`](clients/socket.md).

A scenario *holds* if the CLI sent the expected messages in this order, its tools ran with the expected results, and the
expected files exist. It is *gone* if none of its tools exists any more. Otherwise it has *changed*. If newer versions
need other flags or another conversation, the scenario has a *newer form*.

A *claim* is a statement about one kind of message. Wrong statements of earlier descriptions of the protocol are kept,
with what holds instead: they have *changed*. A sequence of messages shows equal neighbours once.

In the tables of scenarios, ← is a line to the CLI and → a line from it. A line shows only the keys that the scenario
checks; the real message has more, and other messages may come in between. `${cwd}` is the working directory of the CLI,
`${stub}` the address of the stub.

";

struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn scenario(&mut self, scenario: &Scenario, reports: &[Report]) {
        let number = scenario.number().map(|number| format!("{number}. ")).unwrap_or_default();
        self.line(&format!("\n### {number}{}\n", scenario.file.title));
        if let Some(about) = &scenario.file.about {
            self.line(&format!("{}\n", about.trim()));
        }
        for form in scenario.file.forms() {
            let held_by = held_by(scenario, &form, reports);
            match &form.how {
                None if held_by.is_empty() => self.line("With none of the tested versions:\n"),
                None => self.line(&format!("With {}:\n", held_by.join(", "))),
                Some(how) => self.line(&format!("\nWith {}, {how}:\n", held_by.join(", "))),
            }
            self.transcript(&form);
        }
        self.line("");
        // Versions with the same outcome are listed together.
        let mut outcomes: Vec<(String, Vec<&str>)> = Vec::new();
        for report in reports {
            let Some(found) = report.scenarios.iter().find(|found| found.name == scenario.name()) else { continue };
            let outcome = outcome(found);
            match outcomes.iter_mut().find(|(other, _)| *other == outcome) {
                Some((_, versions)) => versions.push(&report.version),
                None => outcomes.push((outcome, vec![&report.version])),
            }
        }
        for (outcome, versions) in outcomes {
            self.line(&format!("- {}: {outcome}", versions.join(", ")));
        }
        self.line(&format!("- [source of the scenario](../crates/testkit/scenarios/{})", scenario.source));
    }

    fn transcript(&mut self, form: &Form) {
        self.line("| | message | json |\n|---|---|---|");
        for step in &form.transcript {
            let (direction, message) = match step {
                Step::User(text) => ("←", json!({"type": "user", "message": {"role": "user", "content": text}})),
                Step::Send(line) => ("←", Value::Object(line.clone())),
                Step::Answer(answer) => {
                    let response = json!({"subtype": "success", "request_id": "…", "response": answer});
                    ("←", json!({"type": "control_response", "response": response}))
                }
                Step::Expect(expected) => ("→", Value::Object(expected.clone())),
            };
            let name = shape::name_of(&message);
            self.line(&format!("| {direction} | {} | `{}` |", linked(&name), ordered(&message).replace('|', "\\|")));
        }
    }

    fn message(&mut self, kind: &MessageKind, reports: &[Report]) {
        self.line(&format!("\n### {}\n\n{}\n", kind.name, kind.about.trim()));
        self.line(&format!("```json\n{}\n```\n", ordered(&Value::Object(kind.sample.clone()))));
        let versions: Vec<&str> = reports.iter().map(|report| report.version.as_str()).collect();
        self.line(&format!("| claim | {} |", versions.join(" | ")));
        self.line(&format!("|---|{}", "---|".repeat(versions.len())));
        let Some(first) = reports.first() else { return };
        for claim in first.claims.iter().filter(|claim| claim.message == kind.name) {
            let of_version = |report: &Report| {
                let found = report.claims.iter().find(|found| found.message == kind.name && found.says == claim.says);
                found.map_or_else(String::new, |found| match (found.verdict, &found.instead) {
                    (Verdict::Holds, _) => "holds".to_owned(),
                    (Verdict::Changed | Verdict::Gone, Some(instead)) => format!("no; instead: {instead}"),
                    (Verdict::Changed | Verdict::Gone, None) => "no".to_owned(),
                })
            };
            let columns: Vec<String> = reports.iter().map(of_version).collect();
            self.line(&format!("| {} | {} |", claim.says, columns.join(" | ")));
        }
    }
}

/// The versions with which this form of a scenario holds.
fn held_by(scenario: &Scenario, form: &Form, reports: &[Report]) -> Vec<String> {
    let holds = |report: &&Report| {
        report
            .scenarios
            .iter()
            .any(|found| found.name == scenario.name() && found.verdict == Verdict::Holds && found.form == form.how)
    };
    reports.iter().filter(holds).map(|report| report.version.clone()).collect()
}

fn outcome(found: &ScenarioReport) -> String {
    let mut text = found.verdict.word().to_owned();
    match (&found.form, &found.reason) {
        (Some(_), Some(reason)) => {
            // Writing to a string does not fail.
            let _written = write!(text, " in the newer form only ({reason})");
        }
        (None, Some(reason)) => {
            let _written = write!(text, " ({reason})");
        }
        (_, None) => {}
    }
    format!("{text}: {}", found.sequence.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" → "))
}

/// The name of a message, with a link to its description if this page has one.
fn linked(name: &str) -> String {
    let anchor = match name.split(['(', ':', ')']).next().unwrap_or_default() {
        "system/init" => "systeminit",
        "system/status" => "systemstatus",
        "result/success" if name.contains("is_error") => "resultsuccess-is_error",
        "result/success" if name.contains("permission_denials") => "resultsuccess-permission_denials",
        "result/success" => "resultsuccess",
        "result/error_during_execution" => "resulterror_during_execution",
        "assistant" if name.contains("tool_use") => "assistanttool_use",
        "assistant" if name.contains("thinking") => "assistantthinking",
        "assistant" => "assistanttext",
        "user" if name.contains("tool_result:error") => "usertool_result-is_error",
        "user" if name.contains("tool_result") => "usertool_result",
        "user" => "usertext",
        _ => return name.to_owned(),
    };
    format!("[{name}](#{anchor})")
}

/// JSON with the keys first that identify a message.
fn ordered(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let first = ["type", "subtype", "role"].into_iter().filter_map(|key| members.get_key_value(key));
            let is_other = |(key, _): &(&String, &Value)| !["type", "subtype", "role"].contains(&key.as_str());
            let members = first.chain(members.iter().filter(is_other));
            let members: Vec<String> =
                members.map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), ordered(value))).collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(ordered).collect::<Vec<_>>().join(",")),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_message_is_comes_first() {
        let message = json!({"message": {"content": [{"text": "a", "type": "text"}], "role": "user"}, "type": "user"});
        insta::assert_snapshot!(ordered(&message), @r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"a"}]}}"#);
    }
}
