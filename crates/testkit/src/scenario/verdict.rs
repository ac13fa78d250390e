//! How a scenario came out, from what came when its forms were played.

use std::time::Duration;

use serde_json::Value;

use super::Scenario;
use super::file::Expected;
use super::play::{Breach, Played, ToolBreach};
use super::report::{ScenarioReport, Verdict};
use super::{shape, version};

/// Judges a scenario by the forms that were played: all up to the first that holds.
pub(super) fn judge(scenario: &Scenario, played: &[Played], version: &str, took: Duration) -> ScenarioReport {
    let held = played.iter().find(|played| played.breach.is_none());
    let first_breach = played.iter().find_map(|played| played.breach.as_ref());
    let shown = held.or(played.first());
    let (verdict, seen) = match (held, first_breach) {
        (Some(held), _) if held.how.is_some() => (Verdict::Holds, Expected::NewerForm),
        (Some(_), _) => (Verdict::Holds, Expected::Holds),
        (None, Some(Breach::NoSuchTool { .. })) => (Verdict::Gone, Expected::Gone),
        (None, _) => (Verdict::Changed, Expected::Changed),
    };
    let expected = expected(scenario, version);
    ScenarioReport {
        number: scenario.file.number,
        name: scenario.file.name.clone(),
        title: scenario.file.title.clone(),
        verdict,
        form: held.and_then(|held| held.how.clone()),
        reason: first_breach.map(reason),
        said: first_breach.and_then(said),
        sequence: shown.map(|played| shape::sequence(&played.messages)).unwrap_or_default(),
        expected: match expected {
            Expected::Gone => Verdict::Gone,
            Expected::Changed => Verdict::Changed,
            Expected::NewerForm | Expected::Holds => Verdict::Holds,
        },
        as_expected: seen >= expected,
        took,
    }
}

fn expected(scenario: &Scenario, version: &str) -> Expected {
    scenario.file.expected.get(version::nearest(version)).copied().unwrap_or(Expected::Holds)
}

/// Why it does not hold, in our own words.
fn reason(breach: &Breach) -> String {
    match breach {
        Breach::Mute { .. } => "the CLI ended without a message".to_owned(),
        Breach::TooLate { expected, limit } => {
            format!("{} did not come within {} s", shape::name_of(expected), limit.as_secs())
        }
        Breach::NotSaid { expected } => format!("{} did not come", described(expected)),
        Breach::NoSuchTool { names } => format!("there is no tool {}", names.join(", ")),
        Breach::Tool { name, what, .. } => match what {
            ToolBreach::Missing => format!("there is no tool {name}"),
            ToolBreach::NotCalled => format!("{name} was not called"),
            ToolBreach::NoResult => format!("{name} had no result"),
            ToolBreach::Failed => format!("{name} failed"),
            ToolBreach::DidNotFail => format!("{name} did not fail"),
            ToolBreach::OtherResult => format!("{name} had another result"),
        },
        Breach::File { path } => format!("{path} is not as it should be"),
        Breach::NotAsked { text } => format!("the API was not asked for \"{text}\""),
    }
}

/// An expected message in a few words, with what tells it from others of its kind.
fn described(expected: &Value) -> String {
    let name = shape::name_of(expected);
    let text = expected["message"]["content"][0]["text"].as_str().or(expected["result"].as_str());
    match text {
        Some(text) => format!("{name} \"{text}\""),
        None => name,
    }
}

fn said(breach: &Breach) -> Option<String> {
    match breach {
        Breach::Mute { said } | Breach::Tool { said, .. } if !said.is_empty() => Some(said.clone()),
        Breach::Mute { .. }
        | Breach::Tool { .. }
        | Breach::TooLate { .. }
        | Breach::NotSaid { .. }
        | Breach::NoSuchTool { .. }
        | Breach::File { .. }
        | Breach::NotAsked { .. } => None,
    }
}
