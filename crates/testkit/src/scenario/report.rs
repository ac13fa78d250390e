//! The result of a check, as data.

use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The result of a check of one CLI.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The version of the CLI.
    pub version: String,
    /// The version whose results are expected: the same one if it was tested, else the nearest tested one.
    pub expected_of: String,
    /// Whether every result is at least as good as expected.
    pub as_expected: bool,
    /// The scenarios, in order.
    pub scenarios: Vec<ScenarioReport>,
    /// The claims about single messages, in order.
    pub claims: Vec<ClaimReport>,
}

/// The result of one scenario.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ScenarioReport {
    /// Its number, if it has one.
    pub number: Option<u32>,
    /// Its name.
    pub name: String,
    /// What it shows.
    pub title: String,
    /// Its verdict.
    pub verdict: Verdict,
    /// How the form that holds differs from the first one, if it does.
    pub form: Option<String>,
    /// Why it does not hold, or why the first form does not.
    pub reason: Option<String>,
    /// The CLI's own output about that.
    pub said: Option<String>,
    /// The messages in short form: of the form that holds, else of the first.
    pub sequence: Vec<String>,
    /// The expected verdict.
    pub expected: Verdict,
    /// Whether the verdict is at least as good as expected.
    pub as_expected: bool,
    /// The duration, of all forms together.
    #[serde(rename = "seconds", serialize_with = "as_seconds", deserialize_with = "from_seconds")]
    pub took: Duration,
}

/// The result of a claim about a message.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClaimReport {
    /// The message.
    pub message: String,
    /// The claim.
    pub says: String,
    /// What holds instead, if known.
    pub instead: Option<String>,
    /// Its verdict.
    pub verdict: Verdict,
    /// The expected verdict.
    pub expected: Verdict,
    /// Whether the verdict is at least as good as expected.
    pub as_expected: bool,
}

/// A verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The tools it is about do not exist.
    Gone,
    /// Something else happened.
    Changed,
    /// It holds.
    Holds,
}

impl Verdict {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Gone => "gone",
            Verdict::Changed => "changed",
            Verdict::Holds => "holds",
        }
    }
}

impl Report {
    /// How many scenarios have this verdict.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.scenarios.iter().filter(|scenario| scenario.verdict == verdict).count()
    }
}

fn as_seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    // Milliseconds are enough.
    serializer.serialize_f64((duration.as_secs_f64() * 1000.0).round() / 1000.0)
}

fn from_seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)
}
