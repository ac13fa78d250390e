//! The verdict on a scenario, from the forms that were played.

use std::time::Duration;

use serde_json::Value;

use super::Scenario;
use super::file::{Expected, VersionKey};
use super::play::{Breach, Played, ToolBreach};
use super::report::{ScenarioReport, Verdict};
use super::{shape, version};

/// Judges a scenario by the forms that were played: all up to the first that holds.
pub(super) fn judge(scenario: &Scenario, played: &[Played], version: &str, took: Duration) -> ScenarioReport {
    let held = played.iter().find(|played| played.breach.is_none());
    let is_gone = |played: &Played| matches!(played.breach, Some(Breach::NoSuchTool { .. }));
    let (verdict, seen) = match held {
        Some(held) if held.how.is_some() => (Verdict::Holds, Expected::NewerForm),
        Some(_) => (Verdict::Holds, Expected::Holds),
        None if !played.is_empty() && played.iter().all(is_gone) => (Verdict::Gone, Expected::Gone),
        None => (Verdict::Changed, Expected::Changed),
    };
    // What the first form lacks is why a newer one is needed; what the last one lacks is why none holds.
    let broken = match held {
        Some(_) => played.first().filter(|played| played.breach.is_some()),
        None => played.last(),
    };
    let expected = expected(scenario, version);
    ScenarioReport {
        number: scenario.file.number,
        name: scenario.file.name.clone(),
        title: scenario.file.title.clone(),
        verdict,
        form: held.and_then(|held| held.how.clone()),
        reason: broken.and_then(|broken| broken.breach.as_ref()).map(reason),
        said: broken.and_then(said),
        sequence: held.or(broken).map(|played| shape::sequence(&played.messages)).unwrap_or_default(),
        expected: match expected {
            Expected::Gone => Verdict::Gone,
            Expected::Changed => Verdict::Changed,
            Expected::NewerForm | Expected::Holds => Verdict::Holds,
        },
        as_expected: seen >= expected,
        took,
    }
}

/// The expectation for this version, else for the nearest tested one, else that it holds.
fn expected(scenario: &Scenario, version: &str) -> Expected {
    let of = |version: &str| scenario.file.expected.get(&VersionKey(version.to_owned())).copied();
    of(version).or_else(|| of(version::nearest(version))).unwrap_or(Expected::Holds)
}

/// Describes why it does not hold.
fn reason(breach: &Breach) -> String {
    match breach {
        Breach::Mute => "the CLI ended, or closed its output, without a message".to_owned(),
        Breach::TooMuch => "the CLI said more than a scenario can be about".to_owned(),
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

/// Describes an expected message, with what distinguishes it from others of its kind.
fn described(expected: &Value) -> String {
    let name = shape::name_of(expected);
    let text = expected["message"]["content"][0]["text"].as_str().or(expected["result"].as_str());
    match text {
        Some(text) => format!("{name} \"{text}\""),
        None => name,
    }
}

/// The output of the tool that failed, or else the CLI's stderr.
fn said(broken: &Played) -> Option<String> {
    let of_tool = match &broken.breach {
        Some(Breach::Tool { said, .. }) => said.as_str(),
        Some(
            Breach::Mute
            | Breach::TooLate { .. }
            | Breach::NotSaid { .. }
            | Breach::TooMuch
            | Breach::NoSuchTool { .. }
            | Breach::File { .. }
            | Breach::NotAsked { .. },
        )
        | None => "",
    };
    [of_tool, broken.complaints.as_str()].into_iter().find(|said| !said.is_empty()).map(str::to_owned)
}
